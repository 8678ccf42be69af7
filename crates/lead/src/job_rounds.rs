//! What is done for jobs in turn: reports come and orders go with heartbeats, and now and then what people see is brought
//! up to date, and what is over ends.
//!
//! Promise: a job is there for as long as people see it run ([`Leader::check`]).

use crate::balance::Move;
use crate::disk_balance::{DiskBalanceReport, DiskBalanceTerms};
use crate::jobs::JobState;
use crate::leader::Leader;
use crate::node_job::{NodeJob, NodeOrder, NodeReport};
use crate::rules::LivenessRules;
use crate::scrub::{ScrubReport, ScrubTerms};
use std::time::Duration;
use types::{BlockId, NodeId};

impl Leader {
    /// A node reports on the scrub of this number, or that it does none.
    pub fn on_scrub_report(
        &mut self,
        node: NodeId,
        report: Option<(u64, ScrubReport)>,
    ) -> Option<NodeOrder<ScrubTerms>> {
        NodeJob::exchange(self.scrub.as_mut(), node, report)
    }

    /// As [`Self::on_scrub_report`], on balancing of its disks.
    pub fn on_disk_balance_report(
        &mut self,
        node: NodeId,
        report: Option<(u64, DiskBalanceReport)>,
    ) -> Option<NodeOrder<DiskBalanceTerms>> {
        NodeJob::exchange(self.disk_balance.as_mut(), node, report)
    }

    /// Replicas that are known to be damaged, on nodes of a scrub that is under way; and beside each whether a good
    /// copy may come.
    pub fn damaged_of_scrub(&self) -> Vec<(BlockId, NodeId, bool)> {
        let Some(scrub) = &self.scrub else { return Vec::new() };
        let is_full = self.repair.is_missing_full();
        let damaged = self.repair.bad().filter(|(_, node)| scrub.concerns(*node));
        damaged.map(|(block, node)| (block, node, !is_full && !self.repair.is_missing(block))).collect()
    }

    /// `damaged` as [`Self::damaged_of_scrub`] answered, but without those that no copy replaces, as their files are
    /// open. Answers how the scrub has ended.
    pub fn settle_scrub(&mut self, damaged: &[(NodeId, bool)], rules: &LivenessRules) -> Option<String> {
        let now = rules.now;
        let lost = self.lost(rules);
        let scrub = on_lost(&mut self.scrub, &lost)?;
        // What a lost node has is copied from others, whatever it is like.
        let concerned = damaged.iter().filter(|(node, _)| scrub.concerns(*node) && !lost.contains(node));
        let to_come = concerned.clone().filter(|(_, comes)| *comes).count();
        let damaged = concerned.count() as u64;
        let work = scrub.work(damaged);
        self.jobs.progress(scrub.job, work, now);
        if !scrub.is_over() {
            self.jobs.set_state(scrub.job, JobState::Running, now);
            return None;
        }
        if scrub.stopping {
            self.jobs.set_state(scrub.job, JobState::Stopped("by an administrator".to_owned()), now);
            self.scrub = None;
            return None;
        }
        // Those of which there is no good copy would be waited for for ever.
        if to_come > 0 {
            let note = format!("{to_come} damaged replicas are still to be replaced");
            self.jobs.set_state(scrub.job, JobState::Waiting(note), now);
            return None;
        }
        let lost = match scrub.lost().count() {
            0 => String::new(),
            count => format!("; {count} datanodes were lost meanwhile"),
        };
        let note = match (work.found_count, damaged) {
            (0, _) => format!("no damage{lost}"),
            (found, 0) => format!("{found} damaged replicas were replaced by good copies{lost}"),
            (found, left) => format!(
                "{} of {found} damaged replicas were replaced; {left} have no good copy that is here, see \
                 under-replicated{lost}",
                found.saturating_sub(left)
            ),
        };
        self.jobs.set_state(scrub.job, JobState::Done(note.clone()), now);
        self.scrub = None;
        self.hash_trees.all_due();
        Some(note)
    }

    /// Answers how balancing of disks has ended.
    pub fn settle_disk_balance(&mut self, rules: &LivenessRules) -> Option<String> {
        let now = rules.now;
        let lost = self.lost(rules);
        let balance = on_lost(&mut self.disk_balance, &lost)?;
        self.jobs.progress(balance.job, balance.work(), now);
        if !balance.is_over() {
            return None;
        }
        let note = balance.note();
        let state = match balance.stopping {
            true => JobState::Stopped(format!("by an administrator; {note}")),
            false => JobState::Done(note.clone()),
        };
        self.jobs.set_state(balance.job, state, now);
        self.disk_balance = None;
        Some(note)
    }

    /// Counts what balancing has done, and ends it when it is over.
    pub fn settle_balance(&mut self, now: Duration) {
        let Some(balance) = &mut self.balance else { return };
        let work = balance.settle(&self.cluster, &self.repair);
        self.jobs.progress(balance.job, work, now);
        if let Some(end) = balance.end() {
            self.jobs.set_state(balance.job, end, now);
            self.balance = None;
        }
    }

    /// Balancing `job` is to make these moves.
    pub fn on_balance_planned(&mut self, job: u64, moves: Vec<Move>, now: Duration) {
        let Some(balance) = &mut self.balance else { return };
        balance.on_planned(job, moves);
        self.jobs.progress(balance.job, balance.planned_work(), now);
    }

    fn lost(&self, rules: &LivenessRules) -> Vec<NodeId> {
        let lost = self.cluster.nodes().filter(|member| rules.is_lost(Some(member)));
        lost.map(|member| member.node.id).collect()
    }
}

/// The job that is under way, without those who are lost.
fn on_lost<'a, R: NodeReport>(job: &'a mut Option<NodeJob<R>>, lost: &[NodeId]) -> Option<&'a mut NodeJob<R>> {
    let job = job.as_mut()?;
    lost.iter().for_each(|node| job.on_lost(*node));
    Some(job)
}
