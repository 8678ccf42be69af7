//! What `levada rm` removes can be put back, where the store keeps it for a while.

mod store;

use client::{Client, Create, Options};
use std::process::{Command, Output};
use store::Store;

struct User<'a> {
    store: &'a Store,
    name: &'static str,
}

impl User<'_> {
    /// `levada` with these words; blocking, so on a thread of its own.
    async fn levada(&self, words: &str) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_levada"));
        command.args(words.split(' ')).args(["--user", self.name, "--url", &self.store.url()]);
        io::task::blocking(move || command.output().unwrap()).await
    }

    /// The same, which has to do it; its lines.
    async fn does(&self, words: &str) -> Vec<String> {
        let output = self.levada(words).await;
        assert!(output.status.success(), "{words}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
    }

    /// The same, which cannot be done, and why.
    async fn may_not(&self, words: &str, why: &str) {
        let output = self.levada(words).await;
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && said.contains(why), "{words}: {said}");
    }

    /// Paths that can be restored.
    async fn listed(&self) -> Vec<String> {
        let line = |line: &String| serde_json::from_str::<serde_json::Value>(line).unwrap();
        let lines = self.does("trash list --json").await;
        let mut paths: Vec<String> = lines.iter().map(|text| line(text)["path"].as_str().unwrap().to_owned()).collect();
        paths.sort_unstable();
        paths
    }
}

async fn write(client: &Client, path: &str, text: &str) {
    let mut writer = client.create(path, &Create { replication: Some(1), ..Create::default() }).await.unwrap();
    writer.write(text.as_bytes()).await.unwrap();
    writer.close().await.unwrap();
}

async fn text(client: &Client, path: &str) -> String {
    String::from_utf8(store::read(client, path).await).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tree_removed_by_mistake_comes_back() {
    let store = Store::new(1, |config| config.trash_interval_ms = 3_600_000, |_, _| {}).await;
    let client = store.client(Options::default());
    client.mkdirs("/data/tree/deep", 0o777, true).await.unwrap();
    client.mkdirs("/user/ann", 0o755, true).await.unwrap();
    for path in ["/user/ann", "/data/tree", "/data/tree/deep"] {
        client.set_owner(path, Some("ann"), None).await.unwrap();
    }
    client.set_permission("/data", 0o777).await.unwrap();
    write(&client, "/data/tree/deep/file", "first").await;
    let ann = User { store: &store, name: "ann" };

    ann.does("rm -r /data/tree").await;
    assert_eq!(client.status("/data/tree").await.unwrap(), None);
    assert_eq!(ann.listed().await, ["/data/tree"]);
    ann.does("trash restore /data/tree").await;
    assert_eq!(text(&client, "/data/tree/deep/file").await, "first");
    assert_eq!(ann.listed().await, Vec::<String>::new());

    // Of a path that was removed twice, the last one comes back; nothing is replaced.
    ann.does("rm /data/tree/deep/file").await;
    write(&client, "/data/tree/deep/file", "second").await;
    ann.does("rm /data/tree/deep/file").await;
    assert_eq!(ann.listed().await, ["/data/tree/deep/file", "/data/tree/deep/file"]);
    ann.does("trash restore /data/tree/deep/file").await;
    assert_eq!(text(&client, "/data/tree/deep/file").await, "second");
    ann.may_not("trash restore /data/tree/deep/file", "is not replaced").await;
    ann.does("trash restore --to /data/older /data/tree/deep/file").await;
    assert_eq!(text(&client, "/data/older").await, "first");

    // The directory that it was in is gone by now, too.
    ann.does("rm /data/tree/deep/file").await;
    ann.does("rm -r -skipTrash /data/tree").await;
    ann.does("trash restore /data/tree/deep/file").await;
    assert_eq!(text(&client, "/data/tree/deep/file").await, "second");

    // What others may not delete they cannot move to their trash, nor can a trash hold itself.
    client.mkdirs("/user/ben", 0o755, true).await.unwrap();
    client.set_owner("/user/ben", Some("ben"), None).await.unwrap();
    let ben = User { store: &store, name: "ben" };
    ben.may_not("rm -r /data/tree", "permission denied").await;
    ben.may_not("trash restore /data/tree", "is not in your trash").await;
    ann.may_not("rm -r /user/ann", "--skip-trash").await;

    ann.does("rm /data/older").await;
    ann.does("trash empty").await;
    assert_eq!(ann.listed().await, Vec::<String>::new());
    assert_eq!(client.status("/user/ann/.Trash/Current").await.unwrap(), None);
}
