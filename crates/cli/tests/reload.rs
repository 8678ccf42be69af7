//! A server of its own process: what its log says of its life, and what SIGHUP does.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// A guess: what is waited for takes milliseconds.
const LOOK_COUNT_MAX: usize = 6000;
const LOOK_EACH: Duration = Duration::from_millis(10);

struct Server {
    process: Child,
    file: PathBuf,
}

impl Server {
    fn start(dir: &Path, settings: &str) -> Self {
        let file = dir.join("meta.toml");
        std::fs::write(&file, settings).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_levada"));
        command.arg("meta").arg("--config").arg(&file).stdout(Stdio::null()).env_remove("RUST_LOG");
        Self { process: command.spawn().unwrap(), file }
    }

    fn signal(&self, signal: rustix::process::Signal) {
        rustix::process::kill_process(rustix::process::Pid::from_child(&self.process), signal).unwrap();
    }

    fn reload(&self, settings: &str) {
        std::fs::write(&self.file, settings).unwrap();
        self.signal(rustix::process::Signal::HUP);
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The text of a log once it has these words.
async fn log_with(path: &Path, words: &str) -> String {
    let mut looks = 0..LOOK_COUNT_MAX;
    loop {
        let text = std::fs::read_to_string(path).unwrap_or_default();
        if text.contains(words) {
            return text;
        }
        assert!(looks.next().is_some(), "no {words:?} in {text}");
        tokio::time::sleep(LOOK_EACH).await;
    }
}

#[tokio::test]
async fn a_server_reads_its_file_again() {
    let dir = tempfile::tempdir().unwrap();
    let (text, json) = (dir.path().join("logs/meta.log"), dir.path().join("meta.json"));
    let settings = |log: &Path, log_more: &str, meta: &str| {
        let dir = dir.path().join("meta");
        format!(
            "http_addr = \"127.0.0.1:0\"\n[log]\nfile = {log:?}\n{log_more}\n\
             [meta]\ndir = {dir:?}\nrpc_addr = \"127.0.0.1:0\"\n{meta}\n"
        )
    };
    let mut server = Server::start(dir.path(), &settings(&text, "", ""));
    let life = log_with(&text, "metadata server serves").await;
    assert!(life.contains("metadata server starts") && life.contains("leadership taken"), "{life}");
    assert!(!life.contains("WARN") && life.lines().count() < 10, "{life}");

    server.reload(&settings(&json, "format = \"json\"", "trash_interval_ms = 60000\nreplication = 2"));
    let lines = log_with(&json, "\"settings\":\"meta.replication\"").await;
    let told: serde_json::Value = serde_json::from_str(lines.lines().next().unwrap()).unwrap();
    assert_eq!(told["message"], "configuration reloaded");
    assert_eq!(told["changed"], "log.file log.format meta.trash_interval_ms");

    // A fault changes nothing, and the next one is read all the same.
    server.reload("http_addr = 7");
    log_with(&json, "configuration not reloaded").await;
    server.reload(&settings(&json, "format = \"json\"\nlevel = \"debug\"", "trash_interval_ms = 60000"));
    log_with(&json, "\"changed\":\"log.level\"").await;

    server.signal(rustix::process::Signal::TERM);
    assert!(server.process.wait().unwrap().success());
    log_with(&json, "metadata server stops").await;
}
