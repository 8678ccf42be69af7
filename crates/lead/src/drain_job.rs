//! Draining a datanode, as a job.
//!
//! The job has ended when the node is in no pipeline and no client may put a block there any more. Each of its replicas
//! must also be on other nodes, or not be needed.

use crate::drain::{DrainPicture, LeftBehind};
use crate::job_progress::Drain;
use crate::job_state::JobState;
use crate::jobs::with_left;
use crate::leader::Leader;
use crate::liveness::LivenessRules;
use crate::member::Member;
use blocks::{JobKind, Service, Work};
use std::time::Duration;
use types::NodeId;
use types::mutation::{self, Mutation};

impl Drain {
    fn stopped(self) -> JobState {
        JobState::Stopped(if self.stopping { "by an administrator" } else { "it serves again" }.to_owned())
    }
}

impl Leader {
    /// Nodes that drain without a job that shows it: it was asked for, and the leader fell before the job was written
    /// down.
    pub fn drains_without_job(&self) -> Vec<NodeId> {
        let draining = self.cluster.nodes().filter(|member| member.service == Service::Draining);
        let is_without_job = |node: &NodeId| {
            let subject = node.to_string();
            // One that is in no pipeline was seen to end, by a leader before this one perhaps.
            let is_of_node = |has_ended| {
                let mut jobs = self.jobs.iter().filter(|job| job.kind == JobKind::Drain && job.subject == subject);
                jobs.any(|job| has_ended || !job.state.has_ended())
            };
            !is_of_node(self.cluster.pipelines_left(*node).next().is_none())
        };
        draining.map(|member| member.node.id).filter(is_without_job).collect()
    }

    /// What a node does was changed. One that serves again is not drained any more.
    pub(crate) fn on_service(&mut self, node: NodeId, service: Service, now: Duration) {
        if service == Service::Draining {
            return;
        }
        self.surplus.on_member_again(node);
        if let Some((id, drain)) = self.jobs.drain_of(node) {
            self.jobs.set_state(id, drain.stopped(), now);
        }
    }

    /// How far it is, of which so much is known to be done. `lease_soft`: how long a lease of blocks lasts.
    pub(crate) fn settle_drain(
        &mut self,
        drain: Drain,
        done: Work,
        rules: &LivenessRules,
        lease_soft: Duration,
    ) -> (Work, JobState) {
        let id = drain.node;
        if self.cluster.node(id).is_none_or(|member| member.service != Service::Draining) {
            self.surplus.on_member_again(id);
            return (done, drain.stopped());
        }
        let picture = self.cluster.drain_picture(id, rules, &self.repair);
        let work = with_left(done, picture.len_left, picture.containers_left);
        if picture.pipelines_left > 0 {
            self.surplus.on_member_again(id);
            return (work, waits_for(&picture).map_or(JobState::Running, JobState::Waiting));
        }
        // A node that is down reports nothing more, and no replica is put there: what its pipelines held is all there
        // is to copy.
        let is_lost = rules.is_lost(self.cluster.node(id));
        let rest = match is_lost || mutation::is(Mutation::HastyDrain) {
            true => None,
            false => self.left_behind(id, lease_soft, rules.now),
        };
        let drained = || JobState::Done(self.drained_note(id, is_lost));
        (work, rest.map_or_else(drained, |why| JobState::Waiting(why.to_owned())))
    }

    /// The node was to be emptied, and is.
    pub fn has_drained(&self, member: &Member) -> bool {
        let subject = member.node.id.to_string();
        let is_drained = || {
            let of_node = self.jobs.iter().filter(|job| job.kind == JobKind::Drain && job.subject == subject);
            of_node.last().is_none_or(|job| matches!(job.state, JobState::Done(_)))
        };
        member.service == Service::Draining && self.cluster.pipelines_of(member.node.id).is_empty() && is_drained()
    }

    /// Why a node that is in no pipeline any more may still have what others lack; `None` if it has not.
    fn left_behind(&mut self, node: NodeId, lease_soft: Duration, now: Duration) -> Option<&'static str> {
        let lease_limit = self.block_leases.any_out(now).then_some(lease_soft);
        let left = self.surplus.left_behind(node, self.undecided.has(node), lease_limit, &self.repair, now);
        left.map(|left| match left {
            LeftBehind::Leased => {
                "clients may still put small files here that they began before; they are waited for up to a minute"
            }
            LeftBehind::Unsettled => "the last of what it has is compared with what others have",
        })
    }

    /// How a drain ended. Blocks that no node has whole do not keep it from ending, and are named as such.
    fn drained_note(&self, node: NodeId, is_lost: bool) -> String {
        let (missing, useless) = (self.repair.progress().missing_count, self.surplus.useless_count(node, &self.repair));
        match (is_lost, missing, useless) {
            (true, 0, _) => "it is down, and others have all its blocks".to_owned(),
            (true, missing, _) => format!(
                "it is down, and others have all its blocks but those of which no datanode that is up has a copy, \
                 {missing} in the whole store; start it once more if it may have some of them"
            ),
            (false, _, 0) => "others have all its blocks, and have read them back".to_owned(),
            (false, _, useless) => format!(
                "others have all its blocks, and have read them back, but {useless} of which no datanode has a whole \
                 copy; what it has of them is damaged or too short, and goes with it (hdfs fsck names their files)"
            ),
        }
    }
}

/// What a drain waits for before it can go on.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::leader::tests::{HOME, NOW, begin, block, load, node, reported, rows, rules, run};
    use blocks::{Command, JobTask};
    use types::rows::MemoryRows;

    const SOFT: Duration = Duration::from_secs(60);

    fn set_service(rows: &mut MemoryRows, leader: &mut Leader, number: u8, service: Service) {
        run(rows, leader, &Command::SetService { node: node(number), service });
    }

    fn begin_drain(rows: &mut MemoryRows, leader: &mut Leader, number: u8) -> u64 {
        begin(rows, leader, JobKind::Drain, &node(number).to_string(), &JobTask::Known)
    }

    /// Node 3 is in no pipeline, and tells all that it has once more; what is surplus there is with others.
    #[test]
    fn a_drain_ends_when_all_that_the_node_has_is_with_others() {
        let mut rows = rows();
        let mut leader = load(&rows);
        assert_eq!(leader.drains_without_job(), []);
        set_service(&mut rows, &mut leader, 3, Service::Draining);
        assert_eq!(leader.drains_without_job(), [node(3)]);
        let id = begin_drain(&mut rows, &mut leader, 3);
        assert_eq!(leader.drains_without_job(), []);
        let settle = |leader: &mut Leader| {
            let ended = leader.settle_job(id, &[], &rules(), SOFT);
            leader.check();
            ended.is_some()
        };
        assert!(!settle(&mut leader));
        assert!(matches!(leader.jobs.get(id).unwrap().state, JobState::Waiting(_)), "it is to report all");
        leader.surplus.on_catalogue_begun(node(3), NOW);
        leader.surplus.keep(node(3), reported(1), HOME, NOW);
        leader.surplus.on_catalogue_complete(node(3));
        assert!(!settle(&mut leader));
        leader.surplus.forget(HOME, node(3), block(1));
        let has_drained = |leader: &Leader| leader.has_drained(leader.cluster.node(node(3)).unwrap());
        assert!(!has_drained(&leader));
        assert_eq!((settle(&mut leader), has_drained(&leader)), (true, true));
        assert_eq!((settle(&mut leader), leader.drains_without_job()), (false, vec![]), "that is known");
        set_service(&mut rows, &mut leader, 3, Service::Serving);
        assert!(!has_drained(&leader));
        set_service(&mut rows, &mut leader, 3, Service::Draining);
        let again = begin_drain(&mut rows, &mut leader, 3);
        assert!(
            leader.settle_job(again, &[], &rules(), SOFT).is_none(),
            "what it reported for the first counts no more"
        );
    }

    /// The next leader goes on with it, also where the job was never written down.
    #[test]
    fn a_drain_goes_on_under_the_next_leader_until_the_node_serves_again() {
        let mut rows = rows();
        let mut first = load(&rows);
        set_service(&mut rows, &mut first, 1, Service::Draining);
        assert_eq!(load(&rows).drains_without_job(), [node(1)]);
        let id = begin_drain(&mut rows, &mut first, 1);
        let mut next = load(&rows);
        assert_eq!(next.drains_without_job(), []);
        assert!(next.settle_job(id, &[], &rules(), SOFT).is_none());
        assert_eq!(next.jobs.get(id).unwrap().work.total_count, 1, "its container is to be copied");
        set_service(&mut rows, &mut next, 1, Service::Serving);
        assert_eq!(next.jobs.get(id).unwrap().state, JobState::Stopped("it serves again".to_owned()));
        next.check();
    }

    #[test]
    fn a_drain_that_is_stopped_lets_its_node_serve_again() {
        let mut rows = rows();
        let mut leader = load(&rows);
        set_service(&mut rows, &mut leader, 1, Service::Draining);
        let id = begin_drain(&mut rows, &mut leader, 1);
        let command = leader.stop_job(id).unwrap().expect("its node is to serve again");
        run(&mut rows, &mut leader, &command);
        assert_eq!(leader.jobs.get(id).unwrap().state, JobState::Stopped("by an administrator".to_owned()));
        assert_eq!(leader.stop_job(id), Ok(None), "it has ended");
        leader.check();
    }
}
