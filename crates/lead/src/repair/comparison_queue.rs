//! Containers to compare, the times of their comparisons, and the findings of earlier ones.
//!
//! ```text
//!  suspect ──▶ due ──next──▶ compared ──▶ whole: removed
//!               ▲                     └──▶ failed: retried with growing pauses
//!               └───────────────────────────────┘
//! ```
//!
//! Promise: a container is queued once, for the earliest time that was named. Pauses between failed attempts double up
//! to a limit. They start again when the container is whole or has other members.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use types::{BlockId, ContainerId, Epoch, NodeId, PipelineId};

/// Between comparisons of a container whose copies failed: doubling from the first to the second.
const RETRY_FIRST: Duration = Duration::from_secs(2);
const RETRY_LAST: Duration = Duration::from_secs(300);

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

/// Open blocks of a container, as found when it was first compared at this epoch.
#[derive(Debug)]
struct OpenBefore {
    joined: (PipelineId, Epoch),
    blocks: BTreeSet<BlockId>,
}

#[derive(Debug, Default)]
pub(super) struct ComparisonQueue {
    due: BTreeSet<(Duration, ContainerId)>,
    due_of: BTreeMap<ContainerId, Duration>,
    retries: BTreeMap<ContainerId, Retry>,
    /// Of containers that a node joins: the pipeline, and the last epoch at which all members reported what they have
    /// of the whole container.
    reported: BTreeMap<ContainerId, (PipelineId, Epoch)>,
    /// Of containers that a node joins: blocks that were open before. The new member may not be in their chains.
    open_before: BTreeMap<ContainerId, OpenBefore>,
    /// Live members that were removed because they had no room for what they lacked, until the container is whole
    /// without them.
    relieved: BTreeSet<(ContainerId, NodeId)>,
}

impl ComparisonQueue {
    /// `home` is to be compared at `at` or before.
    pub(super) fn is_waiting(&self, home: ContainerId) -> bool {
        self.due_of.contains_key(&home)
    }

    pub(super) fn suspect(&mut self, home: ContainerId, at: Duration) {
        match self.due_of.get(&home).copied() {
            Some(due) if due <= at => return,
            Some(due) => {
                let was_queued = self.due.remove(&(due, home));
                assert!(was_queued, "{home} is due at {due:?} and was not queued");
            }
            None => {}
        }
        self.due.insert((at, home));
        self.due_of.insert(home, at);
    }

    /// Takes the container that has been due the longest.
    pub(super) fn take_due(&mut self, now: Duration) -> Option<ContainerId> {
        let (at, home) = *self.due.first().filter(|(at, _)| *at <= now)?;
        self.due.remove(&(at, home));
        let listed = self.due_of.remove(&home);
        assert_eq!(listed, Some(at), "{home} is queued for the time it is due");
        Some(home)
    }

    pub(super) fn is_due(&self, home: ContainerId) -> bool {
        self.due_of.contains_key(&home)
    }

    pub(super) fn next_due(&self) -> Option<Duration> {
        self.due.first().map(|(at, _)| *at)
    }

    pub(super) fn len(&self) -> usize {
        self.due.len()
    }

    /// A copy of a block of `home` failed: the next comparison comes later than it would.
    pub(super) fn on_failed(&mut self, home: ContainerId) {
        self.retries.entry(home).or_default().failed = true;
    }

    /// The last copy of `home` has ended. However many failed, it was one attempt.
    pub(super) fn on_copies_ended(&mut self, home: ContainerId, now: Duration) {
        let retry = self.retries.get_mut(&home).filter(|retry| retry.failed);
        let pause = retry.map_or(Duration::ZERO, Retry::lengthen);
        self.suspect(home, now + pause);
    }

    /// A comparison of `home` was not possible, or found missing blocks: again later.
    pub(super) fn retry(&mut self, home: ContainerId, now: Duration) {
        let at = now + self.retries.entry(home).or_default().lengthen();
        self.suspect(home, at);
    }

    /// `home` has other members. Failures of the former ones do not apply to them.
    pub(super) fn on_members(&mut self, home: ContainerId, now: Duration) {
        self.retries.remove(&home);
        self.suspect(home, now);
    }

    /// A comparison of `home` found nothing to copy. `has_missing`: it has missing blocks, and the pauses before it is
    /// compared again go on growing.
    pub(super) fn on_whole(&mut self, home: ContainerId, has_missing: bool) {
        let relieved = (home, NodeId([0; 16]))..=(home, NodeId([0xff; 16]));
        self.relieved.extract_if(relieved, |_| true).for_each(drop);
        if !has_missing {
            self.retries.remove(&home);
        }
    }

    /// See [`super::Repair::old_open_blocks_closed`].
    pub(super) fn old_open_blocks_closed(
        &mut self,
        home: ContainerId,
        joined: (PipelineId, Epoch),
        open: &BTreeSet<BlockId>,
    ) -> bool {
        let first = || OpenBefore { joined, blocks: open.clone() };
        let before = self.open_before.entry(home).or_insert_with(first);
        if before.joined != joined {
            *before = first();
        }
        before.blocks.retain(|block| open.contains(block));
        before.blocks.is_empty()
    }

    /// No node joins `home` any more.
    pub(super) fn forget_open(&mut self, home: ContainerId) {
        self.open_before.remove(&home);
    }

    pub(super) fn on_relieved(&mut self, home: ContainerId, node: NodeId) {
        self.relieved.insert((home, node));
    }

    pub(super) fn is_relieved(&self, home: ContainerId, node: NodeId) -> bool {
        self.relieved.contains(&(home, node))
    }

    /// See [`super::Repair::on_compared`].
    pub(super) fn on_reported(&mut self, home: ContainerId, joined: Option<(PipelineId, Epoch)>) {
        match joined {
            Some(joined) => self.reported.insert(home, joined),
            None => self.reported.remove(&home),
        };
    }

    pub(super) fn reported(&self) -> impl Iterator<Item = (ContainerId, (PipelineId, Epoch))> + '_ {
        self.reported.iter().map(|(home, joined)| (*home, *joined))
    }

    /// Containers of which a copy failed since they were compared.
    pub(super) fn failed(&self) -> impl Iterator<Item = ContainerId> + '_ {
        self.retries.iter().filter(|(_, retry)| retry.failed).map(|(home, _)| *home)
    }

    pub(super) fn check(&self) {
        let due: BTreeSet<(Duration, ContainerId)> = self.due_of.iter().map(|(home, at)| (*at, *home)).collect();
        assert_eq!(self.due, due, "a container is queued once, for the time it is due");
        for (home, retry) in &self.retries {
            let is_bounded = retry.pause.is_zero() || (RETRY_FIRST..=RETRY_LAST).contains(&retry.pause);
            assert!(is_bounded, "the pause before {home} is compared again is {:?}", retry.pause);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOME: ContainerId = ContainerId(1);

    fn at(second: u64) -> Duration {
        Duration::from_secs(second)
    }

    #[test]
    fn a_container_is_compared_once_at_the_earliest_time() {
        let mut queue = ComparisonQueue::default();
        for (home, second) in [(1, 9), (2, 5), (1, 3), (1, 7)] {
            queue.suspect(ContainerId(home), at(second));
            queue.check();
        }
        assert_eq!((queue.len(), queue.next_due()), (2, Some(at(3))));
        assert_eq!(queue.take_due(at(2)), None);
        let taken: Vec<u64> = std::iter::from_fn(|| queue.take_due(at(100))).map(|home| home.0).collect();
        assert_eq!((taken, queue.is_due(HOME)), (vec![1, 2], false));
        queue.check();
    }

    #[test]
    fn pauses_double_until_the_container_is_whole_or_has_others() {
        let mut queue = ComparisonQueue::default();
        let mut pause = |how: &dyn Fn(&mut ComparisonQueue)| {
            how(&mut queue);
            queue.check();
            let due = queue.next_due().expect("it is queued");
            queue.take_due(due);
            due.as_secs()
        };
        let retry = |queue: &mut ComparisonQueue| queue.retry(HOME, at(0));
        let fail = |queue: &mut ComparisonQueue| {
            queue.on_failed(HOME);
            queue.on_failed(HOME);
            assert_eq!(queue.failed().collect::<Vec<_>>(), [HOME]);
            queue.on_copies_ended(HOME, at(0));
        };
        assert_eq!([pause(&retry), pause(&fail), pause(&retry)], [2, 4, 8]);
        assert_eq!(pause(&|queue| queue.on_copies_ended(HOME, at(0))), 0, "none failed");
        let whole = |has_missing: bool| {
            move |queue: &mut ComparisonQueue| {
                queue.on_whole(HOME, has_missing);
                queue.retry(HOME, at(0));
            }
        };
        assert_eq!([pause(&whole(true)), pause(&whole(false)), pause(&retry)], [16, 2, 4]);
        assert_eq!((0..20).map(|_| pause(&retry)).max(), Some(300));
        assert_eq!([pause(&|queue| queue.on_members(HOME, at(0))), pause(&retry)], [0, 2]);
    }

    #[test]
    fn a_removed_member_is_remembered_until_the_container_is_whole() {
        let mut queue = ComparisonQueue::default();
        let (one, two) = (NodeId([1; 16]), NodeId([2; 16]));
        queue.on_relieved(HOME, one);
        queue.on_relieved(ContainerId(2), two);
        assert!(queue.is_relieved(HOME, one) && !queue.is_relieved(HOME, two));
        queue.on_whole(HOME, true);
        assert!(!queue.is_relieved(HOME, one) && queue.is_relieved(ContainerId(2), two));
        queue.check();
    }

    /// Blocks that are opened after the node joined have it in their chains.
    #[test]
    fn only_blocks_that_were_open_before_a_node_joined_are_waited_for() {
        let mut queue = ComparisonQueue::default();
        let open = |indexes: &[u32]| indexes.iter().map(|index| BlockId::new(HOME, *index)).collect::<BTreeSet<_>>();
        let joined = |epoch| (PipelineId(1), Epoch(epoch));
        assert!(!queue.old_open_blocks_closed(HOME, joined(1), &open(&[1, 2])));
        assert!(!queue.old_open_blocks_closed(HOME, joined(1), &open(&[2, 3])));
        assert!(
            queue.old_open_blocks_closed(HOME, joined(1), &open(&[1, 3])),
            "block 1 was closed, and is appended to"
        );
        assert!(!queue.old_open_blocks_closed(HOME, joined(2), &open(&[3])), "another node has joined");
        queue.forget_open(HOME);
        assert!(queue.old_open_blocks_closed(HOME, joined(2), &open(&[])));
        queue.check();
    }
}
