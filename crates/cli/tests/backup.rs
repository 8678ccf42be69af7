//! The only metadata server loses its disk, and the store goes on with last night's backup; or with what is left of its
//! directory.

mod store;

use client::{Client, Create, Options};
use serde_json::Value;
use std::path::Path;
use std::process::Command;
use std::time::Duration;
use store::Store;

/// A guess: what is waited for takes seconds.
const LOOK_COUNT_MAX: usize = 1200;
const LOOK_EACH: Duration = Duration::from_millis(100);

async fn write(client: &Client, path: &str, text: &str) {
    let mut writer = client.create(path, &Create::default()).await.unwrap();
    writer.write(text.as_bytes()).await.unwrap();
    writer.close().await.unwrap();
}

async fn append(client: &Client, path: &str, text: &str) {
    let mut writer = client.append(path).await.unwrap();
    writer.write(text.as_bytes()).await.unwrap();
    writer.close().await.unwrap();
}

async fn text(client: &Client, path: &str) -> String {
    String::from_utf8(store::read(client, path).await).unwrap()
}

/// `levada` with these words; its lines, and what it has to complain of.
async fn run(words: &[&str]) -> (Vec<String>, Result<(), String>) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_levada"));
    command.args(words);
    let output = io::task::blocking(move || command.output().unwrap()).await;
    let lines = String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect();
    let said = String::from_utf8(output.stderr).unwrap();
    (lines, if output.status.success() { Ok(()) } else { Err(said) })
}

/// The lines of one that does all it was asked.
async fn lines(words: &[&str]) -> Vec<String> {
    let (lines, said) = run(words).await;
    assert_eq!(said, Ok(()), "{words:?}");
    lines
}

/// What one complains of that does not.
async fn refused(words: &[&str]) -> String {
    let (lines, said) = run(words).await;
    assert_eq!(lines, [""; 0], "{words:?}");
    said.unwrap_err()
}

fn json(lines: &[String]) -> Vec<Value> {
    lines.iter().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The same, its lines of JSON.
async fn levada(words: &[&str]) -> Vec<Value> {
    json(&lines(&[words, &["--json"]].concat()).await)
}

/// The configuration of the metadata server, as a file and as it is.
fn settings(store: &Store, dir: &Path) -> (String, metad::Config) {
    let (meta, rpc_addr) = store.metad();
    let conf = dir.join("meta.toml").to_str().unwrap().to_owned();
    let settings = format!("http_addr = \"127.0.0.1:0\"\n[meta]\ndir = {meta:?}\nrpc_addr = \"{rpc_addr}\"\n");
    std::fs::write(&conf, settings).unwrap();
    let mut config = metad::Config::new(meta, rpc_addr);
    (config.replication, config.lease_soft_ms) = (2, 1000);
    (conf, config)
}

async fn wait_for_both(client: &Client, looks: &mut impl Iterator) {
    while client.live_datanode_count().await.unwrap() < 2 {
        assert!(looks.next().is_some(), "the datanodes do not come");
        tokio::time::sleep(LOOK_EACH).await;
    }
}

/// All that was found, when each of two datanodes has reported all that it has.
async fn found(url: &str, looks: &mut impl Iterator) -> Vec<Value> {
    loop {
        let (lines, said) = run(&["admin", "meta", "found", "--url", url, "--json"]).await;
        let found = json(&lines);
        if said.is_ok() && found.iter().all(|block| block["replicas"].as_array().unwrap().len() == 2) {
            return found;
        }
        assert!(looks.next().is_some(), "found so far: {found:?}, {said:?}");
        tokio::time::sleep(LOOK_EACH).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_metadata_server_is_restored_from_a_backup() {
    // Who may still put a block is known again after this time.
    let mut store = Store::new(2, |config| (config.replication, config.lease_soft_ms) = (2, 1000), |_, _| {}).await;
    let client = store.client(Options::default());
    write(&client, "/then/small", "as of then").await;
    write(&client, "/then/grown", "one").await;
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("backup").to_str().unwrap().to_owned();
    let url = store.url();
    let taken = levada(&["admin", "meta", "backup", &file, "--url", &url]).await;
    assert!(taken[0]["rows"].as_u64().unwrap() > 10, "{taken:?}");
    // What comes later is not in it.
    append(&client, "/then/grown", " two").await;
    write(&client, "/later/file", "nobody remembers").await;
    drop(client);

    let (conf, config) = settings(&store, dir.path());
    let restore = async || {
        let restored = levada(&["admin", "meta", "restore", &file, "--config", &conf]).await;
        assert_eq!((&restored[0]["rows"], &restored[0]["invitations_dropped"]), (&taken[0]["rows"], &0.into()));
    };
    store.replace_metad(restore, config).await;

    // The datanodes went on, and believe the restored server.
    let client = store.client(Options::default());
    let mut looks = 0..LOOK_COUNT_MAX;
    wait_for_both(&client, &mut looks).await;
    assert_eq!(text(&client, "/then/small").await, "as of then");
    assert_eq!(text(&client, "/then/grown").await, "one");
    assert_eq!(client.status("/later/file").await.unwrap(), None);
    // Nothing is given out twice: later blocks stand beside those that were found.
    write(&client, "/new/file", "after that").await;
    append(&client, "/then/grown", " three").await;
    let found_blocks = found(&url, &mut looks).await;
    let mut lens: Vec<u64> = found_blocks.iter().map(|block| block["len"].as_u64().unwrap()).collect();
    lens.sort_unstable();
    assert_eq!(lens, [4, 16], "{found_blocks:?}");
    assert_eq!(text(&client, "/new/file").await, "after that");
    assert_eq!(text(&client, "/then/grown").await, "one three");

    // What was found can be had as files, once; then it may go, and only it.
    let save = ["admin", "meta", "found", "save", "/found", "--url", &url];
    let planted = format!("/planted/{}/{}", found_blocks[0]["file"], found_blocks[0]["block"]);
    write(&client, &planted, "x").await;
    let (others, said) = run(&["admin", "meta", "found", "save", "/planted", "--url", &url]).await;
    assert_eq!(others.len(), 1, "{others:?}");
    assert!(said.unwrap_err().contains(&format!("{planted}: is there already")));
    let saved = lines(&save).await;
    assert_eq!(saved.len(), 2, "{saved:?}");
    let mut texts = Vec::new();
    for path in &saved {
        texts.push(text(&client, path).await);
    }
    texts.sort_unstable();
    assert_eq!(texts, [" two", "nobody remembers"]);
    // Whose they were is not known, so nobody else may read them.
    let mode = async |path: &str| client.existing(path).await.unwrap().mode;
    let file_dir = saved[0].rsplit_once('/').unwrap().0;
    for (path, expected) in [("/found", 0o700), (file_dir, 0o700), (&saved[0], 0o600), (&saved[1], 0o600)] {
        assert_eq!(mode(path).await, expected, "{path}");
    }
    client.set_permission(file_dir, 0o755).await.unwrap();
    client.set_permission(&saved[0], 0o644).await.unwrap();
    assert_eq!(lines(&save).await, [""; 0], "they are there");
    assert_eq!((mode(file_dir).await, mode(&saved[0]).await), (0o700, 0o600), "what was saved wider is narrowed");
    let replicas = async || -> u64 {
        let nodes = levada(&["admin", "datanode", "list", "--url", &url]).await;
        nodes.iter().map(|node| node["disks"][0]["replicas"].as_u64().unwrap_or(0)).sum()
    };
    let owned = 2 * levada(&["explain", "/", "--url", &url]).await.len() as u64;
    while replicas().await != owned + 4 {
        assert!(looks.next().is_some(), "of {owned} and 4 replicas {} are told of", replicas().await);
        tokio::time::sleep(LOOK_EACH).await;
    }
    // As long as a datanode has not reported, nobody knows what would be released.
    store.stop(1).await;
    store.stop_meta().await;
    store.start_meta().await;
    let release = |count| ["admin", "meta", "found", "release", "--count", count, "--url", &url];
    loop {
        let (listed, said) = run(&["admin", "meta", "found", "--url", &url, "--json"]).await;
        match said.unwrap_err() {
            said if listed.len() == 2 && said.contains("datanodes without a complete report: 127.0.0.1:") => break,
            said => assert!(looks.next().is_some(), "{listed:?}: {said}"),
        }
        tokio::time::sleep(LOOK_EACH).await;
    }
    assert!(refused(&save).await.contains("datanodes without a complete report"), "though all that is listed is saved");
    assert!(refused(&release("2")).await.contains("datanodes without a complete report: 1"));
    store.start().await;
    assert_eq!(found(&url, &mut looks).await.len(), 2);
    assert!(refused(&release("1")).await.contains("2 found blocks are listed by now, not 1"));
    lines(&release("2")).await;
    assert!(levada(&["admin", "meta", "found", "--url", &url]).await.is_empty());
    // Each datanode says anew what it has as it starts.
    for number in 0..2 {
        store.stop(number).await;
    }
    store.start().await;
    while replicas().await != owned {
        assert!(looks.next().is_some(), "{} replicas are there, and {owned} are files'", replicas().await);
        tokio::time::sleep(LOOK_EACH).await;
    }
    assert_eq!(text(&client, &saved[0]).await.len() + text(&client, &saved[1]).await.len(), 20);

    // Each replica of a file is where it should be, and nothing is to be done.
    let explained = levada(&["explain", "/then/grown", "--url", &url]).await;
    assert_eq!(explained.len(), 2, "{explained:?}");
    for block in explained {
        let states = block["replicas"].as_array().unwrap().iter().map(|replica| replica["state"].as_str().unwrap());
        assert_eq!(states.collect::<Vec<_>>(), ["here", "here"], "{block}");
    }
}

/// A backup is restored, and the store goes on with it for a while and is given up, for another restore of the same
/// backup. What the datanodes have of both is found, and none of it is taken for what comes then.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_restores_of_one_backup_give_out_nothing_alike() {
    let mut store = Store::new(2, |config| (config.replication, config.lease_soft_ms) = (2, 1000), |_, _| {}).await;
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("backup").to_str().unwrap().to_owned();
    let url = store.url();
    let mut client = store.client(Options::default());
    write(&client, "/then", "as of then").await;
    levada(&["admin", "meta", "backup", &file, "--url", &url]).await;
    let (conf, config) = settings(&store, dir.path());
    let mut looks = 0..LOOK_COUNT_MAX;
    let mut blocks = Vec::new();
    for (round, said) in ["lost", "first", "second"].into_iter().enumerate() {
        if round > 0 {
            drop(client);
            let restore = async || _ = levada(&["admin", "meta", "restore", &file, "--config", &conf]).await;
            store.replace_metad(restore, config.clone()).await;
            client = store.client(Options::default());
            wait_for_both(&client, &mut looks).await;
            assert_eq!(client.status(&format!("/{}", round - 1)).await.unwrap(), None);
        }
        write(&client, &format!("/{round}"), said).await;
        let block = levada(&["explain", &format!("/{round}"), "--url", &url]).await[0]["block"].as_u64().unwrap();
        let id = client.existing(&format!("/{round}")).await.unwrap().id;
        assert!(blocks.iter().all(|(other, of)| *other != block && *of != id), "{block} of {id}: {blocks:?}");
        blocks.push((block, id));
    }
    let found = found(&url, &mut looks).await;
    let found: Vec<(u64, u64)> =
        found.iter().map(|found| (found["block"].as_u64().unwrap(), found["len"].as_u64().unwrap())).collect();
    assert_eq!(found, [(blocks[0].0, 4), (blocks[1].0, 5)]);
    assert_eq!((text(&client, "/then").await, text(&client, "/2").await), ("as of then".into(), "second".into()));
}

/// A program had flushed, and died with the metadata server: no row tells of its block, and it was never finished.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_flushed_and_never_closed_is_saved() {
    let mut store = Store::new(2, |config| (config.replication, config.lease_soft_ms) = (2, 1000), |_, _| {}).await;
    let client = store.client(Options::default());
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("backup").to_str().unwrap().to_owned();
    let url = store.url();
    levada(&["admin", "meta", "backup", &file, "--url", &url]).await;
    let mut writer = client.create("/later/open", &Create::default()).await.unwrap();
    writer.write(b"flushed").await.unwrap();
    writer.flush().await.unwrap();
    drop((writer, client));

    let (conf, config) = settings(&store, dir.path());
    let restore = async || _ = levada(&["admin", "meta", "restore", &file, "--config", &conf]).await;
    store.replace_metad(restore, config).await;
    let mut looks = 0..LOOK_COUNT_MAX;
    let block = loop {
        let found = found(&url, &mut looks).await;
        if let Some(block) = found.into_iter().next() {
            break block;
        }
        assert!(looks.next().is_some(), "nothing is found");
        tokio::time::sleep(LOOK_EACH).await;
    };
    assert_eq!((&block["finalized"], &block["len"]), (&Value::from(false), &Value::from(7)), "{block}");

    // The other one may have more of it.
    store.stop(1).await;
    let save = ["admin", "meta", "found", "save", "/found", "--url", &url];
    let said = refused(&save).await;
    assert!(said.contains("datanodes that may have more of it do not answer: 127.0.0.1:"), "{said}");
    store.start().await;
    let saved = lines(&save).await;
    let client = store.client(Options::default());
    assert_eq!((saved.len(), text(&client, &saved[0]).await.as_str()), (1, "flushed"));
    // It is listed as it is now, on both.
    loop {
        let found = found(&url, &mut looks).await;
        if found[0]["finalized"] == true {
            assert_eq!((found.len(), &found[0]["len"]), (1, &Value::from(7)), "{found:?}");
            break;
        }
        assert!(looks.next().is_some(), "{found:?}");
        tokio::time::sleep(LOOK_EACH).await;
    }
    assert_eq!(lines(&save).await, [""; 0], "it is there");
}

/// The server does not start any more, but its directory can be read: that is newer than any backup.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_stopped_server_has_is_backed_up_and_not_overwritten() {
    let mut store = Store::new(2, |config| (config.replication, config.lease_soft_ms) = (2, 1000), |_, _| {}).await;
    let dir = tempfile::tempdir().unwrap();
    let name = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let (old, newest, url) = (name("old"), name("newest"), store.url());
    let client = store.client(Options::default());
    levada(&["admin", "meta", "backup", &old, "--url", &url]).await;
    write(&client, "/since", "acknowledged").await;
    let (conf, config) = settings(&store, dir.path());
    let back_up = ["admin", "meta", "backup", &newest, "--config", &conf];
    assert!(refused(&back_up).await.contains("a metadata server runs in"), "it is up");
    drop(client);
    store.vanish_meta();
    // It ends in the background.
    let mut looks = 0..LOOK_COUNT_MAX;
    loop {
        match run(&back_up).await {
            (_, Ok(())) => break,
            (_, Err(said)) => assert!(said.contains("runs in") && looks.next().is_some(), "{said}"),
        }
        tokio::time::sleep(LOOK_EACH).await;
    }
    let left: Vec<_> = std::fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left.len(), 3, "two backups and the settings: {left:?}");
    let said = refused(&["admin", "meta", "restore", &old, "--config", &conf]).await;
    assert!(said.contains("may be newer than the backup") && said.contains("Start the server with it"), "{said}");

    let restore = async || _ = levada(&["admin", "meta", "restore", &newest, "--config", &conf]).await;
    store.replace_metad(restore, config).await;
    let client = store.client(Options::default());
    wait_for_both(&client, &mut looks).await;
    assert_eq!(text(&client, "/since").await, "acknowledged");

    // One of a group is not restored while others may be left.
    let text = std::fs::read_to_string(&conf).unwrap();
    let member = |id| format!("[[meta.members]]\nid = {id}\naddr = \"127.0.0.1:{}\"\n", 9000 + id);
    std::fs::write(&conf, format!("{text}id = 1\n{}{}", member(1), member(2))).unwrap();
    let said = refused(&["admin", "meta", "restore", &old, "--config", &conf]).await;
    assert!(said.contains("remove this one") && said.contains("the directory of one is left"), "{said}");
}
