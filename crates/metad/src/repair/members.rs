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

/// Containers of nodes that were lost, or are back, are compared: of some nobody else has a copy, and that is to be named, or taken back.
fn watch(core: &Core, watch: &mut Watch) {
    let (rules, now) = (rules(core), core.monotonic());
    core.with_cluster(|cluster, _| {
        let lost = cluster.nodes().filter(|member| rules.is_lost(Some(member))).map(|member| member.node.id);
        let lost: BTreeSet<NodeId> = lost.collect();
        let mut repair = core.repair();
        for node in lost.symmetric_difference(&watch.lost) {
            if lost.contains(node) {
                tracing::warn!(%node, "a datanode is lost: it was silent for too long");
            }
            for pipeline in cluster.pipelines_of(*node) {
                cluster.containers_of(*pipeline).for_each(|home| repair.suspect(home, now));
            }
        }
        watch.lost = lost;
    });
}

pub(super) async fn round(core: &Core, seen: &mut Watch) -> Result<(), RepairError> {
    watch(core, seen);
    for _ in 0..CHANGE_COUNT_MAX {
        let rules = rules(core);
        let Some(command) = core.with_cluster(|cluster, random| cluster.mend(&rules, random)) else { return Ok(()) };
        let went = tell(core, &command);
        if let Err(refused) = core.change_blocks(command.clone()).await? {
            tracing::debug!(%refused, "a change of members was overtaken");
            return Ok(());
        }
        after(core, &command);
        went.into_iter().for_each(|node| core.surplus().ask_all(node));
    }
    core.repair_wake.notify_one();
    Ok(())
}

/// Says what is about to change. Answers who goes.
fn tell(core: &Core, command: &Command) -> Vec<NodeId> {
    let Command::SetMembers { pipeline, members, .. } = command else {
        tracing::debug!(?command, "a pipeline is settled");
        return Vec::new();
    };
    let before = core.with_cluster(|cluster, _| cluster.pipeline(*pipeline).map(|known| known.row.members.clone()));
    let before = before.unwrap_or_default();
    let came: Vec<_> = members.iter().filter(|id| !before.contains(id)).map(ToString::to_string).collect();
    let gone: Vec<NodeId> = before.iter().copied().filter(|id| !members.contains(id)).collect();
    let went: Vec<_> = gone.iter().map(ToString::to_string).collect();
    tracing::warn!(%pipeline, ?came, ?went, "a pipeline changes its members");
    gone
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
