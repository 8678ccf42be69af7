//! A datanode as the leader sees it now: its row and its last heartbeat.

use crate::fullness::{FULL_PARTS, parts};
use blocks::{Incarnation, Leave, LeaveKind, Listed, Node, Service};
use std::time::Duration;
use types::StorageUsage;

/// A node that was silent for longer gets no new blocks, and readers try it last. Heartbeats come about each second.
/// HDFS waits 30 s until it calls a node stale and 10 min until it calls it dead.
pub const SILENCE_MAX: Duration = Duration::from_secs(10);

/// A node that was silent for longer is chosen after all others: three heartbeats, so that a late one costs nothing.
/// Streams detect a stalled node by themselves in two seconds; later ones need not detect it again.
pub const QUIET_MAX: Duration = Duration::from_secs(3);

/// For so long HDFS's clients exclude a node that failed them
/// (`dfs.client.write.exclude.nodes.cache.expiry.interval.millis`).
const EXCLUDED_MAX: Duration = Duration::from_secs(600);

/// How full a node is, and how busy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NodeUsage {
    pub storage: StorageUsage,
    /// Under way.
    pub transfer_count: u32,
}

/// A process whose registration is being written down as the one that counts.
#[derive(Clone, Debug)]
pub(crate) struct Claimant {
    pub(crate) node: Node,
    pub(crate) at: Duration,
}

impl Claimant {
    pub(crate) fn is_of(&self, incarnation: Incarnation, xfer_addr: &str) -> bool {
        self.node.incarnation == incarnation && self.node.xfer_addr() == xfer_addr
    }
}

/// A node as the leader sees it now.
#[derive(Clone, Debug)]
pub struct Member {
    pub node: Node,
    pub usage: StorageUsage,
    /// Transfers under way there, as its last heartbeat said.
    pub transfer_count: u32,
    pub service: Service,
    /// Its silence does not count.
    pub leave: Option<Leave>,
    /// What it is by lists of hosts.
    pub listed: Listed,
    /// `None`: known from the rows alone; it has not registered with this process yet.
    pub(crate) seen: Option<Duration>,
    /// When it registered anew with this process, having been here before.
    pub(crate) returned: Option<Duration>,
    /// The connection of its last message has ended since, or a writer dropped it from its chain.
    pub(crate) hung_up: bool,
    /// The connection of its last message has ended: its process is probably gone.
    pub(crate) disconnected: bool,
    /// The process that is to become the node: its registration is being written down.
    pub(crate) claimant: Option<Claimant>,
    /// When its process described itself otherwise than before, last.
    pub(crate) changed: Option<Duration>,
    /// All its disks have failed: its messages are no sign of life.
    pub(crate) diskless: bool,
    /// Its certificates were revoked, and it has not registered by a later one: it counts as lost.
    pub(crate) revoked: bool,
    /// Its certificates were revoked before this process led, and nobody has told it so far whether it got later ones.
    pub(crate) unproven: bool,
    /// Blocks sent here since the last heartbeat, which counts only what runs already.
    pub(crate) placed_count: u32,
    /// Bytes, about, of the containers that it is to copy and that were not compared with what it has: they will take
    /// of its room.
    pub(crate) incoming_len: u128,
}

impl Member {
    pub(crate) fn remembered(node: Node) -> Self {
        Self {
            node,
            usage: StorageUsage::default(),
            transfer_count: 0,
            service: Service::default(),
            leave: None,
            listed: Listed::default(),
            seen: None,
            returned: None,
            hung_up: false,
            disconnected: false,
            claimant: None,
            changed: None,
            diskless: false,
            revoked: false,
            unproven: false,
            placed_count: 0,
            incoming_len: 0,
        }
    }

    pub(crate) fn set_usage(&mut self, usage: NodeUsage) {
        (self.usage, self.transfer_count) = (usage.storage, usage.transfer_count);
    }

    pub(crate) fn on_heartbeat(&mut self, usage: NodeUsage, now: Duration) {
        self.set_usage(usage);
        (self.seen, self.hung_up, self.placed_count) = (Some(now), false, 0);
        (self.diskless, self.disconnected) = (false, false);
        (self.revoked, self.unproven) = (false, false);
    }

    /// When its last message came; `None` if none came to this process.
    pub fn seen(&self) -> Option<Duration> {
        self.seen
    }

    pub fn is_live(&self, now: Duration) -> bool {
        self.seen.is_some_and(|seen| now.saturating_sub(seen) <= SILENCE_MAX)
    }

    /// It is live, and has not said goodbye since: its last heartbeat may have come a moment before.
    pub fn is_up(&self, now: Duration) -> bool {
        self.is_live(now) && !self.has_said_goodbye()
    }

    /// It has missed heartbeats, or its process seems to have ended: others are better, if there are any.
    pub fn is_quiet(&self, now: Duration) -> bool {
        self.hung_up || self.seen.is_none_or(|seen| now.saturating_sub(seen) > QUIET_MAX)
    }

    /// New blocks may go here.
    pub(crate) fn is_taken(&self, now: Duration) -> bool {
        self.is_live(now) && self.service == Service::Serving && self.leave.is_none()
    }

    /// It came back not long ago: a client that excludes it may have met the process before.
    pub(crate) fn is_back(&self, now: Duration) -> bool {
        let is_recent = |at: Duration| now.saturating_sub(at) <= EXCLUDED_MAX;
        self.returned.is_some_and(is_recent) && !self.is_quiet(now)
    }

    /// An administrator works on it: it may go at any moment, and comes back.
    pub fn is_in_maintenance(&self) -> bool {
        self.leave.is_some_and(|leave| leave.kind == LeaveKind::Maintenance)
    }

    /// Its process has ended in order, and none has registered since. Known until it should have been back: after that
    /// a new leader waits as for any other.
    pub fn has_said_goodbye(&self) -> bool {
        self.leave.is_some_and(|leave| leave.kind == LeaveKind::Restart)
    }

    /// Its heartbeats do not count before it has registered: this process does not know whether its address still
    /// holds, or a goodbye came behind its registration. That one waited for the log as the node was started again; the
    /// row says that it is away, and only another registration ends that.
    pub(crate) fn must_register(&self) -> bool {
        self.seen.is_none() || self.has_said_goodbye()
    }

    /// What it has to do at the moment.
    pub(crate) fn load(&self) -> u32 {
        self.transfer_count.saturating_add(self.placed_count)
    }

    pub(crate) fn used_permille(&self) -> u64 {
        self.used_parts() / (FULL_PARTS / 1000)
    }

    /// Of [`FULL_PARTS`].
    pub(crate) fn used_parts(&self) -> u64 {
        self.used_parts_with(0)
    }

    /// The same, with `len` bytes more.
    pub(crate) fn used_parts_with(&self, len: u64) -> u64 {
        let (used, whole) =
            (self.usage.used_len.saturating_add(len), self.usage.used_len.saturating_add(self.usage.free_len));
        // A node that has not reported its usage counts as empty.
        if whole == 0 { 0 } else { parts(used, whole) }
    }
}
