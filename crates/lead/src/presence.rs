//! Presence of a datanode: live, away or dead.

use crate::leader::Leader;
use crate::liveness::LivenessRules;
use crate::member::Member;

/// Of a datanode, for monitors: whether somebody has to see to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presence {
    Live,
    /// It is not up, and nobody misses it: it is on leave, and comes back with what it has, or nothing of it is needed,
    /// as it was drained.
    Away,
    Dead,
}

impl Presence {
    /// As monitors read it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Live => "live",
            Self::Away => "away",
            Self::Dead => "dead",
        }
    }
}

impl Leader {
    pub fn presence(&self, member: &Member, rules: &LivenessRules) -> Presence {
        // Of one that is lost others copy what it has, whatever was announced.
        let is_expected = member.leave.is_some() && !rules.is_lost(Some(member));
        match () {
            () if member.is_up(rules.now) => Presence::Live,
            () if is_expected || self.has_drained(member, rules) => Presence::Away,
            () => Presence::Dead,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::NodeUsage;
    use crate::leader::tests::{leader, node, rows, run};
    use crate::leaves::tests::{at_later, hear_all_but, set};
    use blocks::{Command, LeaveKind};
    use std::time::Duration;

    /// Who switched it off knows that: no alarm is for those.
    #[test]
    fn only_who_is_missed_is_dead() {
        let (mut rows, mut leader) = (rows(), leader());
        hear_all_but(&mut leader, &[1, 3]);
        let presence = |leader: &Leader, number| {
            let member = leader.cluster.node(node(number)).unwrap();
            leader.presence(member, &at_later())
        };
        assert_eq!([1, 2, 3].map(|number| presence(&leader, number)), [Presence::Dead, Presence::Live, Presence::Dead]);
        set(&mut rows, &mut leader, 1, Some(LeaveKind::Maintenance));
        set(&mut rows, &mut leader, 2, Some(LeaveKind::Maintenance));
        run(&mut rows, &mut leader, &Command::SetService { node: node(3), service: blocks::Service::Draining });
        assert!(leader.cluster.pipelines_of(node(3)).is_empty(), "nothing of it is needed");
        assert_eq!([1, 2, 3].map(|number| presence(&leader, number)), [Presence::Away, Presence::Live, Presence::Away]);
        set(&mut rows, &mut leader, 2, None);
        set(&mut rows, &mut leader, 2, Some(LeaveKind::Restart));
        assert_eq!(presence(&leader, 2), Presence::Away, "its last heartbeat came a moment ago");
        run(&mut rows, &mut leader, &Command::SetService { node: node(1), service: blocks::Service::Draining });
        set(&mut rows, &mut leader, 1, None);
        assert_eq!(presence(&leader, 1), Presence::Dead, "it holds what others have not copied");
    }

    /// Nodes 1 and 2 are in maintenance, and 3 is drained. They lose all their disks, or their certificates are
    /// revoked: 1 and 2 are lost, and their leaves excuse nothing. Of 3 nothing was needed before.
    #[test]
    fn a_leave_does_not_excuse_a_loss() {
        let ways = [
            |leader: &mut Leader, number| assert!(leader.cluster.on_diskless(node(number), NodeUsage::default())),
            |leader: &mut Leader, number| leader.cluster.on_revoked(node(number)),
        ];
        for lose in ways {
            let (mut rows, mut leader) = (rows(), leader());
            hear_all_but(&mut leader, &[]);
            (1..=2).for_each(|number| set(&mut rows, &mut leader, number, Some(LeaveKind::Maintenance)));
            run(&mut rows, &mut leader, &Command::SetService { node: node(3), service: blocks::Service::Draining });
            let later = LivenessRules { now: at_later().now + Duration::from_secs(16), ..at_later() };
            let presence = |leader: &Leader| {
                [1, 2, 3].map(|number| leader.presence(leader.cluster.node(node(number)).unwrap(), &later))
            };
            assert_eq!(presence(&leader), [Presence::Away; 3], "they are off for 16 s");
            (1..=3).for_each(|number| lose(&mut leader, number));
            assert_eq!(presence(&leader), [Presence::Dead, Presence::Dead, Presence::Away]);
        }
    }
}
