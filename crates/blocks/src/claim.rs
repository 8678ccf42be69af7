//! Which process is a datanode: the one that registered last, and no second one beside it.
//!
//! ```text
//! registers ──▶ claim: unknown id ──▶ newcomer: remembered for a minute; its next message makes it a node
//!                      known id ────▶ takes its place, if the process there is gone or silent, or was on the same port
//!                                     refused, if the process there still sends heartbeats
//! any other message ──▶ standing: of the process that registered last ──▶ counts
//!                                 of another one ──▶ superseded: it ends
//! ```
//!
//! Promise: a message counts only if it comes from the process that registered last, and while that one is live no process elsewhere
//! takes its place, whatever it claims. So of a copied disk or machine one is refused, and says so when it ends; it is never both.

use crate::cluster::Cluster;
use crate::node::{Incarnation, Member, Node};
use std::collections::BTreeMap;
use std::time::Duration;
use types::NodeId;

/// What becomes of a registration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Claim {
    /// Nobody has this id.
    New,
    /// The process registered before, at this address.
    Known,
    /// It takes the place of a process that is gone, or of itself at another address.
    Takes,
    /// A process at this address has the id, and is taken to be alive.
    InUse { addr: String },
}

/// Whose a message is that carries a node's id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    /// The process that registered last.
    Current,
    /// It must register, or register again.
    Unknown,
    /// Another process has taken its place, at this address. It must end.
    Superseded { addr: String },
}

impl Member {
    /// It sends heartbeats, as far as can be told.
    fn is_held(&self, now: Duration) -> bool {
        self.is_live(now) && !self.disconnected
    }
}

impl Cluster {
    /// What to answer to `node`, which asks to be registered. `hearing_since`: since when heartbeats are received here.
    pub fn claim(&self, now: Duration, hearing_since: Duration, node: &Node) -> Claim {
        let Some(member) = self.nodes.get(&node.id) else { return Claim::New };
        let known = &member.node;
        let is_there = known.ip == node.ip && known.xfer_port == node.xfer_port;
        if known.incarnation == node.incarnation && is_there {
            return Claim::Known;
        }
        let is_later = node.incarnation.start_ms > known.incarnation.start_ms;
        // Two processes cannot have one port: whoever has it now, on that machine, outlived the other.
        let takes_over = is_later && is_there && known.from == node.from;
        let is_unheard = member.seen.is_none() && now.saturating_sub(hearing_since) <= crate::node::SILENCE_MAX;
        let may_be_held = known.incarnation != node.incarnation && is_unheard;
        if !takes_over && (member.is_held(now) || may_be_held) {
            return Claim::InUse { addr: known.xfer_addr() };
        }
        Claim::Takes
    }

    /// Whose a message of `node` is, which gave `incarnation` and the transfer address that it registered.
    pub fn standing(&self, now: Duration, node: NodeId, incarnation: Incarnation, xfer_addr: &str) -> Standing {
        let Some(member) = self.nodes.get(&node) else { return Standing::Unknown };
        let known = &member.node;
        let is_it = known.incarnation == incarnation;
        match () {
            () if is_it && known.xfer_addr() == xfer_addr => Standing::Current,
            // It registered at another server, which reaches it under another address; or it is a copy of a machine that runs.
            () if is_it && !member.is_held(now) => Standing::Unknown,
            // It did register, and this server's state is from before: it was put back from a copy.
            () if known.incarnation.start_ms < incarnation.start_ms => Standing::Unknown,
            () => Standing::Superseded { addr: known.xfer_addr() },
        }
    }
}

/// Processes with ids that nobody has, until their next message shows that they are there. Nothing else is kept of them.
#[derive(Debug, Default)]
pub struct Newcomers {
    by_id: BTreeMap<NodeId, Newcomer>,
    /// Nodes that may be made now, and when that was counted.
    allowance: Option<(f64, Duration)>,
}

#[derive(Debug)]
struct Newcomer {
    node: Node,
    /// Of its program.
    version: String,
    at: Duration,
}

/// Why a process cannot become a datanode now.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Crowded {
    #[error(
        "{count} datanodes are registered from {from}; at most {NODES_PER_MACHINE_MAX} are accepted from one address"
    )]
    Machine { from: String, count: usize },
    #[error("{NODE_COUNT_MAX} datanodes are known, which is the limit")]
    Nodes,
    #[error("{NEWCOMER_COUNT_MAX} processes are being registered; try again in a minute")]
    Newcomers,
    #[error("datanodes registered too fast; try again in a second")]
    Rate,
}

/// More than a store has.
pub(crate) const NODE_COUNT_MAX: usize = 10_000;
/// More than a machine runs: one would do.
pub(crate) const NODES_PER_MACHINE_MAX: usize = 200;
pub(crate) const NEWCOMER_COUNT_MAX: usize = 1000;
/// Between a registration and the next message; that comes at once.
pub(crate) const NEWCOMER_WAIT: Duration = Duration::from_secs(60);
/// Registrations that are written down: so many at once, as when a store starts, and so many a second from then on.
const ALLOWANCE_MAX: f64 = 1000.0;
const ALLOWANCE_PER_S: f64 = 20.0;

impl Newcomers {
    /// A process registered with an id that nobody has.
    pub fn enter(&mut self, now: Duration, node: Node, version: String, cluster: &Cluster) -> Result<(), Crowded> {
        self.expire(now);
        let known = || cluster.nodes().map(|member| &member.node);
        let waiting = self.by_id.values().map(|newcomer| &newcomer.node).filter(|other| other.id != node.id);
        let count = known().chain(waiting).filter(|other| other.from == node.from).count();
        match () {
            () if count >= NODES_PER_MACHINE_MAX => return Err(Crowded::Machine { from: node.from, count }),
            () if known().count() >= NODE_COUNT_MAX => return Err(Crowded::Nodes),
            () if self.by_id.len() >= NEWCOMER_COUNT_MAX && !self.by_id.contains_key(&node.id) => {
                return Err(Crowded::Newcomers);
            }
            () => {}
        }
        self.by_id.insert(node.id, Newcomer { node, version, at: now });
        Ok(())
    }

    /// A message came from the process: it is there, and becomes a node. `None`: it has not registered.
    /// Answers the node, and the version of its program.
    pub fn take(
        &mut self,
        now: Duration,
        id: NodeId,
        incarnation: Incarnation,
        xfer_addr: &str,
    ) -> Option<(Node, String)> {
        self.expire(now);
        let newcomer = self.by_id.get(&id)?;
        if newcomer.node.incarnation != incarnation || newcomer.node.xfer_addr() != xfer_addr {
            return None;
        }
        self.by_id.remove(&id).map(|newcomer| (newcomer.node, newcomer.version))
    }

    /// Counts a registration that is to be written down.
    pub fn spend(&mut self, now: Duration) -> Result<(), Crowded> {
        let (left, counted) = self.allowance.unwrap_or((ALLOWANCE_MAX, now));
        let earned = now.saturating_sub(counted).as_secs_f64() * ALLOWANCE_PER_S;
        let left = (left + earned).min(ALLOWANCE_MAX);
        let is_enough = left >= 1.0;
        self.allowance = Some((if is_enough { left - 1.0 } else { left }, now));
        if is_enough { Ok(()) } else { Err(Crowded::Rate) }
    }

    fn expire(&mut self, now: Duration) {
        self.by_id.retain(|_, newcomer| now <= newcomer.at + NEWCOMER_WAIT);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::{Command, apply};
    use crate::node::{SILENCE_MAX, Usage};
    use types::rows::MemoryRows;

    const ID: NodeId = NodeId([1; 16]);
    const SECOND: Duration = Duration::from_secs(1);

    fn process(start_ms: u64, ip: &str) -> Node {
        let incarnation = Incarnation { start_ms, nonce: start_ms * 7 };
        Node { ip: ip.into(), from: ip.into(), incarnation, ..Node::example(1, "/r") }
    }

    /// A store where `node` is registered and was heard at `seen`.
    fn store(node: &Node, seen: Option<Duration>) -> Cluster {
        let mut rows = MemoryRows::default();
        apply(&mut rows, &Command::Register(node.clone())).unwrap().unwrap();
        let mut cluster = Cluster::load(&rows, 1).unwrap();
        if let Some(seen) = seen {
            cluster.on_registered(seen, node.id, Usage::default());
        }
        cluster
    }

    fn in_use() -> Claim {
        Claim::InUse { addr: "a:9866".into() }
    }

    /// While a node is heard nobody elsewhere takes its place; when it is not, anybody does, and the former one must end.
    #[test]
    fn of_two_processes_one_is_the_node() {
        let (first, copy) = (process(10, "a"), process(20, "b"));
        let cluster = store(&first, Some(SECOND));
        let claim = |now, node: &Node| cluster.claim(now, Duration::ZERO, node);
        assert_eq!(claim(SECOND, &first), Claim::Known);
        assert_eq!(claim(SECOND + SILENCE_MAX, &copy), in_use());
        assert_eq!(claim(SECOND * 2 + SILENCE_MAX, &copy), Claim::Takes);
        assert_eq!(
            claim(SECOND * 2 + SILENCE_MAX, &process(5, "b")),
            Claim::Takes,
            "an older disk, when nobody else is there"
        );
        assert_eq!(claim(SECOND, &process(10, "b")), in_use(), "a copy of a machine that runs");
        let other = Node { id: NodeId([2; 16]), ..first.clone() };
        assert_eq!(claim(SECOND, &other), Claim::New);

        let cluster = store(&copy, Some(SECOND));
        let standing = |node: &Node| cluster.standing(SECOND, ID, node.incarnation, &node.xfer_addr());
        assert_eq!(standing(&copy), Standing::Current);
        assert_eq!(standing(&first), Standing::Superseded { addr: "b:9866".into() });
        assert_eq!(standing(&process(20, "a")), Standing::Superseded { addr: "b:9866".into() });
        assert_eq!(standing(&process(30, "b")), Standing::Unknown, "this server's state is from before");
    }

    /// A process that starts again on its port need not wait, nor one whose former connection has ended.
    #[test]
    fn a_restart_takes_its_own_place_at_once() {
        let mut cluster = store(&process(10, "a"), Some(SECOND));
        assert_eq!(cluster.claim(SECOND, Duration::ZERO, &process(20, "a")), Claim::Takes);
        assert_eq!(cluster.claim(SECOND, Duration::ZERO, &process(9, "a")), in_use(), "a message that was late");
        let elsewhere = Node { from: "c".into(), ..process(20, "a") };
        assert_eq!(cluster.claim(SECOND, Duration::ZERO, &elsewhere), in_use(), "it only says that it is there");
        cluster.on_hung_up(ID);
        assert_eq!(cluster.claim(SECOND, Duration::ZERO, &process(20, "b")), in_use(), "a writer may be wrong");
        cluster.on_disconnected(ID);
        assert_eq!(cluster.claim(SECOND, Duration::ZERO, &process(20, "b")), Claim::Takes);
    }

    /// One that leads anew has not heard the node yet: another process must wait until it would have.
    #[test]
    fn a_new_leader_waits_for_the_process_it_knows_of() {
        let cluster = store(&process(10, "a"), None);
        let claim = |now, node: &Node| cluster.claim(now, SECOND, node);
        assert_eq!(claim(SECOND, &process(20, "a")), Claim::Takes, "a restart");
        assert_eq!(claim(SECOND, &process(20, "b")), in_use());
        assert_eq!(claim(SECOND, &process(5, "b")), in_use());
        assert_eq!(claim(SECOND * 2 + SILENCE_MAX, &process(20, "b")), Claim::Takes);
        assert_eq!(claim(SECOND * 2 + SILENCE_MAX, &process(5, "b")), Claim::Takes);
        let moved = process(10, "b");
        assert_eq!(cluster.standing(SECOND, ID, moved.incarnation, &moved.xfer_addr()), Standing::Unknown);
        assert_eq!(claim(SECOND, &moved), Claim::Takes, "the same one, which this server reaches otherwise");
    }

    fn numbered(number: u32, from: &str) -> Node {
        let mut id = [0; 16];
        id[..4].copy_from_slice(&number.to_be_bytes());
        Node { id: NodeId(id), from: from.into(), ..Node::example(1, "/r") }
    }

    #[test]
    fn newcomers_are_few_and_forgotten() {
        let cluster = store(&process(10, "a"), None);
        let mut newcomers = Newcomers::default();
        for number in 0..NODES_PER_MACHINE_MAX as u32 {
            newcomers.enter(SECOND, numbered(number, "b"), String::new(), &cluster).unwrap();
        }
        let one_more = newcomers.enter(SECOND, numbered(1000, "b"), String::new(), &cluster).unwrap_err();
        assert_eq!(one_more, Crowded::Machine { from: "b".into(), count: NODES_PER_MACHINE_MAX });
        for number in NODES_PER_MACHINE_MAX..NEWCOMER_COUNT_MAX {
            newcomers
                .enter(SECOND, numbered(number as u32, &format!("c{}", number % 100)), String::new(), &cluster)
                .unwrap();
        }
        assert_eq!(newcomers.enter(SECOND, numbered(5000, "d"), String::new(), &cluster), Err(Crowded::Newcomers));
        let first = numbered(0, "b");
        assert_eq!(newcomers.take(SECOND, first.id, Incarnation { start_ms: 0, nonce: 1 }, &first.xfer_addr()), None);
        assert_eq!(
            newcomers.take(SECOND, first.id, first.incarnation, &first.xfer_addr()),
            Some((first.clone(), String::new()))
        );
        assert_eq!(newcomers.take(SECOND, first.id, first.incarnation, &first.xfer_addr()), None);
        newcomers.enter(SECOND * 3 + NEWCOMER_WAIT, numbered(7000, "f"), String::new(), &cluster).unwrap();
        assert_eq!(newcomers.by_id.len(), 1);
    }

    #[test]
    fn registrations_that_are_written_down_have_a_rate() {
        let mut newcomers = Newcomers::default();
        let spent = |newcomers: &mut Newcomers, now| (0..2000).filter(|_| newcomers.spend(now).is_ok()).count();
        assert_eq!(spent(&mut newcomers, SECOND), 1000);
        assert_eq!(spent(&mut newcomers, SECOND * 3), 40);
        assert_eq!(spent(&mut newcomers, SECOND * 1000), 1000);
    }
}
