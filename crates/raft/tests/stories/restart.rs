//! A member that is stopped finds everything it acknowledged, once; one that cannot go on says why. One that is killed
//! is in `killed.rs`.

use crate::support::list::{FAILS, List, PANICS};
use raft::{Options, Raft, RaftError};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

fn options(dir: &Path) -> Options {
    Options { dir: dir.join("log"), node_id: 1, group: None }
}

async fn start(dir: &Path) -> (Raft<List>, Arc<List>) {
    let list = List::open(dir);
    (Raft::start(options(dir), Arc::clone(&list)).await.unwrap(), list)
}

async fn refusal(dir: &Path) -> RaftError {
    Raft::start(options(dir), List::open(dir)).await.map(drop).unwrap_err()
}

fn plain(number: u64) -> (u64, String) {
    (number, String::new())
}

#[tokio::test]
async fn what_was_proposed_is_there_after_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    for round in 0..4u64 {
        let (raft, list) = start(dir.path()).await;
        assert_eq!(list.numbers(), (0..round * 3).collect::<Vec<_>>());
        for number in 0..3 {
            assert_eq!(raft.propose(plain(round * 3 + number)).await.unwrap() as u64, round * 3 + number + 1);
        }
        assert!(raft.is_leader());
        raft.shutdown().await.unwrap();
        assert!(matches!(raft.propose(plain(0)).await.unwrap_err(), RaftError::Stopped { .. }));
    }
}

/// Nothing was flushed and nobody said goodbye: the log has it all.
#[tokio::test]
async fn a_member_that_is_dropped_lets_go_and_its_log_is_applied_again() {
    let dir = tempfile::tempdir().unwrap();
    let (raft, _) = start(dir.path()).await;
    assert!(matches!(refusal(dir.path()).await, RaftError::InUse { .. }));
    for number in 0..10 {
        raft.propose(plain(number)).await.unwrap();
    }
    drop(raft);
    let (_raft, list) = loop {
        // It ends in the background.
        let list = List::open(dir.path());
        match Raft::start(options(dir.path()), Arc::clone(&list)).await {
            Ok(raft) => break (raft, list),
            Err(RaftError::InUse { .. }) => tokio::time::sleep(Duration::from_millis(5)).await,
            Err(other) => panic!("{other}"),
        }
    };
    assert_eq!(list.numbers(), (0..10).collect::<Vec<_>>());
}

/// An error or a panic: no later command is applied, everyone is told why, and a new start tries again, and says the
/// same.
#[tokio::test]
async fn a_command_that_cannot_be_applied_stops_the_node() {
    for (bad, why) in [(FAILS, "told to fail"), (PANICS, "told to panic")] {
        let dir = tempfile::tempdir().unwrap();
        let (raft, list) = start(dir.path()).await;
        raft.propose(plain(1)).await.unwrap();
        for number in [bad, 2] {
            let error = raft.propose(plain(number)).await.unwrap_err().to_string();
            assert!(error.contains("stopped") && error.contains(why), "{error}");
        }
        assert!(raft.failed().await.reason.contains(why));
        assert!(!raft.is_leader());
        assert_eq!(list.numbers(), [1]);
        raft.shutdown().await.unwrap();
        let error = refusal(dir.path()).await.to_string();
        assert!(error.contains(why), "{error}");
    }
}

#[tokio::test]
async fn a_state_that_cannot_be_kept_stops_the_node() {
    let dir = tempfile::tempdir().unwrap();
    let (raft, list) = start(dir.path()).await;
    list.flush_fails.store(true, Ordering::Relaxed);
    raft.propose(plain(1)).await.unwrap();
    assert!(raft.failed().await.reason.contains("the disk is full"));
    let error = raft.propose(plain(2)).await.unwrap_err().to_string();
    assert!(error.contains("the disk is full"), "{error}");
    raft.shutdown().await.unwrap();
    // Once there is room, all that was acknowledged is there.
    assert_eq!(start(dir.path()).await.1.numbers(), [1]);
}

/// Somebody restored one of the two from an older copy, or lost it.
#[tokio::test]
async fn a_store_and_a_log_of_different_times_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    for round in 0..2 {
        let (raft, _) = start(dir.path()).await;
        raft.propose(plain(round)).await.unwrap();
        raft.shutdown().await.unwrap();
        std::fs::copy(dir.path().join("list"), dir.path().join(format!("list.{round}"))).unwrap();
    }
    // The log was cut behind the second state, so the first, or none, lacks what is gone.
    let (raft, list) = start(dir.path()).await;
    let kept = raft.first_kept();
    raft.propose(plain(2)).await.unwrap();
    let flushed = |path: &Path| std::fs::read(path).unwrap().ends_with(&2u64.to_be_bytes());
    while !flushed(&list.path) {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    while raft.first_kept() <= kept {
        tokio::time::sleep(Duration::from_millis(20)).await; // the log is cut a moment later
    }
    raft.shutdown().await.unwrap();
    let latest = std::fs::read(dir.path().join("list")).unwrap();
    std::fs::copy(dir.path().join("list.0"), dir.path().join("list")).unwrap();
    assert!(matches!(refusal(dir.path()).await, RaftError::Mismatch { .. }));
    std::fs::remove_file(dir.path().join("list")).unwrap();
    assert!(matches!(refusal(dir.path()).await, RaftError::Mismatch { .. }));
    std::fs::write(dir.path().join("list"), latest).unwrap();
    std::fs::rename(dir.path().join("log"), dir.path().join("away")).unwrap();
    assert!(matches!(refusal(dir.path()).await, RaftError::Mismatch { .. }));
    std::fs::remove_dir_all(dir.path().join("log")).unwrap();
    std::fs::rename(dir.path().join("away"), dir.path().join("log")).unwrap();
    assert_eq!(start(dir.path()).await.1.numbers(), [0, 1, 2]);
}

#[tokio::test]
async fn a_command_beyond_the_limit_is_refused_and_harms_nobody() {
    let dir = tempfile::tempdir().unwrap();
    let (raft, list) = start(dir.path()).await;
    let error = raft.propose((1, "x".repeat(raft::COMMAND_LEN_MAX))).await.unwrap_err();
    assert!(matches!(error, RaftError::TooLong { .. }), "{error}");
    raft.propose((2, "x".repeat(raft::COMMAND_LEN_MAX - 20))).await.unwrap();
    raft.propose(plain(3)).await.unwrap();
    raft.shutdown().await.unwrap();
    drop(raft);
    assert_eq!(list.numbers(), [2, 3]);
    assert_eq!(start(dir.path()).await.1.numbers(), [2, 3]);
}

/// 100 MB of commands leave one or two segments behind, once the machine has flushed.
#[tokio::test]
async fn the_log_stays_bounded() {
    let dir = tempfile::tempdir().unwrap();
    let (raft, list) = start(dir.path()).await;
    for number in 0..100 {
        raft.propose((number, "x".repeat(raft::COMMAND_LEN_MAX - 20))).await.unwrap();
    }
    let segment_count = || {
        let files = std::fs::read_dir(dir.path().join("log")).unwrap();
        files.filter(|file| file.as_ref().unwrap().path().extension().is_some_and(|name| name == "log")).count()
    };
    while segment_count() > 2 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    raft.propose(plain(100)).await.unwrap();
    raft.shutdown().await.unwrap();
    assert_eq!(start(dir.path()).await.1.numbers(), list.numbers());
}

/// A member was killed, and may not be able to start: what it had acknowledged is taken from its log, which stays as it
/// was.
#[tokio::test]
async fn the_log_of_a_member_that_does_not_run_is_applied_elsewhere() {
    let (dir, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (raft, _) = start(dir.path()).await;
    for number in 0..10 {
        raft.propose(plain(number)).await.unwrap();
    }
    let log = raft::Directory::new(&dir.path().join("log"));
    let replay = || {
        let list = List::open(elsewhere.path());
        raft::replay(&log, &*list).map(|_| list.numbers())
    };
    assert_eq!(replay().unwrap_err().kind(), std::io::ErrorKind::WouldBlock, "it runs");
    drop(raft);
    let numbers = loop {
        // It ends in the background.
        match replay() {
            Ok(numbers) => break numbers,
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            Err(other) => panic!("{other}"),
        }
    };
    assert_eq!(numbers, (0..10).collect::<Vec<_>>());
    let (raft, list) = start(dir.path()).await;
    assert_eq!(list.numbers(), (0..10).collect::<Vec<_>>());
    raft.propose(plain(10)).await.unwrap();
    raft.shutdown().await.unwrap();
    let list = List::open(dir.path());
    let before = list.numbers().len();
    raft::replay(&log, &*list).unwrap();
    assert_eq!((before, list.numbers().len()), (11, 11), "what the rows have is not applied again");
}
