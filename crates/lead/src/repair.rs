//! The leader's repair state.
//!
//! ```text
//!  suspect ──▶ ComparisonQueue ──next_check──▶ (members are asked) ──on_list──▶ MissingBlocks, UnfitReplicas
//!     ▲                                             ▲                       └──▶ CopyQueue
//!     │                       DoubtfulBlocks ───────┘                               │ orders(node)
//!     │                                                                             ▼
//!     └──── the last copy of the container has ended ◀── on_put, on_failed ◀── the node copies, verifies, puts
//! ```
//!
//! [`Repair`] passes each event to the parts it concerns. Each part states what it promises, and checks it.
//!
//! Promise: a block is ordered to a node at most once at a time, within the limits of [`CopyQueue`]. A failed copy is
//! tried from another source. After that the container is compared again, with growing pauses. Nothing here is the only
//! place of a fact: if this memory is lost, the containers are compared again.

mod comparison_queue;
mod copy_queue;
mod doubtful_blocks;
mod missing_blocks;
mod replica_keys;
#[cfg(test)]
mod tests;
mod unfit_replicas;

pub use copy_queue::{Lack, PlannedCopy};
pub use missing_blocks::Missing;

use crate::replica_fate::ReportedReplica;
use comparison_queue::ComparisonQueue;
use copy_queue::{CopyQueue, Removed};
use doubtful_blocks::DoubtfulBlocks;
use missing_blocks::{MissingBlocks, Recorded};
use std::collections::BTreeSet;
use std::time::Duration;
use types::mutation::{self, Mutation};
use types::{BlockId, ContainerId, Epoch, Generation, NodeId, PipelineId};
use unfit_replicas::UnfitReplicas;

/// How far repair is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Replicas to copy, as far as is known, and their bytes.
    pub lack_count: usize,
    pub lack_len: u64,
    /// Of these, ordered.
    pub ordered_count: usize,
    /// Containers that wait to be compared.
    pub suspect_count: usize,
    pub missing_count: usize,
    pub bad_count: usize,
    /// Copied since this process leads.
    pub copied_count: u64,
    pub copied_len: u64,
    pub failed_count: u64,
}

#[derive(Debug, Default)]
pub struct Repair {
    comparisons: ComparisonQueue,
    copies: CopyQueue,
    missing: MissingBlocks,
    unfit: UnfitReplicas,
    doubtful: DoubtfulBlocks,
}

/// What concerns several parts.
impl Repair {
    /// The next container to compare, unless much is to be copied already.
    pub fn next_check(&mut self, now: Duration) -> Option<ContainerId> {
        if self.is_full() { None } else { self.comparisons.take_due(now) }
    }

    /// A lack that was found. True: it is new.
    pub fn on_lack(&mut self, lack: Lack) -> bool {
        if lack.sources.is_empty() {
            let Lack { block, generation, len, file, home, .. } = lack;
            return self.missing.insert(block, Recorded { generation, len, file, home });
        }
        self.copies.insert(lack)
    }

    /// `node` has this replica now.
    pub fn on_put(&mut self, node: NodeId, block: BlockId, generation: Generation, now: Duration) {
        self.unfit.on_fit(block, node);
        self.missing.on_put(block, generation);
        if let Some(removed) = self.copies.on_put(node, block, generation) {
            self.settle(&removed, now);
        }
    }

    /// `node` could not copy. If it names the source, that one is not asked again for this block.
    pub fn on_failed(&mut self, node: NodeId, block: BlockId, source: Option<NodeId>, now: Duration) {
        if let Some(removed) = self.copies.on_failed(node, block, source) {
            self.comparisons.on_failed(removed.lack.home);
            self.settle(&removed, now);
        }
    }

    /// Nothing is to be copied to `node` any more: it is gone, or others have its place.
    pub fn on_lost(&mut self, node: NodeId, now: Duration) {
        self.copies.remove_of(node, |_| true).iter().for_each(|removed| self.settle(removed, now));
    }

    /// `node` is no member of these containers any more: it lacks nothing of them.
    pub fn on_left(&mut self, node: NodeId, containers: &BTreeSet<ContainerId>, now: Duration) {
        let has_left = |home| containers.contains(&home);
        self.copies.remove_of(node, has_left).iter().for_each(|removed| self.settle(removed, now));
        self.copies.forget_refused_by(node, has_left);
        self.unfit.on_left(node, has_left);
    }

    /// One lack less. After the last one of its container that is compared again: at once, or later and later while
    /// copies fail.
    fn settle(&mut self, removed: &Removed, now: Duration) {
        if removed.is_last {
            self.comparisons.on_copies_ended(removed.lack.home, now);
        }
    }

    /// `node` was restarted. Its replicas known as damaged are to be verified again: it may have deleted one, and died
    /// before it reported that.
    #[must_use]
    pub fn on_registered(&mut self, node: NodeId) -> Vec<BlockId> {
        self.copies.forget_failures(node);
        self.unfit.damaged_of(node)
    }

    /// A replica is known to be damaged, of this generation: it is no source, and it is to be replaced.
    pub fn on_bad(&mut self, block: BlockId, node: NodeId, generation: Generation) {
        if self.unfit.on_damaged(block, node, generation) {
            self.doubt(block);
        }
    }

    /// A replica was read from end to end, and agrees with its checksums. True: it had been taken for damaged.
    pub fn on_verified(&mut self, block: BlockId, node: NodeId) -> bool {
        let was_bad = self.unfit.forget_damaged(block, node);
        if was_bad {
            self.doubt(block);
        }
        was_bad
    }

    /// A damaged replica of a block that has no other copy, on a node that is `free`, whose turn it is to be read
    /// again: what looked like damage may have been a fault of the moment. Later and later.
    pub fn next_to_reread(&mut self, now: Duration, free: impl Fn(NodeId) -> bool) -> Option<(BlockId, NodeId)> {
        self.unfit.take_again(self.missing.blocks(), now, free)
    }

    /// A replica of a missing block, and no better than those that existed when that was found: it cannot be copied.
    pub(crate) fn is_useless(&self, node: NodeId, reported: &ReportedReplica) -> bool {
        self.missing.is_useless(reported, self.is_bad(reported.block, node, reported.generation))
    }

    /// A node that is no member has the block. If a member lacks it and has no order to copy it, it is compared now
    /// that there is a source.
    pub fn on_surplus(&mut self, block: BlockId) {
        if self.unfit.absent_of(block).any(|node| !self.wants(node, block)) {
            self.doubt(block);
        }
    }

    /// No file owns the block any more.
    pub fn forget_block(&mut self, block: BlockId) {
        self.unfit.forget_block(block);
        self.missing.remove(block);
        self.doubtful.end_moving(block);
    }

    /// A comparison of `home` found nothing to copy.
    pub fn on_whole(&mut self, home: ContainerId) {
        // Of what is missing the next look is later and later.
        self.comparisons.on_whole(home, self.missing.has_named_of(home));
        self.copies.forget_refused_of(home);
    }

    /// Whether the block is being copied to where its home will be.
    pub fn is_copied(&self, block: BlockId) -> bool {
        self.moving_to(block).is_some_and(|to| self.copies.is_copied_to(to, block))
    }

    pub fn progress(&self) -> Progress {
        let ended = self.copies.ended();
        Progress {
            lack_count: self.copies.len(),
            lack_len: self.copies.lack_len(),
            ordered_count: self.copies.ordered_count() as usize, // at most TOTAL_COUNT_MAX
            suspect_count: self.comparisons.len(),
            missing_count: self.missing.len(),
            bad_count: self.unfit.damaged_count(),
            copied_count: ended.copied_count,
            copied_len: ended.copied_len,
            failed_count: ended.failed_count,
        }
    }

    /// Every relation within the parts and between them. Looks at everything: for tests and simulations, and now and
    /// then in debug builds.
    pub fn check(&self) {
        self.comparisons.check();
        self.copies.check();
        self.missing.check();
        self.unfit.check();
        self.doubtful.check();
        for home in self.comparisons.failed() {
            let is_copied = self.copies.has_lacks_of(home);
            assert!(is_copied, "a copy of {home} failed, and it is not compared before the last one has ended");
        }
    }
}

/// What concerns the containers to compare alone.
impl Repair {
    /// A container should be compared, at `at` or before.
    /// It waits to be compared, or is compared again after a failure.
    pub fn is_suspected(&self, home: ContainerId) -> bool {
        self.comparisons.is_waiting(home)
    }

    pub fn suspect(&mut self, home: ContainerId, at: Duration) {
        self.comparisons.suspect(home, at);
    }

    /// Whether `home` waits to be compared.
    pub(crate) fn is_due(&self, home: ContainerId) -> bool {
        self.comparisons.is_due(home)
    }

    /// When the next comparison is due.
    pub fn next_due(&self) -> Option<Duration> {
        self.comparisons.next_due()
    }

    /// A comparison of `home` could not be made, or found blocks that no node has: again later.
    pub fn retry(&mut self, home: ContainerId, now: Duration) {
        self.comparisons.retry(home, now);
    }

    /// It has other members now, to which earlier failures do not apply: it is compared at once.
    pub fn on_members(&mut self, home: ContainerId, now: Duration) {
        self.comparisons.on_members(home, now);
    }

    /// `open` are all blocks of `home` that are open now; a member joined its pipeline at this epoch. True: none of
    /// them was open at the first look. So the new member is in all their chains, or they are complete and were
    /// compared.
    pub fn old_open_blocks_closed(
        &mut self,
        home: ContainerId,
        joined: (PipelineId, Epoch),
        open: &BTreeSet<BlockId>,
    ) -> bool {
        self.comparisons.old_open_blocks_closed(home, joined, open)
    }

    /// `home` has no joining member any more.
    pub fn forget_old_open_blocks(&mut self, home: ContainerId) {
        self.comparisons.forget_open(home);
    }

    pub(crate) fn on_relieved(&mut self, home: ContainerId, node: NodeId) {
        self.comparisons.on_relieved(home, node);
    }

    pub(crate) fn is_relieved(&self, home: ContainerId, node: NodeId) -> bool {
        self.comparisons.is_relieved(home, node)
    }

    /// All members reported all of `home`, under this epoch; `None`: none is joining any more.
    pub(crate) fn on_compared(&mut self, home: ContainerId, joined: Option<(PipelineId, Epoch)>) {
        self.comparisons.on_reported(home, joined);
    }

    /// Containers with joining members, and the epoch of their pipeline. Members that joined up to it have reported
    /// their replicas: all but [`Self::absent`].
    pub fn reported(&self) -> impl Iterator<Item = (ContainerId, (PipelineId, Epoch))> + '_ {
        self.comparisons.reported()
    }
}

/// What concerns the copies alone.
impl Repair {
    /// Orders for `node` now.
    pub fn orders(&mut self, node: NodeId, now: Duration) -> Vec<PlannedCopy> {
        self.copies.orders(node, now)
    }

    /// The blocks that `node` is copying, or has yet to copy, by its report: other orders were lost.
    pub fn on_working(&mut self, node: NodeId, blocks: &BTreeSet<BlockId>, now: Duration) {
        self.copies.on_working(node, blocks, now);
    }

    /// The number of a failure in `node`'s report. False: it was reported before.
    pub fn is_news(&mut self, node: NodeId, number: u64) -> bool {
        self.copies.is_news(node, number)
    }

    /// True if no more lacks should be brought just now.
    pub fn is_full(&self) -> bool {
        self.copies.is_full()
    }

    /// Whether a copy of `block` on `node` was asked for here.
    pub fn wants(&self, node: NodeId, block: BlockId) -> bool {
        self.copies.contains(node, block)
    }

    /// Whether something of `home` is still to be copied.
    pub fn is_open(&self, home: ContainerId) -> bool {
        self.copies.has_lacks_of(home)
    }

    /// Bytes of `home` that are known to be copied yet; `None` if it was not compared, or nothing of it lacks.
    pub fn lack_len_of(&self, home: ContainerId) -> Option<u64> {
        self.is_open(home).then(|| self.copies.lack_len_of(home))
    }

    /// Bytes that are known to be copied to `node`.
    pub(crate) fn lack_len_to(&self, node: NodeId) -> u64 {
        self.copies.lack_len_to(node)
    }

    /// Bytes that `node` needs room for: what is not ordered yet, or what it could not put.
    pub fn needed_len_on(&self, node: NodeId) -> u64 {
        self.copies.needed_len_on(node)
    }

    /// Containers of which `node` is known to lack something.
    pub(crate) fn lacked_by(&self, node: NodeId) -> BTreeSet<ContainerId> {
        self.copies.lacked_by(node)
    }

    /// Blocks of which a copy is ordered, or waits for its turn.
    pub fn pending_count(&self) -> usize {
        self.copies.block_count()
    }

    /// What is to be copied, in order of node and block.
    pub fn lacks(&self) -> impl Iterator<Item = &Lack> {
        self.copies.lacks()
    }
}

/// What concerns missing blocks alone.
impl Repair {
    /// Begins to take in a comparison of `home`: its missing blocks are found anew.
    pub fn begin(&mut self, home: ContainerId) {
        self.missing.forget_named_of(home);
    }

    /// A live node has the block, or it is not needed any more.
    pub fn found(&mut self, block: BlockId) {
        self.missing.remove(block);
    }

    /// Bytes of containers that no node has which is here: of blocks that are known by name, and of the others as many
    /// as were found last.
    pub fn missing_lens(&self) -> impl Iterator<Item = (ContainerId, u64)> + '_ {
        self.missing.lens()
    }

    /// A comparison of `home` has come to its end: so many bytes are missing beside what is known by name.
    pub(crate) fn set_unnamed_len(&mut self, home: ContainerId, len: u64) {
        self.missing.set_unnamed_len(home, len);
    }

    /// Nothing is missing of containers that are not there any more.
    pub(crate) fn forget_unnamed(&mut self, is_gone: impl Fn(ContainerId) -> bool) {
        self.missing.forget_unnamed(is_gone);
    }

    pub fn is_missing(&self, block: BlockId) -> bool {
        self.missing.contains(block)
    }

    /// There may be more blocks without a copy than are known by name.
    pub fn is_missing_full(&self) -> bool {
        self.missing.is_full()
    }

    pub fn missing(&self) -> impl Iterator<Item = Missing> + '_ {
        self.missing.iter()
    }
}

/// What concerns unfit replicas alone.
impl Repair {
    /// Whether a replica that its node reports of `wanted`, or of a later generation, is known to be damaged.
    pub fn is_bad(&self, block: BlockId, node: NodeId, wanted: Generation) -> bool {
        self.unfit.is_damaged(block, node, wanted) && !mutation::is(Mutation::ForgetDamage)
    }

    pub fn bad(&self) -> impl Iterator<Item = (BlockId, NodeId)> + '_ {
        self.unfit.damaged()
    }

    /// A damaged replica is gone, with its block or by its node's word.
    pub fn forget_bad(&mut self, block: BlockId, node: NodeId) {
        self.unfit.forget_damaged(block, node);
    }

    /// A member reported that it lacks a block of `home`.
    pub(crate) fn on_absent(&mut self, block: BlockId, node: NodeId, home: ContainerId) {
        self.unfit.on_absent(block, node, home);
    }

    /// A member reported that it has a block. Known damage is of an earlier generation, or it would not count as fit.
    pub(crate) fn on_fit(&mut self, block: BlockId, node: NodeId) {
        self.unfit.on_fit(block, node);
    }

    /// Replicas that members reported to lack, as far as they have not got them since.
    pub fn absent(&self) -> impl Iterator<Item = (BlockId, NodeId)> + '_ {
        self.unfit.absent()
    }
}

/// What concerns doubtful blocks alone.
impl Repair {
    /// Some member may lack this block, though nothing else of its container: it is compared by itself, once it is
    /// complete.
    pub fn doubt(&mut self, block: BlockId) {
        self.doubtful.insert(block);
    }

    /// Takes some blocks to compare, in turn; those that cannot be yet are to be doubted again.
    pub fn take_doubts(&mut self, count_max: usize) -> Vec<BlockId> {
        self.doubtful.take(count_max)
    }

    /// A block is copied to where its home will be: replicas there are no surplus.
    pub fn set_moving(&mut self, block: BlockId, to: ContainerId) {
        self.doubtful.set_moving(block, to);
    }

    pub fn moving_to(&self, block: BlockId) -> Option<ContainerId> {
        self.doubtful.moving_to(block)
    }

    pub fn end_moving(&mut self, block: BlockId) {
        self.doubtful.end_moving(block);
    }
}
