//! What a proposal costs: `cargo run --release -p raft --example propose -- DIR`.
//!
//! Each number of proposers, each with one proposal under way, works for two seconds. Every proposal is in the log on
//! disk and applied to a machine over `kv` before it is answered. The start at the end finds what the last flush left.

use io::Clock;
use raft::{Machine, MachineError, Options, Raft};
use std::sync::Arc;
use std::time::Duration;
use types::rows::{Rows, RowsMut, Table};

const POSITION: Table = Table(32);
const SECONDS: Duration = Duration::from_secs(2);

/// Puts what it is told into a row.
struct Rowed(kv::Store);

impl Machine for Rowed {
    type Command = (Vec<u8>, Vec<u8>);
    type Reply = ();

    fn position(&self) -> Option<Vec<u8>> {
        self.0.view().get(POSITION, &[]).unwrap()
    }

    fn apply(&self, position: &[u8], command: Option<Self::Command>) -> Result<(), MachineError> {
        let mut change = self.0.change();
        change.put(POSITION, &[], position.to_vec());
        if let Some((key, value)) = command {
            change.put(Table(1), &key, value);
        }
        change.commit();
        Ok(())
    }

    fn flush(&self) -> Result<(), MachineError> {
        self.0.flush().map_err(MachineError::new)
    }
}

#[tokio::main]
async fn main() {
    let clock = io::SystemClock::new();
    let dir = std::path::PathBuf::from(std::env::args().nth(1).expect("a directory on the disk to measure"));
    let start = async || {
        let begun = clock.monotonic();
        let machine = Arc::new(Rowed(kv::Store::open(&dir.join("store"), kv::Options::default()).unwrap()));
        let raft = Raft::start(Options { dir: dir.join("log"), node_id: 1, group: None }, machine).await.unwrap();
        println!("leads {:.1} ms after the start", (clock.monotonic() - begun).as_secs_f64() * 1e3);
        raft
    };
    let raft = start().await;
    println!("proposers    proposals/s    p50 µs    p99 µs    CPU µs each");
    for proposer_count in [1, 8, 64, 512] {
        let (begun, cpu) = (clock.monotonic(), cpu());
        let proposers: Vec<_> = (0..proposer_count)
            .map(|number| io::task::spawn("proposer", propose(raft.clone(), clock, number)))
            .collect();
        let mut taken = Vec::new();
        for proposer in proposers {
            taken.extend(proposer.await.unwrap());
        }
        let (count, seconds) = (taken.len(), (clock.monotonic() - begun).as_secs_f64());
        taken.sort_unstable();
        let micros = |part: f64| taken[((count - 1) as f64 * part) as usize].as_secs_f64() * 1e6;
        let each = (self::cpu() - cpu).as_secs_f64() * 1e6 / count as f64;
        println!(
            "{proposer_count:9} {:14.0} {:9.0} {:9.0} {each:14.1}",
            count as f64 / seconds,
            micros(0.5),
            micros(0.99)
        );
    }
    let cpu_before = cpu();
    tokio::time::sleep(Duration::from_secs(3)).await; // the first second flushes what is left
    let settled = cpu();
    tokio::time::sleep(Duration::from_secs(5)).await;
    println!(
        "CPU at rest: {:.2} % ({:.1} ms to settle)",
        (cpu() - settled).as_secs_f64() / 5.0 * 100.0,
        (settled - cpu_before).as_secs_f64() * 1e3
    );
    raft.shutdown().await.unwrap();
    drop(raft);
    start().await.shutdown().await.unwrap();
}

async fn propose(raft: Raft<Rowed>, clock: io::SystemClock, number: u64) -> Vec<Duration> {
    let (mut taken, begun) = (Vec::new(), clock.monotonic());
    for round in 0u64.. {
        let asked = clock.monotonic();
        if asked - begun > SECONDS {
            break;
        }
        let key = [number.to_be_bytes(), round.to_be_bytes()].concat();
        raft.propose((key, vec![7; 150])).await.unwrap();
        taken.push(clock.monotonic() - asked);
    }
    taken
}

/// Processor time of this process so far.
fn cpu() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}
