//! Copies of replicas that the metadata server ordered: read from another node, verified, written, put, read back.
//!
//! ```text
//! orders ──▶ waiting ──▶ a few threads: fetch ──▶ create_copy ─ write … ─ put ─ verify ──▶ told as put
//!                           │                                                 └ failed ──▶ reported for some seconds
//!                           └ all together at most so many bytes a second
//! ```
//!
//! Promise: a replica that was told as put was read back and agrees with the checksums its writer gave. What a failed
//! or broken copy wrote is gone; the replica it was to replace stays until the copy is put, and one that was never
//! finalized until the source was read once from end to end. The threads are there while there is something to copy.
//! One that waits for a disk that does not answer is followed by another; once that disk is given up its order counts
//! as lost, so that the metadata server gives it again.

use crate::config::Limits;
use crate::contents::Contents;
use crate::fetch::{CopyError, Fetcher};
use crate::operations::{Operation, Operations};
use crate::outward::Outward;
use crate::rate_limit::RateLimit;
use crate::replicas::{Replicas, held};
use crate::stop::Stop;
use container::{Identity, ReplicaError};
use datanode::copies::Work;
use datanode::{Begin, Held};
use std::sync::Arc;
use types::{BlockId, ContainerId, Generation, InodeId};
use wire::node::{CopyFailure, CopyOrder};

#[derive(Debug)]
pub(crate) struct Copier {
    replicas: Arc<Replicas>,
    contents: Arc<Contents>,
    operations: Arc<Operations>,
    limits: Limits,
    stop: Arc<Stop>,
    rate: RateLimit,
    outward: Arc<Outward>,
}

/// A thread. A panic takes it and what it is at from the count.
struct AtWork<'a> {
    copier: &'a Copier,
    number: u64,
}

impl Drop for AtWork<'_> {
    fn drop(&mut self) {
        self.copier.replicas.node.with(|node| node.copies.write_off(self.number));
    }
}

impl Copier {
    pub(crate) fn new(
        replicas: Arc<Replicas>,
        contents: Arc<Contents>,
        operations: Arc<Operations>,
        limits: Limits,
        stop: Arc<Stop>,
        outward: Arc<Outward>,
    ) -> Self {
        Self { replicas, contents, operations, limits, stop, rate: RateLimit::default(), outward }
    }

    /// Begins threads for what waits.
    pub(crate) fn begin(self: &Arc<Self>) {
        self.begin_beside(0);
    }

    /// Threads for what waits, beside so many that wait themselves.
    fn begin_beside(self: &Arc<Self>, held_up_count: usize) {
        let count_max = self.limits.copy_count_max;
        while let Some(number) = self.replicas.node.with(|node| node.copies.begin(count_max, held_up_count)) {
            let copier = Arc::clone(self);
            if let Err(error) = io::task::thread("copy", move || copier.work(number)) {
                tracing::error!(%error, "no thread for copies");
                self.replicas.node.with(|node| node.copies.write_off(number));
                break;
            }
        }
    }

    /// Goes on beside threads that wait for a disk which does not answer, and without those whose disk was given up. To
    /// be called each second or so.
    pub(crate) fn tend(self: &Arc<Self>) {
        let disks = &self.replicas.disks;
        let under_way: Vec<(u64, Work)> = self.replicas.node.with(|node| node.copies.under_way().collect());
        let mut held_up_count = 0;
        for (number, work) in under_way {
            // Before a disk is chosen it waits for who decides about the block, or for no disk at all.
            let Some(disk) = work.disk.or_else(|| disks.decided_at(work.block)) else { continue };
            if disks.disks()[disk].hangs() {
                if self.replicas.node.with(|node| node.copies.give_up(number, work)) {
                    tracing::warn!(block = %work.block, "a copy hangs in a disk that was given up; it is written off");
                }
            } else {
                held_up_count += usize::from(disks.holds_up(disk));
            }
        }
        self.begin_beside(held_up_count);
    }

    /// What one thread does.
    fn work(&self, number: u64) {
        let mut fetcher = Fetcher::new(&self.limits, Some(Arc::clone(&self.outward)));
        let _at_work = AtWork { copier: self, number };
        while let Some(order) = self.replicas.node.with(|node| node.copies.take(number, self.stop.is_set())) {
            let block = BlockId(order.block);
            let failures = self.copy(&mut fetcher, &order, number).err().unwrap_or_default();
            let is_put = failures.is_empty();
            for failure in &failures {
                tracing::warn!(%block, source = failure.source, why = failure.reason, "a replica was not copied");
            }
            if !self.replicas.node.with(|node| node.end_copy(self.replicas.now(), number, failures)) {
                return; // it was written off
            }
            if is_put {
                self.replicas.was_put(block);
            }
        }
    }

    /// From here on the thread may wait for this disk, or for none.
    fn works_at(&self, number: u64, disk: Option<usize>) {
        self.replicas.node.with(|node| node.copies.works_at(number, disk));
    }

    /// Tries one source after the other.
    fn copy(&self, fetcher: &mut Fetcher, order: &CopyOrder, number: u64) -> Result<(), Vec<CopyFailure>> {
        let mut failures = Vec::new();
        let failure = |source: &str, corrupt, reason: String| CopyFailure {
            block: order.block,
            generation: order.generation,
            source: source.to_owned(),
            corrupt,
            reason,
            number: 0,
        };
        let (block, node) = (BlockId(order.block), &self.replicas.node);
        let held = self.find(block, number);
        let (is_writing, is_held_up) = (self.replicas.is_writing(block), self.replicas.disks.is_held_up(block));
        match node.with(|node| node.begin_copy(order, held.as_ref(), is_writing, is_held_up)) {
            Begin::Copy => {}
            Begin::Here => return Ok(()),
            Begin::Refused(refusal) => return Err(vec![failure("", false, refusal.reason().to_owned())]),
        }
        for source in &order.sources {
            let counted = self.operations.begin(Operation::Repair, || self.replicas.now());
            match counted.answered(self.copy_from(fetcher, order, &source.addr, number)) {
                Ok(()) => return Ok(()),
                Err(CopyError::Source { reason, corrupt }) => failures.push(failure(&source.node, corrupt, reason)),
                Err(CopyError::Own(reason)) => {
                    failures.push(failure("", false, reason));
                    break;
                }
            }
        }
        assert!(!failures.is_empty(), "what was not copied has a reason");
        Err(failures)
    }

    /// What is here. Waits for its disk.
    fn find(&self, block: BlockId, number: u64) -> Option<Held> {
        let disks = &self.replicas.disks;
        self.works_at(number, disks.asked_at(block));
        let found = disks.find(block).ok().flatten();
        self.works_at(number, None);
        found.as_ref().map(held)
    }

    fn copy_from(&self, fetcher: &mut Fetcher, order: &CopyOrder, addr: &str, number: u64) -> Result<(), CopyError> {
        let own = |error: ReplicaError| CopyError::Own(error.to_string());
        let (block, disks) = (BlockId(order.block), &self.replicas.disks);
        if self.find(block, number).is_some_and(|held| held.must_outlast_a_read()) {
            // First all that is offered is read, and then once more.
            let mut first = fetcher.open(addr, disks.pool().unwrap_or_default(), order)?;
            while let Some(packet) = first.next_packet()? {
                self.rate.wait(self.replicas.now(), packet.data.len() as u64, self.limits.copy_len_per_s);
            }
        }
        let mut reply = fetcher.open(addr, disks.pool().unwrap_or_default(), order)?;
        let identity = Identity {
            block,
            generation: Generation(order.generation),
            file: InodeId(order.file),
            home: ContainerId(order.home),
            checksum: reply.spec(),
        };
        let mut writer = disks.create_ordered_copy(identity, order.len, order.replaces).map_err(own)?;
        self.works_at(number, Some(writer.disk()));
        let mut len = 0;
        while let Some(packet) = reply.next_packet()? {
            if self.stop.is_set() {
                return Err(CopyError::Own("the node is stopping".to_owned()));
            }
            writer.write(len, packet.data, packet.sums).map_err(own)?;
            len += packet.data.len() as u64;
            self.operations.bytes(Operation::Repair).inc_by(packet.data.len() as u64);
            self.rate.wait(self.replicas.now(), packet.data.len() as u64, self.limits.copy_len_per_s);
        }
        // Also where nothing else is synced: those it was copied from may go, and what they had was perhaps synced
        // once.
        self.contents.put(block);
        writer.put_synced(len).map_err(own)?;
        self.contents.put(block);
        if let Err(error) = disks.verify(block) {
            // What says nothing of the copy, such as too many open files, must not cost it.
            if error.is_damage() {
                let is_gone = disks.delete(block, identity.generation);
                if is_gone.is_ok_and(|is_gone| is_gone) {
                    // Also that what it was to replace is damaged is no news any more.
                    self.replicas.was_deleted(block);
                }
            }
            return Err(CopyError::Own(format!("the copy does not read back as it was written: {error}")));
        }
        self.replicas.node.with(|node| node.reads_well(block));
        tracing::debug!(%block, len, from = addr, "a replica was copied and read back");
        Ok(())
    }
}
