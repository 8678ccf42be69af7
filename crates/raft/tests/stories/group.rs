//! Several members: one leads, what was acknowledged is nowhere lost, and who was away catches up.

use crate::support::net::{Group, POLL, POLL_COUNT, peer};
use raft::{Peer, RaftError, Role, Standing};
use std::time::Duration;

#[tokio::test]
async fn what_is_proposed_reaches_every_member() {
    let group = Group::of(3).await;
    for number in 0..10 {
        group.propose(number).await;
    }
    group.settle(&(0..10).collect::<Vec<_>>()).await;
    let (id, leader) = group.leader().await;
    let told = leader.group();
    assert_eq!(told.leader, Some(id));
    assert_eq!(told.members.iter().filter(|member| member.role == Role::Leader).count(), 1);
    assert_eq!(told.members.len(), 3);
    let other = group.members().into_iter().find(|(other, _)| *other != id).unwrap().1;
    assert!(matches!(*other.standing().borrow(), Standing::Standby { .. }));
    let Err(RaftError::NotLeader { leader }) = other.propose((1, String::new())).await else { panic!() };
    assert_eq!(leader, peer(id).addr);
    assert!(matches!(other.confirm().await, Err(RaftError::NotLeader { .. })));
}

/// Leader after leader is lost with a proposal in flight, and comes back.
#[tokio::test]
async fn a_lost_leader_is_replaced_and_nothing_is_lost() {
    let mut group = Group::of(3).await;
    let mut want = Vec::new();
    for round in 0..3 {
        for number in round * 10..round * 10 + 5 {
            group.propose(number).await;
            want.push(number);
        }
        let (id, leader) = group.leader().await;
        drop(leader);
        group.crash(id);
        group.propose(round * 10 + 9).await;
        want.push(round * 10 + 9);
        group.start(id).await;
        group.settle(&want).await;
    }
}

/// All go down at once, without a goodbye, and come back.
#[tokio::test]
async fn a_group_that_was_killed_has_all_it_acknowledged() {
    let mut group = Group::of(3).await;
    for number in 0..20 {
        group.propose(number).await;
    }
    for id in 1..=3 {
        group.crash(id);
    }
    for id in 1..=3 {
        group.start(id).await;
    }
    group.propose(20).await;
    group.settle(&(0..=20).collect::<Vec<_>>()).await;
}

/// A leader that is cut off soon knows that it cannot be sure, and what is proposed to it does not hang; the others go
/// on without it, and it gives in when it is back.
#[tokio::test]
async fn a_leader_without_a_majority_answers_nobody() {
    let group = Group::of(3).await;
    group.propose(1).await;
    let (old, raft) = group.leader().await;
    group.isolate(&[old]);
    let hanging = raft.propose((77, String::new()));
    let others: Vec<u64> = (1..=3).filter(|id| *id != old).collect();
    let (new, _) = group.leader_of(&others).await;
    assert!(matches!(raft.confirm().await, Err(RaftError::NotLeader { .. })));
    let given_up = tokio::time::timeout(Duration::from_secs(5), hanging).await.expect("it does not hang");
    assert!(matches!(given_up, Err(RaftError::NotLeader { .. })));
    assert_ne!(new, old);
    group.propose(2).await;
    group.heal();
    group.propose(3).await;
    group.settle(&[1, 2, 3]).await;
}

/// Without a majority nobody leads; with one again, somebody does.
#[tokio::test]
async fn a_minority_does_nothing() {
    let mut group = Group::of(3).await;
    group.propose(1).await;
    let (id, _) = group.leader().await;
    let others: Vec<u64> = (1..=3).filter(|other| *other != id).collect();
    for other in &others {
        group.crash(*other);
    }
    let raft = group.member(id);
    assert!(raft.propose((2, String::new())).await.is_err());
    assert!(raft.confirm().await.is_err());
    drop(raft);
    group.start(others[0]).await;
    group.propose(3).await;
}

/// It lags behind the cut of the log, so it gets the state itself, in chunks; also one that has other entries at its
/// end.
#[tokio::test]
async fn who_was_away_for_long_gets_a_copy_of_the_state() {
    let mut group = Group::of(3).await;
    let mut want: Vec<u64> = (0..50).collect();
    for number in &want {
        group.propose(*number).await;
    }
    let (old, raft) = group.leader().await;
    group.isolate(&[old]);
    // It writes into its own log what nobody else ever sees.
    let lost = raft.propose((999, String::new())).await;
    assert!(lost.is_err());
    drop(raft);
    let others: Vec<u64> = (1..=3).filter(|id| *id != old).collect();
    let (_, leader) = group.leader_of(&others).await;
    for number in 100..110 {
        // More than the members keep.
        leader.propose((number, "x".repeat(2_000))).await.unwrap();
        want.push(number);
    }
    // The flush that cuts the log comes within a second or two.
    for _ in 0..1200 {
        if leader.first_kept() >= 50 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
        leader.propose((1, "x".into())).await.unwrap();
        want.push(1);
    }
    assert!(leader.first_kept() >= 50);
    drop(leader);
    let before = group.chunk_count();
    group.heal();
    group.settle(&want).await;
    assert!(group.chunk_count() > before + 5, "{} chunks", group.chunk_count() - before);
    group.propose(2).await;
    want.push(2);
    group.settle(&want).await;
    // It stands on its copy after a restart as well.
    group.crash(old);
    group.start(old).await;
    group.propose(3).await;
    want.push(3);
    group.settle(&want).await;
}

/// What members keep of the log for others has a bound, whoever leads.
#[tokio::test]
async fn every_member_cuts_its_log() {
    let group = Group::of(3).await;
    for number in 0..40 {
        group.propose_with(number, "x".repeat(2_000)).await;
    }
    for _ in 0..POLL_COUNT {
        if group.members().iter().all(|(_, member)| member.first_kept() > 20) {
            return;
        }
        tokio::time::sleep(POLL).await;
    }
    let kept: Vec<_> = group.members().iter().map(|(id, member)| (*id, member.first_kept())).collect();
    panic!("they keep all from entry {kept:?} on");
}

/// From one to three, and the first one leaves.
#[tokio::test]
async fn members_join_and_leave_while_the_group_works() {
    let mut group = Group::of(1).await;
    group.propose(1).await;
    for id in [2, 3] {
        // Who is not there gets no vote: the others could do nothing without it.
        let refused = group.leader().await.1.add_member(peer(id)).await.unwrap_err();
        assert!(refused.to_string().contains("nobody answers as member"), "{refused}");
        group.start(id).await;
        group.leader().await.1.add_member(peer(id)).await.unwrap();
        group.propose(id).await;
    }
    group.settle(&[1, 2, 3]).await;
    let told = group.leader().await.1.group();
    assert!(told.members.iter().all(|member| member.role != Role::Learner), "{told:?}");
    // Twice is once.
    let (_, leader) = group.leader().await;
    leader.add_member(peer(3)).await.unwrap();
    assert!(leader.remove_member(9).await.is_err());
    drop(leader);
    let (first, leader) = group.leader().await;
    // It hands over, and the next one removes it.
    assert!(matches!(leader.remove_member(first).await, Err(RaftError::NotLeader { .. })));
    drop(leader);
    group.remove(first).await;
    let others: Vec<u64> = (1..=3).filter(|id| *id != first).collect();
    let (_, leader) = group.leader_of(&others).await;
    assert_eq!(leader.group().members.len(), 2);
    drop(leader);
    group.stop(first).await;
    group.propose(4).await;
    group.settle(&[1, 2, 3, 4]).await;
}

/// One leader after the other leaves, without a pause, until one member is left.
#[tokio::test]
async fn every_leader_may_leave() {
    let mut group = Group::of(5).await;
    let mut want = vec![0];
    group.propose(0).await;
    for number in 1..=4 {
        let (id, _) = group.leader().await;
        group.remove(id).await;
        group.propose(number).await;
        want.push(number);
        group.crash(id);
    }
    group.settle(&want).await;
    assert_eq!(group.leader().await.1.group().members.len(), 1);
}

/// In a group of five the others do not stand all at once, which would cost an election or two.
#[tokio::test]
async fn the_lead_goes_to_the_member_that_is_meant() {
    let group = Group::of(5).await;
    group.propose(0).await;
    group.settle(&[0]).await;
    for _ in 0..4 {
        let (id, leader) = group.leader().await;
        let term = leader.group().term;
        let meant = (1..=5).rfind(|other| *other != id).unwrap();
        leader.hand_over_to(meant).await.unwrap();
        let (next, leader) = group.leader_of(&(1..=5).filter(|other| *other != id).collect::<Vec<_>>()).await;
        assert_eq!((next, leader.group().term), (meant, term + 1));
    }
}

/// The others no longer answer a leader that hands over, and it does not know whom they have elected.
#[tokio::test]
async fn a_leader_that_hands_over_believes_its_lease_no_more() {
    let group = Group::of(3).await;
    group.propose(1).await;
    group.settle(&[1]).await;
    let (old, leader) = group.leader().await;
    let others: Vec<u64> = (1..=3).filter(|id| *id != old).collect();
    group.cut(&others, old);
    leader.hand_over_to(others[0]).await.unwrap();
    let (_, next) = group.leader_of(&others).await;
    next.propose((2, String::new())).await.unwrap();
    assert!(leader.confirm().await.is_err(), "another has changed something since");
}

/// A change of members was left half done by a leader that died, and the member that it removes is elected: whatever
/// is to be changed, that one hands over first, and the next leader ends what was begun.
#[tokio::test]
async fn a_leader_that_is_being_removed_changes_no_members() {
    let mut group = Group::of(3).await;
    group.propose(1).await;
    group.start(4).await;
    let (first, leader) = group.leader_of(&[1, 2, 3]).await;
    let doomed = (1..=3).find(|id| *id != first).unwrap();
    leader.half_remove(doomed).await.unwrap();
    leader.hand_over_to(doomed).await.unwrap();
    drop(leader);
    let (_, leader) = group.leader_of(&[doomed]).await;
    let refused = leader.remove_member(first).await;
    assert!(matches!(refused, Err(RaftError::NotLeader { .. })), "{refused:?}");
    drop(leader);
    let others: Vec<u64> = (1..=3).filter(|id| *id != doomed).collect();
    let (_, leader) = group.leader_of(&others).await;
    leader.add_member(peer(4)).await.unwrap();
    let members: Vec<u64> = leader.group().members.iter().map(|member| member.id).collect();
    assert_eq!(members, [others[0], others[1], 4]);
}

/// The half removal ends before addresses are corrected, and the new one of the member that it removes takes nobody in.
#[tokio::test]
async fn a_new_address_takes_no_removed_member_in() {
    let group = Group::of(3).await;
    group.propose(1).await;
    let (first, leader) = group.leader().await;
    let [doomed, next] = [1, 2, 3].into_iter().filter(|id| *id != first).collect::<Vec<_>>()[..] else { panic!() };
    leader.half_remove(doomed).await.unwrap();
    leader.hand_over_to(next).await.unwrap();
    drop(leader);
    let (_, leader) = group.leader_of(&[next]).await;
    leader.readdress(&[Peer { id: doomed, addr: "elsewhere:1".into() }]).await.unwrap();
    let members: Vec<u64> = leader.group().members.iter().map(|member| member.id).collect();
    assert!(!members.contains(&doomed), "{members:?}");
    // What is wrong of those that stay is corrected.
    leader.readdress(&[Peer { id: first, addr: "moved:1".into() }]).await.unwrap();
    let addrs: Vec<_> = leader.group().members.into_iter().map(|member| (member.id, member.addr)).collect();
    assert!(addrs.contains(&(first, "moved:1".into())), "{addrs:?}");
}

/// A member comes back with an empty disk: its vote was counted, so it must not be one again under the same name.
#[tokio::test]
async fn a_member_that_lost_its_data_stays_out() {
    let mut group = Group::of(3).await;
    group.propose(1).await;
    let (leader, _) = group.leader().await;
    let victim = (1..=3).rfind(|id| *id != leader).unwrap();
    group.settle(&[1]).await;
    group.crash(victim);
    std::fs::remove_dir_all(group.dir_of(victim)).unwrap();
    group.start(victim).await;
    group.propose(2).await;
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert!(group.lists[&victim].numbers().is_empty());
    let third = (1..=3).find(|id| *id != leader && *id != victim).unwrap();
    group.crash(third);
    assert!(group.member(leader).propose((3, String::new())).await.is_err(), "the empty one does not count");
    group.start(third).await;
    // Under another id it is welcome.
    let (_, raft) = group.leader_of(&[leader, third]).await;
    group.crash(victim);
    raft.remove_member(victim).await.unwrap();
    group.start(4).await;
    raft.add_member(peer(4)).await.unwrap();
    drop(raft);
    group.propose(4).await;
    // What was proposed without a majority may have come through after all.
    let newest = group.lists.remove(&4).unwrap();
    for _ in 0..POLL_COUNT {
        if newest.numbers().last() == Some(&4) {
            break;
        }
        tokio::time::sleep(POLL).await;
    }
    let found = newest.numbers();
    assert!(found.starts_with(&[1, 2]) && found.ends_with(&[4]), "{found:?}");
}

/// As above, for one that had joined: entries and votes are refused, whatever the leader remembers of it, and it
/// cannot be added as if it still were the one it was.
#[tokio::test]
async fn a_member_that_joined_and_lost_its_data_stays_out() {
    let mut group = Group::of(3).await;
    group.start(4).await;
    group.leader().await.1.add_member(peer(4)).await.unwrap();
    group.propose(1).await;
    group.settle(&[1]).await;
    group.crash(4);
    std::fs::remove_dir_all(group.dir_of(4)).unwrap();
    group.start(4).await;
    // The next leader does not know how much it had.
    let (old, _) = group.leader().await;
    group.crash(old);
    group.start(old).await;
    group.propose(2).await;
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert!(group.lists[&4].numbers().is_empty());
    let (leader, raft) = group.leader().await;
    let refused = raft.add_member(peer(4)).await.unwrap_err().to_string();
    assert!(refused.contains("other data"), "{refused}");
    // Of four, two are left and it: no majority.
    let away = (1..=3).find(|id| *id != leader).unwrap();
    group.crash(away);
    assert!(raft.propose((3, String::new())).await.is_err(), "the empty one does not count");
    drop(raft);
    group.start(away).await;
    group.remove(4).await;
    group.propose(4).await;
}

/// One that began alone and took others in is listed alone until it is configured anew. It comes back without its data.
async fn emptied_first() -> Group {
    let mut group = Group::of(1).await;
    group.propose(1).await;
    for id in [2, 3] {
        group.start(id).await;
        group.leader().await.1.add_member(peer(id)).await.unwrap();
    }
    group.settle(&[1]).await;
    group.crash(1);
    std::fs::remove_dir_all(group.dir_of(1)).unwrap();
    group
}

#[tokio::test]
async fn an_emptied_first_member_that_is_listed_alone_founds_nothing() {
    let mut group = emptied_first().await;
    group.start(1).await;
    let empty = group.member(1);
    for number in 2..6 {
        group.leader_of(&[2, 3]).await.1.propose((number, String::new())).await.unwrap();
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert!(matches!(*empty.standing().borrow(), Standing::Standby { .. }));
    }
    assert_eq!((empty.group().members.len(), group.lists[&2].numbers()), (0, vec![1, 2, 3, 4, 5]));
}

/// While it founds, all others are down: it cannot know, and ends when they are back, and after each further start.
#[tokio::test]
async fn one_that_founded_beside_its_group_ends_when_that_is_back() {
    let mut group = emptied_first().await;
    group.crash(2);
    group.crash(3);
    group.start(1).await;
    let (_, alone) = group.leader_of(&[1]).await;
    group.start(2).await;
    group.start(3).await;
    let fault = tokio::time::timeout(Duration::from_secs(20), alone.failed()).await.expect("it ends");
    assert!(fault.must_rejoin, "{fault}");
    let reason = fault.reason;
    assert!(
        reason.contains("member 1 with other data") && reason.contains("add the server under a new id"),
        "{reason}"
    );
    assert!(alone.confirm().await.is_err() && alone.propose((7, String::new())).await.is_err());
    drop(alone);
    group.leader_of(&[2, 3]).await.1.propose((2, String::new())).await.unwrap();
    group.crash(1);
    group.start(1).await;
    let again = group.member(1);
    let mut standing = again.standing();
    tokio::select! {
        biased;
        fault = again.failed() => assert!(fault.reason.contains("member 1 with other data"), "{fault}"),
        Ok(_) = standing.wait_for(|standing| matches!(standing, Standing::Leading { .. })) => panic!("it leads"),
    }
}
