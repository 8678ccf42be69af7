//! Jobs that nodes carry out, as the leader sees them: orders go out with the answers to heartbeats, reports come with
//! them, and now and then what people see is brought up to date.
//!
//! Promise: a node is told to stop what it was not ordered to do, and a job is there for as long as people see it run.

use crate::disk_balance::{DiskBalance, Levelled};
use crate::jobs::JobState;
use crate::leader::Leader;
use crate::rules::MendRules;
use crate::scrub::{Scrub, Scrubbed};
use std::time::Duration;
use types::{BlockId, NodeId};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScrubOrder {
    pub number: u64,
    pub len_per_s: u64,
    pub stop: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskBalanceOrder {
    pub number: u64,
    pub len_per_s: u64,
    pub within: u64,
    pub stop: bool,
}

impl Leader {
    /// A node reports on a scrub of this number.
    pub fn on_scrub_report(&mut self, node: NodeId, report: Option<(u64, Scrubbed)>) -> Option<ScrubOrder> {
        let Some(scrub) = self.scrub.as_mut().filter(|scrub| scrub.concerns(node)) else {
            let (number, _) = report.filter(|(_, scrubbed)| !scrubbed.ended)?;
            return Some(ScrubOrder { number, len_per_s: 0, stop: true });
        };
        if let Some((_, scrubbed)) = report.filter(|(number, _)| *number == scrub.number) {
            scrub.on_report(node, scrubbed);
        }
        let Scrub { number, len_per_s, stopping, .. } = *scrub;
        Some(ScrubOrder { number, len_per_s, stop: stopping })
    }

    /// A node reports on balancing of its disks of this number.
    pub fn on_disk_balance_report(
        &mut self,
        node: NodeId,
        report: Option<(u64, Levelled)>,
    ) -> Option<DiskBalanceOrder> {
        let Some(balance) = self.disk_balance.as_mut().filter(|balance| balance.concerns(node)) else {
            let (number, _) = report.filter(|(_, levelled)| !levelled.ended)?;
            return Some(DiskBalanceOrder { number, len_per_s: 0, within: 0, stop: true });
        };
        if let Some((_, levelled)) = report.filter(|(number, _)| *number == balance.number) {
            balance.on_report(node, levelled);
        }
        let DiskBalance { number, len_per_s, within, stopping, .. } = *balance;
        Some(DiskBalanceOrder { number, len_per_s, within, stop: stopping })
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
    pub fn settle_scrub(&mut self, damaged: &[(NodeId, bool)], rules: &MendRules) -> Option<String> {
        let now = rules.now;
        let lost = self.lost(rules);
        let scrub = self.scrub.as_mut()?;
        lost.iter().for_each(|node| scrub.on_lost(*node));
        // What a lost node has is copied from others, whatever it is like.
        let concerned = damaged.iter().filter(|(node, _)| scrub.concerns(*node) && !lost.contains(node));
        let to_come = concerned.clone().filter(|(_, comes)| *comes).count();
        let damaged = concerned.count() as u64;
        let work = scrub.work(damaged);
        self.jobs.progress(scrub.job, work, now);
        if !scrub.is_read() {
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
        let lost = match scrub.lost_count() {
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
        Some(note)
    }

    /// Answers how balancing of disks has ended.
    pub fn settle_disk_balance(&mut self, rules: &MendRules) -> Option<String> {
        let now = rules.now;
        let lost = self.lost(rules);
        let balance = self.disk_balance.as_mut()?;
        lost.into_iter().for_each(|node| balance.on_lost(node));
        self.jobs.progress(balance.job, balance.work(), now);
        if !balance.has_ended() {
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
    pub fn on_balance_planned(&mut self, job: u64, moves: Vec<crate::balance::Move>, now: Duration) {
        let Some(balance) = &mut self.balance else { return };
        balance.on_planned(job, moves);
        self.jobs.progress(balance.job, balance.planned_work(), now);
    }

    fn lost(&self, rules: &MendRules) -> Vec<NodeId> {
        let lost = self.cluster.nodes().filter(|member| rules.is_lost(Some(member)));
        lost.map(|member| member.node.id).collect()
    }
}
