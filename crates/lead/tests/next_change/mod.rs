//! One step of a round of mending.

use blocks::Command;
use lead::{Cluster, MendRules, MendStep, Mending, Repair};
use types::Random;

/// The next change that a round of mending proposes, if no copy is under way.
pub(crate) fn next_change(cluster: &Cluster, rules: &MendRules, random: &mut dyn Random) -> Option<Command> {
    let repair = Repair::default();
    let mut mending = Mending::begin(cluster, &repair, rules);
    loop {
        match mending.step(cluster, &repair, rules, random) {
            MendStep::Propose(command) => return Some(command),
            MendStep::Again => {}
            MendStep::Done(_) => return None,
        }
    }
}
