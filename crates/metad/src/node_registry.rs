//! Registry of datanodes that sent heartbeats lately, on every member of the group. With it, a new leader need not wait
//! for all of them.

use crate::topology_script::DEFAULT_RACK;
use blocks::{Incarnation, Node};
use io::LogLimit;
use lead::{Cluster, NodeUsage};
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use types::limits::DATANODE_COUNT_MAX;
use types::rows::RowsError;
use types::{Millis, NodeId};

#[derive(Debug, Default)]
pub(crate) struct NodeRegistry {
    nodes: Mutex<BTreeMap<NodeId, NodeEntry>>,
}

/// How often refusals of processes that would be datanodes are logged: each kind by itself, since any of them may come
/// from a stranger, as often as he likes.
#[derive(Debug, Default)]
pub(crate) struct RegistrationRefusals {
    /// Another process has the node's id.
    pub(crate) superseded: LogLimit,
    pub(crate) in_use: LogLimit,
    /// It belongs to another cluster.
    pub(crate) foreign: LogLimit,
    /// Too many newcomers.
    pub(crate) crowded: LogLimit,
}

/// The last word of a node.
#[derive(Clone, Debug)]
struct NodeEntry {
    /// As it described itself.
    node: Node,
    usage: NodeUsage,
    at: Duration,
    /// Of its program.
    version: String,
    /// By how much its clock was ahead of this server's.
    clock_ahead_ms: Option<i64>,
}

impl NodeRegistry {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<NodeId, NodeEntry>> {
        self.nodes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn registered(&self, node: Node, usage: NodeUsage, version: String, at: Duration) {
        let mut nodes = self.lock();
        if nodes.len() < DATANODE_COUNT_MAX || nodes.contains_key(&node.id) {
            nodes.insert(node.id, NodeEntry { node, usage, at, version, clock_ahead_ms: None });
        }
        assert!(nodes.len() <= DATANODE_COUNT_MAX, "{} nodes are known", nodes.len());
    }

    /// Of the process that is the node, as the leader knows.
    pub(crate) fn beat(&self, node: NodeId, usage: NodeUsage, at: Duration) {
        if let Some(word) = self.lock().get_mut(&node) {
            (word.usage, word.at) = (usage, at);
        }
    }

    /// What its clock was as it sent a message, and this server's as that came. How long it was under way nobody knows.
    pub(crate) fn told_time(&self, node: NodeId, clock: Millis, here: Millis) {
        if let Some(word) = self.lock().get_mut(&node) {
            word.clock_ahead_ms = Some((clock.0 as i64).saturating_sub(here.0 as i64));
        }
    }

    /// By how much clocks of nodes are ahead of this server's, of those that said so.
    pub(crate) fn clocks_ahead_ms(&self) -> BTreeMap<NodeId, i64> {
        self.lock().iter().filter_map(|(node, word)| Some((*node, word.clock_ahead_ms?))).collect()
    }

    /// False: this process has not described itself to this server.
    pub(crate) fn beat_of(&self, node: NodeId, incarnation: Incarnation, usage: NodeUsage, at: Duration) -> bool {
        let mut nodes = self.lock();
        let word = nodes.get_mut(&node).filter(|word| word.node.incarnation == incarnation);
        word.map(|word| (word.usage, word.at) = (usage, at)).is_some()
    }

    /// Versions of the nodes' programs.
    pub(crate) fn versions(&self) -> BTreeMap<NodeId, String> {
        self.lock().iter().map(|(node, word)| (*node, word.version.clone())).collect()
    }

    /// Enters the live nodes into a new leader's picture. A node whose description differs from its row is left out,
    /// and registers with its next heartbeat. `scripted`: the rack of a node that names none comes from the script.
    /// One whose certificates were revoked since is not taken for live.
    pub(crate) fn restore_into(
        &self,
        cluster: &mut Cluster,
        scripted: bool,
        is_believed: &dyn Fn(NodeId) -> Result<bool, RowsError>,
    ) -> Result<(), RowsError> {
        for NodeEntry { node, usage, at, .. } in self.lock().values() {
            let same = |known: &Node| {
                let rack = if scripted && node.rack == DEFAULT_RACK { &known.rack } else { &node.rack };
                // Which address it calls from may differ from server to server.
                Node { rack: rack.clone(), from: known.from.clone(), ..node.clone() } == *known
            };
            if cluster.node(node.id).is_some_and(|member| same(&member.node)) && is_believed(node.id)? {
                cluster.on_registered(*at, node.id, *usage);
            }
        }
        Ok(())
    }
}
