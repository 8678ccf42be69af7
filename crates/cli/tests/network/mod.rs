//! A store of processes, each datanode in a network namespace of its own.
//!
//! ```text
//! test, client, metadata server ── bridge 10.77.0.1 ──┬── 10.77.0.10  datanode 0
//!  (a namespace of the test's)                        ├── 10.77.0.11  datanode 1 …
//! ```
//!
//! A namespace lives as long as a process in it, so nothing is left behind whatever happens.

use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};

const LEVADA: &str = env!("CARGO_BIN_EXE_levada");
const INSIDE: &str = "LEVADA_TEST_IN_NAMESPACE";

/// True in a network namespace of the test's own. Outside it runs the test there, and gives its outcome; false then.
pub(crate) fn inside(test: &str) -> bool {
    if std::env::var_os(INSIDE).is_some() {
        return true;
    }
    let words = ["-n", "-fp", "--mount-proc", "ip", "link", "add", "probe0", "type", "veth", "peer", "name", "probe1"];
    let may = Command::new("unshare").args(words).stderr(Stdio::null()).status().is_ok_and(|status| status.success());
    if !may {
        println!("not tested: it takes root, iproute2, and a kernel with network namespaces and veth");
        return false;
    }
    let exe = std::env::current_exe().unwrap();
    let status = Command::new("unshare")
        .args(["-n", "--kill-child=KILL", "-fp", "--mount-proc"])
        .arg(exe)
        .args(["--exact", test, "--nocapture"])
        .env(INSIDE, "1")
        .status();
    assert!(status.unwrap().success(), "inside the namespace");
    false
}

/// Of each log, when a test fails.
const LOG_LINES: usize = 60;

fn run(command: &[&str]) {
    let status = Command::new(command[0]).args(&command[1..]).status();
    assert!(status.is_ok_and(|status| status.success()), "{command:?}");
}

pub(crate) struct Net {
    dir: tempfile::TempDir,
    metad: String,
    meta: Child,
    nodes: Vec<Node>,
}

struct Node {
    /// Keeps the namespace.
    holder: Child,
    process: Option<Child>,
}

impl Net {
    pub(crate) fn start(count: usize) -> Self {
        run(&["ip", "link", "set", "lo", "up"]);
        run(&["ip", "link", "add", "bridge", "type", "bridge"]);
        run(&["ip", "addr", "add", "10.77.0.1/24", "dev", "bridge"]);
        run(&["ip", "link", "set", "bridge", "up"]);
        let dir = tempfile::tempdir().unwrap();
        let port = TcpListener::bind("10.77.0.1:0").unwrap().local_addr().unwrap().port();
        let metad = format!("10.77.0.1:{port}");
        let at = dir.path().display();
        let text = format!(
            "http_addr = \"127.0.0.1:0\"\n[meta]\ndir = \"{at}/meta\"\nrpc_addr = \"{metad}\"\nreplication = 3\n"
        );
        let file = dir.path().join("meta.toml");
        std::fs::write(&file, text).unwrap();
        let meta = ready(Command::new(LEVADA).args(["meta", "--json", "--config"]).arg(&file), dir.path(), "meta");
        let mut net = Self { dir, metad, meta, nodes: Vec::new() };
        for number in 0..count {
            net.add(number);
            net.run(number);
        }
        net
    }

    pub(crate) fn metad(&self) -> &str {
        &self.metad
    }

    fn add(&mut self, number: usize) {
        let mut holder =
            Command::new("unshare").args(["-n", "cat"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        // It is in its namespace once it answers.
        std::io::Write::write_all(holder.stdin.as_mut().unwrap(), b"\n").unwrap();
        BufReader::new(holder.stdout.take().unwrap()).read_line(&mut String::new()).unwrap();
        let (pid, far) = (holder.id().to_string(), format!("node{number}"));
        run(&["ip", "link", "add", &far, "type", "veth", "peer", "name", "eth0", "netns", &pid]);
        run(&["ip", "link", "set", &far, "master", "bridge", "up"]);
        let addr = format!("10.77.0.{}/24", 10 + number);
        let within = |command: &[&str]| run(&[&["nsenter", "-t", &pid, "-n"], command].concat());
        within(&["ip", "addr", "add", &addr, "dev", "eth0"]);
        within(&["ip", "link", "set", "eth0", "up"]);
        within(&["ip", "link", "set", "lo", "up"]);
        let (at, metad) = (self.dir.path().display(), &self.metad);
        let text = format!(
            "[data]\ndir = \"{at}/data{number}\"\nxfer_addr = \"10.77.0.{}:9866\"\n\
             ipc_addr = \"10.77.0.{}:9867\"\nmetad = \"{metad}\"\n",
            10 + number,
            10 + number
        );
        std::fs::write(self.dir.path().join(format!("data{number}.toml")), text).unwrap();
        self.nodes.push(Node { holder, process: None });
    }

    /// Starts a datanode, and waits until the metadata server knows it.
    pub(crate) fn run(&mut self, number: usize) {
        let node = &mut self.nodes[number];
        let mut command = Command::new("nsenter");
        command.args(["-t", &node.holder.id().to_string(), "-n", LEVADA, "data", "--json", "--config"]);
        command.arg(self.dir.path().join(format!("data{number}.toml")));
        node.process = Some(ready(&mut command, self.dir.path(), &format!("data{number}")));
    }

    pub(crate) fn signal(&self, number: usize, name: &str) {
        let process = self.nodes[number].process.as_ref().expect("it runs");
        run(&["kill", &format!("-{name}"), &process.id().to_string()]);
    }

    /// As `kill -9`.
    pub(crate) fn kill(&mut self, number: usize) {
        let mut process = self.nodes[number].process.take().expect("it runs");
        process.kill().unwrap();
        process.wait().unwrap();
    }

    /// Plugs its cable in, or pulls it.
    pub(crate) fn link(&self, number: usize, up: bool) {
        run(&["ip", "link", "set", &format!("node{number}"), if up { "up" } else { "down" }]);
    }
}

impl Drop for Net {
    fn drop(&mut self) {
        if std::thread::panicking() {
            for name in ["meta".into()].into_iter().chain((0..self.nodes.len()).map(|number| format!("data{number}"))) {
                let log = std::fs::read_to_string(self.dir.path().join(format!("{name}.log"))).unwrap_or_default();
                let lines: Vec<&str> = log.lines().collect();
                eprintln!("── {name}\n{}", lines[lines.len().saturating_sub(LOG_LINES)..].join("\n"));
            }
        }
        let processes = self.nodes.iter_mut().flat_map(|node| [Some(&mut node.holder), node.process.as_mut()]);
        for process in processes.flatten().chain([&mut self.meta]) {
            let _ended = process.kill();
            let _code = process.wait();
        }
    }
}

/// Starts a role and takes its line.
fn ready(command: &mut Command, dir: &Path, name: &str) -> Child {
    let log = std::fs::File::options().create(true).append(true).open(dir.join(format!("{name}.log"))).unwrap();
    let mut process = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(log).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert!(line.contains("\"ready\":true"), "{name}: {line}");
    process
}
