//! Nodes that send heartbeats but do not answer calls.
//!
//! Promise: such a node is skipped for [`SKIPPED_FOR`] after each call that it did not answer, so it does not delay
//! calls to responsive nodes.

use std::collections::BTreeMap;
use std::time::Duration;
use types::NodeId;

/// A disk or a port of such a node hangs; that does not pass within seconds.
const SKIPPED_FOR: Duration = Duration::from_secs(30);

#[derive(Debug, Default)]
pub struct Unresponsive {
    until: BTreeMap<NodeId, Duration>,
}

impl Unresponsive {
    /// `node` did not answer a call.
    pub fn insert(&mut self, node: NodeId, now: Duration) {
        self.until.insert(node, now + SKIPPED_FOR);
    }

    /// It answers, or it has started anew.
    pub fn remove(&mut self, node: NodeId) {
        self.until.remove(&node);
    }

    pub fn contains(&self, node: NodeId, now: Duration) -> bool {
        self.until.get(&node).is_some_and(|until| now < *until)
    }

    pub(crate) fn nodes(&self) -> impl Iterator<Item = &NodeId> {
        self.until.keys()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_is_skipped_for_a_while_or_until_it_answers() {
        let (node, at) = (NodeId([1; 16]), Duration::from_secs);
        let mut nodes = Unresponsive::default();
        assert!(!nodes.contains(node, at(1)));
        nodes.insert(node, at(1));
        assert!(nodes.contains(node, at(30)) && !nodes.contains(node, at(31)));
        nodes.remove(node);
        assert!(!nodes.contains(node, at(2)));
    }
}
