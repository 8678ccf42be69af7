//! Pipelines get the members that `Cluster::mend` wants, one change of the log after the other.

use super::{RepairError, rules};
use crate::core::Core;
use blocks::Command;

/// Changes a round. What is left comes with the next.
const CHANGE_COUNT_MAX: usize = 50;

pub(super) async fn round(core: &Core) -> Result<(), RepairError> {
    for _ in 0..CHANGE_COUNT_MAX {
        let rules = rules(core);
        let Some(command) = core.with_cluster(|cluster, random| cluster.mend(&rules, random)) else { return Ok(()) };
        tell(core, &command);
        if let Err(refused) = core.change_blocks(command.clone()).await? {
            tracing::debug!(%refused, "a change of members was overtaken");
            return Ok(());
        }
        after(core, &command);
    }
    core.repair_wake.notify_one();
    Ok(())
}

fn tell(core: &Core, command: &Command) {
    let Command::SetMembers { pipeline, members, .. } = command else {
        tracing::debug!(?command, "a pipeline is settled");
        return;
    };
    let before = core.with_cluster(|cluster, _| cluster.pipeline(*pipeline).map(|known| known.row.members.clone()));
    let before = before.unwrap_or_default();
    let came: Vec<_> = members.iter().filter(|id| !before.contains(id)).map(ToString::to_string).collect();
    let went: Vec<_> = before.iter().filter(|id| !members.contains(id)).map(ToString::to_string).collect();
    tracing::warn!(%pipeline, ?came, ?went, "a pipeline changes its members");
}

/// What the containers hold has to be compared with the new members; copies to those who went are off.
fn after(core: &Core, command: &Command) {
    let Command::SetMembers { pipeline, .. } = command else { return };
    let now = core.monotonic();
    core.with_cluster(|cluster, _| {
        let mut repair = core.repair();
        for home in cluster.containers_of(*pipeline) {
            repair.suspect(home, now);
        }
        repair.retain(now, |lack| cluster.is_member(lack.home, lack.node));
    });
}
