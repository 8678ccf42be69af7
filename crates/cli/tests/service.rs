//! Roles under a service manager, which a socket plays: what they tell, and when.

use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::{Child, Command, Stdio};

struct Manager {
    socket: UnixDatagram,
    dir: tempfile::TempDir,
}

impl Manager {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let socket = UnixDatagram::bind(dir.path().join("notify")).unwrap();
        socket.set_read_timeout(Some(std::time::Duration::from_secs(60))).unwrap();
        Self { socket, dir }
    }

    /// `levada ROLE` with these settings, watched.
    fn start(&self, role: &str, settings: &str) -> Role {
        let path = self.dir.path().join(format!("{role}.toml"));
        std::fs::write(&path, settings).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_levada"));
        command.arg(role).arg("--config").arg(path).stdout(Stdio::null());
        command.env("NOTIFY_SOCKET", self.dir.path().join("notify")).env("WATCHDOG_USEC", "200000");
        Role(command.env_remove("WATCHDOG_PID").spawn().unwrap())
    }

    fn hears(&self) -> String {
        let mut message = [0; 4096];
        let len = self.socket.recv(&mut message).unwrap();
        String::from_utf8(message[..len].to_vec()).unwrap()
    }

    fn hears_at_last(&self, wanted: &str) {
        while self.hears() != wanted {}
    }

    fn dir(&self) -> &Path {
        self.dir.path()
    }
}

struct Role(Child);

impl Role {
    fn terminate(&self) {
        let pid = rustix::process::Pid::from_child(&self.0);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    }
}

impl Drop for Role {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_metadata_server_tells_of_its_life() {
    let manager = Manager::new();
    let dir = manager.dir().join("meta");
    let settings = format!("http_addr = \"127.0.0.1:0\"\n[meta]\ndir = {dir:?}\nrpc_addr = \"127.0.0.1:0\"\n");
    let mut role = manager.start("meta", &settings);
    let ready = manager.hears();
    assert!(ready.starts_with("READY=1\nSTATUS=metadata server ready on 127.0.0.1:"), "{ready}");
    manager.hears_at_last("WATCHDOG=1");
    manager.hears_at_last("WATCHDOG=1");
    role.terminate();
    manager.hears_at_last("STOPPING=1");
    assert!(role.0.wait().unwrap().success());
}

/// Whoever starts it would wait for another machine otherwise, and so would the upgrade of a package.
#[test]
fn a_datanode_is_ready_when_only_the_metadata_server_is_missing() {
    let manager = Manager::new();
    let dir = manager.dir().join("data");
    let mut held = io::HeldPorts::default();
    let nobody = held.hold(([127, 0, 0, 1], 0).into()).unwrap();
    let log = manager.dir().join("data.log");
    let data = format!("dir = {dir:?}\nxfer_addr = \"127.0.0.1:0\"\nipc_addr = \"127.0.0.1:0\"\nmetad = \"{nobody}\"");
    let settings = format!("[log]\nfile = {log:?}\n[data]\n{data}\n");
    let _role = manager.start("data", &settings);
    let ready = manager.hears();
    assert!(ready.starts_with("READY=1\nSTATUS=the datanode on 127.0.0.1:"), "{ready}");
    assert!(ready.ends_with(&format!("waits for the metadata server at {nobody}")), "{ready}");
    manager.hears_at_last("WATCHDOG=1");
    manager.hears_at_last("WATCHDOG=1");
    // It tried again each second or so, and why that fails is told once.
    let log = std::fs::read_to_string(log).unwrap();
    let why: Vec<&str> = log.lines().filter(|line| line.contains("cannot be reached")).collect();
    assert!(matches!(why[..], [line] if line.contains("WARN") && line.contains("refused")), "{log}");
}
