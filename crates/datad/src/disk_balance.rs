//! Balancing of this node's disks, when the metadata server orders it: how much a second, what stays where it is, and
//! what the heartbeat tells of it. The moves themselves are [`disks::Balancing`]'s.
//!
//! When a disk is given up, balancing ends: it may hang in that one.

use crate::job::Job;
use crate::replicas::Replicas;
use crate::stop::Stop;
use container::{ReplicaError, ReplicaInfo};
use disks::{BalanceEnd, BalanceOrder, Balancing};
use std::sync::Arc;
use wire::node::{DiskBalanceOrder, DiskBalanceReport};

#[derive(Debug)]
pub(crate) struct DiskBalance {
    replicas: Arc<Replicas>,
    job: Job<DiskBalanceOrder>,
}

impl DiskBalance {
    pub(crate) fn new(replicas: Arc<Replicas>, stop: Arc<Stop>) -> Self {
        Self { replicas, job: Job::new(stop) }
    }

    /// What the metadata server wants.
    pub(crate) fn order(self: &Arc<Self>, order: DiskBalanceOrder) {
        let balance = Arc::clone(self);
        self.job.order(order, "disk balance", |number| async move { balance.work(number).await });
    }

    /// For the heartbeat.
    pub(crate) fn report(&self) -> Option<DiskBalanceReport> {
        self.job.report()
    }

    async fn work(self: &Arc<Self>, number: u64) {
        let _at_work = self.job.at_work(number);
        let mut balancing = Balancing::new(&self.replicas.disks);
        let note = loop {
            let standing = Standing { balance: Arc::clone(self), number };
            let step = self.replicas.disks.for_all(move |_| balancing.step(&standing).map(|()| balancing));
            match step.await {
                Ok(Ok(next)) => balancing = next,
                Ok(Err(BalanceEnd::Even)) => break String::new(),
                Ok(Err(ended)) => break ended.to_string(),
                Err(_hangs) => break "a disk of the node does not answer".to_owned(),
            }
        };
        if !note.is_empty() {
            tracing::info!(note, "balancing of disks has ended");
        }
        self.job.update(|report| report.note = note);
    }
}

/// The order of a number, as long as it stands.
struct Standing {
    balance: Arc<DiskBalance>,
    number: u64,
}

impl Standing {
    fn update(&self, change: impl FnOnce(&mut DiskBalanceReport)) {
        self.balance.job.update(change);
    }
}

impl BalanceOrder for Standing {
    fn within(&self) -> Option<u64> {
        self.balance.job.standing(self.number).map(|order| order.within)
    }

    fn wait(&self, len: u64) -> bool {
        self.balance.job.wait(self.number, self.balance.replicas.now(), len).is_some()
    }

    fn may_move(&self, info: &ReplicaInfo) -> bool {
        let (block, replicas) = (info.identity.block, &self.balance.replicas);
        !replicas.is_writing(block) && !replicas.is_ordered_away(block, info.identity.generation)
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
        self.balance.replicas.found_damaged(info);
    }
}
