//! Balancing that was asked for: a plan is made once, and carried out a few moves at a time.

use super::{RepairError, jobs, rules};
use crate::core::Core;
use blocks::{JobKind, JobTask, Work};
use lead::{Balancing, JobState, Move};
use std::collections::VecDeque;

/// Containers under way at a time. Each may be five gigabytes.
const ACTIVE_COUNT_MAX: usize = 2;

/// What is left of a plan.
#[derive(Debug)]
pub(crate) struct Balance {
    job: u64,
    within: u64,
    /// False: a leader before this one has begun, and what is still to be moved is looked up when all datanodes were
    /// heard.
    planned: bool,
    waiting: VecDeque<Move>,
    /// Neither waiting nor active: it is being written down.
    proposed: Option<Move>,
    active: Vec<Move>,
    done: Work,
    /// Moves that were not possible any more when their turn came.
    passed_count: usize,
    stopping: bool,
}

impl Balance {
    /// Begun by a leader before.
    pub(crate) fn taken_up(job: u64, within: u64) -> Self {
        Self {
            job,
            within,
            planned: false,
            waiting: VecDeque::new(),
            proposed: None,
            active: Vec::new(),
            done: Work::default(),
            passed_count: 0,
            stopping: false,
        }
    }

    /// What is to be moved was looked up for `job`. Whoever asked for it and the rounds of repair may both have done
    /// so: the first one counts.
    fn on_planned(&mut self, job: u64, moves: Vec<Move>) {
        if self.planned || self.job != job {
            return;
        }
        let total_len = types::len::total(moves.iter().map(|next| next.len));
        self.done = Work { total_len, total_count: moves.len() as u64, ..Work::default() };
        (self.waiting, self.planned) = (moves.into(), true);
    }

    /// The next move, if there is room for one.
    fn take(&mut self) -> Option<Move> {
        if self.stopping || self.proposed.is_some() || self.active.len() >= ACTIVE_COUNT_MAX {
            return None;
        }
        self.proposed = self.waiting.pop_front();
        self.proposed
    }

    /// The move that was taken last is written down, or was not possible any more.
    fn on_proposed(&mut self, begun: bool) {
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
    fn put_back(&mut self) {
        self.waiting.extend(self.proposed.take());
    }

    /// Nothing is under way, and nothing comes.
    fn has_ended(&self) -> bool {
        let is_idle = self.active.is_empty() && self.proposed.is_none();
        is_idle && (self.stopping || self.planned && self.waiting.is_empty())
    }
}

/// Begins, and answers the job. `Err` inside: the one that is under way.
pub(crate) async fn begin(core: &Core, within: u64) -> Result<Result<u64, u64>, RepairError> {
    let begun = jobs::begin(core, JobKind::Balance, "", JobTask::Balance { within }).await?;
    if begun.is_ok() {
        plan(core).await;
        settle(core); // there may be nothing to do
        jobs::write_ends(core).await?;
    }
    Ok(begun)
}

/// Looks up what is to be moved, once there is something to say of all datanodes.
async fn plan(core: &Core) {
    let rules = rules(core);
    let unplanned = core.balance().as_ref().filter(|balance| !balance.planned).map(|known| (known.job, known.within));
    let Some((job, within)) = unplanned.filter(|_| rules.can_tell()) else { return };
    let mut balancing = core.with_cluster(|cluster, _| Balancing::begin(cluster, &rules, within));
    while !core.with_cluster(|cluster, _| balancing.step(cluster)) {
        tokio::task::yield_now().await;
    }
    let moves = balancing.into_moves();
    let mut balance = core.balance();
    let Some(balance) = balance.as_mut() else { return };
    balance.on_planned(job, moves);
    core.jobs().progress(balance.job, balance.done, core.monotonic());
}

pub(crate) fn stop(core: &Core) {
    if let Some(balance) = core.balance().as_mut() {
        balance.stopping = true;
    }
}

pub(super) async fn round(core: &Core) -> Result<(), RepairError> {
    plan(core).await;
    loop {
        settle(core);
        let Some(next) = core.balance().as_mut().and_then(Balance::take) else { return Ok(()) };
        let command = core.with_cluster(|cluster, _| cluster.begin_move(&next, &core.repair(), &rules(core)));
        let written = match command {
            Some(command) => core.change_blocks(command).await.map(|answer| answer.is_ok()),
            None => Ok(false),
        };
        if written.is_err()
            && let Some(balance) = core.balance().as_mut()
        {
            balance.put_back();
        }
        let begun = written?;
        let now = core.monotonic();
        if begun {
            tracing::info!(container = %next.container, from = %next.from, to = %next.to, "a container moves");
            core.repair().suspect(next.container, now);
        }
        if let Some(balance) = core.balance().as_mut() {
            balance.on_proposed(begun);
        }
        core.repair_wake.notify_one();
    }
}

/// Counts what has been done, and ends what is over.
pub(super) fn settle(core: &Core) {
    let now = core.monotonic();
    core.with_cluster(|cluster, _| {
        let repair = core.repair();
        let mut known = core.balance();
        let Some(balance) = known.as_mut() else { return };
        let (moved, active): (Vec<Move>, Vec<Move>) =
            balance.active.drain(..).partition(|next| cluster.has_moved(next));
        balance.active = active;
        balance.done.done_count += moved.len() as u64;
        let moved_len = types::len::total(moved.iter().map(|next| next.len));
        balance.done.done_len = balance.done.done_len.saturating_add(moved_len);
        let mut work = balance.done;
        for next in &balance.active {
            // Until it was compared nothing of it is known to be copied.
            let left = repair.lack_len_of(next.container).unwrap_or(next.len);
            work.done_len = work.done_len.saturating_add(next.len.saturating_sub(left));
        }
        let mut jobs = core.jobs();
        jobs.progress(balance.job, work, now);
        if !balance.has_ended() {
            return;
        }
        let state = match (balance.stopping, balance.done.done_count, balance.passed_count) {
            (true, moved, _) => JobState::Stopped(format!("by an administrator; {moved} containers were moved")),
            (false, 0, 0) => JobState::Done("no move of a whole container brings the datanodes nearer to each other".to_owned()),
            (false, moved, 0) => JobState::Done(format!("{moved} containers were moved, and read back where they are now")),
            (false, moved, passed) => JobState::Done(format!(
                "{moved} containers were moved, and read back; {passed} were not as they had been when this was planned: run it again"
            )),
        };
        jobs.set_state(balance.job, state, now);
        *known = None;
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use types::{ContainerId, NodeId};

    fn moves(numbers: &[u64]) -> Vec<Move> {
        let (from, to) = (NodeId([1; 16]), NodeId([2; 16]));
        numbers.iter().map(|number| Move { container: ContainerId(*number), from, to, len: 10 }).collect()
    }

    /// Whoever asked for it and a round of repair look up the same moves, or a round comes late with those of a job
    /// that has ended: nothing is moved twice.
    #[test]
    fn a_plan_is_made_once() {
        let mut balance = Balance::taken_up(7, 0);
        balance.on_planned(6, moves(&[9]));
        assert_eq!((balance.planned, balance.take()), (false, None), "of a job before");
        balance.on_planned(7, moves(&[1, 2]));
        assert_eq!(balance.take(), Some(moves(&[1])[0]));
        balance.on_planned(7, moves(&[1, 2]));
        balance.on_proposed(true);
        assert_eq!(balance.take(), Some(moves(&[2])[0]));
        assert_eq!((balance.waiting.len(), balance.done.total_count), (0, 2));
    }

    /// While the last move is being written down the job has not ended, whoever looks at it.
    #[test]
    fn a_move_that_is_being_written_down_is_waited_for() {
        let mut balance = Balance::taken_up(7, 0);
        balance.on_planned(7, moves(&[1]));
        balance.take().unwrap();
        assert!(!balance.has_ended());
        balance.put_back();
        assert!(!balance.has_ended() && balance.take().is_some() && balance.take().is_none());
        balance.stopping = true;
        assert!(!balance.has_ended());
        balance.on_proposed(true);
        assert!(!balance.has_ended() && balance.proposed.is_none());
        balance.active.clear();
        assert!(balance.has_ended());
    }
}
