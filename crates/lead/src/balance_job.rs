//! Balancing, as a job that an administrator began: a plan is made once, and carried out a few moves at a time.
//!
//! Promise: a move is in exactly one state: waiting, being proposed, under way, or counted.

use crate::balance::Move;
use crate::cluster::Cluster;
use crate::job_state::JobState;
use crate::repair::Repair;
use blocks::Work;
use std::collections::VecDeque;
use std::time::Duration;

/// Containers under way at a time. Each may be five gigabytes.
const ACTIVE_COUNT_MAX: usize = 2;

/// What is left of a plan.
#[derive(Clone, Debug)]
pub struct Balance {
    within: u64,
    /// Bytes a second that moves take in the long run; 0: no limit.
    len_per_s: u64,
    /// No move begins before: those that began take so long.
    paid_until: Duration,
    /// False: an earlier leader began the job, and its moves are planned once all datanodes have sent heartbeats.
    planned: bool,
    waiting: VecDeque<Move>,
    /// Neither waiting nor active: it is being written down.
    proposed: Option<Move>,
    active: Vec<Move>,
    done: Work,
    /// Moves that were not possible any more when their turn came.
    passed_count: usize,
    pub(crate) stopping: bool,
}

impl Balance {
    pub fn new(within: u64, len_per_s: u64) -> Self {
        Self {
            within,
            len_per_s,
            paid_until: Duration::ZERO,
            planned: false,
            waiting: VecDeque::new(),
            proposed: None,
            active: Vec::new(),
            done: Work::default(),
            passed_count: 0,
            stopping: false,
        }
    }

    /// The moves were planned. The request and the rounds of repair may both have planned them: the first plan counts.
    pub fn on_planned(&mut self, moves: Vec<Move>) {
        if self.planned {
            return;
        }
        let total_len = types::len::total(moves.iter().map(|next| next.len));
        self.done = Work { total_len, total_count: moves.len() as u64, ..Work::default() };
        (self.waiting, self.planned) = (moves.into(), true);
    }

    /// The next move, if there is room for one, and its turn has come.
    pub fn take(&mut self, now: Duration) -> Option<Move> {
        let is_full = self.proposed.is_some() || self.active.len() >= ACTIVE_COUNT_MAX;
        if self.stopping || is_full || now < self.paid_until {
            return None;
        }
        self.proposed = self.waiting.pop_front();
        let len = self.proposed?.len;
        // Whole containers move, each as quickly as it can: the rate is that of the pauses between them.
        let took_ms = len.saturating_mul(1000).checked_div(self.len_per_s).unwrap_or(0);
        self.paid_until = now.saturating_add(Duration::from_millis(took_ms));
        self.proposed
    }

    /// The move that was taken last is written down, or was not possible any more.
    pub fn on_proposed(&mut self, begun: bool) {
        let Some(next) = self.proposed.take() else { return };
        if begun {
            self.active.push(next);
        } else {
            self.passed_count += 1;
            self.done.total_len = self.done.total_len.saturating_sub(next.len);
            self.done.total_count -= 1;
        }
    }

    /// It is not known what became of the move that was taken last: it is tried again.
    pub fn put_back(&mut self) {
        self.waiting.extend(self.proposed.take());
    }

    /// Nothing is under way, and nothing comes.
    fn has_ended(&self) -> bool {
        let is_idle = self.active.is_empty() && self.proposed.is_none();
        is_idle && (self.stopping || self.planned && self.waiting.is_empty())
    }

    /// How near to each other nodes shall come, if what is to be moved for it is still to be looked up.
    pub fn unplanned(&self) -> Option<u64> {
        (!self.planned).then_some(self.within)
    }

    /// Counts the moves that have been carried out. Answers how far it is.
    pub(crate) fn settle(&mut self, cluster: &Cluster, repair: &Repair) -> (Work, JobState) {
        let (moved, active): (Vec<Move>, Vec<Move>) = self.active.drain(..).partition(|next| cluster.has_moved(next));
        self.active = active;
        self.done.done_count += moved.len() as u64;
        let moved_len = types::len::total(moved.iter().map(|next| next.len));
        self.done.done_len = self.done.done_len.saturating_add(moved_len);
        let mut work = self.done;
        for next in &self.active {
            // Until it was compared nothing of it is known to be copied.
            let left = repair.lack_len_of(next.container).unwrap_or(next.len);
            work.done_len = work.done_len.saturating_add(next.len.saturating_sub(left));
        }
        (work, self.end().unwrap_or(JobState::Running))
    }

    /// How it ended; `None`: it has not.
    fn end(&self) -> Option<JobState> {
        if !self.has_ended() {
            return None;
        }
        let (moved, passed) = (self.done.done_count, self.passed_count);
        Some(match (self.stopping, moved, passed) {
            (true, ..) => JobState::Stopped(format!("by an administrator; {moved} containers were moved")),
            (false, 0, 0) => {
                JobState::Done("no move of a whole container brings the datanodes nearer to each other".to_owned())
            }
            (false, _, 0) => JobState::Done(format!("{moved} containers were moved, and read back where they are now")),
            (false, ..) => JobState::Done(format!(
                "{moved} containers were moved, and read back; {passed} were not as they had been when this was \
                 planned: run it again"
            )),
        })
    }

    pub(crate) fn check(&self) {
        let count = self.waiting.len() + usize::from(self.proposed.is_some()) + self.active.len();
        let Work { done_count, total_count, .. } = self.done;
        assert_eq!(done_count + count as u64, total_count, "moves that are known");
        assert!(self.active.len() <= ACTIVE_COUNT_MAX, "{} containers move at a time", self.active.len());
        assert!(self.planned || total_count == 0, "what nobody planned is moved");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use types::{ContainerId, NodeId};

    fn moves(numbers: &[u64]) -> Vec<Move> {
        let (from, to) = (NodeId([1; 16]), NodeId([2; 16]));
        numbers.iter().map(|number| Move { container: ContainerId(*number), from, to, len: 10 }).collect()
    }

    /// Whoever asked for it and a round of repair look up the same moves: nothing is moved twice.
    #[test]
    fn a_plan_is_made_once() {
        let mut balance = Balance::new(0, 0);
        assert_eq!((balance.unplanned(), balance.take(Duration::ZERO)), (Some(0), None));
        balance.on_planned(moves(&[1, 2]));
        assert_eq!(balance.take(Duration::ZERO), Some(moves(&[1])[0]));
        balance.on_planned(moves(&[1, 2]));
        balance.on_proposed(true);
        assert_eq!(balance.take(Duration::ZERO), Some(moves(&[2])[0]));
        assert_eq!((balance.waiting.len(), balance.done.total_count), (0, 2));
    }

    /// While the last move is being written down the job has not ended, whoever looks at it.
    #[test]
    fn a_move_that_is_being_written_down_is_waited_for() {
        let mut balance = Balance::new(0, 0);
        balance.on_planned(moves(&[1]));
        balance.take(Duration::ZERO).unwrap();
        assert!(!balance.has_ended());
        balance.put_back();
        assert!(
            !balance.has_ended() && balance.take(Duration::ZERO).is_some() && balance.take(Duration::ZERO).is_none()
        );
        balance.stopping = true;
        assert!(!balance.has_ended());
        balance.on_proposed(true);
        assert!(!balance.has_ended() && balance.proposed.is_none());
        balance.active.clear();
        assert!(balance.has_ended());
    }

    /// A move of ten bytes at five a second: the next one begins two seconds later, however quick the first was.
    #[test]
    fn moves_keep_to_their_rate() {
        let mut balance = Balance::new(0, 5);
        balance.on_planned(moves(&[1, 2, 3]));
        let second = Duration::from_secs(1);
        assert!(balance.take(second).is_some());
        balance.on_proposed(true);
        assert_eq!((balance.take(2 * second), balance.take(3 * second)), (None, Some(moves(&[2])[0])));
        balance.put_back();
        assert!(balance.take(4 * second).is_none() && balance.take(5 * second).is_some());
    }
}
