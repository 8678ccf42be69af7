//! What people see of repairing: a job for all of it while there is something to copy, one for each node that drains.
//!
//! What somebody asked for is written down when it begins and when it ends, so that the next leader goes on with it,
//! and tells how it ended.

use super::balance::Balance;
use super::census::{self, Census};
use super::{RepairError, rules};
use crate::core::Core;
use blocks::{BlocksError, Command, JobKind, JobRow, JobTask, Service, Work, unended_jobs};
use lead::{Cluster, DiskBalance, DrainPicture, JobState, Jobs, LeftBehind, Member, Scrub, Shortage};
use std::sync::{Arc, MutexGuard};
use std::time::Duration;
use types::rows::{Rows, RowsError};
use types::{Millis, NodeId};

/// Tries to write a job down, each under another number.
const BEGIN_COUNT_MAX: usize = 3;

/// Jobs as the rows have them, and what a leader needs to go on with those that have not ended.
pub(crate) struct Unended {
    pub(crate) jobs: Jobs,
    pub(crate) scrub: Option<Scrub>,
    pub(crate) balance: Option<Balance>,
    pub(crate) disk_balance: Option<DiskBalance>,
}

/// What leaders before have begun, and not ended.
pub(crate) fn load(rows: &dyn Rows, wall: Millis, now: Duration) -> Result<Unended, RowsError> {
    let (mut scrub, mut balance, mut disk_balance) = (None, None, None);
    for (id, row) in unended_jobs(rows)? {
        match row.task {
            JobTask::Known => {}
            JobTask::Scrub { number, len_per_s, nodes } => scrub = Some(Scrub::new(number, id, len_per_s, nodes)),
            JobTask::Balance { within } => balance = Some(Balance::taken_up(id, within)),
            JobTask::BalanceDisks { number, len_per_s, within, nodes } => {
                disk_balance = Some(DiskBalance::new(number, id, len_per_s, within, nodes));
            }
        }
    }
    Ok(Unended { jobs: Jobs::load(rows, wall, now)?, scrub, balance, disk_balance })
}

/// Begins what somebody asked for. `Err` inside: the same is under way already, as this job.
pub(crate) async fn begin(
    core: &Core,
    kind: JobKind,
    subject: &str,
    task: JobTask,
) -> Result<Result<u64, u64>, RepairError> {
    let _one_after_the_other = core.plan().await;
    for _ in 0..BEGIN_COUNT_MAX {
        let id = {
            let jobs = core.jobs();
            if let Some(job) = jobs.find(kind, subject) {
                return Ok(Err(job.id));
            }
            jobs.next_id()
        };
        let row = JobRow { kind, subject: subject.to_owned(), started: core.now(), task: task.clone(), end: None };
        match core.change_blocks(Command::BeginJob { id, row }).await? {
            Ok(_) => {
                let mut under_way = UnderWay::lock(core);
                under_way.jobs.begun(id, kind, subject, core.monotonic());
                under_way.take_on(id, task);
                return Ok(Ok(id));
            }
            // Written down by a proposal whose answer got lost.
            Err(BlocksError::JobTaken { .. }) => take_up(core)?,
            Err(refused) => return Err(RepairError::Refused(refused.to_string())),
        }
    }
    Err(RepairError::Refused("the numbers of jobs are taken by others; try again".to_owned()))
}

/// What somebody asked for, locked together with the jobs that show it, so that nobody meets one without the other.
struct UnderWay<'a> {
    scrub: MutexGuard<'a, Option<Scrub>>,
    balance: MutexGuard<'a, Option<Balance>>,
    disk_balance: MutexGuard<'a, Option<DiskBalance>>,
    jobs: MutexGuard<'a, Jobs>,
}

impl<'a> UnderWay<'a> {
    fn lock(core: &'a Core) -> Self {
        Self { scrub: core.scrub(), balance: core.balance(), disk_balance: core.disk_balance(), jobs: core.jobs() }
    }

    /// Goes on with what is written down as job `id`.
    fn take_on(&mut self, id: u64, task: JobTask) {
        match task {
            JobTask::Known => {}
            JobTask::Scrub { number, len_per_s, nodes } => {
                *self.scrub = Some(Scrub::new(number, id, len_per_s, nodes));
            }
            JobTask::Balance { within } => *self.balance = Some(Balance::taken_up(id, within)),
            JobTask::BalanceDisks { number, len_per_s, within, nodes } => {
                *self.disk_balance = Some(DiskBalance::new(number, id, len_per_s, within, nodes));
            }
        }
    }
}

/// Goes on with what is written down and not known here.
fn take_up(core: &Core) -> Result<(), RepairError> {
    let view = core.machine.store().view();
    let mut under_way = UnderWay::lock(core);
    for (id, row) in under_way.jobs.take_up(&view, core.now(), core.monotonic())? {
        tracing::info!(id, kind = ?row.kind, "a job that was written down unheard is taken up");
        under_way.take_on(id, row.task);
    }
    Ok(())
}

pub(super) async fn round(core: &Arc<Core>) -> Result<(), RepairError> {
    repair(core, &*census::latest(core).await?);
    for node in drains(core) {
        // Asked for, but its leader fell before the job was written down. If it cannot be, all the rest goes on.
        match begin(core, JobKind::Drain, &node.to_string(), JobTask::Known).await {
            Err(RepairError::Refused(why)) => tracing::warn!(%node, why, "a drain has no job"),
            begun => _ = begun?,
        }
    }
    Ok(())
}

/// Writes down what ended.
pub(super) async fn write_ends(core: &Core) -> Result<(), RepairError> {
    let ends = core.jobs().ends(core.now(), core.monotonic());
    for (id, end) in ends {
        if let Err(refused) = core.change_blocks(Command::EndJob { id, end }).await? {
            tracing::warn!(id, %refused, "the end of a job was not written down");
        }
        core.jobs().end_written(id);
    }
    Ok(())
}

fn repair(core: &Core, census: &Census) {
    let now = core.monotonic();
    let (progress, whole) = {
        let repair = core.repair();
        (repair.progress(), repair.next_due().is_none_or(|due| due > now))
    };
    let may_return = somebody_may_return(core);
    let mut jobs = core.jobs();
    let known = jobs.find(JobKind::Repair, "").map(|job| job.id);
    if progress.lack_count > 0 {
        let id = known.unwrap_or_else(|| jobs.begin(JobKind::Repair, "", now));
        jobs.left(id, progress.lack_len, progress.lack_count as u64, now);
        jobs.set_state(id, JobState::Running, now);
    } else if census.under_replicated > 0 && whole && !may_return {
        let id = known.unwrap_or_else(|| jobs.begin(JobKind::Repair, "", now));
        let count = census.under_replicated;
        let note = match core.shortage() {
            Shortage { len: 0, .. } => {
                format!(
                    "{count} blocks are under-replicated, and no datanode that is up can take a copy; add or start one"
                )
            }
            Shortage { len, .. } => format!(
                "{count} blocks are under-replicated, and {len} bytes of room lack on datanodes that are up and have no copy of them \
                 yet; add datanodes or disks, or delete files"
            ),
        };
        jobs.left(id, 0, 0, now);
        jobs.set_state(id, JobState::Waiting(note), now);
    } else if let Some(id) = known.filter(|_| whole && census.under_replicated == 0) {
        let missing = census.missing;
        let note = if missing == 0 { String::new() } else { format!("{missing} blocks have no copy that is here") };
        jobs.left(id, 0, 0, now);
        jobs.set_state(id, JobState::Done(note), now);
    }
}

/// A datanode is silent, and not lost yet: what it has is not copied before.
fn somebody_may_return(core: &Core) -> bool {
    let rules = rules(core);
    core.with_cluster(|cluster, _| {
        !rules.can_tell() || cluster.nodes().any(|member| !member.is_live(rules.now) && !rules.is_lost(Some(member)))
    })
}

/// Answers nodes that drain without a job.
fn drains(core: &Core) -> Vec<NodeId> {
    let ids: Vec<NodeId> = core.with_cluster(|cluster, _| cluster.nodes().map(|member| member.node.id).collect());
    ids.into_iter().filter(|id| has_no_drain(core, *id)).collect()
}

/// Brings the job of a drain up to date. True: the node drains, and has none. One node at a time, since a drain looks
/// at all containers of its node.
fn has_no_drain(core: &Core, id: NodeId) -> bool {
    let now = core.monotonic();
    let rules = rules(core);
    // Before the picture: these locks are taken in that order elsewhere. It is held, or what a node tells between the
    // two would count nowhere.
    let undecided = core.undecided();
    let leased = core.leased().any_out(now).then(|| core.config.lease_soft());
    core.with_cluster(|cluster, _| {
        let subject = id.to_string();
        let known = core.jobs().find(JobKind::Drain, &subject).map(|job| job.id);
        if cluster.node(id).is_none_or(|member| member.service != Service::Draining) {
            core.surplus().is_in(id);
            if let Some(job) = known {
                core.jobs().set_state(job, JobState::Stopped("it serves again".to_owned()), now);
            }
            return false;
        }
        let picture = cluster.drain_picture(id, &rules, &core.repair());
        let is_lost = rules.is_lost(cluster.node(id));
        // One that is down tells nothing more, and nobody puts anything there: what its pipelines held is all there is
        // to copy.
        let rest = if picture.pipelines_left == 0 && !is_lost {
            left_behind(core, id, undecided.has(id), leased, now)
        } else {
            None
        };
        if picture.pipelines_left > 0 {
            core.surplus().is_in(id);
        }
        let drained = (rest.is_none() && picture.pipelines_left == 0).then(|| drained_note(core, id, is_lost));
        let Some(job) = known else {
            // If it is in no pipeline, it was seen to end, by a leader before this one perhaps.
            return picture.pipelines_left > 0 || !has_job(core, &subject);
        };
        let state = match (rest, drained) {
            (Some(why), _) => JobState::Waiting(why.to_owned()),
            (None, Some(note)) => JobState::Done(note),
            (None, None) => waits_for(&picture).map_or(JobState::Running, JobState::Waiting),
        };
        let has_ended = matches!(state, JobState::Done(_));
        let mut jobs = core.jobs();
        jobs.left(job, picture.len_left, picture.containers_left, now);
        if jobs.set_state(job, state, now) && has_ended {
            tracing::info!(node = %id, "a datanode is drained: it may be taken away");
        }
        false
    })
}

/// What a drain needs of somebody before it can go on.
fn waits_for(picture: &DrainPicture) -> Option<String> {
    if picture.orphaned > 0 {
        return Some(format!(
            "{} of its pipelines have no other datanode that is up to copy from; start it, or one of those",
            picture.orphaned
        ));
    }
    (picture.stuck > 0).then(|| {
        format!(
            "{} of its pipelines, with {} bytes, find no other datanode with room that is not in them already; add \
             datanodes or disks, or delete files",
            picture.stuck, picture.stuck_len
        )
    })
}

/// How a drain ended. Blocks that no node has whole do not keep it from ending, and are named as such.
fn drained_note(core: &Core, node: NodeId, is_lost: bool) -> String {
    let (missing, useless) = {
        let repair = core.repair();
        (repair.progress().missing_count, core.surplus().useless_count(node, &repair))
    };
    match (is_lost, missing, useless) {
        (true, 0, _) => "it is down, and others have all its blocks".to_owned(),
        (true, missing, _) => format!(
            "it is down, and others have all its blocks but those of which no datanode that is up has a copy, {missing} \
             in the whole store; start it once more if it may have some of them"
        ),
        (false, _, 0) => "others have all its blocks, and have read them back".to_owned(),
        (false, _, useless) => format!(
            "others have all its blocks, and have read them back, but {useless} of which no datanode has a whole copy; \
             what it has of them is damaged or too short, and goes with it (hdfs fsck names their files)"
        ),
    }
}

/// Whether a drain of it is remembered.
fn has_job(core: &Core, subject: &str) -> bool {
    core.jobs().iter().any(|job| job.kind == JobKind::Drain && job.subject == subject)
}

/// Why a node that is in no pipeline any more may still have what others lack; `None` if it has not.
fn left_behind(
    core: &Core,
    node: NodeId,
    undecided: bool,
    leased: Option<Duration>,
    now: Duration,
) -> Option<&'static str> {
    let repair = core.repair();
    let left = core.surplus().left_behind(node, undecided, leased, &repair, now);
    left.map(|left| match left {
        LeftBehind::Leased => {
            "clients may still put small files here that they began before; they are waited for up to a minute"
        }
        LeftBehind::Unsettled => "the last of what it has is compared with what others have",
    })
}

/// The node was to be emptied, and is.
pub(crate) fn has_drained(core: &Core, cluster: &Cluster, member: &Member) -> bool {
    let node = member.node.id;
    member.service == Service::Draining && cluster.pipelines_of(node).is_empty() && is_drained(core, node)
}

fn is_drained(core: &Core, node: NodeId) -> bool {
    let subject = node.to_string();
    let jobs = core.jobs();
    let last = jobs.iter().filter(|job| job.kind == JobKind::Drain && job.subject == subject).last();
    last.is_none_or(|job| matches!(job.state, JobState::Done(_)))
}

/// So that whoever begins to drain is told of a job at once.
pub(crate) async fn begin_drain(core: &Core, node: NodeId) -> Result<u64, RepairError> {
    let begun = begin(core, JobKind::Drain, &node.to_string(), JobTask::Known).await?;
    let (Ok(id) | Err(id)) = begun;
    if begun.is_ok() {
        let picture = core.with_cluster(|cluster, _| cluster.drain_picture(node, &rules(core), &core.repair()));
        let work = Work { total_len: picture.len_left, total_count: picture.containers_left, ..Work::default() };
        core.jobs().progress(id, work, core.monotonic());
    }
    Ok(id)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::repair::{disks, scrub};
    use crate::sealing::tests::with_node;
    use wire::node::{DiskBalanceReport, ScrubReport};

    /// A datanode that was lost comes back and reports balancing that had ended without it, just when another one is
    /// written down and not noted yet. `heard` is whether the answer to the proposal came.
    async fn check(heard: bool) {
        let (_dir, metad, core) = with_node().await;
        let (kind, node) = (JobKind::BalanceDisks, NodeId([1; 16]));
        let report = |number, ended| DiskBalanceReport { number, ended, ..DiskBalanceReport::default() };
        let beat = |number, ended| {
            let order = disks::beat(&core, node, Some(&report(number, ended)));
            order.map(|order| (order.number, order.stop))
        };
        let task = JobTask::BalanceDisks { number: 8, len_per_s: 0, within: 0, nodes: vec![node] };
        let id = core.jobs().next_id();
        let row = JobRow { kind, subject: String::new(), started: core.now(), task: task.clone(), end: None };
        core.change_blocks(Command::BeginJob { id, row }).await.unwrap().unwrap();
        assert_eq!((beat(7, false), beat(7, true)), (Some((7, true)), None), "it is told to end");
        if heard {
            let mut under_way = UnderWay::lock(&core);
            under_way.jobs.begun(id, kind, "", core.monotonic());
            under_way.take_on(id, task);
        } else {
            take_up(&core).unwrap();
        }
        assert_eq!(beat(7, false), Some((8, false)), "it is told to do this one");
        assert_eq!(core.jobs().find(kind, "").map(|job| job.id), Some(id));
        beat(8, true);
        disks::round(&core);
        assert_eq!(core.jobs().find(kind, "").map(|job| job.id), None, "another one can be begun");
        drop(core);
        metad.shutdown().await;
    }

    #[tokio::test]
    async fn balancing_of_before_makes_way_for_what_was_just_asked_for() {
        check(true).await;
        check(false).await;
    }

    /// Reports of work that nobody asked for begin no job, and nobody who was not asked keeps one from ending.
    #[tokio::test]
    async fn a_report_counts_for_a_job_that_runs_on_its_node() {
        let (_dir, metad, core) = with_node().await;
        let (asked, other) = (NodeId([1; 16]), NodeId([2; 16]));
        let scrubbed = |number, ended| ScrubReport { number, ended, ..ScrubReport::default() };
        let levelled = |number, ended| DiskBalanceReport { number, ended, ..DiskBalanceReport::default() };
        let scrub = |node, number, ended| {
            let order = scrub::beat(&core, node, Some(&scrubbed(number, ended)));
            order.map(|order| (order.number, order.stop))
        };
        let balance = |node, number, ended| {
            let order = disks::beat(&core, node, Some(&levelled(number, ended)));
            order.map(|order| (order.number, order.stop))
        };
        assert_eq!((scrub(asked, 5, false), balance(asked, 5, false)), (Some((5, true)), Some((5, true))));
        let is_idle =
            || [JobKind::Scrub, JobKind::BalanceDisks].iter().all(|kind| core.jobs().find(*kind, "").is_none());
        assert!(is_idle());
        scrub::begin(&core, vec![asked], 1).await.unwrap().unwrap();
        disks::begin(&core, vec![asked], 1, 1).await.unwrap().unwrap();
        let scrub_number = core.scrub().as_ref().unwrap().number;
        let balance_number = core.disk_balance().as_ref().unwrap().number;
        assert_eq!(scrub(other, scrub_number, false), Some((scrub_number, true)));
        assert_eq!(balance(other, balance_number, false), Some((balance_number, true)));
        assert_eq!(scrub(asked, scrub_number, true), Some((scrub_number, false)));
        assert_eq!(balance(asked, balance_number, true), Some((balance_number, false)));
        scrub::round(&core);
        disks::round(&core);
        assert!(is_idle(), "those who were asked have ended");
        drop(core);
        metad.shutdown().await;
    }
}
