//! Jobs: how far they are, and how they are stopped.

use super::refused::refused;
use crate::core::Core;
use crate::refusal;
use crate::repair::scrub::LEN_PER_S_USUAL;
use blocks::{Command, JobKind, Service};
use hdfs::Exception;
use lead::{FULL_PARTS, JobState};
use types::NodeId;
use wire::admin::jobs::{
    self as told, BeginBalanceRequest, BeginDiskBalanceRequest, BeginScrubRequest, BegunResponse, ListJobsRequest,
    ListJobsResponse, StopJobRequest, StopJobResponse,
};

/// Datanodes named in one call.
const NAMED_COUNT_MAX: usize = 1000;

pub(super) fn list(core: &Core, _request: ListJobsRequest) -> ListJobsResponse {
    let now = core.monotonic();
    let line = |job: &lead::Job| {
        let (state, note) = match &job.state {
            JobState::Running => (told::JobState::Running, ""),
            JobState::Waiting(why) => (told::JobState::Waiting, why.as_str()),
            JobState::Done(note) => (told::JobState::Done, note.as_str()),
            JobState::Stopped(why) => (told::JobState::Stopped, why.as_str()),
        };
        told::Job {
            id: job.id,
            kind: match job.kind {
                JobKind::Repair => told::JobKind::Repair,
                JobKind::Drain => told::JobKind::Drain,
                JobKind::Balance => told::JobKind::Balance,
                JobKind::Scrub => told::JobKind::Scrub,
                JobKind::BalanceDisks => told::JobKind::BalanceDisks,
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

pub(super) async fn scrub(core: &Core, request: BeginScrubRequest) -> Result<BegunResponse, Exception> {
    let nodes = named(core, &request.datanodes)?;
    let len_per_s = if request.len_per_s == 0 { LEN_PER_S_USUAL } else { request.len_per_s };
    match crate::repair::scrub::begin(core, nodes, len_per_s).await.map_err(refused)? {
        Ok(job) => Ok(BegunResponse { job }),
        Err(job) => Err(refusal::illegal(format!("a scrub is under way: job {job}; wait for it, or stop it"))),
    }
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
    names.iter().map(|name| super::datanodes::find(core, name)).collect()
}

pub(super) async fn balance_disks(core: &Core, request: BeginDiskBalanceRequest) -> Result<BegunResponse, Exception> {
    let nodes = named(core, &request.datanodes)?;
    let len_per_s = if request.len_per_s == 0 { LEN_PER_S_USUAL } else { request.len_per_s };
    let begun = crate::repair::disks::begin(core, nodes, len_per_s, request.within.min(FULL_PARTS)).await;
    match begun.map_err(refused)? {
        Ok(job) => Ok(BegunResponse { job }),
        Err(job) => {
            Err(refusal::illegal(format!("balancing of disks is under way: job {job}; wait for it, or stop it")))
        }
    }
}

pub(super) async fn balance(core: &Core, request: BeginBalanceRequest) -> Result<BegunResponse, Exception> {
    if core.uptime() <= core.config.lost_after() {
        return Err(refusal::illegal(
            "the server that leads has just begun, and waits to hear of all datanodes; try again",
        ));
    }
    match crate::repair::balance::begin(core, request.within.min(FULL_PARTS)).await.map_err(refused)? {
        Ok(job) => {
            core.repair_wake.notify_one();
            Ok(BegunResponse { job })
        }
        Err(job) => Err(refusal::illegal(format!("balancing is under way: job {job}; wait for it, or stop it"))),
    }
}

pub(super) async fn stop(core: &Core, request: StopJobRequest) -> Result<StopJobResponse, Exception> {
    let found = core.leader().jobs.get(request.id).map(|job| (job.kind, job.subject.clone(), job.state.has_ended()));
    let Some((kind, subject, ended)) = found else {
        return Err(refusal::illegal(format!("there is no job {}; see `levada admin jobs`", request.id)));
    };
    if ended {
        return Ok(StopJobResponse {});
    }
    match (kind, NodeId::parse(&subject)) {
        (JobKind::Drain, Some(node)) => {
            let command = Command::SetService { node, service: Service::Serving };
            let answer = core.change_blocks(command).await.map_err(refusal::raft)?;
            answer.map_err(|refused| refusal::illegal(refused.to_string()))?;
        }
        (JobKind::Repair, _) => {
            return Err(refusal::illegal("repair is not stopped: it brings back copies that are missing"));
        }
        (JobKind::Balance, _) => {
            crate::repair::balance::stop(core);
            return Ok(StopJobResponse {}); // containers under way are moved to the end
        }
        (JobKind::BalanceDisks, _) => {
            crate::repair::disks::stop(core);
            return Ok(StopJobResponse {}); // as a scrub
        }
        (JobKind::Scrub, _) => {
            crate::repair::scrub::stop(core);
            return Ok(StopJobResponse {}); // it has ended when the nodes have heard
        }
        _ => {}
    }
    core.leader().jobs.set_state(request.id, JobState::Stopped("by an administrator".to_owned()), core.monotonic());
    core.repair_wake.notify_one();
    Ok(StopJobResponse {})
}
