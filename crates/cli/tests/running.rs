//! What keeps a store running asks of it, and gets: `levada` at a store in this process.

mod store;

use client::{Create, Options};
use serde_json::Value;
use std::process::{Command, Output};
use std::sync::Mutex;
use std::time::Duration;
use store::{Store, bytes};

const BLOCK_LEN: u64 = 256 << 10;
const FILE_LEN: usize = 600 << 10;
const LOOK_EACH: Duration = Duration::from_millis(100);

/// `levada` with these words; blocking, so on a thread of its own.
fn levada(store: &Store, words: &str) -> io::task::Owned<Output> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_levada"));
    command.args(words.split(' ')).args(["--url", &store.url()]);
    io::task::spawn_owned("levada", async move { io::task::blocking(move || command.output().unwrap()).await })
}

/// The lines of one that does it.
async fn lines(store: &Store, words: &str) -> Vec<Value> {
    let output = levada(store, words).await.unwrap();
    assert!(output.status.success(), "{words}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

async fn small(count: usize, set: impl FnOnce(&mut metad::Config)) -> Store {
    let set = |config: &mut metad::Config| {
        config.block_len_min = 1;
        set(config);
    };
    Store::new(count, set, |_, _| {}).await
}

async fn put(store: &Store, path: &str, data: &[u8]) {
    let client = store.client(Options::default());
    let create = Create { block_len: Some(BLOCK_LEN), replication: Some(1), ..Create::default() };
    let mut writer = client.create(path, &create).await.unwrap();
    writer.write(data).await.unwrap();
    writer.close().await.unwrap();
}

/// The only datanode starts anew under a reader, who gets every byte; and who has no patience hears why not.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reader_waits_for_the_datanode() {
    let mut store = small(1, |_| {}).await;
    let data = bytes(1, FILE_LEN);
    put(&store, "/f", &data).await;
    store.stop(0).await;
    let refused = levada(&store, "cat /f --patience 0s").await.unwrap();
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(!refused.status.success() && said.contains("cannot be read from any node"), "{said}");
    // For several files there is one time of patience.
    let impatient = levada(&store, "cat /f /f /f --patience 1s").await.unwrap();
    assert!(String::from_utf8_lossy(&impatient.stderr).matches("cannot be read").count() >= 3);
    let reading = levada(&store, "cat /f --patience 10m");
    // It finds nobody, and waits: as soon as there is somebody it goes on, whenever that is.
    tokio::time::sleep(LOOK_EACH * 5).await;
    store.start().await;
    let output = reading.await.unwrap();
    assert!(output.status.success() && output.stdout == data, "{}", String::from_utf8_lossy(&output.stderr));
}

/// What the servers in this process were told to log.
static LEVELS: Mutex<Vec<String>> = Mutex::new(Vec::new());

fn told() -> Vec<String> {
    std::mem::take(&mut *LEVELS.lock().unwrap())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn servers_are_told_what_to_log() {
    host::log_level::set_by(|level| {
        if level == "nonsense" {
            return Err("no level".to_owned());
        }
        LEVELS.lock().unwrap().push(level.to_owned());
        Ok(())
    });
    let store = small(1, |_| {}).await;
    lines(&store, "admin log-level metad=debug,warn").await;
    assert_eq!(told(), ["metad=debug,warn"; 2], "the metadata server and the datanode");
    lines(&store, &format!("admin log-level reset {}", store.node_id(0))).await;
    assert_eq!(told(), [""], "one datanode");
    let (_, metad) = store.metad();
    lines(&store, &format!("admin log-level debug {metad}")).await;
    assert_eq!(told(), ["debug"], "one metadata server");
    let refused = levada(&store, "admin log-level nonsense").await.unwrap();
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(!refused.status.success() && said.matches("no level").count() == 2, "each says why: {said}");
    let stranger = levada(&store, "admin log-level debug --user nobody-of-note").await.unwrap();
    assert!(!stranger.status.success() && told().is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn doctor_compares_the_clocks_of_datanodes() {
    let store = small(2, |_| {}).await;
    // Each says its own with its next heartbeat.
    loop {
        let nodes = lines(&store, "admin datanode list --json").await;
        if nodes.iter().all(|node| node["clock_ahead_ms"].is_i64()) {
            break;
        }
        tokio::time::sleep(LOOK_EACH).await;
    }
    let output = levada(&store, "doctor --json").await.unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let findings = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let clocks: Vec<Value> = findings.filter(|finding| finding["about"] == "clocks").collect();
    assert!(clocks.iter().any(|finding| finding["found"].as_str().unwrap().contains("2 datanodes")), "{text}");
    assert!(clocks.iter().all(|finding| finding["level"] == "well"), "{text}");
}

/// As often as the settings say, each time under a number of its own.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn balancing_begins_by_itself() {
    let store = small(2, |config| (config.balance_each_ms, config.balance_len_per_s) = (500, 1 << 20)).await;
    loop {
        let jobs = lines(&store, "admin jobs --json").await;
        let ended = jobs.iter().filter(|job| job["kind"] == "balance" && job["state"] == "done").count();
        if ended >= 2 {
            break;
        }
        tokio::time::sleep(LOOK_EACH).await;
    }
}
