//! Liveness rules of this moment, and the nodes that repair may call.

use crate::core::Core;
use lead::{LivenessRules, RepairContext};
use std::time::Duration;
use types::NodeId;

/// For one datanode to answer a question about a page of a container.
pub(super) const ANSWER_MAX: Duration = Duration::from_secs(10);

pub(crate) fn rules(core: &Core) -> LivenessRules {
    LivenessRules {
        now: core.monotonic(),
        receiving_since: core.receiving_since(),
        lost_after: core.config.lost_after(),
        usual_replication: core.config.replication,
    }
}

/// Nodes and where they are asked, without those that are lost.
pub(crate) fn askable(core: &Core, nodes: impl IntoIterator<Item = NodeId>) -> Vec<(NodeId, String)> {
    let rules = rules(core);
    core.with_cluster(|cluster, _| {
        let here = cluster.askable(&rules, nodes).into_iter().filter_map(|id| cluster.node(id));
        here.map(|member| (member.node.id, member.node.ipc_addr())).collect()
    })
}

impl Core {
    /// What decisions about copies rest on, as of now.
    pub(crate) fn with_repair_context<T>(&self, run: impl FnOnce(&mut RepairContext<'_>) -> T) -> T {
        let rules = rules(self);
        self.with_leader(|leader, _| run(&mut leader.repair_context(rules)))
    }
}
