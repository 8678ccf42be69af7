//! The process that acts as a datanode: the one that registered last, and no second one beside it.
//!
//! ```text
//! registers ──▶ claim: unknown id ──▶ newcomer: remembered for a minute; its next message makes it a node
//!                      known id ────▶ takes over, if the process there is gone or silent, or was on the same port
//!                                     refused, if the process there still sends heartbeats, or may do so: a server
//!                                     that hears nodes since a moment ago cannot know. After a goodbye its machine
//!                                     need not wait
//! any other message ──▶ standing: of the process that registered last ──▶ counts
//!                                 of another one ──▶ superseded, if that one still sends heartbeats: it ends
//! ```
//!
//! Promise: a message counts only if it comes from the process that registered last. While that process is live, no
//! process elsewhere takes its place, whatever id it claims. So of two copies of a disk or machine one is refused, and
//! logs that when it ends. Both are never accepted.

use crate::cluster::Cluster;
use crate::member::{Claimant, Member, SILENCE_MAX};
use blocks::{Incarnation, Node};
use std::collections::BTreeMap;
use std::time::Duration;
use types::NodeId;
use types::limits::DATANODE_COUNT_MAX;

/// What becomes of a registration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Claim {
    /// No node has this id.
    New,
    /// The process registered before, at this address.
    Known,
    /// It takes the place of a process that is gone, or of itself at another address.
    Takes,
    /// A process at this address has the id, and is taken to be alive.
    InUse { addr: String },
    /// The same, but it was never heard here: this server receives heartbeats since a moment ago.
    MayBeInUse { addr: String },
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
    /// It sends heartbeats, as far as a server can know that receives them since `receiving_since`.
    fn is_held(&self, now: Duration, receiving_since: Duration) -> bool {
        let is_live = |seen: Duration| now.saturating_sub(seen.max(receiving_since)) <= SILENCE_MAX;
        self.seen.is_some_and(is_live) && !self.disconnected
    }

    /// `node` is the process that has registered, and describes itself otherwise than before.
    fn describes_itself_anew(&self, node: &Node) -> bool {
        self.node.incarnation == node.incarnation && self.node != *node
    }

    /// Another process is about to become the node.
    fn is_claimed_from(&self, incarnation: Incarnation, xfer_addr: &str) -> bool {
        self.claimant.as_ref().is_some_and(|claimant| !claimant.is_of(incarnation, xfer_addr))
    }
}

impl Cluster {
    /// The answer to `node`, which asks to be registered. `receiving_since`: since when heartbeats are received here
    /// without a gap.
    ///
    /// A process that is let in keeps all others out until [`Cluster::on_claimed`]: its row is not written yet, and a
    /// process that returns meanwhile must not count beside it.
    pub fn claim(&mut self, now: Duration, receiving_since: Duration, node: &Node) -> Claim {
        let Some(member) = self.nodes.get_mut(&node.id) else { return Claim::New };
        let is_claimed = member.is_claimed_from(node.incarnation, &node.xfer_addr());
        // A claim whose row was never written keeps the place no longer than a silent process does.
        let claimant = member.claimant.as_ref().filter(|claimant| is_claimed && !node.outlived(&claimant.node));
        if let Some(claimant) = claimant.filter(|claimant| now.saturating_sub(claimant.at) <= SILENCE_MAX) {
            return Claim::InUse { addr: claimant.node.xfer_addr() };
        }
        let known = &member.node;
        let is_same = known.incarnation == node.incarnation;
        let claim = if is_same && known.is_at(node) {
            // After a claimant whose row may come yet: this one's must come behind it. After a goodbye, as of a machine
            // that was put back to an earlier state: its row says that it is here again.
            if is_claimed || member.has_said_goodbye() { Claim::Takes } else { Claim::Known }
        } else {
            let is_unheard = member.seen.is_none() && now.saturating_sub(receiving_since) <= SILENCE_MAX;
            // A copy on another machine is not what said goodbye.
            let is_back = member.has_said_goodbye() && node.from == known.from;
            let may_be_held = !is_same && is_unheard && !is_back;
            match () {
                () if node.outlived(known) => Claim::Takes,
                () if member.is_held(now, receiving_since) => return Claim::InUse { addr: known.xfer_addr() },
                () if may_be_held => return Claim::MayBeInUse { addr: known.xfer_addr() },
                () => Claim::Takes,
            }
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
            // No other process is live. This one registered at another server, which reaches it under another address
            // or has not sent its row yet. When it registers again, it is known whether it may have the place. Which of
            // two began first is known only as well as their clocks agree.
            () if !member.is_held(now, Duration::ZERO) => Standing::Unknown,
            // It did register, and this server's state is from before: it was put back from a copy.
            () if known.incarnation.start_ms < incarnation.start_ms => Standing::Unknown,
            () => Standing::Superseded { addr: known.xfer_addr() },
        }
    }
}

/// Processes with ids that no node has, until their next message shows that they are live. Nothing else is kept of
/// them.
///
/// No address uses up what others need: each has its own share of the places and of the rate.
#[derive(Debug, Default)]
pub struct Newcomers {
    by_id: BTreeMap<NodeId, Newcomer>,
    common: Allowance,
    /// Of addresses that registrations came from, until they have all of it again. Each spends of `common`, too, which
    /// keeps them few.
    by_from: BTreeMap<String, Allowance>,
}

#[derive(Debug)]
struct Newcomer {
    node: Node,
    /// Of its program.
    version: String,
    at: Duration,
}

/// Registrations that were written down of late.
#[derive(Clone, Copy, Debug, Default)]
struct Allowance {
    /// Those not made up for by the time that has passed since, and when that was counted.
    spent: f64,
    counted: Duration,
}

/// How many registrations may be written down: so many at once, and so many a second from then on.
#[derive(Clone, Copy, Debug)]
struct Rate {
    count_max: f64,
    per_s: f64,
}

impl Allowance {
    fn earn(&mut self, now: Duration, rate: Rate) {
        let earned = now.saturating_sub(self.counted).as_secs_f64() * rate.per_s;
        (self.spent, self.counted) = ((self.spent - earned).max(0.0), now);
    }

    fn is_enough(&self, rate: Rate) -> bool {
        self.spent + 1.0 <= rate.count_max
    }
}

/// Why a process cannot become a datanode now.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Crowded {
    #[error(
        "{count} datanodes are registered from {from}; at most {NODES_PER_MACHINE_MAX} are accepted from one address"
    )]
    Machine { from: String, count: usize },
    #[error(
        "{DATANODE_COUNT_MAX} datanodes are known, which is the limit, and no command forgets one that is gone: start \
         this one on the directory of a known datanode that does not run, or begin another store"
    )]
    Nodes,
    #[error("datanodes registered too fast; try again in a second")]
    Rate,
    #[error("datanodes registered too fast from {from}; try again in a second")]
    MachineRate { from: String },
    #[error("the datanode's addresses, names or rack changed less than a minute ago; try again in {wait_s} s")]
    Changed { wait_s: u64 },
}

/// More than a machine runs: one would do. Nodes that send heartbeats or hold something count. A datanode that is made
/// anew each day leaves a row each time, and no row is removed.
pub(crate) const NODES_PER_MACHINE_MAX: usize = 200;
/// A node that was silent for longer, and holds nothing, does not count among those of its machine.
const UNUSED_AFTER: Duration = Duration::from_secs(3600);
pub(crate) const NEWCOMER_COUNT_MAX: usize = 1000;
/// Of one address: each is one for no longer than a round trip, unless it is none.
const NEWCOMERS_PER_MACHINE_MAX: usize = 50;
/// Between a registration and the next message; that comes at once.
pub(crate) const NEWCOMER_WAIT: Duration = Duration::from_secs(60);
/// Of all addresses: as when a store starts.
const COMMON_RATE: Rate = Rate { count_max: 1000.0, per_s: 20.0 };
/// Of one address: as when its machine starts. A guess; one that starts its datanodes again and again does so more
/// slowly.
const MACHINE_RATE: Rate = Rate { count_max: NODES_PER_MACHINE_MAX as f64, per_s: 1.0 };
/// Between two descriptions that one process gives of itself. Its addresses change with its network.
const CHANGE_PAUSE: Duration = Duration::from_secs(60);

impl Newcomers {
    pub(crate) fn check(&self) {
        assert!(self.by_id.len() <= NEWCOMER_COUNT_MAX, "{} newcomers are remembered", self.by_id.len());
        for (id, newcomer) in &self.by_id {
            assert_eq!(newcomer.node.id, *id, "a newcomer is listed under its id");
        }
    }

    /// A process registered with an id that no node has.
    ///
    /// If there is no place for it, the oldest newcomer that has not sent its next message is dropped: of its own
    /// address, or of the one with most.
    pub fn enter(&mut self, now: Duration, node: Node, version: String, cluster: &Cluster) -> Result<(), Crowded> {
        self.expire(now);
        let is_used = |member: &&Member| {
            let id = member.node.id;
            let is_heard = member.seen.is_some_and(|seen| now.saturating_sub(seen) <= UNUSED_AFTER);
            is_heard || !cluster.pipelines_of(id).is_empty()
        };
        let known = cluster.nodes().filter(is_used).filter(|member| member.node.from == node.from).count();
        match () {
            () if known >= NODES_PER_MACHINE_MAX => {
                return Err(Crowded::Machine { from: node.from, count: known });
            }
            () if cluster.nodes().count() >= DATANODE_COUNT_MAX => return Err(Crowded::Nodes),
            () => {}
        }
        self.by_id.remove(&node.id);
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        for newcomer in self.by_id.values() {
            *counts.entry(&newcomer.node.from).or_default() += 1;
        }
        let of_own = counts.get(&*node.from).copied().unwrap_or_default();
        let own_max = NEWCOMERS_PER_MACHINE_MAX.min(NODES_PER_MACHINE_MAX - known);
        let crowded = if of_own >= own_max {
            Some(node.from.clone())
        } else if self.by_id.len() >= NEWCOMER_COUNT_MAX {
            let most = counts.values().copied().max();
            let of_most = |newcomer: &&Newcomer| counts.get(&*newcomer.node.from).copied() == most;
            let oldest = self.by_id.values().filter(of_most).min_by_key(|newcomer| newcomer.at);
            oldest.map(|newcomer| newcomer.node.from.clone())
        } else {
            None
        };
        if let Some(from) = crowded {
            let of_from = self.by_id.values().filter(|newcomer| newcomer.node.from == from);
            if let Some(id) = of_from.min_by_key(|newcomer| newcomer.at).map(|newcomer| newcomer.node.id) {
                self.by_id.remove(&id);
            }
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

    /// Counts the registration of `node`, which is to be written down.
    pub fn spend(&mut self, now: Duration, node: &Node, cluster: &mut Cluster) -> Result<(), Crowded> {
        self.by_from.retain(|_, allowance| {
            allowance.earn(now, MACHINE_RATE);
            allowance.spent > 0.0
        });
        self.common.earn(now, COMMON_RATE);
        let member = cluster.nodes.get_mut(&node.id).filter(|member| member.describes_itself_anew(node));
        let wait = member.as_ref().and_then(|member| (member.changed? + CHANGE_PAUSE).checked_sub(now));
        let own = self.by_from.get(&node.from).copied().unwrap_or(Allowance { spent: 0.0, counted: now });
        match wait.filter(|wait| !wait.is_zero()) {
            Some(wait) => return Err(Crowded::Changed { wait_s: wait.as_millis().div_ceil(1000) as u64 }),
            None if !own.is_enough(MACHINE_RATE) => {
                return Err(Crowded::MachineRate { from: node.from.clone() });
            }
            None if !self.common.is_enough(COMMON_RATE) => return Err(Crowded::Rate),
            None => {}
        }
        self.common.spent += 1.0;
        self.by_from.insert(node.from.clone(), Allowance { spent: own.spent + 1.0, ..own });
        if let Some(member) = member {
            member.changed = Some(now);
        }
        Ok(())
    }

    fn expire(&mut self, now: Duration) {
        self.by_id.retain(|_, newcomer| now <= newcomer.at + NEWCOMER_WAIT);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::member::NodeUsage;
    use blocks::{Command, Leave, LeaveKind, apply};
    use types::Millis;
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
            cluster.on_registered(seen, node.id, NodeUsage::default());
        }
        cluster
    }

    fn in_use() -> Claim {
        Claim::InUse { addr: "a:9866".into() }
    }

    fn may_be_in_use() -> Claim {
        Claim::MayBeInUse { addr: "a:9866".into() }
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
        cluster.on_dropped_from_chain(ID);
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
        assert_eq!(claim(SECOND, &process(20, "b")), may_be_in_use());
        assert_eq!(claim(SECOND, &process(5, "b")), may_be_in_use());
        assert_eq!(claim(SECOND * 2 + SILENCE_MAX, &process(20, "b")), Claim::Takes);
        assert_eq!(claim(SECOND * 2 + SILENCE_MAX, &process(5, "b")), Claim::Takes);
        let moved = process(10, "b");
        assert_eq!(cluster.standing(SECOND, ID, moved.incarnation, &moved.xfer_addr()), Standing::Unknown);
        assert_eq!(claim(SECOND, &moved), Claim::Takes, "the same one, which this server reaches otherwise");
    }

    /// The whole store was stopped in order and is started on other ports.
    #[test]
    fn a_new_leader_waits_for_no_process_that_said_goodbye() {
        let claim = |kind, node: &Node| {
            let mut rows = MemoryRows::default();
            let leave = Some(Leave { kind, until: Millis(1 << 40) });
            for command in [Command::Register(process(10, "a")), Command::SetLeave { node: ID, leave }] {
                apply(&mut rows, &command).unwrap().unwrap();
            }
            let mut cluster = Cluster::load(&rows, 1).unwrap();
            cluster.claim(SECOND, SECOND, node)
        };
        let elsewhere = process(20, "b");
        let moved = Node { from: "a".into(), ..elsewhere.clone() };
        assert_eq!(claim(LeaveKind::Restart, &moved), Claim::Takes);
        assert_eq!(claim(LeaveKind::Maintenance, &moved), may_be_in_use(), "an administrator's word");
        assert_eq!(claim(LeaveKind::Restart, &elsewhere), may_be_in_use(), "a copy of its disk, on another machine");
        assert_eq!(claim(LeaveKind::Restart, &process(10, "a")), Claim::Takes, "it goes on after all, and says so");
    }

    /// A leader that received nothing for a while, as it was cut off from its group, takes nobody for silent: those it
    /// knew, those that another member received less often before it led, and those that it has not received yet.
    #[test]
    fn a_gap_in_the_reception_is_not_the_silence_of_a_process() {
        for seen in [Some(SECOND), None] {
            let claim = |now, since| store(&process(10, "a"), seen).claim(now, since, &process(20, "b"));
            let waits = if seen.is_some() { in_use() } else { may_be_in_use() };
            assert_eq!(claim(SECOND * 30, SECOND * 20), waits, "{seen:?}");
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
        cluster.on_applied(&Command::Register(copy.clone()), &Ok(blocks::Reply::Done));
        assert!(!cluster.on_claimed(&copy), "another one was let in");
        assert_eq!(standing(&cluster, &copy), Standing::Unknown);
        cluster.on_applied(&Command::Register(first.clone()), &Ok(blocks::Reply::Done));
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
        ids.iter().for_each(|id| cluster.on_registered(SECOND, *id, NodeUsage::default()));
        let enter =
            |cluster: &Cluster, now| Newcomers::default().enter(now, numbered(1000, "b"), String::new(), cluster);
        let refused = Err(Crowded::Machine { from: "b".into(), count: NODES_PER_MACHINE_MAX });
        assert_eq!(enter(&cluster, SECOND + UNUSED_AFTER), refused);
        assert_eq!(enter(&cluster, SECOND * 2 + UNUSED_AFTER), Ok(()));
        let all_hold = Command::CreateSet { members: ids[..500.min(ids.len())].to_vec(), wanted: 500, planned: true };
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
        for number in 0..NEWCOMER_COUNT_MAX as u32 + 10 {
            newcomers.enter(SECOND, numbered(number, &format!("c{}", number % 100)), String::new(), &cluster).unwrap();
        }
        assert_eq!(newcomers.by_id.len(), NEWCOMER_COUNT_MAX);
        let last = numbered(1000, "c0");
        assert_eq!(newcomers.take(SECOND, last.id, Incarnation { start_ms: 0, nonce: 1 }, &last.xfer_addr()), None);
        assert_eq!(
            newcomers.take(SECOND, last.id, last.incarnation, &last.xfer_addr()),
            Some((last.clone(), String::new()))
        );
        assert_eq!(newcomers.take(SECOND, last.id, last.incarnation, &last.xfer_addr()), None);
        newcomers.enter(SECOND * 3 + NEWCOMER_WAIT, numbered(7000, "f"), String::new(), &cluster).unwrap();
        assert_eq!(newcomers.by_id.len(), 1);
    }

    /// Processes that register and never send a heartbeat, as fast as they can: whoever does send one becomes a node
    /// all the same.
    #[test]
    fn addresses_that_only_register_keep_no_newcomer_out() {
        let cluster = store(&process(10, "a"), None);
        let mut newcomers = Newcomers::default();
        let is_waiting = |newcomers: &Newcomers, node: &Node| newcomers.by_id.contains_key(&node.id);
        let enter =
            |newcomers: &mut Newcomers, at, node: &Node| newcomers.enter(at, node.clone(), String::new(), &cluster);
        let count_of = |newcomers: &Newcomers, from: &str| {
            newcomers.by_id.values().filter(|newcomer| newcomer.node.from == from).count()
        };
        for number in 0..1500u32 {
            let at = SECOND + Duration::from_millis(number.into());
            enter(&mut newcomers, at, &numbered(number, &format!("bad{}", number % 30))).unwrap();
        }
        assert_eq!(newcomers.by_id.len(), NEWCOMER_COUNT_MAX);
        let (good, neighbour) = (numbered(9000, "good"), numbered(9001, "bad7"));
        enter(&mut newcomers, SECOND * 7, &good).unwrap();
        enter(&mut newcomers, SECOND * 7, &neighbour).unwrap();
        for number in 5000..5200u32 {
            enter(&mut newcomers, SECOND * 8, &numbered(number, &format!("bad{}", number % 30))).unwrap();
        }
        assert!(is_waiting(&newcomers, &good) && is_waiting(&newcomers, &neighbour));
        for number in 6000..7000 {
            enter(&mut newcomers, SECOND * 9, &numbered(number, &format!("bad{}", number % 30))).unwrap();
        }
        assert!(is_waiting(&newcomers, &good), "others crowd each other out");
        assert_eq!(newcomers.by_id.len(), NEWCOMER_COUNT_MAX);
        for number in 8000..8100 {
            enter(&mut newcomers, SECOND * 9, &numbered(number, "bad0")).unwrap();
        }
        assert!(count_of(&newcomers, "bad0") <= NEWCOMERS_PER_MACHINE_MAX);
    }

    #[test]
    fn registrations_that_are_written_down_have_a_rate() {
        let (mut newcomers, mut cluster) = (Newcomers::default(), store(&process(10, "a"), None));
        let mut spent = |now| {
            let of = |number: u32| numbered(number, &format!("m{}", number % 100));
            (0..2000).filter(|number| newcomers.spend(now, &of(*number), &mut cluster).is_ok()).count()
        };
        assert_eq!(spent(SECOND), 1000);
        assert_eq!(spent(SECOND * 3), 40);
        assert_eq!(spent(SECOND * 1000), 1000);
    }

    /// One address spends its own allowance, and leaves that of all to others.
    #[test]
    fn one_address_uses_up_its_own_rate() {
        let (mut newcomers, mut cluster) = (Newcomers::default(), store(&process(10, "a"), None));
        let mut spent = |now, from: &str| {
            (0..2000).filter(|number| newcomers.spend(now, &numbered(*number, from), &mut cluster).is_ok()).count()
        };
        assert_eq!(spent(SECOND, "b"), NODES_PER_MACHINE_MAX);
        assert_eq!(spent(SECOND * 11, "b"), 10);
        assert_eq!(spent(SECOND * 11, "c"), NODES_PER_MACHINE_MAX, "another one");
        assert_eq!(newcomers.by_from.len(), 2);
        newcomers.spend(SECOND * 1000, &numbered(0, "d"), &mut cluster).unwrap();
        assert_eq!(newcomers.by_from.len(), 1, "those who have all of it are forgotten");
    }

    /// A process that says something else of itself at each registration is written down now and then.
    #[test]
    fn a_description_changes_once_a_minute() {
        let first = process(10, "a");
        let (mut newcomers, mut cluster) = (Newcomers::default(), store(&first, Some(SECOND)));
        let named = |host: &str| Node { host: host.into(), ..first.clone() };
        let mut write = |newcomers: &mut Newcomers, now, node: &Node| {
            newcomers.spend(now, node, &mut cluster)?;
            cluster.on_applied(&Command::Register(node.clone()), &Ok(blocks::Reply::Done));
            Ok(())
        };
        assert_eq!(write(&mut newcomers, SECOND, &named("one")), Ok(()));
        assert_eq!(write(&mut newcomers, SECOND * 11, &named("two")), Err(Crowded::Changed { wait_s: 50 }));
        assert_eq!(
            write(&mut newcomers, SECOND * 11, &named("one")),
            Ok(()),
            "it says the same, and must be written again"
        );
        assert_eq!(write(&mut newcomers, SECOND * 61, &named("two")), Ok(()));
        let restarted = Node { incarnation: Incarnation { start_ms: 20, nonce: 3 }, ..named("three") };
        assert_eq!(write(&mut newcomers, SECOND * 62, &restarted), Ok(()), "another process");
    }
}
