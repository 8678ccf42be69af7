//! What has to be copied, and who does it when: the leader's memory of repair.
//!
//! ```text
//!  suspect ──▶ containers to compare ──next_check──▶ (members are asked) ──on_compared──▶ lacks
//!     ▲                                                                                    │ orders(node), fewest copies first
//!     │              all of a container's lacks are settled: look again                    ▼
//!     └─────────────────────────────────────────── on_copied · on_failed ◀────────── the node copies, verifies, puts
//! ```
//!
//! Promise: a block is ordered to a node at most once at a time; what one node has to do at a time is bounded in blocks
//! and in bytes, as is what one node is read for; a copy that fails is tried from another source, and then the
//! container is compared again, later and later. Nothing here is the only place of a fact: if this memory is lost, the
//! containers are compared again.

use crate::replica_fate::Told;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;
use std::time::Duration;
use types::{BlockId, ContainerId, Epoch, FileId, Generation, NodeId, PipelineId};

/// Blocks a node is told to copy at a time. With small ones it must not wait for the next order.
const ORDERED_COUNT_MAX: usize = 400;
/// Bytes a node is told to copy at a time, but one block at least.
const ORDERED_LEN_MAX: u64 = 256 << 20;
/// Bytes that others are told to read from one node at a time, but one block at least.
const SOURCE_LEN_MAX: u64 = 512 << 20;
/// Blocks under way in the whole cluster: the leader hears of each.
const TOTAL_COUNT_MAX: usize = 20_000;
/// Lacks remembered. With more, containers wait until they are compared.
const LACK_COUNT_MAX: usize = 50_000;
/// An order that the node does not name among its work any more is given again.
const ORDER_LOST_AFTER: Duration = Duration::from_secs(5);
/// Between looks at a container whose copies failed: doubling from the first to the second.
const RETRY_FIRST: Duration = Duration::from_secs(2);
const RETRY_LAST: Duration = Duration::from_secs(300);
/// Blocks to compare by themselves. If there are more, the audit of all containers finds them.
const DOUBT_COUNT_MAX: usize = 100_000;
/// Damaged replicas remembered.
const BAD_COUNT_MAX: usize = 100_000;
/// Of one node: a disk with more of them is to be replaced. Those beyond are reported again by the next scrub.
const BAD_OF_NODE_COUNT_MAX: usize = 10_000;
/// A damaged replica of a block that has no other copy is read again, first and last: doubling.
const AGAIN_FIRST: Duration = Duration::from_secs(20);
const AGAIN_LAST: Duration = Duration::from_secs(3600);
/// Names of blocks without any source that are kept for people.
const MISSING_COUNT_MAX: usize = 10_000;
/// Copies remembered that nodes could not put.
const REFUSED_COUNT_MAX: usize = 50_000;
/// Replicas remembered that members said not to have. With more, those beyond count as there until they are compared
/// again.
const ABSENT_COUNT_MAX: usize = 100_000;

/// A replica that a node should have and has not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lack {
    pub block: BlockId,
    pub generation: Generation,
    pub len: u64,
    pub file: FileId,
    pub home: ContainerId,
    pub node: NodeId,
    /// Nodes that said they have it.
    pub sources: Vec<NodeId>,
    /// The node has one of this generation that is not fit to be read: it is replaced by the copy.
    pub unfit: bool,
}

/// An order to copy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Copy {
    pub block: BlockId,
    pub generation: Generation,
    pub len: u64,
    pub file: FileId,
    pub home: ContainerId,
    /// The one to read first comes first.
    pub sources: Vec<NodeId>,
    pub unfit: bool,
}

/// A block that no node that is here has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Missing {
    pub block: BlockId,
    pub file: FileId,
    pub home: ContainerId,
}

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

#[derive(Debug)]
struct Task {
    lack: Lack,
    /// Ordered when, and to read from whom.
    ordered: Option<(Duration, NodeId)>,
}

#[derive(Debug, Default)]
struct Retry {
    pause: Duration,
    /// Some copy failed since the container was compared.
    failed: bool,
}

impl Retry {
    /// The pause before the next attempt: twice the one before.
    fn lengthen(&mut self) -> Duration {
        self.failed = false;
        self.pause = (self.pause * 2).clamp(RETRY_FIRST, RETRY_LAST);
        self.pause
    }
}

/// A replica that was found damaged.
#[derive(Debug)]
struct Damage {
    /// What was read. A recovery may cut off what was damaged: of a later generation this says nothing.
    generation: Generation,
    /// When it was, or will be, read again, if it is all there is of its block.
    at: Option<Duration>,
    pause: Duration,
}

/// What is known of a block without a copy.
#[derive(Clone, Copy, Debug)]
struct Gone {
    generation: Generation,
    len: u64,
    file: FileId,
    home: ContainerId,
}

#[derive(Debug, Default)]
pub struct Repair {
    /// Containers to compare, by when.
    due: BTreeSet<(Duration, ContainerId)>,
    due_of: BTreeMap<ContainerId, Duration>,
    tasks: BTreeMap<(NodeId, BlockId), Task>,
    /// What each node could be told next: those with the fewest sources first.
    waiting: BTreeMap<NodeId, BTreeSet<(usize, BlockId)>>,
    ordered_to: BTreeMap<NodeId, (usize, u64)>,
    ordered_from: BTreeMap<NodeId, u64>,
    ordered_count: usize,
    /// Lacks not settled yet, by container.
    open: BTreeMap<ContainerId, usize>,
    retries: BTreeMap<ContainerId, Retry>,
    missing: BTreeMap<BlockId, Gone>,
    missing_of: BTreeMap<ContainerId, BTreeSet<BlockId>>,
    /// Bytes of missing blocks for whose names there was no room, as the last comparison of their container found them.
    unnamed_len_of: BTreeMap<ContainerId, u64>,
    lack_len: u64,
    lack_len_by: BTreeMap<ContainerId, u64>,
    lack_len_to: BTreeMap<NodeId, u64>,
    copied_count: u64,
    copied_len: u64,
    failed_count: u64,
    failures_heard: BTreeMap<NodeId, u64>,
    /// Replicas that were found damaged, and are not replaced yet.
    bad: BTreeMap<(BlockId, NodeId), Damage>,
    /// How many of these each node has.
    bad_of: BTreeMap<NodeId, usize>,
    /// Single blocks to compare once they are complete.
    doubts: BTreeSet<BlockId>,
    /// Whose turn it is among these.
    doubts_from: BlockId,
    /// Copies under way, by container and block.
    copies_of: BTreeMap<(ContainerId, BlockId), usize>,
    /// Blocks on their way to another container.
    moving: BTreeMap<BlockId, ContainerId>,
    /// Of containers that somebody joins: pipeline and epoch, and blocks that were open when they were compared first
    /// under it. Who joined may not be in their chains.
    begun_before: BTreeMap<ContainerId, ((PipelineId, Epoch), BTreeSet<BlockId>)>,
    /// Replicas that a member said not to have, or not to have fit to be read, until it has: also while nobody can copy
    /// them.
    absent: BTreeMap<(BlockId, NodeId), ContainerId>,
    /// Of containers that somebody joins: the pipeline, and its last epoch under which all members said what they have
    /// of all of it.
    told: BTreeMap<ContainerId, (PipelineId, Epoch)>,
    /// Members that are here and went, as they had no room for what they lacked, until their containers are whole
    /// without them.
    relieved: BTreeSet<(ContainerId, NodeId)>,
    /// Copies that a node could not put, by no fault of a source, and their bytes: until it has, or need not any more.
    refused: BTreeMap<(NodeId, BlockId), (ContainerId, u64)>,
}

/// Keys of a block's replicas, on whatever node.
fn all_of(block: BlockId) -> RangeInclusive<(BlockId, NodeId)> {
    (block, NodeId([0; 16]))..=(block, NodeId([0xff; 16]))
}

impl Repair {
    /// A container should be compared, at `at` or before.
    pub fn suspect(&mut self, home: ContainerId, at: Duration) {
        match self.due_of.get(&home).copied() {
            Some(due) if due <= at => return,
            Some(due) => {
                self.due.remove(&(due, home));
            }
            None => {}
        }
        self.due.insert((at, home));
        self.due_of.insert(home, at);
    }

    /// The next container to compare: one that waits long enough, unless much is to be copied already.
    pub fn next_check(&mut self, now: Duration) -> Option<ContainerId> {
        if self.tasks.len() >= LACK_COUNT_MAX {
            return None;
        }
        let (at, home) = *self.due.first().filter(|(at, _)| *at <= now)?;
        self.due.remove(&(at, home));
        self.due_of.remove(&home);
        Some(home)
    }

    /// Whether `home` waits to be compared.
    pub(crate) fn is_due(&self, home: ContainerId) -> bool {
        self.due_of.contains_key(&home)
    }

    /// When the next comparison is due.
    pub fn next_due(&self) -> Option<Duration> {
        self.due.first().map(|(at, _)| *at)
    }

    /// True if no more lacks should be brought just now.
    pub fn is_full(&self) -> bool {
        self.tasks.len() >= LACK_COUNT_MAX
    }

    /// Some member may lack this block, though nothing else of its container: it is compared by itself, once it is
    /// complete.
    pub fn doubt(&mut self, block: BlockId) {
        if self.doubts.len() < DOUBT_COUNT_MAX {
            self.doubts.insert(block);
        }
    }

    /// Takes some blocks to compare, in turn; those that cannot be yet are to be doubted again.
    pub fn take_doubts(&mut self, count_max: usize) -> Vec<BlockId> {
        let later = self.doubts.range(self.doubts_from..).take(count_max).copied();
        let mut taken: Vec<BlockId> = later.collect();
        if taken.len() < count_max {
            let first = self.doubts.range(..self.doubts_from).take(count_max - taken.len()).copied();
            taken.extend(first);
        }
        for block in &taken {
            self.doubts.remove(block);
        }
        self.doubts_from = taken.last().map_or(BlockId(0), |last| BlockId(last.0.saturating_add(1)));
        taken
    }

    /// A replica is known to be damaged, of this generation: it is no source, and it is to be replaced.
    pub fn on_bad(&mut self, block: BlockId, node: NodeId, generation: Generation) {
        let of_node = self.bad_of.get(&node).copied().unwrap_or_default();
        let is_full = self.bad.len() >= BAD_COUNT_MAX || of_node >= BAD_OF_NODE_COUNT_MAX;
        if self.is_bad(block, node, generation) || is_full && !self.bad.contains_key(&(block, node)) {
            return;
        }
        let damage = Damage { generation, at: None, pause: Duration::ZERO };
        if self.bad.insert((block, node), damage).is_none() {
            self.bad_of.insert(node, of_node + 1);
        }
        self.doubt(block);
    }

    /// False: it was not known to be damaged.
    fn remove_bad(&mut self, block: BlockId, node: NodeId) -> bool {
        let was_bad = self.bad.remove(&(block, node)).is_some();
        if was_bad && let Some(count) = self.bad_of.get_mut(&node) {
            *count -= 1;
            if *count == 0 {
                self.bad_of.remove(&node);
            }
        }
        was_bad
    }

    /// Whether a replica is known to be damaged that its node says to have of `wanted`, or of a later generation.
    pub fn is_bad(&self, block: BlockId, node: NodeId, wanted: Generation) -> bool {
        self.bad.get(&(block, node)).is_some_and(|damage| damage.generation >= wanted)
    }

    pub fn bad(&self) -> impl Iterator<Item = (BlockId, NodeId)> + '_ {
        self.bad.keys().copied()
    }

    /// A damaged replica of a block that has no other copy, on a node that is `free`, whose turn it is to be read
    /// again: what looked like damage may have been a fault of the moment. Later and later.
    pub fn take_bad_alone(&mut self, now: Duration, free: impl Fn(NodeId) -> bool) -> Option<(BlockId, NodeId)> {
        if self.bad.is_empty() {
            return None;
        }
        for block in self.missing.keys() {
            for (key, damage) in self.bad.range_mut(all_of(*block)) {
                let at = *damage.at.get_or_insert(now + AGAIN_FIRST);
                if at <= now && free(key.1) {
                    damage.pause = (damage.pause * 2).clamp(AGAIN_FIRST, AGAIN_LAST);
                    damage.at = Some(now + damage.pause);
                    return Some(*key);
                }
            }
        }
        None
    }

    /// A replica was read from end to end, and agrees with its checksums. True: it had been taken for damaged.
    pub fn reads_well(&mut self, block: BlockId, node: NodeId) -> bool {
        let was_bad = self.remove_bad(block, node);
        if was_bad {
            self.doubt(block);
        }
        was_bad
    }

    /// A damaged replica is gone, with its block or by its node's word.
    pub fn forget_bad(&mut self, block: BlockId, node: NodeId) {
        self.remove_bad(block, node);
    }

    /// No file owns the block any more.
    pub fn forget_block(&mut self, block: BlockId) {
        let bad: Vec<_> = self.bad.range(all_of(block)).map(|(key, _)| *key).collect();
        for (block, node) in bad {
            self.remove_bad(block, node);
        }
        let absent: Vec<_> = self.absent.range(all_of(block)).map(|(key, _)| *key).collect();
        for key in absent {
            self.absent.remove(&key);
        }
        self.found(block);
        self.moving.remove(&block);
    }

    /// A block is copied to where its home will be: replicas there are no surplus.
    pub fn set_moving(&mut self, block: BlockId, to: ContainerId) {
        self.moving.insert(block, to);
    }

    pub fn moving_to(&self, block: BlockId) -> Option<ContainerId> {
        self.moving.get(&block).copied()
    }

    pub fn end_moving(&mut self, block: BlockId) {
        self.moving.remove(&block);
    }

    /// Begins what a comparison of `home` tells: what was said to be missing is said anew.
    pub fn begin(&mut self, home: ContainerId) {
        for block in self.missing_of.remove(&home).unwrap_or_default() {
            self.missing.remove(&block);
        }
    }

    /// A node that is here has the block, or nobody wants it any more.
    pub fn found(&mut self, block: BlockId) {
        let Some(gone) = self.missing.remove(&block) else { return };
        if let Some(of_home) = self.missing_of.get_mut(&gone.home) {
            of_home.remove(&block);
            if of_home.is_empty() {
                self.missing_of.remove(&gone.home);
            }
        }
    }

    /// Bytes of containers that no node has which is here: of blocks that are known by name, and of the others as many
    /// as were found last.
    pub fn missing_lens(&self) -> impl Iterator<Item = (ContainerId, u64)> + '_ {
        let len = |block: &BlockId| self.missing.get(block).map_or(0, |gone| gone.len);
        let mut lens = self.unnamed_len_of.clone();
        for (home, blocks) in &self.missing_of {
            let of_home = lens.entry(*home).or_default();
            *of_home = types::len::total(blocks.iter().map(len).chain([*of_home]));
        }
        lens.into_iter()
    }

    /// A comparison of `home` has come to its end: so many bytes are missing beside what is known by name.
    pub(crate) fn set_unnamed_len(&mut self, home: ContainerId, len: u64) {
        if len == 0 {
            self.unnamed_len_of.remove(&home);
        } else {
            self.unnamed_len_of.insert(home, len);
        }
    }

    /// Nothing is missing of containers that are not there any more.
    pub(crate) fn forget_unnamed(&mut self, is_gone: impl Fn(ContainerId) -> bool) {
        self.unnamed_len_of.retain(|home, _| !is_gone(*home));
    }

    pub fn is_missing(&self, block: BlockId) -> bool {
        self.missing.contains_key(&block)
    }

    /// A replica of a block that is missing, and no better than those that were there when that was found: nobody can
    /// make a copy of it.
    pub(crate) fn is_useless(&self, node: NodeId, told: &Told) -> bool {
        let is_no_source = |gone: &Gone| {
            !told.finalized
                || told.generation < gone.generation
                || told.len < gone.len
                || self.is_bad(told.block, node, told.generation)
        };
        self.missing.get(&told.block).is_some_and(is_no_source)
    }

    /// There may be more blocks without a copy than are known by name.
    pub fn is_missing_full(&self) -> bool {
        self.missing.len() >= MISSING_COUNT_MAX
    }

    /// A lack that was found. True: it is new.
    pub fn on_lack(&mut self, lack: Lack) -> bool {
        let key = (lack.node, lack.block);
        if lack.sources.is_empty() {
            if self.is_missing_full() && !self.is_missing(lack.block) {
                return false;
            }
            let is_news = !self.is_missing(lack.block);
            self.found(lack.block); // its home may have been another one
            let Lack { block, generation, len, file, home, .. } = lack;
            self.missing.insert(block, Gone { generation, len, file, home });
            self.missing_of.entry(home).or_default().insert(block);
            return is_news;
        }
        if self.tasks.contains_key(&key) {
            return false;
        }
        self.lack_len += lack.len;
        *self.lack_len_by.entry(lack.home).or_default() += lack.len;
        *self.lack_len_to.entry(lack.node).or_default() += lack.len;
        *self.open.entry(lack.home).or_default() += 1;
        *self.copies_of.entry((lack.home, lack.block)).or_default() += 1;
        self.waiting.entry(lack.node).or_default().insert((lack.sources.len(), lack.block));
        self.tasks.insert(key, Task { lack, ordered: None });
        true
    }

    /// Whether a copy of `block` on `node` was asked for here.
    pub fn wants(&self, node: NodeId, block: BlockId) -> bool {
        self.tasks.contains_key(&(node, block))
    }

    /// Whether the block is being copied to where its home will be.
    pub fn is_copied(&self, block: BlockId) -> bool {
        self.moving.get(&block).is_some_and(|to| self.copies_of.get(&(*to, block)).is_some_and(|count| *count > 0))
    }

    /// What to tell `node` now.
    pub fn orders(&mut self, node: NodeId, now: Duration) -> Vec<Copy> {
        let mut orders = Vec::new();
        let mut passed = Vec::new();
        loop {
            let (count, len) = self.ordered_to.get(&node).copied().unwrap_or_default();
            if count >= ORDERED_COUNT_MAX || self.ordered_count >= TOTAL_COUNT_MAX || passed.len() >= ORDERED_COUNT_MAX
            {
                break;
            }
            let Some(next) = self.waiting.get_mut(&node).and_then(BTreeSet::pop_first) else { break };
            let Some(task) = self.tasks.get_mut(&(node, next.1)) else { continue };
            let block_len = task.lack.len;
            let busy = |source: &NodeId| self.ordered_from.get(source).copied().unwrap_or(0);
            // Spread, and by number where all are idle, so that a test can say what will be.
            task.lack.sources.sort_by_key(|source| (busy(source), *source));
            let source = task.lack.sources[0];
            let too_much = count > 0 && len + block_len > ORDERED_LEN_MAX;
            let from_busy = busy(&source) > 0 && busy(&source) + block_len > SOURCE_LEN_MAX;
            if too_much || from_busy {
                passed.push(next);
                if too_much {
                    break;
                }
                continue;
            }
            task.ordered = Some((now, source));
            let Lack { block, generation, len, file, home, ref sources, unfit, .. } = task.lack;
            orders.push(Copy { block, generation, len, file, home, sources: sources.clone(), unfit });
            let of_node = self.ordered_to.entry(node).or_default();
            *of_node = (of_node.0 + 1, of_node.1 + len);
            *self.ordered_from.entry(source).or_default() += len;
            self.ordered_count += 1;
        }
        if !passed.is_empty() {
            self.waiting.entry(node).or_default().extend(passed);
        }
        orders
    }

    /// `node` has this replica now.
    pub fn on_put(&mut self, node: NodeId, block: BlockId, generation: Generation, now: Duration) {
        self.remove_bad(block, node);
        self.absent.remove(&(block, node));
        self.refused.remove(&(node, block));
        if self.missing.get(&block).is_some_and(|gone| gone.generation <= generation) {
            self.found(block);
        }
        let fits = self.tasks.get(&(node, block)).is_some_and(|task| task.lack.generation <= generation);
        if !fits {
            return;
        }
        let Some(task) = self.remove(node, block) else { return };
        self.copied_count += 1;
        self.copied_len += task.lack.len;
        self.settle(task.lack.home, now, true);
    }

    /// A node that is no member has the block: if a member lacks it and is not told to copy it, it is compared now that
    /// there is somebody to copy from.
    pub fn on_surplus(&mut self, block: BlockId) {
        if self.absent.range(all_of(block)).any(|((_, node), _)| !self.wants(*node, block)) {
            self.doubt(block);
        }
    }

    /// The number of a failure that `node` tells. False: it was told before.
    pub fn is_news(&mut self, node: NodeId, number: u64) -> bool {
        let heard = self.failures_heard.entry(node).or_default();
        let news = number > *heard;
        *heard = number.max(*heard);
        news
    }

    /// `node` started anew. Its replicas that are called bad are to be read again: it may have deleted one, and died
    /// before it said so.
    #[must_use]
    pub fn on_registered(&mut self, node: NodeId) -> Vec<BlockId> {
        self.failures_heard.remove(&node);
        self.bad.keys().filter(|(_, of)| *of == node).map(|(block, _)| *block).collect()
    }

    /// `node` could not copy. If it names whom it read, that one is not asked again for this block.
    pub fn on_failed(&mut self, node: NodeId, block: BlockId, source: Option<NodeId>, now: Duration) {
        let Some(mut task) = self.remove(node, block) else { return };
        self.failed_count += 1;
        let home = task.lack.home;
        if let Some(source) = source {
            task.lack.sources.retain(|id| *id != source);
            if !task.lack.sources.is_empty() {
                let lack = task.lack;
                if let Some(open) = self.open.get_mut(&home) {
                    *open -= 1;
                }
                self.on_lack(lack);
                return;
            }
        } else if self.refused.len() < REFUSED_COUNT_MAX {
            self.refused.insert((node, block), (home, task.lack.len));
        }
        self.settle(home, now, false);
    }

    /// What `node` says it is copying, or has yet to copy: orders that are not among these were lost.
    pub fn on_working(&mut self, node: NodeId, blocks: &BTreeSet<BlockId>, now: Duration) {
        let (from, to) = ((node, BlockId(0)), (node, BlockId(u64::MAX)));
        let is_lost = |(_, block): &(NodeId, BlockId), task: &Task| {
            task.ordered.is_some_and(|(at, _)| now.saturating_sub(at) > ORDER_LOST_AFTER) && !blocks.contains(block)
        };
        let lost = self.tasks.range(from..=to).filter(|(key, task)| is_lost(key, task)).map(|((_, block), _)| *block);
        for block in lost.collect::<Vec<_>>() {
            self.unorder(node, block);
            if let Some(task) = self.tasks.get_mut(&(node, block)) {
                task.ordered = None;
                self.waiting.entry(node).or_default().insert((task.lack.sources.len(), block));
            }
        }
    }

    /// Nothing is to be copied to `node` any more: it is gone, or others have its place.
    pub fn on_lost(&mut self, node: NodeId, now: Duration) {
        let (from, to) = ((node, BlockId(0)), (node, BlockId(u64::MAX)));
        let blocks: Vec<BlockId> = self.tasks.range(from..=to).map(|((_, block), _)| *block).collect();
        for block in blocks {
            if let Some(task) = self.remove(node, block) {
                self.settle(task.lack.home, now, true);
            }
        }
    }

    /// `node` is no member of these containers any more: it lacks nothing of them.
    pub fn on_left(&mut self, node: NodeId, containers: &BTreeSet<ContainerId>, now: Duration) {
        let (from, to) = ((node, BlockId(0)), (node, BlockId(u64::MAX)));
        let of_these = |task: &Task| containers.contains(&task.lack.home);
        let gone = self.tasks.range(from..=to).filter(|(_, task)| of_these(task)).map(|((_, block), _)| *block);
        for block in gone.collect::<Vec<_>>() {
            if let Some(task) = self.remove(node, block) {
                self.settle(task.lack.home, now, true);
            }
        }
        self.absent.retain(|(_, of), home| *of != node || !containers.contains(home));
        self.refused.retain(|(of, _), (home, _)| *of != node || !containers.contains(home));
    }

    /// Nodes with something to copy.
    pub fn targets(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.waiting.keys().copied()
    }

    /// A comparison of `home` found nothing to copy.
    pub fn on_whole(&mut self, home: ContainerId) {
        let relieved = (home, NodeId([0; 16]))..=(home, NodeId([0xff; 16]));
        self.relieved.extract_if(relieved, |_| true).for_each(drop);
        self.refused.retain(|_, (of, _)| *of != home);
        // Of what is missing the next look is later and later.
        if !self.missing_of.contains_key(&home) {
            self.retries.remove(&home);
        }
    }

    /// A comparison of `home` could not be made, or found what nobody has: again later.
    pub fn retry(&mut self, home: ContainerId, now: Duration) {
        let at = now + self.retries.entry(home).or_default().lengthen();
        self.suspect(home, at);
    }

    /// Others have it now, for whom what failed before means nothing: it is compared at once.
    pub fn on_members(&mut self, home: ContainerId, now: Duration) {
        self.retries.remove(&home);
        self.suspect(home, now);
    }

    /// `open` are all blocks of `home` that are open now, somebody has joined its pipeline at this epoch. True: none of
    /// them was open when that was looked at first, so whoever joined is in the chains of all, or they are complete and
    /// were compared.
    pub fn are_younger(&mut self, home: ContainerId, joined: (PipelineId, Epoch), open: &BTreeSet<BlockId>) -> bool {
        let (known, before) = self.begun_before.entry(home).or_insert_with(|| (joined, open.clone()));
        if *known != joined {
            (*known, *before) = (joined, open.clone());
        }
        before.retain(|block| open.contains(block));
        before.is_empty()
    }

    /// Nobody joins `home` any more.
    pub fn forget_begun(&mut self, home: ContainerId) {
        self.begun_before.remove(&home);
    }

    /// Whether something of `home` is still to be copied.
    pub fn is_open(&self, home: ContainerId) -> bool {
        self.open.contains_key(&home)
    }

    /// Bytes of `home` that are known to be copied yet; `None` if it was not compared, or nothing of it lacks.
    pub fn lack_len_of(&self, home: ContainerId) -> Option<u64> {
        self.open.contains_key(&home).then(|| self.lack_len_by.get(&home).copied().unwrap_or_default())
    }

    /// Bytes that are known to be copied to `node`.
    pub(crate) fn lack_len_to(&self, node: NodeId) -> u64 {
        self.lack_len_to.get(&node).copied().unwrap_or_default()
    }

    /// Bytes that `node` needs room for: what is not ordered yet, or what it could not put.
    pub fn needed_len_on(&self, node: NodeId) -> u64 {
        let unordered = self.lack_len_to(node).saturating_sub(self.ordered_to.get(&node).map_or(0, |(_, len)| *len));
        unordered.max(self.refused_by(node).fold(0, |sum, (_, len)| sum.saturating_add(len)))
    }

    fn refused_by(&self, node: NodeId) -> impl Iterator<Item = (ContainerId, u64)> + '_ {
        self.refused.range((node, BlockId(0))..=(node, BlockId(u64::MAX))).map(|(_, refused)| *refused)
    }

    /// Containers of which `node` is known to lack something.
    pub(crate) fn lacked_by(&self, node: NodeId) -> BTreeSet<ContainerId> {
        let (from, to) = ((node, BlockId(0)), (node, BlockId(u64::MAX)));
        let lacked = self.tasks.range(from..=to).map(|(_, task)| task.lack.home);
        lacked.chain(self.refused_by(node).map(|(home, _)| home)).collect()
    }

    pub(crate) fn on_relieved(&mut self, home: ContainerId, node: NodeId) {
        self.relieved.insert((home, node));
    }

    pub(crate) fn is_relieved(&self, home: ContainerId, node: NodeId) -> bool {
        self.relieved.contains(&(home, node))
    }

    /// Blocks of which a copy is ordered, or waits for its turn.
    pub fn pending_count(&self) -> usize {
        self.copies_of.len()
    }

    /// A member said that it lacks a block of `home`.
    pub(crate) fn on_absent(&mut self, block: BlockId, node: NodeId, home: ContainerId) {
        if self.absent.len() < ABSENT_COUNT_MAX {
            self.absent.insert((block, node), home);
        }
    }

    /// A member said that it has a block.
    pub(crate) fn on_fit(&mut self, block: BlockId, node: NodeId) {
        self.absent.remove(&(block, node));
        self.remove_bad(block, node); // of an earlier generation, or it would not count as fit
    }

    /// Replicas that members said to lack, as far as they have not got them since.
    pub fn absent(&self) -> impl Iterator<Item = (BlockId, NodeId)> + '_ {
        self.absent.keys().copied()
    }

    /// All members said what they have of all of `home`, under this epoch; `None`: nobody joins any more.
    pub(crate) fn on_told(&mut self, home: ContainerId, joined: Option<(PipelineId, Epoch)>) {
        match joined {
            Some(joined) => self.told.insert(home, joined),
            None => self.told.remove(&home),
        };
    }

    /// Containers that somebody joins, and the epoch of their pipeline: who joined up to it has said what it has, which
    /// is all but what is [`Self::absent`].
    pub fn told(&self) -> impl Iterator<Item = (ContainerId, (PipelineId, Epoch))> + '_ {
        self.told.iter().map(|(home, joined)| (*home, *joined))
    }

    pub fn progress(&self) -> Progress {
        Progress {
            lack_count: self.tasks.len(),
            lack_len: self.lack_len,
            ordered_count: self.ordered_count,
            suspect_count: self.due.len(),
            missing_count: self.missing.len(),
            bad_count: self.bad.len(),
            copied_count: self.copied_count,
            copied_len: self.copied_len,
            failed_count: self.failed_count,
        }
    }

    /// What is to be copied, in order of node and block.
    pub fn lacks(&self) -> impl Iterator<Item = &Lack> {
        self.tasks.values().map(|task| &task.lack)
    }

    pub fn missing(&self) -> impl Iterator<Item = Missing> + '_ {
        self.missing.iter().map(|(block, gone)| Missing { block: *block, file: gone.file, home: gone.home })
    }

    /// Counts a task's order back.
    fn unorder(&mut self, node: NodeId, block: BlockId) {
        let Some(task) = self.tasks.get(&(node, block)) else { return };
        let Some((_, source)) = task.ordered else { return };
        let len = task.lack.len;
        if let Some((count, sum)) = self.ordered_to.get_mut(&node) {
            (*count, *sum) = (*count - 1, *sum - len);
            if *count == 0 {
                self.ordered_to.remove(&node);
            }
        }
        if let Some(sum) = self.ordered_from.get_mut(&source) {
            *sum -= len;
            if *sum == 0 {
                self.ordered_from.remove(&source);
            }
        }
        self.ordered_count -= 1;
    }

    fn remove(&mut self, node: NodeId, block: BlockId) -> Option<Task> {
        self.unorder(node, block);
        let task = self.tasks.remove(&(node, block))?;
        if let Some(waiting) = self.waiting.get_mut(&node) {
            waiting.remove(&(task.lack.sources.len(), block));
            if waiting.is_empty() {
                self.waiting.remove(&node);
            }
        }
        self.lack_len -= task.lack.len;
        if let Some(len) = self.lack_len_by.get_mut(&task.lack.home) {
            *len -= task.lack.len;
            if *len == 0 {
                self.lack_len_by.remove(&task.lack.home);
            }
        }
        if let Some(len) = self.lack_len_to.get_mut(&node) {
            *len -= task.lack.len;
            if *len == 0 {
                self.lack_len_to.remove(&node);
            }
        }
        let key = (task.lack.home, block);
        if let Some(count) = self.copies_of.get_mut(&key) {
            *count -= 1;
            if *count == 0 {
                self.copies_of.remove(&key);
            }
        }
        Some(task)
    }

    /// One lack of `home` less. After the last one the container is compared again: at once, or later and later while
    /// copies fail.
    fn settle(&mut self, home: ContainerId, now: Duration, well: bool) {
        if !well {
            self.retries.entry(home).or_default().failed = true;
        }
        let Some(open) = self.open.get_mut(&home) else { return };
        *open -= 1;
        if *open > 0 {
            return;
        }
        self.open.remove(&home);
        // However many failed, it was one attempt.
        let retry = self.retries.get_mut(&home).filter(|retry| retry.failed);
        let pause = retry.map_or(Duration::ZERO, Retry::lengthen);
        self.suspect(home, now + pause);
    }
}
