//! A member whose rows are not those of its group is found out and serves nothing, whichever it is.

mod support;

use raft::{Raft, RaftError};
use std::sync::atomic::Ordering;
use std::time::Duration;
use support::list::List;
use support::net::{Group, POLL, POLL_COUNT};

/// As long as it may take: some comparisons, on a busy machine.
const STOP_WAIT: Duration = Duration::from_secs(30);

async fn stops(member: &Raft<List>) -> String {
    tokio::time::timeout(STOP_WAIT, member.failed()).await.expect("it stops")
}

/// From here on what this member applies goes wrong.
fn spoil(group: &Group, id: u64) {
    group.lists[&id].is_wrong.store(true, Ordering::Relaxed);
}

async fn agrees_on(leader: &Raft<List>, index: u64) {
    for _ in 0..POLL_COUNT {
        if leader.agreed() >= Some(index) {
            return;
        }
        tokio::time::sleep(POLL).await;
    }
    panic!("{:?} instead of {index}", leader.agreed());
}

/// A standby differs: it stops and is refused from then on, also after a restart; the others go on.
#[tokio::test]
async fn a_standby_that_differs_serves_nothing() {
    let mut group = Group::of(3).await;
    group.propose(1).await;
    let (leader, _) = group.leader().await;
    let wrong = (1..=3).find(|id| *id != leader).unwrap();
    spoil(&group, wrong);
    group.propose(2).await;
    let reason = stops(&group.member(wrong)).await;
    assert!(reason.contains("digest") && reason.contains("meta remove"), "{reason}");
    group.propose(3).await;
    group.crash(wrong);
    let Err(RaftError::Diverged { reason, .. }) = group.try_start(wrong).await else { panic!("it may start") };
    assert!(reason.contains("digest"), "{reason}");
    group.propose(4).await;
    group.settle(&[1, 2, 3, 4]).await;
}

/// The leader differs: it stops, and another one leads.
#[tokio::test]
async fn a_leader_that_differs_serves_nothing() {
    let group = Group::of(3).await;
    group.propose(1).await;
    let (wrong, raft) = group.leader().await;
    spoil(&group, wrong);
    group.propose(2).await;
    stops(&raft).await;
    assert!(raft.confirm().await.is_err());
    let others: Vec<u64> = (1..=3).filter(|id| *id != wrong).collect();
    let (_, next) = group.leader_of(&others).await;
    next.propose((3, String::new())).await.unwrap();
    assert_eq!(group.lists[&others[0]].numbers()[..2], [1, 2]);
}

/// Of two nobody knows who is right. Neither decides anything by rows that may be wrong; both may start again.
#[tokio::test]
async fn two_that_differ_serve_nothing() {
    let mut group = Group::of(2).await;
    group.propose(1).await;
    let (leader, raft) = group.leader().await;
    spoil(&group, leader);
    group.propose(2).await;
    let reason = stops(&raft).await;
    assert!(reason.contains("no majority"), "{reason}");
    drop(raft);
    group.crash(leader);
    group.start(leader).await;
}

/// A member that was away, and one that got a copy of the state, are compared like any other.
#[tokio::test]
async fn a_copy_of_the_state_agrees() {
    let mut group = Group::of(3).await;
    group.propose(0).await;
    group.settle(&[0]).await;
    group.crash(3);
    for number in 1..60 {
        group.propose_with(number, "x".repeat(1_000)).await;
    }
    for _ in 0..POLL_COUNT {
        let (_, leader) = group.leader().await;
        if leader.first_kept() > 20 {
            break;
        }
        tokio::time::sleep(POLL).await;
    }
    group.start(3).await;
    group.propose(60).await;
    group.settle(&(0..=60).collect::<Vec<_>>()).await;
    assert!(group.chunk_count() > 0, "it got a copy");
    let (_, leader) = group.leader().await;
    agrees_on(&leader, leader.group().last).await;
}
