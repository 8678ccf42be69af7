//! Times that were given with an end: a datanode's leave, and a hold on repair. The leader ends what is overdue.

use crate::leader::Leader;
use blocks::Command;
use types::Millis;

impl Leader {
    /// What is over by the wall clock: the command that ends it, one at a time. To be asked again after each.
    pub fn overdue(&self, wall: Millis) -> Option<Command> {
        let is_held_too_long = self.cluster.repair_hold.is_some_and(|hold| hold.until <= wall);
        if is_held_too_long {
            return Some(Command::HoldRepair { hold: None });
        }
        let mut members = self.cluster.nodes();
        let over = members.find(|member| member.leave.is_some_and(|leave| leave.until <= wall))?;
        Some(Command::SetLeave { node: over.node.id, leave: None })
    }

    /// Nodes that an administrator works on.
    pub fn maintenance_count(&self) -> usize {
        self.cluster.nodes().filter(|member| member.is_in_maintenance()).count()
    }

    /// Nodes that ended in order, and are to be back soon.
    pub fn restarting_count(&self) -> usize {
        self.cluster.nodes().filter(|member| member.has_said_goodbye()).count()
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::first_choice::First;
    use crate::leader::tests::{HOME, NOW, leader, load, node, rows, rules, run};
    use crate::liveness::{LivenessRules, Turn};
    use crate::membership::next_change;
    use crate::{Claim, Heartbeat, Leader, NodeUsage};
    use blocks::{Leave, LeaveKind, Node, RepairHold};
    use std::time::Duration;
    use types::rows::MemoryRows;
    use types::{Epoch, PipelineId, StorageUsage};

    const HOUR: Millis = Millis(3_600_000);
    const LATER: Duration = Duration::from_secs(1000);

    pub(crate) fn at_later() -> LivenessRules {
        LivenessRules { now: LATER, ..rules() }
    }

    pub(crate) fn set(rows: &mut MemoryRows, leader: &mut Leader, number: u8, kind: Option<LeaveKind>) {
        let leave = kind.map(|kind| Leave { kind, until: HOUR });
        run(rows, leader, &Command::SetLeave { node: node(number), leave });
    }

    /// All nodes but these are heard at [`LATER`], with room for anything.
    pub(crate) fn hear_all_but(leader: &mut Leader, silent: &[u8]) {
        let storage = StorageUsage { free_len: 1 << 40, ..StorageUsage::default() };
        for number in (1..=3).filter(|number| !silent.contains(number)) {
            leader.cluster.on_registered(LATER, node(number), NodeUsage { storage, transfer_count: 0 });
        }
    }

    fn next(leader: &Leader) -> Option<Command> {
        next_change(&leader.cluster, &at_later(), &mut First)
    }

    fn members(epoch: u64, numbers: &[u8]) -> Option<Command> {
        let members = numbers.iter().map(|number| node(*number)).collect();
        Some(Command::SetMembers { pipeline: PipelineId(1), epoch: Epoch(epoch), members })
    }

    /// Nodes 1 and 2 hold a container. Node 2 is away for longer than any silence may last: nothing is copied, also
    /// under the next leader. When its time is over and it is not back, node 3 takes its place.
    #[test]
    fn a_node_on_leave_is_lost_only_when_its_time_is_over() {
        for kind in [LeaveKind::Maintenance, LeaveKind::Restart] {
            let (mut rows, mut first) = (rows(), leader());
            set(&mut rows, &mut first, 2, Some(kind));
            let mut leader = load(&rows);
            hear_all_but(&mut leader, &[2]);
            assert_eq!((next(&leader), leader.watch(at_later())), (None, None), "{kind:?}");
            assert_eq!(leader.overdue(Millis(HOUR.0 - 1)), None);
            let end = leader.overdue(HOUR).expect("its time is over");
            run(&mut rows, &mut leader, &end);
            assert_eq!(leader.watch(at_later()), Some((node(2), Turn::Silent)));
            assert_eq!(next(&leader), members(1, &[1, 3]), "{kind:?}");
        }
    }

    #[test]
    fn a_registration_ends_a_restart_and_no_maintenance() {
        for (kind, left) in [(LeaveKind::Restart, None), (LeaveKind::Maintenance, Some(LeaveKind::Maintenance))] {
            let (mut rows, mut leader) = (rows(), leader());
            set(&mut rows, &mut leader, 2, Some(kind));
            run(&mut rows, &mut leader, &Command::Register(Node::example(2, "/r")));
            for leader in [leader, load(&rows)] {
                let leave = leader.cluster.node(node(2)).unwrap().leave;
                assert_eq!(leave.map(|leave| leave.kind), left);
            }
        }
    }

    /// The goodbye of the process before waited for the log, and is applied behind the registration of the one that is
    /// there now. That one sends heartbeats, and counts as away until it has registered again.
    #[test]
    fn a_goodbye_that_came_late_is_put_right_by_the_next_heartbeat() {
        let heartbeats = [Heartbeat::default(), Heartbeat { is_diskless: true, ..Heartbeat::default() }];
        for heartbeat in heartbeats {
            let (mut rows, mut leader) = (rows(), leader());
            let next = leader.cluster.node(node(2)).unwrap().node.clone();
            run(&mut rows, &mut leader, &Command::Register(next.clone()));
            set(&mut rows, &mut leader, 2, Some(LeaveKind::Restart));
            assert!(!leader.cluster.node(node(2)).unwrap().is_up(NOW));
            assert!(leader.on_heartbeat(node(2), &heartbeat, NOW).is_none(), "it is to register");
            assert_eq!(leader.cluster.claim(NOW, NOW, &next), Claim::Takes, "its row is written anew");
            run(&mut rows, &mut leader, &Command::Register(next.clone()));
            leader.on_registered(&next, NodeUsage::default(), NOW).expect("nobody else is let in");
            assert!(leader.on_heartbeat(node(2), &heartbeat, NOW).is_some());
            assert!(leader.cluster.node(node(2)).unwrap().is_up(NOW));
        }
    }

    /// Its goodbye must neither shorten nor lengthen what an administrator said.
    #[test]
    fn a_node_in_maintenance_that_says_goodbye_stays_in_maintenance() {
        let (mut rows, mut leader) = (rows(), leader());
        set(&mut rows, &mut leader, 2, Some(LeaveKind::Maintenance));
        let goodbye =
            Command::SetLeave { node: node(2), leave: Some(Leave { kind: LeaveKind::Restart, until: Millis(1) }) };
        let answer = blocks::apply(&mut rows, &goodbye).unwrap();
        assert!(answer.is_err());
        leader.on_applied(&goodbye, &answer, rules());
        assert!(leader.cluster.node(node(2)).unwrap().is_in_maintenance());
        leader.check();
    }

    /// Both nodes that have a container are in maintenance: a third one gets it first, and stays until that is over.
    #[test]
    fn one_node_that_stays_has_everything() {
        let (mut rows, mut leader) = (rows(), leader());
        hear_all_but(&mut leader, &[]);
        set(&mut rows, &mut leader, 1, Some(LeaveKind::Maintenance));
        assert!(next(&leader).is_none() && leader.cluster.is_covered(node(1), &at_later()));
        set(&mut rows, &mut leader, 2, Some(LeaveKind::Maintenance));
        let cover = next(&leader);
        assert_eq!(cover, members(1, &[1, 2, 3]));
        run(&mut rows, &mut leader, &cover.unwrap());
        assert!(!leader.cluster.is_covered(node(1), &at_later()), "it has nothing yet");
        let whole = Command::Whole { containers: vec![(HOME, PipelineId(1), Epoch(2))] };
        run(&mut rows, &mut leader, &whole);
        run(&mut rows, &mut leader, &Command::Joined { pipeline: PipelineId(1), epoch: Epoch(2) });
        assert!(leader.cluster.is_covered(node(1), &at_later()) && next(&leader).is_none());
        (1..=2).for_each(|number| set(&mut rows, &mut leader, number, None));
        assert!(matches!(next(&leader), Some(Command::SetMembers { members, .. }) if members.len() == 2));
    }

    /// A writer's chain has the nodes that are in maintenance. The third has every complete block, and nothing of the
    /// one that is being written: were both to go, what was acknowledged of it would be with nobody who is up.
    #[test]
    fn a_block_that_is_being_written_is_on_its_chain_alone() {
        let (mut rows, mut leader) = (rows(), leader());
        hear_all_but(&mut leader, &[]);
        (1..=2).for_each(|number| set(&mut rows, &mut leader, number, Some(LeaveKind::Maintenance)));
        run(&mut rows, &mut leader, &members(1, &[1, 2, 3]).unwrap());
        leader.cluster.on_copied(HOME, Epoch(2));
        assert!(leader.cluster.has_complete(HOME, node(3)));
        (1..=2).for_each(|number| assert!(!leader.cluster.is_covered(node(number), &at_later()), "{number}"));
        run(&mut rows, &mut leader, &Command::Whole { containers: vec![(HOME, PipelineId(1), Epoch(2))] });
        (1..=2).for_each(|number| assert!(leader.cluster.is_covered(node(number), &at_later()), "{number}"));
    }

    /// Nodes 1 and 2 are off as their maintenance ends, and node 3 came for its time. It stays until they are back, or
    /// lost and replaced: nobody else can be read from.
    #[test]
    fn a_node_that_came_for_a_maintenance_stays_while_it_alone_is_up() {
        let (mut rows, mut leader) = (rows(), leader());
        run(&mut rows, &mut leader, &members(1, &[1, 2, 3]).unwrap());
        run(&mut rows, &mut leader, &Command::Whole { containers: vec![(HOME, PipelineId(1), Epoch(2))] });
        run(&mut rows, &mut leader, &Command::Joined { pipeline: PipelineId(1), epoch: Epoch(2) });
        hear_all_but(&mut leader, &[1, 2]);
        let patient = LivenessRules { lost_after: 2 * LATER, ..at_later() };
        assert_eq!(next_change(&leader.cluster, &patient, &mut First), None, "they are silent, and not lost");
        assert_eq!(next(&leader), members(2, &[2, 3]), "they are lost");
        hear_all_but(&mut leader, &[1]);
        assert_eq!(next_change(&leader.cluster, &patient, &mut First), None, "one is back");
        hear_all_but(&mut leader, &[]);
        leader.cluster.on_disconnected(node(1));
        assert_eq!(next_change(&leader.cluster, &patient, &mut First), None, "one may have stopped just now");
        hear_all_but(&mut leader, &[]);
        assert_eq!(next_change(&leader.cluster, &patient, &mut First), members(2, &[1, 2]), "both are back");
    }

    /// The same where the third member is to be emptied.
    #[test]
    fn a_draining_node_stays_while_others_are_silent() {
        let (mut rows, mut leader) = (rows(), leader());
        run(&mut rows, &mut leader, &members(1, &[1, 2, 3]).unwrap());
        run(&mut rows, &mut leader, &Command::Whole { containers: vec![(HOME, PipelineId(1), Epoch(2))] });
        run(&mut rows, &mut leader, &Command::Joined { pipeline: PipelineId(1), epoch: Epoch(2) });
        run(&mut rows, &mut leader, &Command::SetService { node: node(1), service: blocks::Service::Draining });
        hear_all_but(&mut leader, &[2]);
        let patient = LivenessRules { lost_after: 2 * LATER, ..at_later() };
        assert_eq!(next_change(&leader.cluster, &patient, &mut First), None);
        hear_all_but(&mut leader, &[]);
        assert_eq!(next_change(&leader.cluster, &patient, &mut First), members(2, &[2, 3]));
    }

    /// Readers go elsewhere while they can.
    #[test]
    fn a_node_in_maintenance_is_read_last_and_written_to_by_nobody() {
        let (mut rows, mut leader) = (rows(), leader());
        set(&mut rows, &mut leader, 1, Some(LeaveKind::Maintenance));
        let order: Vec<_> = leader.cluster.readers_order(HOME, true, Some("node1"), NOW, &mut First);
        assert_eq!(order.iter().map(|member| member.node.id).collect::<Vec<_>>(), [node(2), node(1)]);
        let more = leader.cluster.additional(&[], 3, &crate::Ask::default(), NOW, &mut First);
        assert!(more.len() == 2 && !more.contains(&node(1)));
    }

    #[test]
    fn nothing_changes_while_repair_is_held() {
        let (mut rows, mut leader) = (rows(), leader());
        hear_all_but(&mut leader, &[2]);
        let hold = Command::HoldRepair { hold: Some(RepairHold { until: HOUR }) };
        run(&mut rows, &mut leader, &hold);
        let mut held = load(&rows);
        hear_all_but(&mut held, &[2]);
        assert_eq!((next(&leader), next(&held)), (None, None));
        assert_eq!(leader.overdue(Millis(HOUR.0 - 1)), None);
        let end = leader.overdue(HOUR).unwrap();
        run(&mut rows, &mut leader, &end);
        assert_eq!(next(&leader), members(1, &[1, 3]));
    }
}
