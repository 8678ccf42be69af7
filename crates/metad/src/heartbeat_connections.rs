//! Connections over which datanodes send heartbeats.
//!
//! Promise: it has an entry for each open connection, and for each datanode whose last heartbeat came over one of them.
//! A heartbeat may still be served when its connection has ended: it leaves nothing behind.

use std::collections::HashMap;
use std::net::SocketAddr;
use types::NodeId;

#[derive(Debug, Default)]
pub(crate) struct HeartbeatConnections {
    /// Peers with open connections.
    open: HashMap<SocketAddr, Peer>,
    /// The last connection of each node: its end is the node's, that of others means nothing.
    last: HashMap<NodeId, SocketAddr>,
}

#[derive(Debug, Default)]
struct Peer {
    /// Connections that were opened and not seen to end: a new one may come from the same port before that. The last
    /// one is meant by whatever comes.
    open_count: u32,
    /// Whose heartbeats came over the last one.
    node: Option<NodeId>,
}

impl HeartbeatConnections {
    pub(crate) fn opened(&mut self, peer: SocketAddr) {
        let of = self.open.entry(peer).or_default();
        of.open_count += 1;
        if let Some(node) = of.node.take() {
            self.leave(node, peer);
        }
    }

    /// The node whose heartbeats come over this connection.
    pub(crate) fn node_of(&self, peer: SocketAddr) -> Option<NodeId> {
        self.open.get(&peer)?.node
    }

    /// A heartbeat of `node` that counts came from `peer`. False: the node's connection has ended meanwhile.
    pub(crate) fn beat(&mut self, peer: SocketAddr, node: NodeId) -> bool {
        let Some(of) = self.open.get_mut(&peer) else { return self.last.contains_key(&node) };
        if let Some(before) = of.node.replace(node).filter(|before| *before != node) {
            self.leave(before, peer);
        }
        self.last.insert(node, peer);
        self.check();
        true
    }

    /// A connection has ended. The node whose last one it was.
    pub(crate) fn hung_up(&mut self, peer: SocketAddr) -> Option<NodeId> {
        let of = self.open.get_mut(&peer)?;
        assert!(of.open_count > 0, "{peer} hangs up a connection that was not opened");
        of.open_count -= 1;
        if of.open_count > 0 {
            return None; // an earlier one: what came since is the new one's
        }
        let node = self.open.remove(&peer)?.node?;
        let was_last = self.leave(node, peer);
        self.check();
        was_last.then_some(node)
    }

    /// Each node's last connection is open, and its own.
    fn check(&self) {
        assert!(self.last.len() <= self.open.len(), "{} nodes, {} connections", self.last.len(), self.open.len());
        debug_assert!(self.last.iter().all(|(node, peer)| self.node_of(*peer) == Some(*node)), "{self:?}");
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

    /// The end of a connection may be seen when the same process has opened the next one from the same port.
    #[test]
    fn the_end_of_an_earlier_connection_of_the_same_port_is_not_the_new_ones() {
        let mut heartbeat_connections = heartbeat_connections([1]);
        assert!(heartbeat_connections.beat(peer(1), NODE));
        heartbeat_connections.opened(peer(1));
        assert_eq!(heartbeat_connections.node_of(peer(1)), None, "a new connection is nobody's yet");
        assert!(heartbeat_connections.beat(peer(1), NODE));
        assert_eq!(heartbeat_connections.hung_up(peer(1)), None, "the earlier one");
        assert_eq!(heartbeat_connections.node_of(peer(1)), Some(NODE));
        assert_eq!(heartbeat_connections.hung_up(peer(1)), Some(NODE));
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
