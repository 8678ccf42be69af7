//! Rounds over the running jobs. Heartbeats bring datanodes' reports and take their orders. From time to time the
//! progress that users see is updated, and a job that is done ends.

use crate::balance::Move;
use crate::disk_balance::{DiskBalanceReport, DiskBalanceTerms};
use crate::job_progress::Running;
use crate::job_state::JobState;
use crate::leader::Leader;
use crate::liveness::LivenessRules;
use crate::node_job::{NodeJob, NodeOrder};
use crate::scrub::{ScrubReport, ScrubTerms};
use blocks::{Command, JobKind, Service};
use std::time::Duration;
use types::{BlockId, NodeId};

/// Why a job is not stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StopRefused {
    #[error("there is no job {0}")]
    NoSuchJob(u64),
    #[error("repair is not stopped: it brings back copies that are missing")]
    Repair,
}

impl Leader {
    /// A node reports on the scrub of this number, or that it does none.
    pub fn on_scrub_report(
        &mut self,
        node: NodeId,
        report: Option<(u64, ScrubReport)>,
    ) -> Option<NodeOrder<ScrubTerms>> {
        let scrub = self.jobs.find_running(Running::as_scrub);
        NodeJob::exchange(scrub, node, report)
    }

    /// As [`Self::on_scrub_report`], on balancing of its disks.
    pub fn on_disk_balance_report(
        &mut self,
        node: NodeId,
        report: Option<(u64, DiskBalanceReport)>,
    ) -> Option<NodeOrder<DiskBalanceTerms>> {
        let balance = self.jobs.find_running(Running::as_disk_balance);
        NodeJob::exchange(balance, node, report)
    }

    /// Replicas that are known to be damaged, on nodes of job `id` if it is a scrub; and beside each whether a good
    /// copy may come.
    pub fn damaged_of_scrub(&mut self, id: u64) -> Vec<(BlockId, NodeId, bool)> {
        let Some(Running::Scrub(scrub)) = self.jobs.running_mut(id) else { return Vec::new() };
        let is_full = self.repair.is_missing_full();
        let damaged = self.repair.bad().filter(|(_, node)| scrub.concerns(*node));
        damaged.map(|(block, node)| (block, node, !is_full && !self.repair.is_missing(block))).collect()
    }

    /// Brings a job up to date that is under way. `damaged` as [`Self::damaged_of_scrub`] answered, but without those
    /// that no copy replaces, as their files are open; `lease_soft`: how long a lease of blocks lasts. Answers how it
    /// has ended. One job at a time, since a drain looks at all containers of its node.
    pub fn settle_job(
        &mut self,
        id: u64,
        damaged: &[(NodeId, bool)],
        rules: &LivenessRules,
        lease_soft: Duration,
    ) -> Option<JobState> {
        let lost = self.lost_nodes(rules);
        let done = self.jobs.get(id)?.work;
        let (work, state) = match self.jobs.running_mut(id)? {
            Running::Drain(drain) => {
                let drain = *drain;
                self.settle_drain(drain, done, rules, lease_soft)
            }
            Running::Balance(balance) => balance.settle(&self.cluster, &self.repair),
            Running::Scrub(scrub) => {
                let (work, state) = scrub.settle(damaged, &lost);
                if matches!(state, JobState::Done(_)) {
                    self.hash_trees.all_due();
                }
                (work, state)
            }
            Running::DiskBalance(balance) => balance.settle(&lost),
        };
        self.jobs.progress(id, work, rules.now);
        self.jobs.set_state(id, state.clone(), rules.now);
        state.has_ended().then_some(state)
    }

    /// Balancing whose moves are still to be looked up, and how near to each other nodes shall come.
    pub fn unplanned_balance(&mut self) -> Option<(u64, u64)> {
        self.jobs.running().into_iter().find_map(|id| match self.jobs.running_mut(id) {
            Some(Running::Balance(balance)) => Some((id, balance.unplanned()?)),
            _ => None,
        })
    }

    /// Balancing `id` is to make these moves.
    pub fn on_balance_planned(&mut self, id: u64, moves: Vec<Move>) {
        if let Some(Running::Balance(balance)) = self.jobs.running_mut(id) {
            balance.on_planned(moves);
        }
    }

    /// The next move of balancing, and the command that begins it. The result of the proposal goes to
    /// [`Self::on_move_proposed`].
    pub fn next_move(&mut self, rules: &LivenessRules) -> Option<(Move, Command)> {
        loop {
            let balance = self.jobs.find_running(Running::as_balance)?;
            let next = balance.take(rules.now)?;
            match self.cluster.begin_move(&next, &self.repair, rules) {
                Some(command) => return Some((next, command)),
                None => balance.on_proposed(false), // it is not possible any more
            }
        }
    }

    /// The move that was taken last is under way, or was refused; `None`: it is not known what became of it.
    pub fn on_move_proposed(&mut self, is_begun: Option<bool>) {
        let Some(balance) = self.jobs.find_running(Running::as_balance) else { return };
        match is_begun {
            Some(is_begun) => balance.on_proposed(is_begun),
            None => balance.put_back(),
        }
    }

    /// An administrator stops the job. Returns the command to propose for that. Without one, the job ends when its
    /// nodes have got the order and what is under way has ended.
    pub fn stop_job(&mut self, id: u64) -> Result<Option<Command>, StopRefused> {
        let job = self.jobs.get(id).ok_or(StopRefused::NoSuchJob(id))?;
        if job.kind == JobKind::Repair && !job.state.has_ended() {
            return Err(StopRefused::Repair);
        }
        let Some(running) = self.jobs.running_mut(id) else { return Ok(None) };
        running.stop();
        Ok(match running {
            Running::Drain(drain) => Some(Command::SetService { node: drain.node, service: Service::Serving }),
            _ => None,
        })
    }

    fn lost_nodes(&self, rules: &LivenessRules) -> Vec<NodeId> {
        let lost = self.cluster.nodes().filter(|member| rules.is_lost(Some(member)));
        lost.map(|member| member.node.id).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::leader::tests::{NOW, begin, block, leader, load, node, rows, rules, run};
    use blocks::{JobEnd, JobRow, JobTask, Work, apply};
    use types::{Generation, Millis};

    const SOFT: Duration = Duration::from_secs(60);

    fn scrub(number: u64) -> JobTask {
        JobTask::Scrub { number, len_per_s: 1, nodes: vec![node(1)] }
    }

    fn settle(leader: &mut Leader, id: u64, damaged: &[(NodeId, bool)]) -> Option<JobState> {
        let ended = leader.settle_job(id, damaged, &rules(), SOFT);
        leader.check();
        ended
    }

    fn scrub_number(leader: &mut Leader) -> Option<u64> {
        leader.on_scrub_report(node(1), None).map(|order| order.number)
    }

    /// What was asked for is carried out by the next leader too, under the same number.
    #[test]
    fn jobs_go_on_under_the_next_leader() {
        let (mut rows, mut first) = (rows(), leader());
        let disks = JobTask::BalanceDisks { number: 8, len_per_s: 1, within: 1, nodes: vec![node(1)] };
        begin(&mut rows, &mut first, JobKind::Scrub, "", &scrub(7));
        begin(&mut rows, &mut first, JobKind::BalanceDisks, "", &disks);
        let id = begin(&mut rows, &mut first, JobKind::Balance, "", &JobTask::Balance { within: 1, len_per_s: None });
        let mut next = load(&rows);
        assert_eq!(scrub_number(&mut next), Some(7));
        assert_eq!(next.on_disk_balance_report(node(1), None).map(|order| order.number), Some(8));
        assert_eq!((settle(&mut next, id, &[]), next.unplanned_balance()), (None, Some((id, 1))));
        next.on_balance_planned(id, Vec::new());
        assert!(settle(&mut next, id, &[]).is_some(), "there was nothing to move");
        assert!(next.jobs.get(id).unwrap().state.has_ended() && next.next_move(&rules()).is_none());
    }

    /// A proposal whose proposer never learns that it was applied: the job runs.
    #[test]
    fn a_job_that_was_written_down_runs() {
        let (mut rows, mut leader) = (rows(), leader());
        let id = begin(&mut rows, &mut leader, JobKind::Scrub, "", &scrub(7));
        let scrubbed = ScrubReport { ended: true, ..ScrubReport::default() };
        assert_eq!(leader.on_scrub_report(node(2), None), None, "it has no part in it");
        let order = leader.on_scrub_report(node(1), Some((7, scrubbed))).unwrap();
        assert_eq!((order.number, order.stop), (7, false));
        leader.repair.on_bad(block(1), node(1), Generation(5));
        let damaged: Vec<(NodeId, bool)> =
            leader.damaged_of_scrub(id).into_iter().map(|(_, node, comes)| (node, comes)).collect();
        assert_eq!(damaged, [(node(1), true)]);
        assert_eq!(settle(&mut leader, id, &damaged), None, "a copy replaces it");
        assert!(matches!(leader.jobs.get(id).unwrap().state, JobState::Waiting(_)));
        assert_eq!(settle(&mut leader, id, &[]), Some(JobState::Done("no damage".into())));
        let order = leader.on_scrub_report(node(1), Some((7, ScrubReport::default())));
        assert!(order.is_some_and(|order| order.stop), "it has ended");
    }

    /// A leader fell when a scrub had ended and the next one was begun, before the end was written down.
    #[test]
    fn of_two_jobs_of_a_kind_the_former_has_ended() {
        let (mut rows, mut first) = (rows(), leader());
        let former = begin(&mut rows, &mut first, JobKind::Scrub, "", &scrub(7));
        let (kind, id) = (JobKind::Scrub, former + 1);
        let row = JobRow { kind, subject: String::new(), started: Millis(2), task: scrub(8), end: None };
        apply(&mut rows, &Command::BeginJob { id, row }).unwrap().unwrap();
        let mut next = load(&rows);
        assert_eq!((scrub_number(&mut next), next.jobs.running()), (Some(8), vec![id]));
        assert!(next.jobs.get(former).unwrap().state.has_ended());
        next.check();
    }

    /// So does its end, also if it was proposed before this memory was loaded.
    #[test]
    fn a_job_whose_end_was_written_down_has_ended() {
        let (mut rows, mut first) = (rows(), leader());
        let id = begin(&mut rows, &mut first, JobKind::Scrub, "", &scrub(7));
        let mut leader = load(&rows);
        assert_eq!(leader.jobs.running(), [id]);
        let end = JobEnd { at: Millis(2), stopped: false, note: "no damage".into(), work: Work::default() };
        run(&mut rows, &mut leader, &Command::EndJob { id, end });
        assert_eq!((leader.jobs.running(), scrub_number(&mut leader)), (vec![], None));
        assert_eq!(leader.jobs.get(id).unwrap().state, JobState::Done("no damage".into()));
        assert_eq!(leader.jobs.ends(Millis(3), NOW), [], "it is written down already");
    }

    #[test]
    fn a_job_that_is_stopped_ends_when_its_nodes_have_heard() {
        let (mut rows, mut leader) = (rows(), leader());
        assert_eq!(leader.stop_job(1), Err(StopRefused::NoSuchJob(1)));
        let id = begin(&mut rows, &mut leader, JobKind::Scrub, "", &scrub(7));
        assert_eq!((leader.stop_job(id), settle(&mut leader, id, &[])), (Ok(None), None));
        let ended = ScrubReport { ended: true, ..ScrubReport::default() };
        assert!(leader.on_scrub_report(node(1), Some((7, ended))).is_some_and(|order| order.stop));
        assert_eq!(settle(&mut leader, id, &[]), Some(JobState::Stopped("by an administrator".into())));
        assert_eq!(leader.stop_job(id), Ok(None), "it has ended");
        let repair = leader.jobs.begin(JobKind::Repair, "", NOW);
        assert_eq!(leader.stop_job(repair), Err(StopRefused::Repair));
        leader.check();
    }
}
