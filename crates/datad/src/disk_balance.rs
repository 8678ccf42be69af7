//! Balancing of this node's disks, when the metadata server orders it: how much a second, what stays where it is, and
//! what the heartbeat tells of it. The moves themselves are [`disks::Balancing`]'s.
//!
//! When a disk is given up, balancing ends: it may hang in that one.

use crate::node::{Node, report};
use crate::ordered::Ordered;
use crate::pace::Pace;
use container::{ReplicaError, ReplicaInfo};
use disks::{BalanceOrder, Balancing, Ended};
use std::sync::Arc;
use wire::node::{DiskBalanceOrder, DiskBalanceReport};

#[derive(Debug, Default)]
pub(crate) struct DiskBalance {
    ordered: Ordered<DiskBalanceOrder>,
    pace: Pace,
}

impl DiskBalance {
    /// What the metadata server wants.
    pub(crate) fn order(&self, node: &Arc<Node>, order: DiskBalanceOrder) {
        if self.ordered.take(order) {
            let at = Arc::clone(node);
            io::task::spawn("disk balance", async move { at.disk_balance.work(&at, order.number).await });
        }
    }

    /// For the heartbeat.
    pub(crate) fn report(&self) -> Option<DiskBalanceReport> {
        self.ordered.report()
    }

    async fn work(&self, node: &Arc<Node>, number: u64) {
        let _at_work = self.ordered.at_work(number);
        self.pace.begin();
        let mut balancing = Balancing::new(&node.disks);
        let note = loop {
            let at = Arc::clone(node);
            let step = node.disks.for_all(move |_| {
                let standing = Standing { node: &at, number };
                balancing.step(&standing).map(|()| balancing)
            });
            match step.await {
                Ok(Ok(next)) => balancing = next,
                Ok(Err(Ended::Even)) => break String::new(),
                Ok(Err(ended)) => break ended.to_string(),
                Err(_hangs) => break "a disk of the node does not answer".to_owned(),
            }
        };
        if !note.is_empty() {
            tracing::info!(note, "balancing of disks has ended");
        }
        self.ordered.update(|report| report.note = note);
    }
}

/// The order of a number, as long as it stands. Whoever comes back from a disk that was given up finds that it has ended.
struct Standing<'a> {
    node: &'a Arc<Node>,
    number: u64,
}

impl Standing<'_> {
    fn order(&self) -> Option<DiskBalanceOrder> {
        self.node.disk_balance.ordered.standing(self.number).filter(|_| !self.node.stop.is_set())
    }

    fn update(&self, change: impl FnOnce(&mut DiskBalanceReport)) {
        self.node.disk_balance.ordered.update(change);
    }
}

impl BalanceOrder for Standing<'_> {
    fn within(&self) -> Option<u64> {
        self.order().map(|order| order.within)
    }

    fn wait(&self, len: u64) -> bool {
        let Some(order) = self.order() else { return false };
        let stands = || self.order().is_some();
        self.node.disk_balance.pace.wait_while(self.node.now(), len, order.len_per_s, stands);
        stands()
    }

    fn may_move(&self, info: &ReplicaInfo) -> bool {
        let block = info.identity.block;
        !self.node.is_writing(block) && !self.node.deleter.is_ordered(block, info.identity.generation)
    }

    fn on_left(&self, len: u64) {
        self.update(|report| report.total_len = report.total_len.max(report.done_len + len));
    }

    fn on_moved(&self, info: &ReplicaInfo) {
        self.update(|report| {
            report.done_count += 1;
            report.done_len += info.len;
        });
    }

    fn on_failed(&self, _info: &ReplicaInfo) {
        self.update(|report| report.failed_count += 1);
    }

    fn on_damaged(&self, info: &ReplicaInfo, _error: &ReplicaError) {
        self.update(|report| report.failed_count += 1);
        self.node.copier.found_bad(self.node.now(), report(info));
        self.node.changes.came.notify_one();
    }
}
