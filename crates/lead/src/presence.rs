//! Presence of a datanode: live, away or dead.

use crate::leader::Leader;
use crate::liveness::LivenessRules;
use crate::member::Member;

/// Of a datanode, for monitors: whether somebody has to see to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presence {
    Live,
    /// It is not up, and nobody misses it: it is on leave, or was drained.
    Away,
    Dead,
}

impl Leader {
    pub fn presence(&self, member: &Member, rules: &LivenessRules) -> Presence {
        match () {
            () if member.is_up(rules.now) => Presence::Live,
            () if member.leave.is_some() || self.has_drained(member, rules) => Presence::Away,
            () => Presence::Dead,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::leader::tests::{leader, node, rows, run};
    use crate::leaves::tests::{at_later, hear_all_but, set};
    use blocks::{Command, LeaveKind};

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
}
