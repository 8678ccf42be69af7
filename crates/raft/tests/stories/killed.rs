//! A member that is killed finds everything it acknowledged, once. A program of its own: who is born has copies of all
//! that its parent has open, locks too, until it runs its program, and stories beside it would find them taken.

use crate::support::list::List;
use raft::{Options, Raft};
use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

async fn start(dir: &Path) -> (Raft<List>, Arc<List>) {
    let list = List::open(dir);
    let options = Options { dir: dir.join("log"), node_id: 1, group: None };
    (Raft::start(options, Arc::clone(&list)).await.unwrap(), list)
}

const PROPOSER_COUNT: u64 = 8;

/// Not a test by itself: what the child runs until it is killed. Each proposer has its own numbers.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn child() {
    let Ok(dir) = std::env::var("LEVADA_RAFT_CRASH_DIR") else { return };
    let (raft, list) = start(dir.as_ref()).await;
    let first = list.numbers().iter().map(|number| number / PROPOSER_COUNT + 1).max().unwrap_or(0);
    let proposers: Vec<_> = (0..PROPOSER_COUNT)
        .map(|proposer| {
            let raft = raft.clone();
            io::task::spawn("proposer", async move {
                for round in first.. {
                    let number = round * PROPOSER_COUNT + proposer;
                    raft.propose((number, "x".repeat(2000))).await.unwrap();
                    println!("acked {number}");
                }
            })
        })
        .collect();
    for proposer in proposers {
        proposer.await.unwrap();
    }
}

/// SIGKILL at any moment, with flushes, cuts of the log and changes of segments under way: what a proposer was told is
/// there, and nothing is there twice.
#[tokio::test]
async fn what_was_acknowledged_survives_a_kill() {
    let dir = tempfile::tempdir().unwrap();
    let mut acked = BTreeSet::new();
    // The last rounds are long enough for regular flushes and new segments.
    for (round, count) in [1, 40, 300, 3000, 50, 3000].into_iter().enumerate() {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["killed::child", "--exact", "--nocapture"])
            .env("LEVADA_RAFT_CRASH_DIR", dir.path())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
        // The harness's own words may stand before the first.
        let mut numbers = lines.filter_map(|line| line.split("acked ").nth(1)?.parse::<u64>().ok());
        acked.extend(numbers.by_ref().take(count));
        child.kill().unwrap();
        child.wait().unwrap();
        acked.extend(numbers);

        let (raft, list) = start(dir.path()).await;
        let found = list.numbers();
        let set: BTreeSet<u64> = found.iter().copied().collect();
        assert_eq!(set.len(), found.len(), "round {round}: some were applied twice");
        let lost: Vec<_> = acked.difference(&set).collect();
        assert!(lost.is_empty(), "round {round}: {lost:?} of {} acknowledged are lost", acked.len());
        assert!(set.len() - acked.len() <= (round + 1) * PROPOSER_COUNT as usize);
        raft.shutdown().await.unwrap();
    }
}
