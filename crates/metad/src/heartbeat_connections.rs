//! Connections over which datanodes send heartbeats.
//!
//! Promise: it has an entry for each open connection, and for each datanode whose last heartbeat came over one of them.
//! A heartbeat may still be served when its connection has ended: it leaves nothing behind.

use std::collections::HashMap;
use std::net::SocketAddr;
use types::NodeId;

#[derive(Debug, Default)]
pub(crate) struct HeartbeatConnections {
    /// Open connections, with the node whose heartbeats came over each.
    open: HashMap<SocketAddr, Option<NodeId>>,
    /// The last connection of each node: its end is the node's, that of others means nothing.
    last: HashMap<NodeId, SocketAddr>,
}

impl HeartbeatConnections {
    pub(crate) fn opened(&mut self, peer: SocketAddr) {
        // One from the same address may not have been seen to end yet.
        if let Some(Some(node)) = self.open.insert(peer, None) {
            self.leave(node, peer);
        }
    }

    /// A heartbeat of `node` that counts came from `peer`. False: the node's connection has ended meanwhile.
    pub(crate) fn beat(&mut self, peer: SocketAddr, node: NodeId) -> bool {
        let Some(of) = self.open.get_mut(&peer) else { return self.last.contains_key(&node) };
        if let Some(before) = of.replace(node).filter(|before| *before != node) {
            self.leave(before, peer);
        }
        self.last.insert(node, peer);
        self.check();
        true
    }

    /// A connection has ended. The node whose last one it was.
    pub(crate) fn hung_up(&mut self, peer: SocketAddr) -> Option<NodeId> {
        let node = self.open.remove(&peer)??;
        let was_last = self.leave(node, peer);
        self.check();
        was_last.then_some(node)
    }

    /// Each node's last connection is open, and its own.
    fn check(&self) {
        assert!(self.last.len() <= self.open.len(), "{} nodes, {} connections", self.last.len(), self.open.len());
        debug_assert!(self.last.iter().all(|(node, peer)| self.open.get(peer) == Some(&Some(*node))), "{self:?}");
    }

    /// True if `peer` was the last connection of `node`.
    fn leave(&mut self, node: NodeId, peer: SocketAddr) -> bool {
        let was_last = self.last.get(&node) == Some(&peer);
        if was_last {
            self.last.remove(&node);
        }
        was_last
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NODE: NodeId = NodeId([1; 16]);
    const OTHER: NodeId = NodeId([2; 16]);

    fn peer(port: u16) -> SocketAddr {
        ([127, 0, 0, 1], port).into()
    }

    fn heartbeat_connections(ports: impl IntoIterator<Item = u16>) -> HeartbeatConnections {
        let mut heartbeat_connections = HeartbeatConnections::default();
        ports.into_iter().for_each(|port| heartbeat_connections.opened(peer(port)));
        heartbeat_connections
    }

    #[test]
    fn the_end_of_the_last_connection_is_the_nodes() {
        let mut heartbeat_connections = heartbeat_connections([1, 2, 3]);
        assert!(heartbeat_connections.beat(peer(1), NODE) && heartbeat_connections.beat(peer(2), NODE));
        assert_eq!(heartbeat_connections.hung_up(peer(1)), None, "it has another one");
        assert_eq!(heartbeat_connections.hung_up(peer(3)), None, "a client's");
        assert_eq!(heartbeat_connections.hung_up(peer(2)), Some(NODE));
        assert!(heartbeat_connections.open.is_empty() && heartbeat_connections.last.is_empty());
    }

    /// Calls are served to their end, whether their connection lasts or not.
    #[test]
    fn a_heartbeat_that_outlives_its_connection_leaves_nothing_behind() {
        for port in 1..100 {
            let mut heartbeat_connections = heartbeat_connections([port]);
            assert!(heartbeat_connections.beat(peer(port), NODE));
            assert_eq!(heartbeat_connections.hung_up(peer(port)), Some(NODE));
            assert!(!heartbeat_connections.beat(peer(port), NODE), "the node went meanwhile");
            assert!(heartbeat_connections.open.is_empty() && heartbeat_connections.last.is_empty());
            heartbeat_connections.opened(peer(port + 1));
            assert!(
                heartbeat_connections.beat(peer(port + 1), NODE) && heartbeat_connections.beat(peer(port), NODE),
                "it is back already"
            );
            assert_eq!(heartbeat_connections.hung_up(peer(port + 1)), Some(NODE));
        }
    }

    #[test]
    fn of_two_nodes_on_a_connection_the_last_one_ends_with_it() {
        let mut heartbeat_connections = heartbeat_connections([1]);
        assert!(heartbeat_connections.beat(peer(1), NODE) && heartbeat_connections.beat(peer(1), OTHER));
        assert_eq!(heartbeat_connections.hung_up(peer(1)), Some(OTHER));
        assert!(heartbeat_connections.open.is_empty() && heartbeat_connections.last.is_empty());
    }
}
