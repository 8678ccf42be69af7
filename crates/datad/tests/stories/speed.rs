//! What a datanode costs, in CPU seconds per GB. Each node is a process of its own; the client is this one.
//!
//! ```text
//! cargo test --release -p datad --test stories speed -- --ignored --nocapture
//! ```
//!
//! Loopback TCP with the machine's congestion control; inside `unshare -n` with reno the figures mean more.

use crate::support::{Ask, Connection, PACKET_LEN, chain, info, pattern};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::SocketAddr;
use std::process::{Child, ChildStdin, Command, Stdio};

const ROLE: &str = "DATAD_SPEED_DIR";
const BLOCK_LEN: usize = 256 << 20;

struct Process {
    child: Child,
    addr: SocketAddr,
    _stdin: ChildStdin,
}

impl Process {
    fn start(dir: &std::path::Path) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["speed::node", "--exact", "--ignored", "--nocapture"]).env(ROLE, dir);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut said =
            lines.map_while(Result::ok).filter_map(|line| line.split_once("addr ").map(|(_, addr)| addr.to_owned()));
        let addr = said.next().expect("an address").parse().unwrap();
        let _stdin = child.stdin.take().unwrap();
        Self { child, addr, _stdin }
    }

    /// CPU seconds so far.
    fn cpu(&self) -> f64 {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id())).unwrap();
        let fields: Vec<&str> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
        let ticks: u64 = fields[11..13].iter().map(|ticks| ticks.parse::<u64>().unwrap()).sum();
        ticks as f64 / 100.0
    }

    fn memory_mb(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
        line.split_whitespace().next().unwrap().parse::<u64>().unwrap() / 1024
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ended = self.child.kill();
        let _status = self.child.wait();
    }
}

/// Not a test: one node, in a process that the test below starts.
#[test]
#[ignore = "a part of `speed`"]
fn node() {
    let Some(dir) = std::env::var_os(ROLE) else { return };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let any = "127.0.0.1:0".parse().unwrap();
    let mut config = datad::Config::new(dir.into(), any, any, "127.0.0.1:9".into());
    if std::env::var_os("DATAD_SPEED_REPLICATED").is_some() {
        config.durability = datad::Durability::Replicated;
    }
    let node = runtime.block_on(datad::start(config)).unwrap();
    node.hear_token_rules(&wire::node::TokenRules::default());
    println!("addr {}", node.xfer_addr());
    std::io::stdout().flush().unwrap();
    let _until_the_parent_ends = std::io::stdin().read(&mut [0; 1]);
}

fn report(what: &str, nodes: &[Process], before: &[f64], len: usize, seconds: std::time::Duration) {
    let gb = len as f64 / 1e9;
    let cpu: Vec<String> =
        nodes.iter().zip(before).map(|(node, before)| format!("{:.3}", (node.cpu() - before) / gb)).collect();
    let rate = gb / seconds.as_secs_f64();
    println!("{what}: {rate:.2} GB/s, CPU s/GB of each node: {}", cpu.join(" "));
}

#[test]
#[ignore = "measures; see above"]
fn speed() {
    let clock = io::SystemClock::new();
    let now = || io::Clock::monotonic(&clock);
    let dir = tempfile::tempdir_in(std::env::var("DATAD_SPEED_AT").unwrap_or_else(|_| "/tmp".into())).unwrap();
    let nodes: Vec<Process> = (0..3).map(|number| Process::start(&dir.path().join(number.to_string()))).collect();
    let data = pattern(1, PACKET_LEN * 16);
    let mut packets = Vec::new();
    let mut spec_sums = Vec::new();
    crate::support::SPEC.compute(&data, &mut spec_sums);
    for round in 0..3u64 {
        for count in [1, 3] {
            let before: Vec<f64> = nodes.iter().map(Process::cpu).collect();
            let start = now();
            let block = 10 * (round + 1) + count as u64;
            let targets = nodes[1..count].iter().map(|node| info(node.addr)).collect();
            let mut chain = chain(Connection::to(nodes[0].addr), targets, &Ask::create(block)).unwrap();
            let mut sent = 0;
            let mut seqno = 0;
            while sent < BLOCK_LEN {
                packets.clear();
                for (place, piece) in data.chunks(PACKET_LEN).enumerate() {
                    let header = wire::PacketHeader {
                        offset: (sent + place * PACKET_LEN) as i64,
                        seqno: seqno + place as i64,
                        data_len: piece.len() as i32,
                        ..Default::default()
                    };
                    header.put(504, &mut packets);
                    packets.extend_from_slice(&spec_sums[place * 504..(place + 1) * 504]);
                    packets.extend_from_slice(piece);
                }
                chain.connection.socket.write_all(&packets).unwrap();
                if seqno >= 64 {
                    (seqno - 64..seqno - 48).for_each(|seqno| chain.acked(seqno));
                }
                sent += data.len();
                seqno += 16;
            }
            ((seqno - 64).max(0)..seqno).for_each(|seqno| chain.acked(seqno));
            (chain.seqno, chain.offset) = (seqno, sent as u64);
            chain.finish();
            report(&format!("write through {count}"), &nodes, &before, sent, now() - start);
            let before: Vec<f64> = nodes.iter().map(Process::cpu).collect();
            let start = now();
            let mut connection = Connection::to(nodes[0].addr);
            connection.send_read(block, 0, sent as u64);
            let _answer = connection.answer();
            let mut left = sent;
            let mut sink = vec![0; 1 << 20];
            while left > 0 {
                left = left.saturating_sub(connection.socket.read(&mut sink).unwrap());
            }
            report("read", &nodes[..1], &before, sent, now() - start);
        }
    }
    let before = nodes[0].cpu();
    let start = now();
    let mut connection = Connection::to(nodes[0].addr);
    for at in 0..5000u64 {
        let offset = at * 7919 * 512 % (BLOCK_LEN as u64 - 5000);
        assert_eq!(connection.read(11, offset, 4096).unwrap().len(), 4096);
    }
    let each = (now() - start).as_secs_f64() * 1e6 / 5000.0;
    println!("small reads: {each:.0} us each, {:.0} us of CPU", (nodes[0].cpu() - before) * 1e6 / 5000.0);
    println!("peak memory of each node: {:?} MB", nodes.iter().map(Process::memory_mb).collect::<Vec<_>>());
}
