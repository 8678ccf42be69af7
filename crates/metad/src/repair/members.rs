//! Pipelines get the members that `Cluster::mend` wants, one change of the log after the other.

use super::{RepairError, rules};
use crate::core::Core;
use blocks::Command;
use std::collections::BTreeSet;
use types::NodeId;

/// Changes a round. What is left comes with the next.
const CHANGE_COUNT_MAX: usize = 50;

/// Who was lost when this was looked at last.
#[derive(Debug, Default)]
pub(super) struct Watch {
    lost: BTreeSet<NodeId>,
}

pub(super) async fn round(core: &Core, seen: &mut Watch) -> Result<(), RepairError> {
    for node in core.heal(|healing| healing.watch(&mut seen.lost)) {
        tracing::warn!(%node, "a datanode is lost: it was silent for too long");
    }
    for _ in 0..CHANGE_COUNT_MAX {
        let rules = rules(core);
        let Some(command) = core.with_cluster(|cluster, random| cluster.mend(&rules, random)) else { return Ok(()) };
        let before = tell(core, &command);
        if let Err(refused) = core.change_blocks(command.clone()).await? {
            tracing::debug!(%refused, "a change of members was overtaken");
            return Ok(());
        }
        core.heal(|healing| healing.on_members(&command, &before));
    }
    core.repair_wake.notify_one();
    Ok(())
}

/// Says what is about to change. Answers who is a member now.
fn tell(core: &Core, command: &Command) -> Vec<NodeId> {
    let Command::SetMembers { pipeline, members, .. } = command else {
        tracing::debug!(?command, "a pipeline is settled");
        return Vec::new();
    };
    let before = core.with_cluster(|cluster, _| cluster.pipeline(*pipeline).map(|known| known.row.members.clone()));
    let before = before.unwrap_or_default();
    let came: Vec<_> = members.iter().filter(|id| !before.contains(id)).map(ToString::to_string).collect();
    let went: Vec<_> = before.iter().filter(|id| !members.contains(id)).map(ToString::to_string).collect();
    tracing::warn!(%pipeline, ?came, ?went, "a pipeline changes its members");
    before
}
