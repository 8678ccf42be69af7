//! What a stranger says to a member that waits to join, before it is added.

use crate::support::net::{Group, POLL, POLL_COUNT, peer};
use std::time::Duration;
use types::encoding::{Encoded, decode, encode};

const STRANGER: u64 = 9;
/// Of messages, and their numbers and those of answers; see `message.rs`.
const VERSION: u8 = 5;
const APPEND: u32 = 0;
const ARE_YOU_NEW: u32 = 5;
const REFUSED: u8 = 9;

/// A message of a stranger.
fn message_to(member: u64, incarnation: u64, kind: u32, fields: &impl Encoded) -> Vec<u8> {
    let fields = encode(fields, Vec::new());
    let request = encode(&((member, incarnation, STRANGER), (kind, fields)), Vec::new());
    encode(&request, vec![VERSION])
}

/// Sends one. The answer begins with its number.
async fn tell(group: &Group, incarnation: u64, kind: u32, fields: &impl Encoded) -> Vec<u8> {
    group.member(4).handle(&message_to(4, incarnation, kind, fields), None).await.split_off(1)
}

/// A group of three, and a fourth that waits, to which somebody who is no member sends a heartbeat of `term`.
async fn waiting_told(term: u64) -> (Group, Vec<u8>) {
    let mut group = Group::of(3).await;
    group.propose(1).await;
    group.start(4).await;
    let new = tell(&group, 0, ARE_YOU_NEW, &[0_u8; 0]).await;
    let (_, fields): (u32, Vec<u8>) = decode(&new).unwrap();
    let incarnation = decode(&fields).unwrap();
    let (none, entry_count) = (None::<(u64, u64)>, 0_u32);
    let fields = ((term, STRANGER, true), none, (none, entry_count));
    let answer = tell(&group, incarnation, APPEND, &fields).await;
    (group, answer)
}

/// The group goes on electing and writing.
async fn works(group: &mut Group, want: &[u64]) {
    let (leader, _) = group.leader_of(&[1, 2, 3]).await;
    group.crash(leader);
    group.propose(2).await;
    group.start(leader).await;
    group.settle(want).await;
}

/// A member that took it over would hand it on to the others, and there is no later term to elect anybody in.
#[tokio::test]
async fn the_last_term_is_no_term() {
    let (mut group, answer) = waiting_told(u64::MAX).await;
    assert_eq!(answer[0], REFUSED, "{}", String::from_utf8_lossy(&answer));
    let (_, leader) = group.leader_of(&[1, 2, 3]).await;
    leader.add_member(peer(4)).await.unwrap();
    drop(leader);
    works(&mut group, &[1, 2]).await;
}

#[tokio::test]
async fn one_that_a_stranger_gave_a_vote_is_not_added() {
    let (mut group, answer) = waiting_told(1_000).await;
    assert_ne!(answer[0], REFUSED, "{}", String::from_utf8_lossy(&answer));
    let (_, leader) = group.leader_of(&[1, 2, 3]).await;
    let refused = leader.add_member(peer(4)).await.unwrap_err().to_string();
    assert!(refused.contains("its log is not empty"), "{refused}");
    assert!(leader.group().term < 1_000);
    drop(leader);
    group.crash(4);
    works(&mut group, &[1, 2]).await;
    // Emptied, it is welcome.
    std::fs::remove_dir_all(group.dir_of(4)).unwrap();
    group.start(4).await;
    group.leader().await.1.add_member(peer(4)).await.unwrap();
    for _ in 0..POLL_COUNT {
        if group.lists[&4].numbers() == [1, 2] {
            return;
        }
        tokio::time::sleep(POLL.max(Duration::from_millis(10))).await;
    }
    panic!("the new one gets nothing");
}

/// One that is alone and listed alone: somebody says that a group knows it with other data.
#[tokio::test]
async fn a_strangers_word_ends_a_sole_member_only_where_it_may() {
    let group = Group::of(1).await;
    group.propose(1).await;
    let raft = group.member(1);
    let (none, entry_count) = (None::<(u64, u64)>, 0_u32);
    let message = message_to(1, 77, APPEND, &((3_u64, STRANGER, true), none, (none, entry_count)));
    for _ in 0..3 {
        raft.overhear(&message, false).await;
    }
    group.propose(2).await;
    raft.overhear(&message, true).await;
    let fault = tokio::time::timeout(Duration::from_secs(20), raft.failed()).await.expect("it ends");
    assert!(fault.must_rejoin, "{fault}");
}

/// The transport knows who sent it.
#[tokio::test]
async fn nobody_speaks_in_the_name_of_another_member() {
    let group = Group::of(1).await;
    let message = message_to(1, 77, ARE_YOU_NEW, &[0_u8; 0]);
    let from = async |proven| group.member(1).handle(&message, proven).await.split_off(1);
    assert_eq!(from(Some(STRANGER + 1)).await[0], REFUSED);
    assert_eq!(from(Some(STRANGER)).await, from(None).await);
}
