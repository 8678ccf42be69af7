//! Draining a datanode, as a job.
//!
//! The job has ended when the node is in no pipeline and no client may put a block there any more. Each of its replicas
//! must also be on other nodes, or not be needed; found blocks are needed until an administrator has released them.

use crate::drain::{DrainPicture, LeftBehind};
use crate::job_progress::Drain;
use crate::job_state::JobState;
use crate::jobs::with_left;
use crate::leader::Leader;
use crate::liveness::LivenessRules;
use crate::member::Member;
use blocks::{JobKind, Leave, LeaveKind, Service, Work};
use std::time::Duration;
use types::mutation::{self, Mutation};
use types::{Millis, NodeId};

impl Drain {
    fn stopped(self) -> JobState {
        JobState::Stopped(if self.stopping { "by an administrator" } else { "it serves again" }.to_owned())
    }
}

impl Leader {
    /// Nodes that drain without a job that shows it: it was asked for, and the leader fell before the job was written
    /// down. Or its job ended while it was down, and it came back with found blocks that it alone has.
    pub fn drains_without_job(&self, rules: &LivenessRules) -> Vec<NodeId> {
        let draining = self.cluster.nodes().filter(|member| member.service == Service::Draining);
        let is_without_job = |node: &NodeId| {
            let subject = node.to_string();
            let is_of_node = |has_ended| {
                let mut jobs = self.jobs.iter().filter(|job| job.kind == JobKind::Drain && job.subject == subject);
                jobs.any(|job| has_ended && !job.is_of_backup || !job.state.has_ended())
            };
            // One that is in no pipeline was seen to end, by a leader before this one perhaps.
            let has_ended =
                || self.cluster.pipelines_left(*node).next().is_none() && !self.has_brought_found(*node, rules);
            !is_of_node(has_ended())
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
            let why = waits_for(&picture).or_else(|| self.awaits(&picture, rules));
            return (work, why.map_or(JobState::Running, JobState::Waiting));
        }
        // A node that is down reports nothing more, and no replica is put there: what its pipelines held is all there
        // is to copy.
        let is_lost = rules.is_lost(self.cluster.node(id));
        let rest = match is_lost || mutation::is(Mutation::HastyDrain) {
            true => None,
            false => self.left_behind(id, lease_soft, rules),
        };
        let drained = || JobState::Done(self.drained_note(id, is_lost, rules));
        (work, rest.map_or_else(drained, |why| JobState::Waiting(waits_here(why))))
    }

    /// For whom a drain waits once everything is copied, and how long at most.
    fn awaits(&self, picture: &DrainPicture, rules: &LivenessRules) -> Option<String> {
        let first = picture.awaited.first().filter(|_| picture.containers_left == 0)?;
        let member = self.cluster.node(*first)?;
        let (name, lost_after_s) =
            (format!("datanode {first} ({})", member.node.xfer_addr()), rules.lost_after.as_secs());
        let why = match member.leave {
            Some(Leave { kind: LeaveKind::Maintenance, until }) => {
                format!("the maintenance of {name} to end: until {}", utc(until))
            }
            Some(Leave { kind: LeaveKind::Restart, until }) => {
                format!(
                    "{name}, which has ended in order and is expected back: until {} it does not count as lost",
                    utc(until)
                )
            }
            None => format!("{name}, which is silent: for {lost_after_s} s it does not count as lost"),
        };
        let others = match picture.awaited.len() - 1 {
            0 => String::new(),
            others => format!("; and for {others} more"),
        };
        let held = picture.held;
        Some(match member.is_in_maintenance() {
            true => format!("others have all of {held} of its pipelines; waits for {why}{others}"),
            false => format!(
                "others have copied what is known of {held} of its pipelines, but too few that are whole are up; waits \
                 for {why}{others}; start it"
            ),
        })
    }

    /// Whether the node is up with found blocks that it alone has. While any node that is not lost has yet to report,
    /// nobody knows.
    fn has_brought_found(&self, node: NodeId, rules: &LivenessRules) -> bool {
        let is_lost = |node: NodeId| rules.is_lost(self.cluster.node(node));
        !is_lost(node) && self.found_unreported().all(is_lost) && self.lone_found_count(node, rules) > 0
    }

    /// The node was to be emptied, and is. One that is back may have found blocks until it has reported all it has.
    pub fn has_drained(&self, member: &Member, rules: &LivenessRules) -> bool {
        let node = member.node.id;
        let subject = node.to_string();
        let is_reported = || !self.may_have_unknown(node) || rules.is_lost(Some(member));
        let is_drained = || {
            let of_node = self.jobs.iter().filter(|job| job.kind == JobKind::Drain && job.subject == subject);
            // One that ended before the store was restored says nothing of blocks that came since.
            of_node.last().is_none_or(|job| matches!(job.state, JobState::Done(_)) && !job.is_of_backup)
        };
        let is_empty = member.service == Service::Draining && self.cluster.pipelines_of(node).is_empty();
        is_empty && is_drained() && is_reported() && self.lone_found_count(node, rules) == 0
    }

    /// Whether the node may have found blocks that are not listed.
    fn may_have_unknown(&self, node: NodeId) -> bool {
        self.cluster.has_forgotten() && !self.found.reports.is_complete(node)
    }

    /// Blocks that a restored backup did not know, of which no other node that stays has as good a replica. At most a
    /// thousand are counted.
    pub fn lone_found_count(&self, node: NodeId, rules: &LivenessRules) -> usize {
        let stays = |other: NodeId| {
            let member = self.cluster.node(other);
            let is_up = member.is_some_and(|member| member.seen().is_some() && !member.is_in_maintenance());
            is_up && !rules.is_lost(member) && !self.cluster.drains(other)
        };
        self.found.lone_count(node, LONE_COUNT_MAX, stays)
    }

    /// Whether everything that a node has is on another one that is up, and is not in maintenance itself; of one in
    /// maintenance found blocks, too.
    pub fn may_be_away(&self, node: NodeId, rules: &LivenessRules) -> bool {
        // Looking at all found blocks takes a while.
        let has_lone = || self.cluster.is_in_maintenance(node) && self.lone_found_count(node, rules) > 0;
        self.cluster.is_covered(node, rules) && !has_lone()
    }

    /// Why a node that is in no pipeline any more may still have what others lack; `None` if it has not.
    fn left_behind(&mut self, node: NodeId, lease_soft: Duration, rules: &LivenessRules) -> Option<LeftBehind> {
        let now = rules.now;
        let lease_limit = self.block_leases.any_out(now).then_some(lease_soft);
        let left = self.surplus.left_behind(node, self.undecided.has(node), lease_limit, &self.repair, now);
        let lone = || Some(self.lone_found_count(node, rules)).filter(|count| *count > 0).map(LeftBehind::Found);
        left.or_else(lone)
    }

    /// How a drain ended. Blocks that no node has whole do not keep it from ending, and are named as such.
    fn drained_note(&self, node: NodeId, is_lost: bool, rules: &LivenessRules) -> String {
        let (missing, useless) = (self.repair.progress().missing_count, self.surplus.useless_count(node, &self.repair));
        let lone = self.lone_found_count(node, rules);
        match (is_lost, missing, useless) {
            (true, ..) if lone > 0 => format!(
                "it is down, and {} that the restored backup did not know were on it alone: start it once more to save \
                 them; of the others {missing} in the whole store have no copy that is up",
                blocks(lone)
            ),
            (true, ..) if self.may_have_unknown(node) => format!(
                "it is down, and may have blocks that the restored backup did not know: start it once more to save \
                 them; of the others no datanode that is up has a copy of {missing} in the whole store"
            ),
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

/// So many found blocks are counted for people: looking at each takes a while.
const LONE_COUNT_MAX: usize = 1000;

fn blocks(count: usize) -> String {
    match count {
        1 => "1 block".to_owned(),
        LONE_COUNT_MAX => format!("{LONE_COUNT_MAX} blocks or more"),
        _ => format!("{count} blocks"),
    }
}

/// `2026-11-29 23:15:02 UTC`, for a note. Libraries for dates read clocks, which this crate imports none of.
fn utc(time: Millis) -> String {
    const DAY_S: u64 = 86_400;
    let (days, in_day) = (time.0 / 1000 / DAY_S, time.0 / 1000 % DAY_S);
    // Years are counted from March, so that a leap day is a year's last one: Hinnant's `civil_from_days`.
    let days = days + 719_468;
    let (era, of_era) = (days / 146_097, days % 146_097);
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    let year = era * 400 + year + u64::from(month <= 2);
    format!("{year}-{month:02}-{day:02} {:02}:{:02}:{:02} UTC", in_day / 3600, in_day / 60 % 60, in_day % 60)
}

/// What a drain waits for on a node that is in no pipeline any more.
fn waits_here(why: LeftBehind) -> String {
    match why {
        LeftBehind::Leased => {
            "clients may still put small files here that they began before; they are waited for up to a minute".into()
        }
        LeftBehind::Unsettled => "the last of what it has is compared with what others have".into(),
        LeftBehind::Found(count) => format!(
            "{} that the restored backup did not know are on it alone, and would go with it: save found blocks as \
             files, and release them",
            blocks(count)
        ),
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
    use crate::member::NodeUsage;
    use blocks::{Command, JobTask};
    use types::rows::MemoryRows;
    use types::{Epoch, PipelineId};

    const SOFT: Duration = Duration::from_secs(60);

    fn set_service(rows: &mut MemoryRows, leader: &mut Leader, number: u8, service: Service) {
        run(rows, leader, &Command::SetService { node: node(number), service });
    }

    /// An administrator asked for it, and the leader has begun it.
    fn drain(rows: &mut MemoryRows, leader: &mut Leader, number: u8) -> u64 {
        set_service(rows, leader, number, Service::Draining);
        begin_drain(rows, leader, number)
    }

    fn begin_drain(rows: &mut MemoryRows, leader: &mut Leader, number: u8) -> u64 {
        begin(rows, leader, JobKind::Drain, &node(number).to_string(), &JobTask::Known)
    }

    /// Why the job does not go on.
    fn waiting(leader: &Leader, id: u64) -> &str {
        match &leader.jobs.get(id).unwrap().state {
            JobState::Waiting(why) => why,
            other => panic!("{other:?}"),
        }
    }

    /// Node 3 has come to the container of node 1, which is to be emptied.
    fn add_node_3(rows: &mut MemoryRows, leader: &mut Leader) {
        let members = (1..=3).map(node).collect();
        run(rows, leader, &Command::SetMembers { pipeline: PipelineId(1), epoch: Epoch(1), members });
    }

    /// So much later that node 2 is down, and that alone.
    fn without_node_2(leader: &mut Leader) -> LivenessRules {
        let later = LivenessRules { now: NOW + rules().lost_after, ..rules() };
        for number in [1, 3] {
            leader.cluster.on_registered(later.now, node(number), NodeUsage::default());
        }
        later
    }

    /// All that the node has, which is this found block or nothing.
    fn tell_found(leader: &mut Leader, number: u8, replica: Option<crate::ReportedReplica>) {
        tell_found_at(leader, number, replica, NOW);
    }

    fn tell_found_at(leader: &mut Leader, number: u8, replica: Option<crate::ReportedReplica>, now: Duration) {
        assert!(leader.on_catalogue(node(number), true, now));
        leader.decide_replicas(node(number), replica.map(|replica| (replica, None, false)).as_slice(), false, now);
        leader.on_catalogue_complete(node(number));
        leader.check();
    }

    /// Node 3 is in no pipeline, and tells all that it has once more; what is surplus there is with others.
    #[test]
    fn a_drain_ends_when_all_that_the_node_has_is_with_others() {
        let mut rows = rows();
        let mut leader = load(&rows);
        assert_eq!(leader.drains_without_job(&rules()), []);
        set_service(&mut rows, &mut leader, 3, Service::Draining);
        assert_eq!(leader.drains_without_job(&rules()), [node(3)]);
        let id = begin_drain(&mut rows, &mut leader, 3);
        assert_eq!(leader.drains_without_job(&rules()), []);
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
        let has_drained = |leader: &Leader| leader.has_drained(leader.cluster.node(node(3)).unwrap(), &rules());
        assert!(!has_drained(&leader));
        assert_eq!((settle(&mut leader), has_drained(&leader)), (true, true));
        assert_eq!((settle(&mut leader), leader.drains_without_job(&rules())), (false, vec![]), "that is known");
        set_service(&mut rows, &mut leader, 3, Service::Serving);
        assert!(!has_drained(&leader));
        let again = drain(&mut rows, &mut leader, 3);
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
        assert_eq!(load(&rows).drains_without_job(&rules()), [node(1)]);
        let id = begin_drain(&mut rows, &mut first, 1);
        let mut next = load(&rows);
        assert_eq!(next.drains_without_job(&rules()), []);
        assert!(next.settle_job(id, &[], &rules(), SOFT).is_none());
        assert_eq!(next.jobs.get(id).unwrap().work.total_count, 1, "its container is to be copied");
        set_service(&mut rows, &mut next, 1, Service::Serving);
        assert_eq!(next.jobs.get(id).unwrap().state, JobState::Stopped("it serves again".to_owned()));
        next.check();
    }

    /// A store was restored, and node 3 has a block of after the backup, which nobody else has. Its drain had ended
    /// before the backup was made.
    #[test]
    fn a_node_with_the_only_copy_of_a_found_block_is_not_drained() {
        let mut rows = rows();
        let mut before = load(&rows);
        let ended = drain(&mut rows, &mut before, 3);
        let settle = |leader: &mut Leader, id| {
            if leader.surplus.take_ask(node(3)) {
                leader.surplus.on_catalogue_begun(node(3), NOW);
                leader.surplus.on_catalogue_complete(node(3));
            }
            let ended = leader.settle_job(id, &[], &rules(), SOFT);
            leader.check();
            ended
        };
        assert_eq!(settle(&mut before, ended), None, "it is asked for all that it has");
        assert!(settle(&mut before, ended).is_some(), "it has nothing");
        let end = blocks::JobEnd { at: Millis(1), stopped: false, note: String::new(), work: Work::default() };
        run(&mut rows, &mut before, &Command::EndJob { id: ended, end });
        blocks::restore(&mut rows, Millis(1), Millis(2)).unwrap();

        let mut leader = load(&rows);
        let has_drained = |leader: &Leader| leader.has_drained(leader.cluster.node(node(3)).unwrap(), &rules());
        let report = |leader: &mut Leader, number, len| {
            tell_found(leader, number, Some(crate::ReportedReplica { len, ..reported(7) }));
        };
        assert!(!has_drained(&leader), "who says so did not know what came after the backup");
        report(&mut leader, 3, 5);
        assert_eq!(leader.drains_without_job(&rules()), [node(3)], "it is looked at anew");
        let id = begin_drain(&mut rows, &mut leader, 3);
        assert_eq!((settle(&mut leader, id), settle(&mut leader, id)), (None, None));
        assert!(waiting(&leader, id).starts_with("1 block that the restored backup did not know are on it alone"));
        report(&mut leader, 2, 4);
        assert_eq!(settle(&mut leader, id), None, "that one is shorter");
        set_service(&mut rows, &mut leader, 1, Service::Draining);
        report(&mut leader, 1, 5);
        assert_eq!(settle(&mut leader, id), None, "that one is to go as well");
        report(&mut leader, 2, 5);
        assert!(settle(&mut leader, id).is_some() && has_drained(&leader));
        assert!(!leader.drains_without_job(&rules()).contains(&node(3)), "that is known");
    }

    /// Node 2 had a copy of the found block that node 3 has, and its disk fails; or it starts anew, and nobody knows
    /// what it brings back.
    #[test]
    fn a_copy_of_a_found_block_that_is_gone_counts_no_more() {
        let mut rows = rows();
        blocks::restore(&mut rows, Millis(1), Millis(2)).unwrap();
        let mut leader = load(&rows);
        (2..=3).for_each(|number| tell_found(&mut leader, number, Some(reported(7))));
        let lone = |leader: &Leader| leader.lone_found_count(node(3), &rules());
        assert_eq!(lone(&leader), 0);
        tell_found(&mut leader, 2, None);
        assert_eq!((lone(&leader), leader.found.replicas(block(7)).unwrap().len()), (1, 1), "it is there no more");
        tell_found(&mut leader, 2, Some(reported(7)));
        assert_eq!(lone(&leader), 0);
        let process = leader.cluster.node(node(2)).unwrap().node.clone();
        leader.on_registered(&process, crate::NodeUsage::default(), NOW).unwrap();
        assert_eq!(lone(&leader), 1, "it may have come back without the disk");
        tell_found(&mut leader, 2, Some(reported(7)));
        assert_eq!(lone(&leader), 0);
    }

    /// Node 3 was down when it was to be emptied, and comes back with a block that the restored backup did not know.
    #[test]
    fn a_node_that_was_down_is_looked_at_anew_when_it_is_back_with_found_blocks() {
        let mut rows = rows();
        blocks::restore(&mut rows, Millis(1), Millis(2)).unwrap();
        let mut leader = load(&rows);
        let at = |now| LivenessRules { now, ..rules() };
        let (away, lost) = (at(NOW + SOFT), at(NOW + 2 * SOFT));
        let tell = |leader: &mut Leader, number, replica, now| tell_found_at(leader, number, replica, now);
        let has_drained = |leader: &Leader, rules| leader.has_drained(leader.cluster.node(node(3)).unwrap(), rules);
        let id = drain(&mut rows, &mut leader, 3);
        (1..=2).for_each(|number| tell(&mut leader, number, None, away.now));
        assert!(leader.settle_job(id, &[], &away, SOFT).is_some(), "nothing more is to come of it");
        let JobState::Done(note) = &leader.jobs.get(id).unwrap().state else { panic!() };
        assert!(note.starts_with("it is down, and may have blocks that the restored backup did not know"), "{note}");
        assert_eq!((leader.drains_without_job(&away), has_drained(&leader, &away)), (vec![], true));

        let process = leader.cluster.node(node(3)).unwrap().node.clone();
        leader.on_registered(&process, crate::NodeUsage::default(), away.now).unwrap();
        assert!(!has_drained(&leader, &away), "nobody knows what it has");
        assert_eq!(leader.drains_without_job(&away), [], "it is waited for");
        tell(&mut leader, 3, Some(reported(7)), away.now);
        assert!(!has_drained(&leader, &away));
        assert_eq!(leader.drains_without_job(&away), [node(3)]);
        let again = begin_drain(&mut rows, &mut leader, 3);
        assert_eq!(leader.settle_job(again, &[], &away, SOFT), None);
        assert!(leader.surplus.take_ask(node(3)));
        tell(&mut leader, 3, Some(reported(7)), away.now);
        assert_eq!(leader.settle_job(again, &[], &away, SOFT), None);
        let why = waiting(&leader, again);
        assert!(why.starts_with("1 block that the restored backup did not know are on it alone"), "{why}");

        // It goes once more: nothing comes of looking at it again and again.
        (1..=2).for_each(|number| tell(&mut leader, number, None, lost.now));
        assert!(leader.settle_job(again, &[], &lost, SOFT).is_some());
        assert_eq!((leader.drains_without_job(&lost), has_drained(&leader, &lost)), (vec![], false));
        tell(&mut leader, 2, Some(reported(7)), lost.now);
        assert!(has_drained(&leader, &lost), "another node has it after all");
    }

    #[test]
    fn a_drain_goes_on_when_found_blocks_are_released() {
        let mut rows = rows();
        blocks::restore(&mut rows, Millis(1), Millis(2)).unwrap();
        let mut leader = load(&rows);
        set_service(&mut rows, &mut leader, 3, Service::Draining);
        leader.decide_replicas(node(3), &[(reported(7), None, false)], false, NOW);
        assert_eq!(leader.lone_found_count(node(3), &rules()), 1);
        let leave = Some(blocks::Leave { kind: blocks::LeaveKind::Maintenance, until: Millis(9) });
        run(&mut rows, &mut leader, &Command::SetLeave { node: node(3), leave });
        assert!(!leader.may_be_away(node(3), &rules()), "nor is it to go for a maintenance");
        run(&mut rows, &mut leader, &Command::ReleaseFound { at: Millis(3) });
        assert_eq!(leader.lone_found_count(node(3), &rules()), 0);
        assert!(leader.may_be_away(node(3), &rules()));
    }

    /// Node 3 has all that node 1 has, which is to be emptied; node 2 is silent, or in maintenance.
    #[test]
    fn a_drain_that_waits_for_a_node_says_for_whom_and_until_when() {
        let until = Millis(1_795_994_102_000);
        assert_eq!(
            (utc(until).as_str(), utc(Millis(0)).as_str()),
            ("2026-11-29 23:15:02 UTC", "1970-01-01 00:00:00 UTC")
        );
        assert_eq!(utc(Millis(1_709_164_800_000)), "2024-02-29 00:00:00 UTC");
        let leave = |kind| Some(Leave { kind, until });
        let cases = [
            (None, "which is silent: for 15 s it does not count as lost"),
            (leave(LeaveKind::Restart), "is expected back: until 2026-11-29 23:15:02 UTC"),
            (leave(LeaveKind::Maintenance), "to end: until 2026-11-29 23:15:02 UTC"),
        ];
        for (leave, said) in cases {
            let mut rows = rows();
            let mut leader = load(&rows);
            let id = drain(&mut rows, &mut leader, 1);
            add_node_3(&mut rows, &mut leader);
            run(&mut rows, &mut leader, &Command::Whole { containers: vec![(HOME, PipelineId(1), Epoch(2))] });
            run(&mut rows, &mut leader, &Command::Joined { pipeline: PipelineId(1), epoch: Epoch(2) });
            assert_eq!(leader.settle_job(id, &[], &rules(), SOFT), None);
            assert_eq!(leader.jobs.get(id).unwrap().state, JobState::Running, "all are up");
            run(&mut rows, &mut leader, &Command::SetLeave { node: node(2), leave });
            let later = without_node_2(&mut leader);
            assert_eq!(leader.settle_job(id, &[], &later, SOFT), None);
            let note = waiting(&leader, id);
            assert!(note.contains(said) && note.contains(&node(2).to_string()), "{note}");
        }
    }

    /// Node 3 has come for node 1, and is not whole before node 2 was compared, which is silent.
    #[test]
    fn a_drain_whose_newcomer_is_not_compared_says_for_whom_it_waits() {
        let mut rows = rows();
        let mut leader = load(&rows);
        let id = drain(&mut rows, &mut leader, 1);
        add_node_3(&mut rows, &mut leader);
        assert_eq!(leader.settle_job(id, &[], &rules(), SOFT), None);
        assert_eq!(leader.jobs.get(id).unwrap().state, JobState::Running, "all are up");
        let later = without_node_2(&mut leader);
        assert_eq!(leader.settle_job(id, &[], &later, SOFT), None);
        let note = waiting(&leader, id);
        assert!(note.contains(&node(2).to_string()), "{note}");
    }

    #[test]
    fn a_drain_that_is_stopped_lets_its_node_serve_again() {
        let mut rows = rows();
        let mut leader = load(&rows);
        let id = drain(&mut rows, &mut leader, 1);
        let command = leader.stop_job(id).unwrap().expect("its node is to serve again");
        run(&mut rows, &mut leader, &command);
        assert_eq!(leader.jobs.get(id).unwrap().state, JobState::Stopped("by an administrator".to_owned()));
        assert_eq!(leader.stop_job(id), Ok(None), "it has ended");
        leader.check();
    }
}
