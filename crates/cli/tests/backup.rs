//! The only metadata server loses its disk, and the store goes on with last night's backup.

mod store;

use client::{Client, Create, Options};
use serde_json::Value;
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

/// `levada` with these words; its lines of JSON.
async fn levada(words: &[&str]) -> Vec<Value> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_levada"));
    command.args(words).arg("--json");
    let output = io::task::blocking(move || command.output().unwrap()).await;
    assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
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

    let (meta, rpc_addr) = store.metad();
    let conf = dir.path().join("meta.toml").to_str().unwrap().to_owned();
    let settings = format!("http_addr = \"127.0.0.1:0\"\n[meta]\ndir = {meta:?}\nrpc_addr = \"{rpc_addr}\"\n");
    std::fs::write(&conf, settings).unwrap();
    let mut config = metad::Config::new(meta, rpc_addr);
    (config.replication, config.lease_soft_ms) = (2, 1000);
    let restore = async || {
        let restored = levada(&["admin", "meta", "restore", &file, "--config", &conf]).await;
        assert_eq!(restored[0]["rows"], taken[0]["rows"]);
    };
    store.replace_metad(restore, config).await;

    // The datanodes went on, and believe the restored server.
    let client = store.client(Options::default());
    let mut looks = 0..LOOK_COUNT_MAX;
    while client.live_datanode_count().await.unwrap() < 2 {
        assert!(looks.next().is_some(), "the datanodes do not come");
        tokio::time::sleep(LOOK_EACH).await;
    }
    assert_eq!(text(&client, "/then/small").await, "as of then");
    assert_eq!(text(&client, "/then/grown").await, "one");
    assert_eq!(client.status("/later/file").await.unwrap(), None);
    // Nothing is given out twice: later blocks stand beside those that were found.
    write(&client, "/new/file", "after that").await;
    append(&client, "/then/grown", " three").await;
    let found = loop {
        let found = levada(&["admin", "meta", "found", "--url", &url]).await;
        if found.len() >= 2 && found.iter().all(|block| block["replicas"].as_array().unwrap().len() == 2) {
            break found;
        }
        assert!(looks.next().is_some(), "found so far: {found:?}");
        tokio::time::sleep(LOOK_EACH).await;
    };
    let mut lens: Vec<u64> = found.iter().map(|block| block["len"].as_u64().unwrap()).collect();
    lens.sort_unstable();
    assert_eq!(lens, [4, 16], "{found:?}");
    assert_eq!(text(&client, "/new/file").await, "after that");
    assert_eq!(text(&client, "/then/grown").await, "one three");

    // Each replica of a file is where it should be, and nothing is to be done.
    let explained = levada(&["explain", "/then/grown", "--url", &url]).await;
    assert_eq!(explained.len(), 2, "{explained:?}");
    for block in explained {
        let states = block["replicas"].as_array().unwrap().iter().map(|replica| replica["state"].as_str().unwrap());
        assert_eq!(states.collect::<Vec<_>>(), ["here", "here"], "{block}");
    }
}
