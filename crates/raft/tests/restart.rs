//! A member that is stopped or killed finds everything it acknowledged.

use raft::{Machine, MachineError, Options, Raft};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};

/// A list of numbers in a file that is replaced as a whole at each flush.
struct List {
    path: std::path::PathBuf,
    state: Mutex<(Option<Vec<u8>>, Vec<u64>)>,
    restored: Option<Vec<u8>>,
}

impl List {
    fn open(dir: &Path) -> Arc<Self> {
        let path = dir.join("list");
        let (position, list) = match std::fs::read(&path) {
            Ok(bytes) => {
                let len = bytes[0] as usize;
                let numbers = bytes[1 + len..].chunks(8).map(|number| u64::from_be_bytes(number.try_into().unwrap()));
                (Some(bytes[1..1 + len].to_vec()), numbers.collect())
            }
            Err(_) => (None, Vec::new()),
        };
        Arc::new(Self { path, restored: position.clone(), state: Mutex::new((position, list)) })
    }

    fn numbers(&self) -> Vec<u64> {
        self.state.lock().unwrap().1.clone()
    }
}

impl Machine for List {
    type Command = u64;
    type Reply = usize;

    fn position(&self) -> Option<Vec<u8>> {
        self.restored.clone()
    }

    fn apply(&self, position: &[u8], command: Option<u64>) -> Result<usize, MachineError> {
        if command == Some(u64::MAX) {
            return Err(MachineError("told to fail".into()));
        }
        let mut state = self.state.lock().unwrap();
        state.0 = Some(position.to_vec());
        state.1.extend(command);
        Ok(state.1.len())
    }

    fn flush(&self) -> Result<(), MachineError> {
        let state = self.state.lock().unwrap().clone();
        let position = state.0.unwrap_or_default();
        let mut bytes = vec![position.len() as u8];
        bytes.extend_from_slice(&position);
        state.1.iter().for_each(|number| bytes.extend_from_slice(&number.to_be_bytes()));
        std::fs::write(self.path.with_extension("new"), bytes).unwrap();
        std::fs::rename(self.path.with_extension("new"), &self.path).unwrap();
        Ok(())
    }
}

async fn start(dir: &Path) -> (Raft<List>, Arc<List>) {
    let list = List::open(dir);
    let options = Options { dir: dir.join("log"), node_id: 1 };
    (Raft::start(options, Arc::clone(&list)).await.unwrap(), list)
}

#[tokio::test]
async fn what_was_proposed_is_there_after_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    for round in 0..4u64 {
        let (raft, list) = start(dir.path()).await;
        assert_eq!(list.numbers(), (0..round * 3).collect::<Vec<_>>());
        for number in 0..3 {
            assert_eq!(raft.propose(round * 3 + number).await.unwrap() as u64, round * 3 + number + 1);
        }
        assert!(raft.is_leader());
        raft.shutdown().await.unwrap();
    }
}

#[tokio::test]
async fn a_command_that_cannot_be_applied_stops_the_node() {
    let dir = tempfile::tempdir().unwrap();
    let (raft, _) = start(dir.path()).await;
    raft.propose(1).await.unwrap();
    raft.propose(u64::MAX).await.unwrap_err();
    let error = raft.propose(2).await.unwrap_err();
    assert!(error.to_string().contains("stopped"), "{error}");
}

/// Not a test by itself: what the child runs until it is killed.
#[tokio::test]
async fn child() {
    let Ok(dir) = std::env::var("LEVADA_RAFT_CRASH_DIR") else { return };
    let (raft, list) = start(dir.as_ref()).await;
    let first = list.numbers().len() as u64;
    println!("found {first}");
    for number in first.. {
        raft.propose(number).await.unwrap();
        println!("acked {number}");
    }
}

#[test]
fn what_was_acknowledged_survives_a_kill() {
    let dir = tempfile::tempdir().unwrap();
    let mut acked = 0;
    // The last round is long enough for the regular flush, so that the log is cut meanwhile.
    for (round, count) in [20, 200, 50, 4000].into_iter().enumerate() {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["child", "--exact", "--nocapture"])
            .env("LEVADA_RAFT_CRASH_DIR", dir.path())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
        let found = lines.find_map(|line| Some(line.split("found ").nth(1)?.parse::<u64>().unwrap())).unwrap();
        assert!(found >= acked, "round {round}: found {found} of {acked} acknowledged");
        let mut numbers = lines.filter_map(|line| Some(line.strip_prefix("acked ")?.parse::<u64>().unwrap()));
        acked = numbers.nth(count - 1).unwrap() + 1;
        child.kill().unwrap();
        child.wait().unwrap();
        acked = numbers.last().map_or(acked, |number| number + 1);
    }
}
