//! Balancing that was asked for: a plan is made once, and carried out a few moves at a time.

use super::{RepairError, jobs, rules};
use crate::core::Core;
use blocks::{Balancing, JobKind, JobState, JobTask, Move, Work};
use std::collections::VecDeque;

/// Containers under way at a time. Each may be five gigabytes.
const ACTIVE_COUNT_MAX: usize = 2;

/// What is left of a plan.
#[derive(Debug)]
pub(crate) struct Balance {
    job: u64,
    within: u64,
    /// False: a leader before this one has begun, and what is still to be moved is looked up when all datanodes were heard.
    planned: bool,
    waiting: VecDeque<Move>,
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
            active: Vec::new(),
            done: Work::default(),
            passed_count: 0,
            stopping: false,
        }
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
    let within = core.balance().as_ref().filter(|balance| !balance.planned).map(|balance| balance.within);
    let Some(within) = within.filter(|_| rules.can_tell()) else { return };
    let mut balancing = core.with_cluster(|cluster, _| Balancing::begin(cluster, &rules, within));
    while !core.with_cluster(|cluster, _| balancing.step(cluster)) {
        tokio::task::yield_now().await;
    }
    let moves = balancing.into_moves();
    let total_len = types::len::total(moves.iter().map(|next| next.len));
    let mut balance = core.balance();
    let Some(balance) = balance.as_mut() else { return };
    balance.done = Work { total_len, total_count: moves.len() as u64, ..Work::default() };
    (balance.waiting, balance.planned) = (moves.into(), true);
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
        let Some(next) = take(core) else { return Ok(()) };
        let command = core.with_cluster(|cluster, _| cluster.begin_move(&next, &core.repair(), &rules(core)));
        let begun = match command {
            Some(command) => core.change_blocks(command).await?.is_ok(),
            None => false,
        };
        let now = core.monotonic();
        if begun {
            tracing::info!(container = %next.container, from = %next.from, to = %next.to, "a container moves");
            core.repair().suspect(next.container, now);
        }
        if let Some(balance) = core.balance().as_mut() {
            if begun {
                balance.active.push(next);
            } else {
                balance.passed_count += 1;
                balance.done.total_len = balance.done.total_len.saturating_sub(next.len);
                balance.done.total_count -= 1;
            }
        }
        core.repair_wake.notify_one();
    }
}

/// The next move, if there is room for one.
fn take(core: &Core) -> Option<Move> {
    let mut balance = core.balance();
    let balance = balance.as_mut().filter(|balance| !balance.stopping)?;
    if balance.active.len() < ACTIVE_COUNT_MAX { balance.waiting.pop_front() } else { None }
}

/// Counts what has been done, and ends what is over.
fn settle(core: &Core) {
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
        if !balance.active.is_empty() || !balance.stopping && (!balance.planned || !balance.waiting.is_empty()) {
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
