//! What people see of repairing: a job for all of it while there is something to copy, one for each node that drains.

use super::rules;
use crate::core::Core;
use blocks::{JobKind, JobState, Service, Work};
use std::time::Duration;
use types::NodeId;

pub(super) fn round(core: &Core) {
    repair(core);
    drains(core);
}

fn repair(core: &Core) {
    let now = core.monotonic();
    let (progress, whole) = {
        let repair = core.repair();
        (repair.progress(), repair.next_due().is_none_or(|due| due > now))
    };
    let mut jobs = core.jobs();
    let known = jobs.find(JobKind::Repair, "").map(|job| job.id);
    if progress.lack_count == 0 {
        if let Some(id) = known.filter(|_| whole) {
            let missing = progress.missing_count;
            let note = if missing == 0 { String::new() } else { format!("{missing} blocks have no copy that is here") };
            jobs.left(id, 0, 0, now);
            jobs.set_state(id, JobState::Done(note), now);
        }
        return;
    }
    let id = known.unwrap_or_else(|| jobs.begin(JobKind::Repair, "", now));
    jobs.left(id, progress.lack_len, progress.lack_count as u64, now);
}

fn drains(core: &Core) {
    let now = core.monotonic();
    let rules = rules(core);
    // Before the picture: these locks are taken in that order elsewhere.
    let undecided = core.undecided().nodes();
    let leased = !core.leased().is_empty();
    core.with_cluster(|cluster, _| {
        let draining = |id: &NodeId| cluster.node(*id).is_some_and(|member| member.service == Service::Draining);
        let ids: Vec<NodeId> = cluster.nodes().map(|member| member.node.id).collect();
        for id in ids {
            let subject = id.to_string();
            let known = core.jobs().find(JobKind::Drain, &subject).map(|job| job.id);
            if !draining(&id) {
                core.surplus().is_in(id);
                if let Some(job) = known {
                    core.jobs().set_state(job, JobState::Stopped("it serves again".to_owned()), now);
                }
                continue;
            }
            let picture = cluster.drain_picture(id, &rules, &core.repair());
            let rest = if picture.pipelines_left == 0 {
                left_behind(core, id, undecided.contains(&id), leased, now)
            } else {
                None
            };
            if picture.pipelines_left == 0 && rest.is_none() && known.is_none() {
                continue; // A leader before this one has seen it end.
            }
            if picture.pipelines_left > 0 {
                core.surplus().is_in(id);
            }
            let mut jobs = core.jobs();
            let job = known.unwrap_or_else(|| jobs.begin(JobKind::Drain, &subject, now));
            jobs.left(job, picture.len_left, picture.containers_left, now);
            if let Some(why) = rest {
                jobs.set_state(job, JobState::Waiting(why.to_owned()), now);
            } else if picture.pipelines_left == 0 {
                let note = "others have all its blocks, and have read them back".to_owned();
                if jobs.set_state(job, JobState::Done(note), now) {
                    tracing::info!(node = %id, "a datanode is drained: it may be taken away");
                }
            } else if picture.stuck > 0 {
                let note = format!(
                    "{} of its pipelines find no other datanode with room that is not in them already; add one",
                    picture.stuck
                );
                jobs.set_state(job, JobState::Waiting(note), now);
            } else {
                jobs.set_state(job, JobState::Running, now);
            }
        }
    });
}

/// Why a node that is in no pipeline any more may still have what others lack; `None` if it has not.
fn left_behind(core: &Core, node: NodeId, undecided: bool, leased: bool, now: Duration) -> Option<&'static str> {
    let mut surplus = core.surplus();
    let since = surplus.out_since(node, now);
    if leased && now.saturating_sub(since) <= core.config.lease_soft() {
        return Some(
            "clients may still put small files here that they began before; they are waited for up to a minute",
        );
    }
    if undecided || !surplus.is_settled(node, since) {
        return Some("the last of what it has is compared with what others have");
    }
    None
}

/// True for a node that drains, and has nothing any more that others could lack.
pub(crate) fn is_drained(core: &Core, node: NodeId) -> bool {
    let subject = node.to_string();
    let jobs = core.jobs();
    let last = jobs.iter().filter(|job| job.kind == JobKind::Drain && job.subject == subject).last();
    last.is_none_or(|job| matches!(job.state, JobState::Done(_)))
}

/// So that whoever begins to drain is told of a job at once.
pub(crate) fn begin_drain(core: &Core, node: NodeId) -> u64 {
    let now = core.monotonic();
    let picture = core.with_cluster(|cluster, _| cluster.drain_picture(node, &rules(core), &core.repair()));
    let mut jobs = core.jobs();
    let id = jobs.begin(JobKind::Drain, &node.to_string(), now);
    let work = Work { total_len: picture.len_left, total_count: picture.containers_left, ..Work::default() };
    jobs.progress(id, work, now);
    id
}
