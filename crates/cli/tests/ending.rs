//! `levada up` as a process: how it ends, also while it starts, and what it leaves behind.

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

/// As a stop may take on a machine that has much to do; a start that does not end takes for ever.
const STOP_MAX: Duration = Duration::from_secs(30);

const LOOK_EACH: Duration = Duration::from_millis(20);

struct Up(Child);

impl Up {
    fn start(dir: &Path, options: &[&str]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_levada"));
        command.args(["up", "--port-base", "0", "--datanodes", "1", "--json", "--dir"]).arg(dir).args(options);
        Self(command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap())
    }

    fn ready(&mut self) -> Value {
        let mut line = String::new();
        BufReader::new(self.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap()
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.0), signal).unwrap();
    }

    fn ended(&mut self) -> ExitStatus {
        for _ in 0..STOP_MAX.as_millis() / LOOK_EACH.as_millis() {
            if let Some(status) = self.0.try_wait().unwrap() {
                return status;
            }
            io::task::sleep(LOOK_EACH);
        }
        panic!("it goes on");
    }
}

impl Drop for Up {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn levada(ready: &Value, words: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_levada"));
    command.args(words).args(["--url", ready["fs"].as_str().unwrap()]);
    let done = command.env("HADOOP_CONF_DIR", ready["hadoop_conf"].as_str().unwrap()).output().unwrap();
    assert!(done.status.success(), "{words:?}: {}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8(done.stdout).unwrap()
}

/// Of a datanode that no metadata server takes, the start lasts until that changes.
#[test]
fn a_start_that_does_not_end_is_stopped_by_a_signal() {
    let dir = tempfile::tempdir().unwrap();
    let mut up = Up::start(dir.path(), &["--secure"]);
    let ready = up.ready();
    let node: Value = serde_json::from_str(&levada(&ready, &["admin", "datanode", "list", "--json"])).unwrap();
    levada(&ready, &["admin", "datanode", "revoke", node["id"].as_str().unwrap()]);
    up.signal(Signal::INT);
    assert!(up.ended().success());
    for (options, signal) in [(&[][..], Signal::INT), (&["--processes"], Signal::TERM)] {
        let mut up = Up::start(dir.path(), options);
        io::task::sleep(Duration::from_secs(3));
        assert!(up.0.try_wait().unwrap().is_none(), "it waits for the datanode");
        up.signal(signal);
        assert!(up.ended().success(), "{options:?}");
    }
    // As the datanode's log advises.
    ["certificates/data1", "data1"].iter().for_each(|name| std::fs::remove_dir_all(dir.path().join(name)).unwrap());
    Up::start(dir.path(), &[]).ready();
}

/// Its process may have been killed, as at a limit of time.
#[test]
fn a_store_for_tests_is_gone_with_who_started_it() {
    let world = tempfile::tempdir().unwrap();
    let dir = world.path().join("store");
    for options in
        [&["--until-stdin-ends", "--delete-at-end"][..], &["--until-stdin-ends", "--delete-at-end", "--processes"]]
    {
        let mut up = Up::start(&dir, options);
        up.ready();
        assert!(dir.join("data1").is_dir());
        drop(up.0.stdin.take());
        assert!(up.ended().success());
        assert!(!dir.exists(), "{options:?}");
    }
    std::fs::create_dir(&dir).unwrap();
    std::fs::write(dir.join("mine"), "").unwrap();
    assert!(!Up::start(&dir, &["--delete-at-end"]).ended().success());
    assert!(dir.join("mine").exists(), "it was there before");
}

/// What a start would leave says how many servers the store has.
#[test]
fn a_first_start_that_finds_a_port_taken_leaves_nothing() {
    let world = tempfile::tempdir().unwrap();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let base = taken.local_addr().unwrap().port();
    let mut command = Command::new(env!("CARGO_BIN_EXE_levada"));
    command.args(["up", "--json", "--port-base", &base.to_string(), "--dir"]).arg(world.path().join("store"));
    let done = command.output().unwrap();
    let said = String::from_utf8(done.stderr).unwrap();
    assert!(!done.status.success() && said.contains(&taken.local_addr().unwrap().to_string()), "{said}");
    assert!(!world.path().join("store/meta").exists());
}

#[test]
fn a_store_has_a_trash_if_it_is_told_so() {
    let world = tempfile::tempdir().unwrap();
    let list = |options: &[&str]| {
        let mut up = Up::start(&world.path().join("store"), options);
        let ready = up.ready();
        let mut command = Command::new(env!("CARGO_BIN_EXE_levada"));
        let done = command.args(["trash", "list", "--url", ready["fs"].as_str().unwrap()]).output().unwrap();
        assert!(done.status.success());
        up.signal(Signal::TERM);
        assert!(up.ended().success());
        String::from_utf8(done.stderr).unwrap()
    };
    let said = list(&[]);
    assert!(said.contains("no trash") && said.contains("--trash-interval"), "{said}");
    assert_eq!(list(&["--trash-interval", "1d"]), "");
}
