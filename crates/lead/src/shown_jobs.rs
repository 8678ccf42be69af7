//! Jobs that show what the leader does by itself: how far the emptying of a node is, and repair.
//!
//! Promise: a drain has ended when its node is in no pipeline, no client may put anything there any more, and all that
//! it has is with others or of no use to them; repair, when nothing is lacking and no block is under-replicated.

use crate::census::Census;
use crate::drain::{DrainPicture, LeftBehind};
use crate::jobs::JobState;
use crate::leader::Leader;
use crate::member::Member;
use crate::room::Shortage;
use crate::rules::LivenessRules;
use blocks::{JobKind, Service, Work};
use std::time::Duration;
use types::NodeId;
use types::mutation::{self, Mutation};

/// What a look at a node came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Drained {
    /// It does not drain, or its job shows how far it is.
    No,
    /// It drains, and no job shows it.
    WithoutJob,
    /// It is empty, which is news.
    JustNow,
}

impl Leader {
    /// Brings the job of a drain up to date. `lease_soft`: how long a lease of blocks lasts. One node at a time, since
    /// a drain looks at all containers of its node.
    pub fn look_after_drain(&mut self, id: NodeId, rules: &LivenessRules, lease_soft: Duration) -> Drained {
        let (now, subject) = (rules.now, id.to_string());
        let known = self.jobs.find(JobKind::Drain, &subject).map(|job| job.id);
        if self.cluster.node(id).is_none_or(|member| member.service != Service::Draining) {
            self.surplus.on_member_again(id);
            if let Some(job) = known {
                self.jobs.set_state(job, JobState::Stopped("it serves again".to_owned()), now);
            }
            return Drained::No;
        }
        let picture = self.cluster.drain_picture(id, rules, &self.repair);
        let is_lost = rules.is_lost(self.cluster.node(id));
        // One that is down reports nothing more, and nobody puts anything there: what its pipelines held is all there
        // is to copy.
        let rest = match picture.pipelines_left == 0 && !is_lost && !mutation::is(Mutation::HastyDrain) {
            true => self.left_behind(id, lease_soft, now),
            false => None,
        };
        if picture.pipelines_left > 0 {
            self.surplus.on_member_again(id);
        }
        let Some(job) = known else {
            // If it is in no pipeline, it was seen to end, by a leader before this one perhaps.
            let has_job = self.jobs.iter().any(|job| job.kind == JobKind::Drain && job.subject == subject);
            return if picture.pipelines_left > 0 || !has_job { Drained::WithoutJob } else { Drained::No };
        };
        let state = match rest {
            Some(why) => JobState::Waiting(why.to_owned()),
            None if picture.pipelines_left == 0 => JobState::Done(self.drained_note(id, is_lost)),
            None => waits_for(&picture).map_or(JobState::Running, JobState::Waiting),
        };
        let has_ended = state.has_ended();
        self.jobs.left(job, picture.len_left, picture.containers_left, now);
        if self.jobs.set_state(job, state, now) && has_ended { Drained::JustNow } else { Drained::No }
    }

    /// The job of a drain has just begun: how much there is to do.
    pub fn on_drain_begun(&mut self, id: u64, node: NodeId, rules: &LivenessRules) {
        let picture = self.cluster.drain_picture(node, rules, &self.repair);
        let work = Work { total_len: picture.len_left, total_count: picture.containers_left, ..Work::default() };
        self.jobs.progress(id, work, rules.now);
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
        let leased = self.leased.any_out(now).then_some(lease_soft);
        let left = self.surplus.left_behind(node, self.undecided.has(node), leased, &self.repair, now);
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

    /// Brings the job that shows repair up to date, by what was counted last.
    pub fn look_after_repair(&mut self, rules: &LivenessRules) {
        let Census { under_replicated, missing, .. } = *self.census.last();
        let (now, progress) = (rules.now, self.repair.progress());
        let is_whole = self.repair.next_due().is_none_or(|due| due > now);
        let known = self.jobs.find(JobKind::Repair, "").map(|job| job.id);
        if progress.lack_count > 0 {
            let id = known.unwrap_or_else(|| self.jobs.begin(JobKind::Repair, "", now));
            self.jobs.left(id, progress.lack_len, progress.lack_count as u64, now);
            self.jobs.set_state(id, JobState::Running, now);
        } else if under_replicated > 0 && is_whole && !self.may_return(rules) {
            let id = known.unwrap_or_else(|| self.jobs.begin(JobKind::Repair, "", now));
            let note = match self.shortage {
                Shortage { len: 0, .. } => format!(
                    "{under_replicated} blocks are under-replicated, and no datanode that is up can take a copy; add \
                     or start one"
                ),
                Shortage { len, .. } => format!(
                    "{under_replicated} blocks are under-replicated, and {len} bytes of room lack on datanodes that \
                     are up and have no copy of them yet; add datanodes or disks, or delete files"
                ),
            };
            self.jobs.left(id, 0, 0, now);
            self.jobs.set_state(id, JobState::Waiting(note), now);
        } else if let Some(id) = known.filter(|_| is_whole && under_replicated == 0) {
            let note = match missing {
                0 => String::new(),
                missing => format!("{missing} blocks have no copy that is here"),
            };
            self.jobs.left(id, 0, 0, now);
            self.jobs.set_state(id, JobState::Done(note), now);
        }
    }

    /// Some datanode is unresponsive, and not lost yet: what it has is not copied before.
    fn may_return(&self, rules: &LivenessRules) -> bool {
        let mut nodes = self.cluster.nodes();
        !rules.can_tell() || nodes.any(|member| !member.is_live(rules.now) && !rules.is_lost(Some(member)))
    }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::leader::tests::{HOME, NOW, block, leader, node, rules, told};
    use crate::repair::Lack;
    use blocks::{Command, Reply};
    use types::{Generation, InodeId};

    const SOFT: Duration = Duration::from_secs(60);

    fn set_service(leader: &mut Leader, number: u8, service: Service) {
        leader.on_applied(&Command::SetService { node: node(number), service }, &Ok(Reply::Done), rules());
    }

    /// Node 3 is in no pipeline, and tells all that it has once more; what is surplus there is with others.
    #[test]
    fn a_drain_ends_when_all_that_the_node_has_is_with_others() {
        let mut leader = leader();
        let look = |leader: &mut Leader| {
            let drained = leader.look_after_drain(node(3), &rules(), SOFT);
            leader.check();
            drained
        };
        assert_eq!(look(&mut leader), Drained::No);
        set_service(&mut leader, 3, Service::Draining);
        assert_eq!(look(&mut leader), Drained::WithoutJob);
        let id = leader.jobs.begin(JobKind::Drain, &node(3).to_string(), NOW);
        leader.on_drain_begun(id, node(3), &rules());
        assert_eq!(look(&mut leader), Drained::No);
        assert!(matches!(leader.jobs.get(id).unwrap().state, JobState::Waiting(_)), "it is to report all");
        leader.surplus.on_catalogue_begun(node(3), NOW);
        leader.surplus.keep(node(3), told(1), HOME, NOW);
        leader.surplus.on_catalogue_complete(node(3));
        assert_eq!(look(&mut leader), Drained::No);
        leader.surplus.forget(HOME, node(3), block(1));
        let has_drained = |leader: &Leader| leader.has_drained(leader.cluster.node(node(3)).unwrap());
        assert!(!has_drained(&leader));
        assert_eq!((look(&mut leader), has_drained(&leader)), (Drained::JustNow, true));
        assert_eq!(look(&mut leader), Drained::No, "that is known");
        set_service(&mut leader, 3, Service::Serving);
        assert_eq!((look(&mut leader), has_drained(&leader)), (Drained::No, false));
    }

    #[test]
    fn a_drain_ends_early_when_the_node_serves_again() {
        let mut leader = leader();
        set_service(&mut leader, 1, Service::Draining);
        let id = leader.jobs.begin(JobKind::Drain, &node(1).to_string(), NOW);
        assert_eq!(leader.look_after_drain(node(1), &rules(), SOFT), Drained::No);
        assert_eq!(leader.jobs.get(id).unwrap().work.total_count, 1, "its container is to be copied");
        set_service(&mut leader, 1, Service::Serving);
        leader.look_after_drain(node(1), &rules(), SOFT);
        assert_eq!(leader.jobs.get(id).unwrap().state, JobState::Stopped("it serves again".to_owned()));
        leader.check();
    }

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
        assert!(matches!(look(&mut leader, 1), Some(JobState::Waiting(_))), "no datanode can take a copy");
        assert_eq!(look(&mut leader, 0), Some(JobState::Done(String::new())));
    }
}
