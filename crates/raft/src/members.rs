//! Members come and go while the group works. One at a time; the leader changes them.

use crate::group::{Group, Role};
use crate::machine::Machine;
use crate::message::Ask;
use crate::raft::{Raft, RaftError, refused, stopped};
use crate::transport::{Lane, Peer};
use crate::types::{LogId, Types};
use openraft::metrics::RaftMetrics;
use openraft::{BasicNode, ChangeMembers};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// For another member to take over the lead: an election without waiting takes milliseconds, a disk's hiccup a second, and a usual
/// election two.
const HAND_OVER_WAIT: Duration = Duration::from_millis(2_500);
/// For one that is to join to say that it is there.
const GREET_WAIT: Duration = Duration::from_secs(5);
const HAND_OVER_COUNT: usize = 4;

impl<M: Machine> Raft<M> {
    /// Adds a member, which was started and waits. It gets a copy of the state and the log behind it, and then a vote: this
    /// returns when it has one. Asked again for the same member it goes on where it was.
    pub async fn add_member(&self, peer: Peer) -> Result<(), RaftError> {
        let group = self.group();
        if let Some(other) = group.members.iter().find(|member| member.addr == peer.addr && member.id != peer.id) {
            return Err(wrong(format!("member {} has the address {} already", other.id, peer.addr)));
        }
        let known = group.members.iter().find(|member| member.id == peer.id);
        if let Some(other) = known.filter(|member| member.addr != peer.addr) {
            return Err(wrong(format!("there is a member {} at {} already; choose another id", peer.id, other.addr)));
        }
        if known.is_none_or(|member| member.role == Role::Learner) {
            self.greet(&peer).await?;
        }
        let raft = &self.inner.raft;
        let node = BasicNode { addr: peer.addr };
        let added = raft.add_learner(peer.id, node, true).await.map_err(|error| refused(&self.inner.stop, error))?;
        self.has_log(peer.id, added.log_id).await?;
        let change = ChangeMembers::AddVoterIds(BTreeSet::from([peer.id]));
        raft.change_membership(change, true).await.map_err(|error| refused(&self.inner.stop, error))?;
        Ok(())
    }

    /// Comes back when the member has the log up to `upto`, or this one leads no more. Whoever is to have a vote has to know first that it
    /// is in the group: one that does not, gives none, and if the leader dies with the entry that gives it one, nobody is elected.
    async fn has_log(&self, id: u64, upto: LogId) -> Result<(), RaftError> {
        let has = |metrics: &RaftMetrics<Types>| match &metrics.replication {
            Some(matched) => matched.get(&id).is_some_and(|matched| *matched >= Some(upto)),
            None => true,
        };
        let waited = self.inner.raft.wait(None).metrics(has, "a new member's log").await;
        waited.map(drop).map_err(|error| wrong(format!("member {id} does not get the log: {error}; try again")))
    }

    /// A vote of somebody who is not there counts against all others: with one such in a group of two nothing can be changed any more, not
    /// even that.
    async fn greet(&self, peer: &Peer) -> Result<(), RaftError> {
        let answer = self.inner.network.ask(peer, Lane::Beat, Ask::AreYouNew, GREET_WAIT).await;
        answer.map(|_new_or_known| ()).map_err(|error| {
            let Peer { id, addr } = peer;
            wrong(format!("nobody answers as member {id} at {addr} ({error}); start it there with that id first. Nothing was changed"))
        })
    }

    /// Removes a member, which may be gone. Asked to remove itself, the leader hands over to another and says that it does not
    /// lead: that other one removes it.
    pub async fn remove_member(&self, id: u64) -> Result<(), RaftError> {
        let group = self.group();
        let Some(member) = group.members.iter().find(|member| member.id == id) else {
            return Err(wrong(format!("there is no member {id}")));
        };
        let is_voter = member.role != Role::Learner;
        let voters = group.members.iter().filter(|member| member.role != Role::Learner).count();
        if is_voter && voters == 1 {
            return Err(wrong(format!("member {id} is the only one with a vote")));
        }
        if is_voter && id == self.inner.node_id {
            self.hand_over(&group).await?;
            return Err(self.not_leader());
        }
        let ids = BTreeSet::from([id]);
        let change = if is_voter { ChangeMembers::RemoveVoters(ids) } else { ChangeMembers::RemoveNodes(ids) };
        self.inner.raft.change_membership(change, false).await.map_err(|error| refused(&self.inner.stop, error))?;
        Ok(())
    }

    /// Lets the member that has most of the log lead. A leader that is no member any more would have to go on until all know it,
    /// and openraft takes no further change of members from such a one.
    ///
    /// The next one may fail: another member that has not heard yet that the lead is given away refuses it its vote. Then
    /// somebody is elected in the usual way, and if that is this member, it tries again.
    async fn hand_over(&self, group: &Group) -> Result<(), RaftError> {
        let (id, raft) = (self.inner.node_id, &self.inner.raft);
        let mut others: Vec<_> = group.members.iter().filter(|member| member.role == Role::Standby).collect();
        others.sort_by_key(|member| std::cmp::Reverse(member.matched));
        for next in others.iter().cycle().take(HAND_OVER_COUNT) {
            tracing::info!(to = next.id, "handing over the lead");
            raft.trigger().transfer_leader(next.id).await.map_err(|error| stopped(&self.inner.stop, &error))?;
            let another = |leader: Option<u64>| leader.is_some_and(|leader| leader != id);
            let wait = raft.wait(Some(HAND_OVER_WAIT));
            if wait.metrics(|metrics| another(metrics.current_leader), "handing over").await.is_ok() {
                return Ok(());
            }
        }
        Err(wrong("no other member took over the lead in time; are they up? Try again".into()))
    }

    /// Corrects the addresses of members, where these say other than what the group has written down. Only the leader can.
    pub async fn readdress(&self, peers: &[Peer]) -> Result<(), RaftError> {
        let group = self.group();
        let stale = |peer: &&Peer| group.members.iter().any(|it| it.id == peer.id && it.addr != peer.addr);
        let nodes: BTreeMap<u64, BasicNode> =
            peers.iter().filter(stale).map(|peer| (peer.id, BasicNode { addr: peer.addr.clone() })).collect();
        if nodes.is_empty() {
            return Ok(());
        }
        let change = ChangeMembers::SetNodes(nodes);
        self.inner.raft.change_membership(change, true).await.map_err(|error| refused(&self.inner.stop, error))?;
        Ok(())
    }
}

fn wrong(reason: String) -> RaftError {
    RaftError::Members { reason }
}
