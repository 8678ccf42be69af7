//! Admission of messages from other members of the group: by their certificate, or, where members have none, by the
//! address of their sender.
//!
//! ```text
//! [[meta.members]], members_from ─┐
//! members as the log has them ────┼─▶ names and addresses ─▶ rpc::Origins ─▶ accepted
//! members as other members say ───┘        asked when a refused sender may be a new member
//! ```
//!
//! A server that is listed alone, and knows of no other member, does not accept messages from elsewhere. It examines
//! them all the same: if it lost its data, its group has other members by now, and their messages show that. See
//! `raft::Raft::overhear`.
//! Once it leads and holds files, a message from an address that it does not know does not end it.
//!
//! Where members have certificates, those say which member it is, and the same three sources whether there is such a
//! one. A certificate counts for months, and so outlives a membership, and so do lines of a configuration: in a group,
//! these name where a member is, and the log says who is one.
//!
//! Promise: a server that belongs to a group accepts messages from its members' machines alone, or, where members have
//! certificates, from its members alone.
//!
//! A server that was started to join, and is not among the members yet, accepts messages from the servers that its
//! configuration names. If that names none, it accepts them from anywhere, since it cannot know which server will add
//! it. What a stranger leaves there keeps the server from being added (`raft::RaftError::NotNew`). With certificates it
//! accepts them from whoever shows one of a member.
//!
//! An accepted sender is checked again when the members have changed. So a connection made while the server waited ends
//! with the wait.

use crate::config::{Config, MEMBER_COUNT_MAX};
use crate::connections::Connections;
use crate::machine::Machine;
use crate::node_calls::{MemberCall, NodeCalls};
use crate::principal::Acceptance;
use hdfs::Exception;
use hdfs::exception::ACCESS_CONTROL;
use io::Clock;
use raft::Raft;
use rpc::{Origins, Proof};
use security::node_name::{Certified, NodeName};
use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use wire::admin::ADMIN_PROTOCOL;
use wire::admin::meta::{LIST_MEMBERS, ListMembersRequest, ListMembersResponse};

/// Between two rounds of questions to the other members, and two warnings.
const ASK_PAUSE: Duration = Duration::from_secs(5);
/// For one member's answer.
const ASK_WAIT: Duration = Duration::from_secs(2);
/// What the others said counts for so long: a member that left is not to be let in for ever.
const SAID_KEPT: Duration = Duration::from_secs(60);
/// More than a group has.
const SAID_COUNT_MAX: usize = 32;
const _: () = assert!(SAID_COUNT_MAX > MEMBER_COUNT_MAX);

pub(crate) struct Admission {
    config: Config,
    raft: Raft<Machine>,
    clock: Arc<dyn Clock>,
    calls: Arc<NodeCalls>,
    /// As whom other members are asked.
    owner: String,
    origins: Origins,
    state: Mutex<State>,
    connections: Arc<Connections>,
}

#[derive(Debug, Default)]
struct State {
    /// Members as others know them, and until when that counts.
    said: Said,
    said_until: Duration,
    asked: Option<Duration>,
}

#[derive(Debug, Default)]
struct Said {
    ids: BTreeSet<u64>,
    addrs: BTreeSet<String>,
}

impl std::fmt::Debug for Admission {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Admission").field("state", &self.state).finish_non_exhaustive()
    }
}

impl Admission {
    pub(crate) fn new(
        config: Config,
        raft: Raft<Machine>,
        clock: Arc<dyn Clock>,
        calls: Arc<NodeCalls>,
        owner: String,
        connections: Arc<Connections>,
    ) -> Self {
        let (origins, state) = (Origins::default(), Mutex::default());
        Self { config, raft, clock, calls, owner, origins, state, connections }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether what this connection brings is to be looked at alone.
    pub(crate) fn is_stranger(&self, peer: SocketAddr) -> bool {
        self.connections.acceptance(peer).is_some_and(|acceptance| acceptance.is_stranger)
    }

    /// Whether messages of members are accepted over a connection, or are still, if the members have changed. An
    /// exception ends it.
    pub(crate) async fn admit(self: &Arc<Self>, peer: SocketAddr, proof: &Proof) -> Result<(), Exception> {
        let members_entry = self.raft.members_entry();
        let accepted = self.connections.acceptance(peer);
        if accepted.is_none_or(|accepted| accepted.members_entry != members_entry) {
            let is_stranger = self.check(peer, proof).await?;
            self.connections.accept(peer, Acceptance { members_entry, is_stranger });
        }
        Ok(())
    }

    /// As [`Admission::admit`], for a caller whose certificate says that it is a member, and who calls as the superuser
    /// that members are. Nobody who is looked at alone is that.
    pub(crate) async fn admit_superuser(self: &Arc<Self>, peer: SocketAddr, proof: &Proof) -> Result<(), Exception> {
        self.admit(peer, proof).await?;
        if self.is_stranger(peer) { Err(denied(self.why_no_member(proof, peer))) } else { Ok(()) }
    }

    /// Answers whether it is a stranger's connection that is looked at alone.
    async fn check(self: &Arc<Self>, peer: SocketAddr, proof: &Proof) -> Result<bool, Exception> {
        let is_waiting = self.config.join && self.is_founding();
        let is_known = match proof {
            Proof::Node(Certified { name: NodeName::Datanode(id), .. }) => {
                return Err(denied(format!("datanode {id} is no metadata server")));
            }
            Proof::Node(Certified { name: NodeName::Member(id), .. }) => is_waiting || self.knows(*id),
            Proof::Nothing | Proof::Token(_) | Proof::Kerberos { .. } => {
                let names_servers = !self.config.members.is_empty() || !self.config.members_from.is_empty();
                (is_waiting && !names_servers) || self.knows_origin(peer.ip().to_canonical()).await
            }
        };
        if is_known {
            return Ok(false);
        }
        let why = self.why_no_member(proof, peer);
        if !self.config.is_group() {
            return Err(denied(why));
        }
        let is_sole = self.config.members.len() == 1 && self.raft.group().members.len() <= 1;
        let now = self.clock.monotonic();
        let is_due = {
            let mut state = self.state();
            let is_due = state.asked.is_none_or(|asked| now >= asked + ASK_PAUSE);
            if is_due {
                state.asked = Some(now);
            }
            is_due
        };
        if is_due {
            tracing::warn!(%peer, "messages of a member are refused: {why}");
            let admission = Arc::clone(self);
            // The caller asks again, and is let in then if the others know it: this server may have been away while it
            // joined.
            io::task::spawn("members", async move { admission.ask_others().await });
        }
        if is_sole { Ok(true) } else { Err(denied(why)) }
    }

    /// Whether there is such a member: the log says so, or another member, or, to a server that belongs to no group
    /// yet, its configuration. A server that was away while a member was added has nothing of that in its log, and the
    /// group may need the vote of this server.
    fn knows(&self, id: u64) -> bool {
        id == self.config.id || self.has_written(id) || (self.is_founding() && self.lists(id)) || self.is_said(id)
    }

    /// Whether an open connection of this member goes on. One that was let in is looked at again when the members have
    /// changed.
    pub(crate) fn still_counts(&self, peer: SocketAddr, id: u64) -> bool {
        let accepted = self.connections.acceptance(peer);
        let is_as_before = accepted.is_some_and(|accepted| accepted.members_entry == self.raft.members_entry());
        is_as_before || (self.config.join && self.is_founding()) || self.knows(id)
    }

    /// It belongs to no group, as far as its log says.
    fn is_founding(&self) -> bool {
        !self.has_written(self.config.id)
    }

    fn has_written(&self, id: u64) -> bool {
        self.raft.group().members.iter().any(|member| member.id == id)
    }

    fn lists(&self, id: u64) -> bool {
        self.config.members.iter().any(|member| member.id == id)
    }

    fn is_said(&self, id: u64) -> bool {
        let state = self.state();
        self.clock.monotonic() < state.said_until && state.said.ids.contains(&id)
    }

    /// Whether a member is at this address. None is where this server is alone.
    async fn knows_origin(&self, ip: IpAddr) -> bool {
        if !self.config.is_group() {
            return false;
        }
        let mut servers = self.known(|_member| true);
        {
            let state = self.state();
            if self.clock.monotonic() < state.said_until {
                servers.extend(state.said.addrs.iter().cloned());
            }
        }
        servers.extend(self.config.members_from.iter().cloned());
        self.origins.include(&servers, ip).await
    }

    fn why_no_member(&self, proof: &Proof, peer: SocketAddr) -> String {
        let own = self.config.id;
        match proof.member() {
            Some(id) => format!(
                "the certificate is of metadata server {id}, which is no member of this group as server {own} knows \
                 it. If it is to be one, add it to the group"
            ),
            _ if !self.config.is_group() => "this metadata server is alone, and takes no messages of others".to_owned(),
            _ => format!(
                "{} is the address of no metadata server of this group as server {own} knows it. If it is one, correct \
                 its address in [[meta.members]], or name the address that it calls from in members_from, and start \
                 server {own} again",
                peer.ip().to_canonical()
            ),
        }
    }

    /// Where those of the members are that `counts` says, as this server's configuration and its log have it.
    fn known(&self, counts: impl Fn(u64) -> bool) -> BTreeSet<String> {
        let listed = self.config.members.iter().map(|member| (member.id, member.addr.clone()));
        let listed = listed.filter(|(id, _)| self.knows(*id));
        let written = self.raft.group().members.into_iter().map(|member| (member.id, member.addr));
        let known = listed.chain(written).filter(|(id, addr)| counts(*id) && !addr.is_empty());
        known.map(|(_, addr)| addr).collect()
    }

    /// Learns from the members that are known who the others are. If none of them answers, all may have been replaced
    /// while this server was away: then from those that its configuration lists.
    async fn ask_others(&self) {
        let is_other = |id: u64| id != self.config.id;
        let mut said = self.said_by(self.known(is_other)).await;
        if said.ids.is_empty() {
            let listed = self.config.members.iter().filter(|member| is_other(member.id));
            said = self.said_by(listed.map(|member| member.addr.clone()).collect()).await;
        }
        if said.addrs.len() <= SAID_COUNT_MAX && said.ids.len() <= SAID_COUNT_MAX {
            let mut state = self.state();
            (state.said, state.said_until) = (said, self.clock.monotonic() + SAID_KEPT);
        }
    }

    async fn said_by(&self, servers: BTreeSet<String>) -> Said {
        let mut said = Said::default();
        for addr in servers {
            let call = MemberCall {
                addr: &addr,
                user: &self.owner,
                is_own: true,
                protocol: ADMIN_PROTOCOL,
                method: LIST_MEMBERS,
                wait_max: ASK_WAIT,
            };
            let answer = self.calls.call_member::<_, ListMembersResponse>(call, &ListMembersRequest {}).await;
            let members = answer.map(|answer| answer.members).unwrap_or_default();
            said.ids.extend(members.iter().map(|member| member.id));
            said.addrs.extend(members.into_iter().map(|member| member.addr).filter(|addr| !addr.is_empty()));
        }
        said
    }
}

/// What a stranger's message is answered.
pub(crate) fn overheard() -> Exception {
    denied("this metadata server knows of no other of its group, and takes no messages of any".to_owned())
}

fn denied(why: String) -> Exception {
    Exception::unauthorized(ACCESS_CONTROL, why)
}
