//! Members come and go while the group works. One at a time; the leader changes them.

use crate::machine::Machine;
use crate::raft::{Raft, RaftError, refused};
use crate::transport::Peer;
use openraft::{BasicNode, ChangeMembers};
use std::collections::{BTreeMap, BTreeSet};

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

    /// Removes a member, which may be gone, or the leader itself: it hands over to another first.
    pub async fn remove_member(&self, id: u64) -> Result<(), RaftError> {
        let group = self.group();
        let Some(member) = group.members.iter().find(|member| member.id == id) else {
            return Err(wrong(format!("there is no member {id}")));
        };
        let is_voter = member.role != crate::Role::Learner;
        let voters = group.members.iter().filter(|member| member.role != crate::Role::Learner).count();
        if is_voter && voters == 1 {
            return Err(wrong(format!("member {id} is the only one with a vote")));
        }
        let ids = BTreeSet::from([id]);
        let change = if is_voter { ChangeMembers::RemoveVoters(ids) } else { ChangeMembers::RemoveNodes(ids) };
        self.inner.raft.change_membership(change, false).await.map_err(|error| refused(&self.inner.stop, error))?;
        Ok(())
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
