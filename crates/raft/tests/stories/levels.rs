//! A group whose members run two versions of the program: no form is written that one of them does not know.

use crate::support::list::{List, NEWER, RAISES};
use crate::support::net::{Group, POLL, POLL_COUNT};
use raft::{Raft, RaftError};
use std::sync::atomic::Ordering;

/// These members run the newer program.
fn upgrade(group: &Group, ids: &[u64]) {
    for id in ids {
        group.lists[id].level_max.store(2, Ordering::Relaxed);
    }
}

async fn finds_common(leader: &Raft<List>, level: Option<u8>) {
    for _ in 0..POLL_COUNT {
        if leader.common_level() == level {
            return;
        }
        tokio::time::sleep(POLL).await;
    }
    panic!("{:?} instead of {level:?}", leader.common_level());
}

async fn refuses(leader: &Raft<List>) {
    let refused = leader.propose((NEWER, String::new())).await;
    assert!(matches!(refused, Err(RaftError::Level { needed: 2, level: 1 })), "{refused:?}");
}

#[tokio::test]
async fn a_newer_form_waits_until_all_members_know_it() {
    let mut group = Group::of(3).await;
    group.propose(1).await;
    let (id, leader) = group.leader().await;
    let others: Vec<u64> = (1..=3).filter(|other| *other != id).collect();
    upgrade(&group, &[id, others[0]]);
    finds_common(&leader, Some(1)).await;
    refuses(&leader).await;
    // One that is away may come back as it was.
    group.crash(others[1]);
    finds_common(&leader, None).await;
    group.start(others[1]).await;
    upgrade(&group, &others);
    finds_common(&leader, Some(2)).await;
    // Known to all is not yet agreed on.
    refuses(&leader).await;
    group.propose(RAISES).await;
    group.propose(NEWER).await;
    group.settle(&[1, RAISES, NEWER]).await;
}

/// A member of the older program, started when the group writes newer forms, applies none of them.
#[tokio::test]
async fn an_older_program_stops_at_a_newer_form() {
    let mut group = Group::of(3).await;
    group.propose(1).await;
    upgrade(&group, &[1, 2, 3]);
    let (leader, _) = group.leader().await;
    let mut others = (1..=3).filter(|id| *id != leader);
    let (behind, level) = (others.next().unwrap(), others.next().unwrap());
    group.stop(behind).await;
    group.propose(RAISES).await;
    group.propose(NEWER).await;

    // One has the entries before it in its log.
    group.start(behind).await;
    let reason = tokio::time::timeout(POLL * POLL_COUNT as u32, group.member(behind).failed()).await.unwrap().reason;
    assert!(reason.contains("of level 2, and this program knows levels up to 1"), "{reason}");
    assert!(!group.lists[&behind].numbers().contains(&NEWER));

    // The other has all of it in its state.
    while !group.lists[&level].numbers().contains(&NEWER) {
        tokio::time::sleep(POLL).await;
    }
    group.stop(level).await;
    let refused = group.try_start(level).await.unwrap_err().to_string();
    assert!(refused.contains("the state is of level 2, and this program knows levels up to 1"), "{refused}");
}
