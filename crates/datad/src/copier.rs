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
use crate::rate_limit::RateLimit;
use crate::replicas::Replicas;
use crate::stop::Stop;
use container::{Identity, ReplicaError, ReplicaInfo};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use types::{BlockId, ContainerId, Generation, InodeId, ReplicaState};
use wire::node::{CopyFailure, CopyOrder};

/// Orders that wait. The metadata server gives some hundred at a time, and the rest again.
const WAITING_COUNT_MAX: usize = 4000;
/// A failure is reported for so long: several heartbeats, should an answer be lost or the leader change.
const REPORTED_FOR: Duration = Duration::from_secs(5);
/// Failures that are reported at a time.
const REPORT_COUNT_MAX: usize = 1000;

#[derive(Debug)]
pub(crate) struct Copier {
    replicas: Arc<Replicas>,
    contents: Arc<Contents>,
    operations: Arc<Operations>,
    limits: Limits,
    stop: Arc<Stop>,
    state: Mutex<State>,
    rate: RateLimit,
}

#[derive(Debug, Default)]
struct State {
    waiting: VecDeque<CopyOrder>,
    /// Waiting or under way.
    known: BTreeSet<BlockId>,
    /// By their numbers, each with what it is at. One that was written off is not among them.
    threads: BTreeMap<u64, Option<Work>>,
    /// Counts threads.
    begun_count: u64,
    failures: VecDeque<(Duration, CopyFailure)>,
    failure_count: u64,
}

/// What a thread is at.
#[derive(Clone, Copy, Debug)]
struct Work {
    block: BlockId,
    /// The disk that it asks for what is here, and then the one it writes to.
    disk: Option<usize>,
}

/// What a heartbeat tells of copies.
#[derive(Debug, Default)]
pub(crate) struct Report {
    pub(crate) copying: Vec<u64>,
    pub(crate) failures: Vec<CopyFailure>,
}

/// A thread. A panic takes it and what it is at from the count.
struct AtWork<'a> {
    copier: &'a Copier,
    number: u64,
}

impl Drop for AtWork<'_> {
    fn drop(&mut self) {
        self.copier.lock().write_off(self.number);
    }
}

impl State {
    /// Each block that is known waits or is under way, and nothing else does.
    fn check(&self) {
        let work_count = self.threads.values().flatten().count();
        let waiting_count = self.waiting.len();
        assert_eq!(self.known.len(), waiting_count + work_count, "{waiting_count} wait, {work_count} are under way");
        assert!(waiting_count <= WAITING_COUNT_MAX, "{waiting_count} orders wait");
        assert!(self.failures.len() <= REPORT_COUNT_MAX, "{} failures are reported", self.failures.len());
    }

    /// What the thread is at is not under way any more. False if that was said before: the order may be another
    /// thread's by now.
    fn finish(&mut self, number: u64) -> bool {
        let at = self.threads.get_mut(&number).and_then(Option::take);
        at.is_some_and(|work| self.known.remove(&work.block))
    }

    fn write_off(&mut self, number: u64) {
        self.finish(number);
        self.threads.remove(&number);
    }
}

impl Copier {
    pub(crate) fn new(
        replicas: Arc<Replicas>,
        contents: Arc<Contents>,
        operations: Arc<Operations>,
        limits: Limits,
        stop: Arc<Stop>,
    ) -> Self {
        let (state, rate) = (Mutex::default(), RateLimit::default());
        Self { replicas, contents, operations, limits, stop, state, rate }
    }

    /// Takes orders; threads begin with them.
    pub(crate) fn order(self: &Arc<Self>, orders: Vec<CopyOrder>) {
        // The metadata server gives no order to delete together with one to copy the same, so these are from before.
        orders.iter().for_each(|order| self.replicas.deletions.withdraw(BlockId(order.block)));
        let mut state = self.lock();
        for order in orders {
            if state.waiting.len() < WAITING_COUNT_MAX && state.known.insert(BlockId(order.block)) {
                state.waiting.push_back(order);
            }
        }
        self.begin(&mut state, 0);
        state.check();
    }

    /// Threads for what waits, beside so many that wait themselves.
    fn begin(self: &Arc<Self>, state: &mut State, held_up_count: usize) {
        let count_max = self.limits.copy_count_max.max(1) + held_up_count;
        while state.threads.len() < count_max && state.threads.len() < state.waiting.len() + held_up_count {
            state.begun_count += 1;
            let (copier, number) = (Arc::clone(self), state.begun_count);
            match io::task::thread("copy", move || copier.work(number)) {
                Ok(_) => _ = state.threads.insert(number, None),
                Err(error) => {
                    tracing::error!(%error, "no thread for copies");
                    break;
                }
            }
        }
    }

    /// Goes on beside threads that wait for a disk which does not answer, and without those whose disk was given up. To
    /// be called each second or so.
    pub(crate) fn tend(self: &Arc<Self>) {
        let mut state = self.lock();
        let disks = &self.replicas.disks;
        // Before a disk is chosen it waits for who decides about the block, or for no disk at all.
        let disk_of = |work: &Work| work.disk.or_else(|| disks.decided_at(work.block));
        let waiting: Vec<(u64, BlockId, usize)> = state
            .threads
            .iter()
            .filter_map(|(number, work)| work.as_ref().and_then(|work| Some((*number, work.block, disk_of(work)?))))
            .collect();
        let mut held_up_count = 0;
        for (number, block, disk) in waiting {
            if disks.disks()[disk].hangs() {
                tracing::warn!(%block, "a copy hangs in a disk that was given up; it is written off");
                state.write_off(number);
            } else {
                held_up_count += usize::from(disks.holds_up(disk));
            }
        }
        self.begin(&mut state, held_up_count);
        state.check();
    }

    pub(crate) fn report(&self, now: Duration) -> Report {
        let mut state = self.lock();
        let old = |at: &Duration| now.saturating_sub(*at) > REPORTED_FOR;
        while state.failures.front().is_some_and(|(at, _)| old(at)) {
            state.failures.pop_front();
        }
        Report {
            copying: state.known.iter().map(|block| block.0).collect(),
            failures: state.failures.iter().map(|(_, failure)| failure.clone()).collect(),
        }
    }

    /// Copies that wait or are under way.
    pub(crate) fn known_count(&self) -> usize {
        self.lock().known.len()
    }

    /// Copies that are under way.
    pub(crate) fn running_count(&self) -> usize {
        let state = self.lock();
        state.known.len() - state.waiting.len()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What one thread does.
    fn work(&self, number: u64) {
        let mut fetcher = Fetcher::new(&self.limits);
        let _at_work = AtWork { copier: self, number };
        while let Some(order) = self.take(number, self.stop.is_set()) {
            let block = BlockId(order.block);
            let copied = self.copy(&mut fetcher, &order, number);
            if !self.lock().finish(number) {
                return; // it was written off
            }
            match copied {
                Ok(()) => self.replicas.was_put(block),
                Err(failures) => {
                    let now = self.replicas.now();
                    let mut state = self.lock();
                    for mut failure in failures {
                        state.failure_count += 1;
                        failure.number = state.failure_count;
                        tracing::warn!(%block, source = failure.source, why = failure.reason, "a replica was not copied");
                        if state.failures.len() >= REPORT_COUNT_MAX {
                            state.failures.pop_front();
                        }
                        state.failures.push_back((now, failure));
                    }
                    drop(state);
                    self.replicas.changes.report_soon();
                }
            }
        }
    }

    /// The next order for a thread; `None`: it ends. That it does is counted under the same lock, so that orders which
    /// come just then begin another.
    fn take(&self, number: u64, stopping: bool) -> Option<CopyOrder> {
        let mut state = self.lock();
        let order = if stopping { None } else { state.waiting.pop_front() };
        match &order {
            Some(order) => _ = state.threads.insert(number, Some(Work { block: BlockId(order.block), disk: None })),
            None => _ = state.threads.remove(&number),
        }
        state.check();
        order
    }

    /// From here on the thread may wait for this disk, or for none.
    fn works_at(&self, number: u64, disk: Option<usize>) {
        if let Some(Some(work)) = self.lock().threads.get_mut(&number) {
            work.disk = disk;
        }
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
        if self.replicas.deletions.is_ordered(BlockId(order.block), Generation(order.generation)) {
            return Err(vec![failure("", false, "the replica that was here is just being deleted".to_owned())]);
        }
        if self.is_here(order, number) {
            return Ok(());
        }
        if self.replicas.is_writing(BlockId(order.block)) {
            return Err(vec![failure("", false, "a chain is writing it here".to_owned())]);
        }
        if self.replicas.disks.is_held_up(BlockId(order.block)) {
            return Err(vec![failure("", false, "the disk that has it does not answer now".to_owned())]);
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
        if failures.is_empty() {
            failures.push(failure("", false, "no source was named".to_owned()));
        }
        Err(failures)
    }

    /// What is here. Waits for its disk.
    fn find(&self, block: BlockId, number: u64) -> Option<ReplicaInfo> {
        let disks = &self.replicas.disks;
        self.works_at(number, disks.asked_at(block));
        let found = disks.find(block).ok().flatten();
        self.works_at(number, None);
        found
    }

    /// A replica that serves is there already: the order was given again, or a chain was faster.
    fn is_here(&self, order: &CopyOrder, number: u64) -> bool {
        self.find(BlockId(order.block), number).is_some_and(|info| {
            info.state == ReplicaState::Finalized
                && info.identity.generation >= Generation(order.generation)
                && info.len >= order.len
                && !order.replaces
        })
    }

    /// There is a replica that was never finalized.
    fn is_unfinished(&self, block: BlockId, number: u64) -> bool {
        self.find(block, number)
            .is_some_and(|info| !matches!(info.state, ReplicaState::Finalized | ReplicaState::Copying))
    }

    fn copy_from(&self, fetcher: &mut Fetcher, order: &CopyOrder, addr: &str, number: u64) -> Result<(), CopyError> {
        let own = |error: ReplicaError| CopyError::Own(error.to_string());
        let (block, disks) = (BlockId(order.block), &self.replicas.disks);
        if self.is_unfinished(block, number) {
            // It makes room before the copy is there, and may be better than what is offered, or all there is left:
            // first all of that is read, and then once more.
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
                let _gone = disks.delete(block, identity.generation);
            }
            return Err(CopyError::Own(format!("the copy does not read back as it was written: {error}")));
        }
        self.replicas.damage.forget(block);
        tracing::debug!(%block, len, from = addr, "a replica was copied and read back");
        Ok(())
    }
}
