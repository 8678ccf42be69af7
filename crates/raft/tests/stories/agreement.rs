//! A member whose rows are not those of its group is found out and serves nothing, whichever it is.

use crate::support::list::List;
use crate::support::net::{Group, POLL, POLL_COUNT, TIMING};
use raft::{Raft, RaftError, Standing};
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Between two comparisons.
const ROUND: Duration = Duration::from_millis(10 * TIMING.heartbeat_ms);
/// As long as it may take: some comparisons, on a busy machine.
const STOP_WAIT: Duration = Duration::from_secs(30);

async fn stops(member: &Raft<List>) -> String {
    let fault = tokio::time::timeout(STOP_WAIT, member.failed()).await.expect("it stops");
    assert!(fault.must_rejoin, "{fault}");
    fault.reason
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
    assert!(reason.contains("digest") && reason.contains("add it under a new id"), "{reason}");
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

/// Waits for one that leads, whether it confirms that or not.
async fn leading(group: &Group) -> Raft<List> {
    for _ in 0..POLL_COUNT {
        let leads = |(_, raft): &(u64, Raft<List>)| matches!(*raft.standing().borrow(), Standing::Leading { .. });
        if let Some((_, raft)) = group.members().into_iter().find(leads) {
            return raft;
        }
        tokio::time::sleep(POLL).await;
    }
    panic!("nobody leads");
}

/// Waits until the leader refuses to decide anything.
async fn doubts(group: &Group) -> Raft<List> {
    for _ in 0..POLL_COUNT {
        let leader = leading(group).await;
        if let Err(RaftError::Doubt { reason }) = leader.confirm().await {
            assert!(reason.contains("no majority") && reason.contains("Start the members"), "{reason}");
            assert!(matches!(leader.propose((99, String::new())).await, Err(RaftError::Doubt { .. })));
            return leader;
        }
        tokio::time::sleep(POLL).await;
    }
    panic!("it confirms");
}

/// Three, of which one is down and one of the others goes wrong, in this order.
async fn doubtful(group: &mut Group) -> (u64, u64) {
    let (leader, _) = group.leader().await;
    let others: Vec<u64> = (1..=3).filter(|id| *id != leader).collect();
    group.crash(others[0]);
    spoil(group, leader);
    group.propose(2).await;
    doubts(group).await;
    (others[0], leader)
}

/// Of two that differ nobody knows who is right: nothing is decided, and after a restart neither.
#[tokio::test]
async fn two_that_differ_decide_nothing() {
    let mut group = Group::of(2).await;
    group.propose(1).await;
    let (leader, _) = group.leader().await;
    spoil(&group, leader);
    group.propose(2).await;
    doubts(&group).await;
    // The other one learns of it with the next comparison.
    tokio::time::sleep(3 * ROUND).await;
    for id in [1, 2] {
        // What went wrong is on disk from here on.
        group.stop(id).await;
        group.start(id).await;
    }
    let again = leading(&group).await;
    assert!(matches!(again.confirm().await, Err(RaftError::Doubt { .. })), "at once");
    tokio::time::sleep(4 * ROUND).await;
    doubts(&group).await;
    assert_eq!(again.agreed(), None);
}

/// The third comes back and applies the log: it is seen who is wrong, and the others go on.
#[tokio::test]
async fn a_third_member_decides() {
    let mut group = Group::of(3).await;
    group.propose(1).await;
    group.settle(&[1]).await;
    let (away, wrong) = doubtful(&mut group).await;
    let raft = group.member(wrong);
    group.start(away).await;
    stops(&raft).await;
    drop(raft);
    group.crash(wrong);
    assert!(matches!(group.try_start(wrong).await, Err(RaftError::Diverged { .. })));
    group.propose(3).await;
    group.settle(&[1, 2, 3]).await;
}

/// It needs a copy, as the log is cut: none is sent of rows that may be wrong.
#[tokio::test]
async fn no_copy_is_sent_while_nobody_knows_who_is_right() {
    let mut group = Group::of(3).await;
    group.propose(1).await;
    group.settle(&[1]).await;
    let (leader, raft) = group.leader().await;
    let away = (1..=3).find(|id| *id != leader).unwrap();
    group.crash(away);
    for number in 2..60 {
        raft.propose((number, "x".repeat(1_000))).await.unwrap();
    }
    for _ in 0..POLL_COUNT {
        if raft.first_kept() > 20 {
            break;
        }
        tokio::time::sleep(POLL).await;
    }
    spoil(&group, leader);
    raft.propose((60, String::new())).await.unwrap();
    drop(raft);
    doubts(&group).await;
    let before = group.chunk_count();
    group.start(away).await;
    tokio::time::sleep(6 * ROUND).await;
    let found = (group.chunk_count() - before, group.lists[&away].numbers());
    assert!(found.0 == 0 && found.1.len() <= 1, "{found:?}");
    doubts(&group).await;
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
