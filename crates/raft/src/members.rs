//! Members come and go while the group works. One at a time; the leader changes them.

use crate::group::{Group, Role};
use crate::machine::Machine;
use crate::raft::{Raft, RaftError, refused, stopped};
use crate::transport::Peer;
use openraft::{BasicNode, ChangeMembers};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// For another member to take over the lead: an election without waiting takes milliseconds, and a disk's hiccup a second.
const HAND_OVER_WAIT: Duration = Duration::from_secs(3);

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
        let raft = &self.inner.raft;
        let node = BasicNode { addr: peer.addr };
        raft.add_learner(peer.id, node, true).await.map_err(|error| refused(&self.inner.stop, error))?;
        let change = ChangeMembers::AddVoterIds(BTreeSet::from([peer.id]));
        raft.change_membership(change, true).await.map_err(|error| refused(&self.inner.stop, error))?;
        Ok(())
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
    async fn hand_over(&self, group: &Group) -> Result<(), RaftError> {
        let others = group.members.iter().filter(|member| member.role == Role::Standby);
        let Some(next) = others.max_by_key(|member| member.matched) else {
            return Err(wrong("there is no other member with a vote".into()));
        };
        tracing::info!(to = next.id, "handing over the lead");
        let raft = &self.inner.raft;
        raft.trigger().transfer_leader(next.id).await.map_err(|error| stopped(&self.inner.stop, &error))?;
        let wait = raft.wait(Some(HAND_OVER_WAIT));
        let id = self.inner.node_id;
        let handed = wait.metrics(|metrics| metrics.current_leader.is_some_and(|leader| leader != id), "handing over");
        let handed = handed.await.map(drop);
        handed.map_err(|_| wrong(format!("member {} did not take over the lead in time; is it up? Try again", next.id)))
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
