//! The job under which repair is listed: no administrator begins it, and it exists while copies are missing.

use crate::census::Census;
use crate::job_state::JobState;
use crate::leader::Leader;
use crate::liveness::LivenessRules;
use crate::member::Member;
use crate::takeover::Shortage;
use blocks::JobKind;

impl Leader {
    /// Brings the job that shows repair up to date, by what was counted last.
    pub fn look_after_repair(&mut self, rules: &LivenessRules) {
        let Census { under_replicated, missing, .. } = *self.census.last();
        let (now, progress) = (rules.now, self.repair.progress());
        let is_whole = self.repair.next_due().is_none_or(|due| due > now);
        let known = self.jobs.find(JobKind::Repair, "").map(|job| job.id);
        if progress.lack_count > 0 {
            let id = known.unwrap_or_else(|| self.jobs.begin(JobKind::Repair, "", now));
            self.jobs.left(id, progress.lack_len, progress.lack_count as u64, now);
            let state = match self.cluster.repair_hold {
                Some(_) => JobState::Waiting("an administrator has repair wait: levada admin repair".to_owned()),
                None => JobState::Running,
            };
            self.jobs.set_state(id, state, now);
        } else if under_replicated > 0 && is_whole && !self.may_return(rules) {
            let id = known.unwrap_or_else(|| self.jobs.begin(JobKind::Repair, "", now));
            let note = match self.shortage {
                Shortage { len: 0, nodeless_count: 0, .. } => format!(
                    "{under_replicated} blocks are under-replicated, and no datanode that is up can take a copy; add \
                     or start one"
                ),
                Shortage { len: 0, .. } => format!(
                    "{under_replicated} blocks are under-replicated: fewer datanodes that take copies are up than \
                     copies are wanted; start or add datanodes, or ask for fewer copies"
                ),
                Shortage { len, .. } => format!(
                    "{under_replicated} blocks are under-replicated; live datanodes without a copy lack {len} bytes of \
                     free space; add datanodes or disks, or delete files"
                ),
            };
            self.jobs.left(id, 0, 0, now);
            self.jobs.set_state(id, JobState::Waiting(note), now);
        } else if let Some(id) = known.filter(|_| is_whole && under_replicated == 0) {
            let note = match missing {
                0 => String::new(),
                missing => format!("{missing} blocks have no copy on a live datanode"),
            };
            self.jobs.left(id, 0, 0, now);
            self.jobs.set_state(id, JobState::Done(note), now);
        }
    }

    /// Some datanode is unresponsive, and not lost yet: what it has is not copied before.
    fn may_return(&self, rules: &LivenessRules) -> bool {
        let mut nodes = self.cluster.nodes();
        let is_awaited = |member: &Member| !member.is_live(rules.now) && !rules.is_lost(Some(member));
        !rules.has_heard_all() || nodes.any(is_awaited)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::leader::tests::{HOME, NOW, block, leader, node, rules};
    use crate::repair::Lack;
    use types::{Generation, InodeId};

    #[test]
    fn repair_is_a_job_while_something_is_lacking() {
        let mut leader = leader();
        let look = |leader: &mut Leader, under_replicated| {
            let census = Census { under_replicated, missing_replicas: under_replicated, ..Census::default() };
            leader.census.on_counted(census, NOW, NOW);
            leader.look_after_repair(&rules());
            leader.check();
            leader.jobs.iter().last().map(|job| job.state.clone())
        };
        assert_eq!(look(&mut leader, 0), None);
        let (file, home, sources) = (InodeId(20_000), HOME, vec![node(1)]);
        let generation = Generation(5);
        leader.repair.on_lack(Lack {
            block: block(1),
            generation,
            len: 5,
            file,
            home,
            node: node(2),
            sources,
            unfit: false,
        });
        assert_eq!(look(&mut leader, 1), Some(JobState::Running));
        leader.repair.on_lost(node(2), NOW);
        assert!(leader.repair.next_check(NOW).is_some());
        let mut why = |shortage| {
            leader.on_shortage(shortage);
            match look(&mut leader, 1) {
                Some(JobState::Waiting(why)) => why,
                other => panic!("no datanode can take a copy: {other:?}"),
            }
        };
        assert!(why(Shortage::default()).contains("no datanode that is up can take a copy"));
        assert!(
            why(Shortage { container_count: 1, len: 0, nodeless_count: 1 })
                .contains("fewer datanodes that take copies are up")
        );
        assert!(why(Shortage { container_count: 1, len: 5, nodeless_count: 0 }).contains("lack 5 bytes of free space"));
        assert_eq!(look(&mut leader, 0), Some(JobState::Done(String::new())));
    }
}
