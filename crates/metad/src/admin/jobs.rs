//! Administration of jobs: their progress, and how they are stopped.

use super::refused::refused;
use crate::core::Core;
use crate::named_datanode;
use crate::refusal;
use crate::repair::jobs::begin;
use crate::repair::schedule::rated;
use blocks::{JobKind, JobTask};
use hdfs::Exception;
use hdfs::exception::Kind;
use lead::{FULL_PARTS, JobState, StopRefused};
use std::sync::Arc;
use types::NodeId;
use wire::admin::jobs::{
    self as message, BeginBalanceRequest, BeginDiskBalanceRequest, BeginScrubRequest, BegunResponse, ListJobsRequest,
    ListJobsResponse, StopJobRequest, StopJobResponse,
};

/// Of each node, if nobody says otherwise: a disk of today does three times that, and others want to read as well.
const LEN_PER_S_USUAL: u64 = 50 << 20;
/// Datanodes named in one call.
const NAMED_COUNT_MAX: usize = 1000;

pub(super) fn list(core: &Core, _request: ListJobsRequest) -> ListJobsResponse {
    let now = core.monotonic();
    let line = |job: &lead::Job| {
        let (state, note) = match &job.state {
            JobState::Running => (message::JobState::Running, ""),
            JobState::Waiting(why) => (message::JobState::Waiting, why.as_str()),
            JobState::Done(note) => (message::JobState::Done, note.as_str()),
            JobState::Stopped(why) => (message::JobState::Stopped, why.as_str()),
        };
        message::Job {
            id: job.id,
            kind: match job.kind {
                JobKind::Repair => message::JobKind::Repair,
                JobKind::Drain => message::JobKind::Drain,
                JobKind::Balance => message::JobKind::Balance,
                JobKind::Scrub => message::JobKind::Scrub,
                JobKind::BalanceDisks => message::JobKind::BalanceDisks,
            }
            .into(),
            subject: job.subject.clone(),
            state: state.into(),
            ran_ms: job.ran(now).as_millis() as u64,
            done_len: job.work.done_len,
            total_len: job.work.total_len,
            done_count: job.work.done_count,
            total_count: job.work.total_count,
            len_per_s: job.len_per_s(now),
            left_ms: job.left(now).map(|left| left.as_millis() as u64),
            found_count: job.work.found_count,
            mended_count: job.work.mended_count,
            note: note.to_owned(),
        }
    };
    ListJobsResponse { jobs: core.leader().jobs.iter().map(line).collect() }
}

pub(super) async fn scrub(core: &Arc<Core>, request: BeginScrubRequest) -> Result<BegunResponse, Exception> {
    let nodes = named(core, &request.datanodes)?;
    let (number, len_per_s) = (core.now().0, usual_rate(request.len_per_s));
    begun("a scrub", core, JobKind::Scrub, JobTask::Scrub { number, len_per_s, nodes }).await
}

pub(super) async fn balance_disks(
    core: &Arc<Core>,
    request: BeginDiskBalanceRequest,
) -> Result<BegunResponse, Exception> {
    let nodes = named(core, &request.datanodes)?;
    let (number, within) = (core.now().0, request.within.min(FULL_PARTS));
    let task = JobTask::BalanceDisks { number, len_per_s: usual_rate(request.len_per_s), within, nodes };
    begun("balancing of disks", core, JobKind::BalanceDisks, task).await
}

pub(super) async fn balance(core: &Arc<Core>, request: BeginBalanceRequest) -> Result<BegunResponse, Exception> {
    if !crate::repair::rules(core).has_heard_all() {
        return Err(refusal::illegal(
            "the server that leads has just begun, and waits to hear of all datanodes; try again",
        ));
    }
    let task = rated(core, request.within.min(FULL_PARTS), request.len_per_s).await.map_err(refused)?;
    begun("balancing", core, JobKind::Balance, task).await
}

async fn begun(what: &str, core: &Arc<Core>, kind: JobKind, task: JobTask) -> Result<BegunResponse, Exception> {
    match begin(core, kind, "", task).await.map_err(refused)? {
        Ok(job) => Ok(BegunResponse { job }),
        Err(job) => Err(refusal::illegal(format!("{what} is under way: job {job}; wait for it, or stop it"))),
    }
}

fn usual_rate(len_per_s: u64) -> u64 {
    if len_per_s == 0 { LEN_PER_S_USUAL } else { len_per_s }
}

/// The datanodes of these names; without any, all that are up.
fn named(core: &Core, names: &[String]) -> Result<Vec<NodeId>, Exception> {
    if names.is_empty() {
        let now = core.monotonic();
        return Ok(core.with_cluster(|cluster, _| {
            cluster.nodes().filter(|member| member.is_live(now)).map(|member| member.node.id).collect()
        }));
    }
    if names.len() > NAMED_COUNT_MAX {
        return Err(refusal::illegal(format!("name {NAMED_COUNT_MAX} datanodes at most, or none for all")));
    }
    names.iter().map(|name| named_datanode::find(core, name)).collect()
}

pub(super) async fn stop(core: &Core, request: StopJobRequest) -> Result<StopJobResponse, Exception> {
    let stopped = core.leader().stop_job(request.id);
    let command = stopped.map_err(|refused| match refused {
        StopRefused::NoSuchJob(_) => refusal::illegal(refused.to_string()).with_kind(Kind::NoSuchJob),
        StopRefused::Repair => refusal::illegal(refused.to_string()),
    })?;
    if let Some(command) = command {
        let answer = core.change_blocks(command).await.map_err(refusal::raft)?;
        answer.map_err(|refused| refusal::illegal(refused.to_string()))?;
    }
    core.repair_wake.notify_one();
    Ok(StopJobResponse {})
}
