//! Members come and go while the group works. One at a time; the leader changes them.
//!
//! A change of voters takes two entries: one that needs majorities of the old and of the new voters, and one that
//! ends it. A leader may die between them, so a change begins with the end of the one before. And a leader may be
//! elected that the change under way removes: it hands over first, as openraft takes no change from a leader that is
//! no member.

use crate::group::{Member, Role};
use crate::machine::Machine;
use crate::raft::Raft;
use crate::raft_error::{RaftError, refused, stopped};
use crate::transport::Peer;
use crate::types::{LogId, Node, Types};
use openraft::ChangeMembers;
use openraft::async_runtime::WatchReceiver;
use openraft::errors::{ClientWriteError, RaftError as OpenraftError};
use openraft::metrics::RaftMetrics;
use openraft::raft::Precondition;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use types::mutation::{self, Mutation};

/// For another member to take over the lead: an election without waiting takes milliseconds, a disk's hiccup a second,
/// and a usual election two.
const HAND_OVER_WAIT: Duration = Duration::from_millis(2_500);
/// For one that is to join to say that it is there.
const GREET_WAIT: Duration = Duration::from_secs(5);
/// Members that are offered the lead, one after the other; the same one again where there is one other. A guess.
const HAND_OVER_COUNT: usize = 4;
/// Tries of a change that others cross. A guess: changes of members are made by people.
const CHANGE_COUNT: usize = 4;

impl<M: Machine> Raft<M> {
    /// Adds a member, which was started with an empty log and waits. It gets a copy of the state and the log behind it,
    /// and then a vote: this returns when it has one. Asked again for the same member it goes on where it was.
    pub async fn add_member(&self, peer: Peer) -> Result<(), RaftError> {
        let group = self.group();
        if let Some(other) = group.members.iter().find(|member| member.addr == peer.addr && member.id != peer.id) {
            return Err(wrong(format!("member {} has the address {} already", other.id, peer.addr)));
        }
        let known = group.members.iter().find(|member| member.id == peer.id);
        if let Some(other) = known.filter(|member| member.addr != peer.addr) {
            return Err(wrong(format!("there is a member {} at {} already; choose another id", peer.id, other.addr)));
        }
        let expected = self.node(peer.id).map(|node| node.incarnation);
        let incarnation = match (self.greet(&peer).await, expected) {
            (Ok((_, found)), Some(expected)) if found != expected => return Err(wrong(lost(&peer))),
            // Nobody knows whose entries and votes it has.
            (Ok((false, _)), None) => return Err(self.not_new(peer).await),
            (Ok((_, found)), _) => found,
            // It has its vote already, and may be away.
            (Err(_), Some(expected)) if known.is_some_and(|member| member.role != Role::Learner) => expected,
            (Err(error), _) => return Err(error),
        };
        let node = Node { addr: peer.addr, incarnation };
        let added = self.change(ChangeMembers::AddNodes(BTreeMap::from([(peer.id, node)])), true).await?;
        self.has_log(peer.id, added).await?;
        self.change(ChangeMembers::AddVoterIds(BTreeSet::from([peer.id])), true).await.map(drop)
    }

    /// Who leads for certain knows all members; one that only believes so may lack the one that was just added.
    async fn not_new(&self, peer: Peer) -> RaftError {
        match self.confirm().await {
            Err(error) => error,
            Ok(_) if self.node(peer.id).is_some() => crossed(),
            Ok(_) => RaftError::NotNew { id: peer.id, addr: peer.addr },
        }
    }

    /// Changes the members, once the change before has ended. `retain`: who loses its vote stays, without one. The
    /// entry that ends it.
    async fn change(&self, change: ChangeMembers<u64, Node>, retain: bool) -> Result<LogId, RaftError> {
        for _ in 0..CHANGE_COUNT {
            let base = self.settled().await?;
            if let Some(id) = self.change_after(base, change.clone(), retain).await? {
                return Ok(id);
            }
        }
        Err(crossed())
    }

    /// `None`: another change came between.
    async fn change_after(
        &self,
        base: Option<LogId>,
        change: ChangeMembers<u64, Node>,
        retain: bool,
    ) -> Result<Option<LogId>, RaftError> {
        let base = [Precondition::LastMembershipLogId { last_membership_log_id: base }];
        match self.inner.raft.change_membership_if(change, retain, base).await {
            Ok(written) => Ok(Some(written.log_id)),
            Err(OpenraftError::APIError(ClientWriteError::PreconditionFailed(_))) => Ok(None),
            Err(error) => Err(refused(&self.inner.stop, error)),
        }
    }

    /// The entry that says who the members are, when no change is half done and this member is among those with a vote.
    async fn settled(&self) -> Result<Option<LogId>, RaftError> {
        for _ in 0..CHANGE_COUNT {
            let members = self.inner.raft.metrics().borrow_watched().membership_config.clone();
            let configs = members.membership().get_joint_config();
            let Some(voters) = configs.last().filter(|_| self.is_leader()) else { return Err(self.not_leader()) };
            let is_outsider = !voters.contains(&self.inner.node_id);
            if is_outsider && !mutation::is(Mutation::OutsiderLeads) {
                self.hand_over(voters).await?;
                return Err(self.not_leader());
            }
            if configs.len() == 1 {
                return Ok(*members.log_id());
            }
            let nothing_more = ChangeMembers::AddVoterIds(BTreeSet::new());
            self.change_after(*members.log_id(), nothing_more, false).await?;
        }
        Err(wrong("an earlier change of members does not come to its end; try again".into()))
    }

    /// What the group has written down about a member.
    fn node(&self, id: u64) -> Option<Node> {
        self.inner.raft.metrics().borrow_watched().membership_config.membership().get_node(&id).cloned()
    }

    /// Comes back when the member has the log up to `upto`, or this one leads no more. Whoever is to have a vote has to
    /// know first that it is in the group: one that does not, gives none, and if the leader dies with the entry that
    /// gives it one, nobody is elected.
    async fn has_log(&self, id: u64, upto: LogId) -> Result<(), RaftError> {
        let has = |metrics: &RaftMetrics<Types>| match &metrics.replication {
            Some(matched) => matched.get(&id).is_some_and(|matched| *matched >= Some(upto)),
            None => true,
        };
        let waited = self.inner.raft.wait(None).metrics(has, "a new member's log").await;
        waited.map(drop).map_err(|error| wrong(format!("member {id} does not get the log: {error}; try again")))
    }

    /// A vote of somebody who is not there counts against all others: with one such in a group of two nothing can be
    /// changed any more, not even that.
    ///
    /// Tells whether it is new, and its incarnation.
    async fn greet(&self, peer: &Peer) -> Result<(bool, u64), RaftError> {
        self.inner.network.greet(peer, GREET_WAIT).await.map_err(|error| {
            let Peer { id, addr } = peer;
            wrong(format!(
                "nobody answers as member {id} at {addr} ({error}); start it there with that id first. \
                 Nothing was changed"
            ))
        })
    }

    /// Removes a member, which may be gone. Asked to remove itself, the leader hands over to another and says that it
    /// does not lead: that other one removes it.
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
            let voters = group.members.iter().filter(|member| member.role != Role::Learner);
            self.hand_over(&voters.map(|member| member.id).collect()).await?;
            return Err(self.not_leader());
        }
        let ids = BTreeSet::from([id]);
        let change = if is_voter { ChangeMembers::RemoveVoters(ids) } else { ChangeMembers::RemoveNodes(ids) };
        self.change(change, false).await.map(drop)
    }

    /// Lets the one of `voters` lead that has most of the log. A leader that is no member any more would have to go
    /// on until all know it, and openraft takes no further change of members from such a one.
    ///
    /// The next one may fail: it may lack entries, or not get the word. Then somebody is elected in the usual way,
    /// and if that is this member, it tries again.
    async fn hand_over(&self, voters: &BTreeSet<u64>) -> Result<(), RaftError> {
        let (id, raft) = (self.inner.node_id, &self.inner.raft);
        let group = self.group();
        let may_lead = |member: &&Member| member.id != id && voters.contains(&member.id);
        let mut others: Vec<_> = group.members.iter().filter(may_lead).collect();
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

    /// Corrects the addresses of members, where these say other than what the group has written down. Only the leader
    /// can.
    pub async fn readdress(&self, peers: &[Peer]) -> Result<(), RaftError> {
        for _ in 0..CHANGE_COUNT {
            if self.stale(peers).1.is_empty() {
                return Ok(());
            }
            // It may end a removal, and with an address a member would be taken in again.
            self.settled().await?;
            let (base, nodes) = self.stale(peers);
            if nodes.is_empty() || self.change_after(base, ChangeMembers::SetNodes(nodes), true).await?.is_some() {
                return Ok(());
            }
        }
        Err(crossed())
    }

    /// Members with other addresses than these, with these, and the entry that says who the members are.
    fn stale(&self, peers: &[Peer]) -> (Option<LogId>, BTreeMap<u64, Node>) {
        let known = self.inner.raft.metrics().borrow_watched().membership_config.clone();
        let corrected = peers.iter().filter_map(|Peer { id, addr }| {
            let node = known.membership().get_node(id).filter(|node| node.addr != *addr)?;
            Some((*id, Node { addr: addr.clone(), ..node.clone() }))
        });
        (*known.log_id(), corrected.collect())
    }
}

fn lost(Peer { id, addr }: &Peer) -> String {
    format!(
        "the group knows member {id} with other data than the server at {addr} has: that was lost, or is elsewhere; \
         remove member {id}, and add the server under a new id"
    )
}

fn crossed() -> RaftError {
    wrong("the members are changed by somebody else at the same time; try again".into())
}

fn wrong(reason: String) -> RaftError {
    RaftError::Members { reason }
}
