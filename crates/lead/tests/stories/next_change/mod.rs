//! One step of a round of membership changes.

use blocks::Command;
use lead::{Cluster, LivenessRules, MembershipRound, MembershipStep, Repair, Surplus};
use types::Random;

/// The next change that a round of membership changes proposes, if no copy is under way.
pub(crate) fn next_change(cluster: &Cluster, rules: &LivenessRules, random: &mut dyn Random) -> Option<Command> {
    let (repair, surplus) = (Repair::default(), Surplus::default());
    let mut round = MembershipRound::begin(cluster, &repair, &surplus, rules);
    loop {
        match round.step(cluster, &repair, rules, random) {
            MembershipStep::Propose(command) => return Some(command),
            MembershipStep::Again => {}
            MembershipStep::Done(_) => return None,
        }
    }
}
