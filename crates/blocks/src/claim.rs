//! Which process is a datanode: the one that registered last, and no second one beside it.
//!
//! ```text
//! registers ──▶ claim: unknown id ──▶ newcomer: remembered for a minute; its next message makes it a node
//!                      known id ────▶ takes its place, if the process there is gone or silent, or was on the same port
//!                                     refused, if the process there still sends heartbeats
//! any other message ──▶ standing: of the process that registered last ──▶ counts
//!                                 of another one ──▶ superseded, if that one still sends heartbeats: it ends
//! ```
//!
//! Promise: a message counts only if it comes from the process that registered last, and while that one is live no
//! process elsewhere takes its place, whatever it claims. So of a copied disk or machine one is refused, and says so
//! when it ends; it is never both.

use crate::cluster::Cluster;
use crate::node::{Incarnation, Member, Node, SILENCE_MAX};
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

/// A process whose registration is being written down as the one that counts.
#[derive(Clone, Debug)]
pub(crate) struct Claimant {
    node: Node,
    at: Duration,
}

impl Claimant {
    fn is_of(&self, incarnation: Incarnation, xfer_addr: &str) -> bool {
        self.node.incarnation == incarnation && self.node.xfer_addr() == xfer_addr
    }
}

impl Node {
    fn is_at(&self, other: &Self) -> bool {
        self.ip == other.ip && self.xfer_port == other.xfer_port
    }

    /// Two processes cannot have one port: whoever has it now, on that machine, outlived the other.
    fn outlived(&self, other: &Self) -> bool {
        self.incarnation.start_ms > other.incarnation.start_ms && self.is_at(other) && self.from == other.from
    }
}

impl Member {
    /// It sends heartbeats, as far as can be told by who receives them since `hearing_since`.
    fn is_held(&self, now: Duration, hearing_since: Duration) -> bool {
        let is_live = |seen: Duration| now.saturating_sub(seen.max(hearing_since)) <= SILENCE_MAX;
        self.seen.is_some_and(is_live) && !self.disconnected
    }

    /// Another process is about to become the node.
    fn is_claimed_from(&self, incarnation: Incarnation, xfer_addr: &str) -> bool {
        self.claimant.as_ref().is_some_and(|claimant| !claimant.is_of(incarnation, xfer_addr))
    }
}

impl Cluster {
    /// What to answer to `node`, which asks to be registered. `hearing_since`: since when heartbeats are received here
    /// without a gap.
    ///
    /// One that is let in keeps all others out until [`Cluster::on_claimed`]: its row is not written yet, and a process
    /// that comes back meanwhile must not count beside it.
    pub fn claim(&mut self, now: Duration, hearing_since: Duration, node: &Node) -> Claim {
        let Some(member) = self.nodes.get_mut(&node.id) else { return Claim::New };
        let is_claimed = member.is_claimed_from(node.incarnation, &node.xfer_addr());
        // One whose row never came about keeps the place no longer than one that is silent.
        let claimant = member.claimant.as_ref().filter(|claimant| is_claimed && !node.outlived(&claimant.node));
        if let Some(claimant) = claimant.filter(|claimant| now.saturating_sub(claimant.at) <= SILENCE_MAX) {
            return Claim::InUse { addr: claimant.node.xfer_addr() };
        }
        let known = &member.node;
        let is_same = known.incarnation == node.incarnation;
        let claim = if is_same && known.is_at(node) {
            // After a claimant whose row may come yet: this one's must come behind it.
            if is_claimed { Claim::Takes } else { Claim::Known }
        } else {
            let is_unheard = member.seen.is_none() && now.saturating_sub(hearing_since) <= SILENCE_MAX;
            let may_be_held = !is_same && is_unheard;
            if !node.outlived(known) && (member.is_held(now, hearing_since) || may_be_held) {
                return Claim::InUse { addr: known.xfer_addr() };
            }
            Claim::Takes
        };
        member.claimant = Some(Claimant { node: node.clone(), at: now });
        claim
    }

    /// The row of `node`, which was let in, is written. False: another process was let in meanwhile, and this one must
    /// ask again.
    pub fn on_claimed(&mut self, node: &Node) -> bool {
        let Some(member) = self.nodes.get_mut(&node.id) else { return false };
        let is_known = member.node.incarnation == node.incarnation && member.node.is_at(node);
        if !is_known || member.is_claimed_from(node.incarnation, &node.xfer_addr()) {
            return false;
        }
        member.claimant = None;
        true
    }

    /// Whose a message of `node` is, which gave `incarnation` and the transfer address that it registered.
    pub fn standing(&self, now: Duration, node: NodeId, incarnation: Incarnation, xfer_addr: &str) -> Standing {
        let Some(member) = self.nodes.get(&node) else { return Standing::Unknown };
        let known = &member.node;
        let is_it = known.incarnation == incarnation;
        match () {
            () if member.is_claimed_from(incarnation, xfer_addr) => Standing::Unknown,
            () if is_it && known.xfer_addr() == xfer_addr => Standing::Current,
            // Nobody else is there: it registered at another server, which reaches it under another address or has not
            // told its row yet. When it registers again it is known whether it may have the place; which of two began
            // first is known only as well as their clocks.
            () if !member.is_held(now, Duration::ZERO) => Standing::Unknown,
            // It did register, and this server's state is from before: it was put back from a copy.
            () if known.incarnation.start_ms < incarnation.start_ms => Standing::Unknown,
            () => Standing::Superseded { addr: known.xfer_addr() },
        }
    }
}

/// Processes with ids that nobody has, until their next message shows that they are there. Nothing else is kept of
/// them.
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
/// More than a machine runs: one would do. Counted are those that are heard or hold something: a datanode that is made
/// anew each day leaves a row each time, and none of them goes.
pub(crate) const NODES_PER_MACHINE_MAX: usize = 200;
/// A node that is silent for longer, and holds nothing, does not count among those of its machine.
const UNUSED_AFTER: Duration = Duration::from_secs(3600);
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
        let is_used = |member: &&Member| {
            let id = member.node.id;
            let is_heard = member.seen.is_some_and(|seen| now.saturating_sub(seen) <= UNUSED_AFTER);
            is_heard || !cluster.pipelines_of(id).is_empty()
        };
        let known = || cluster.nodes().filter(is_used).map(|member| &member.node);
        let waiting = self.by_id.values().map(|newcomer| &newcomer.node).filter(|other| other.id != node.id);
        let count = known().chain(waiting).filter(|other| other.from == node.from).count();
        match () {
            () if count >= NODES_PER_MACHINE_MAX => return Err(Crowded::Machine { from: node.from, count }),
            () if cluster.nodes().count() >= NODE_COUNT_MAX => return Err(Crowded::Nodes),
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
    use crate::node::Usage;
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

    /// While a node is heard nobody elsewhere takes its place; when it is not, anybody does, and the former one must
    /// end.
    #[test]
    fn of_two_processes_one_is_the_node() {
        let (first, copy) = (process(10, "a"), process(20, "b"));
        let claim = |now, node: &Node| store(&first, Some(SECOND)).claim(now, Duration::ZERO, node);
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
        let mut cluster = store(&process(10, "a"), Some(SECOND));
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
        let claim = |now, node: &Node| store(&process(10, "a"), None).claim(now, SECOND, node);
        assert_eq!(claim(SECOND, &process(20, "a")), Claim::Takes, "a restart");
        assert_eq!(claim(SECOND, &process(20, "b")), in_use());
        assert_eq!(claim(SECOND, &process(5, "b")), in_use());
        assert_eq!(claim(SECOND * 2 + SILENCE_MAX, &process(20, "b")), Claim::Takes);
        assert_eq!(claim(SECOND * 2 + SILENCE_MAX, &process(5, "b")), Claim::Takes);
        let moved = process(10, "b");
        assert_eq!(cluster.standing(SECOND, ID, moved.incarnation, &moved.xfer_addr()), Standing::Unknown);
        assert_eq!(claim(SECOND, &moved), Claim::Takes, "the same one, which this server reaches otherwise");
    }

    /// A leader that received nothing for a while, as it was cut off from its group, takes nobody for silent: those it
    /// knew, those that another member received less often before it led, and those that it has not received yet.
    #[test]
    fn a_gap_in_the_reception_is_not_the_silence_of_a_process() {
        for seen in [Some(SECOND), None] {
            let claim = |now, since| store(&process(10, "a"), seen).claim(now, since, &process(20, "b"));
            assert_eq!(claim(SECOND * 30, SECOND * 20), in_use(), "{seen:?}");
            assert_eq!(claim(SECOND * 31, SECOND * 20), Claim::Takes, "{seen:?}");
        }
    }

    /// Between the leave to take a node's place and the row that says so, the former process comes back: it does not
    /// count.
    #[test]
    fn who_comes_back_while_its_place_is_taken_does_not_count() {
        let (first, copy) = (process(10, "a"), process(20, "b"));
        let mut cluster = store(&first, Some(SECOND));
        let now = SECOND * 2 + SILENCE_MAX;
        let standing = |cluster: &Cluster, node: &Node| cluster.standing(now, ID, node.incarnation, &node.xfer_addr());
        assert_eq!(cluster.claim(now, Duration::ZERO, &copy), Claim::Takes);
        assert_eq!(standing(&cluster, &first), Standing::Unknown);
        assert_eq!(cluster.claim(now, Duration::ZERO, &first), Claim::InUse { addr: "b:9866".into() });
        assert_eq!(cluster.claim(now, Duration::ZERO, &copy), Claim::Takes, "it asks again");
        assert_eq!(cluster.claim(now, Duration::ZERO, &process(30, "b")), Claim::Takes, "it was started again");
        assert_eq!(cluster.claim(now, Duration::ZERO, &copy), Claim::InUse { addr: "b:9866".into() });

        // Its row does not come about. The former one's is written again, so that a late one of the other cannot come
        // behind it.
        let later = now + SECOND + SILENCE_MAX;
        assert_eq!(cluster.claim(later, Duration::ZERO, &first), Claim::Takes);
        cluster.on_applied(&Command::Register(copy.clone()), &Ok(crate::Reply::Done));
        assert!(!cluster.on_claimed(&copy), "another one was let in");
        assert_eq!(standing(&cluster, &copy), Standing::Unknown);
        cluster.on_applied(&Command::Register(first.clone()), &Ok(crate::Reply::Done));
        assert!(cluster.on_claimed(&first));
        assert_eq!(standing(&cluster, &first), Standing::Current);
    }

    /// After a power loss the clock was wrong, and the row holds a start that is later than the one of the process that
    /// is there now. A server that leads anew has heard nobody: it ends none.
    #[test]
    fn nobody_must_end_for_a_process_that_was_not_heard() {
        let (late, earlier) = (process(20, "a"), process(10, "a"));
        let standing = |cluster: &Cluster, now| cluster.standing(now, ID, earlier.incarnation, &earlier.xfer_addr());
        assert_eq!(standing(&store(&late, None), SECOND), Standing::Unknown);
        let heard = store(&late, Some(SECOND));
        assert_eq!(standing(&heard, SECOND), Standing::Superseded { addr: "a:9866".into() });
        assert_eq!(standing(&heard, SECOND * 2 + SILENCE_MAX), Standing::Unknown, "that one is gone");
    }

    /// A datanode is made anew with an empty disk, each day, behind one address.
    #[test]
    fn nodes_that_are_gone_and_hold_nothing_do_not_count() {
        let mut rows = MemoryRows::default();
        for number in 0..NODES_PER_MACHINE_MAX as u32 {
            apply(&mut rows, &Command::Register(numbered(number, "b"))).unwrap().unwrap();
        }
        let mut cluster = Cluster::load(&rows, 1).unwrap();
        let ids: Vec<NodeId> = cluster.nodes().map(|member| member.node.id).collect();
        ids.iter().for_each(|id| cluster.on_registered(SECOND, *id, Usage::default()));
        let enter =
            |cluster: &Cluster, now| Newcomers::default().enter(now, numbered(1000, "b"), String::new(), cluster);
        let refused = Err(Crowded::Machine { from: "b".into(), count: NODES_PER_MACHINE_MAX });
        assert_eq!(enter(&cluster, SECOND + UNUSED_AFTER), refused);
        assert_eq!(enter(&cluster, SECOND * 2 + UNUSED_AFTER), Ok(()));
        let all_hold = Command::CreatePipeline { members: ids[..500.min(ids.len())].to_vec(), planned: true };
        let reply = apply(&mut rows, &all_hold).unwrap();
        cluster.on_applied(&all_hold, &reply);
        assert_eq!(enter(&cluster, SECOND * 2 + UNUSED_AFTER), refused, "they are waited for");
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
