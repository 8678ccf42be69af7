//! Open connections to this server, with the caller of each.
//!
//! A connection has a [`Principal`] from the moment it is accepted to its end; nothing else is kept by connection. A
//! datanode's process registers over a connection. From then on the connection is that process's, and no other node
//! registers over it. A call may still be served when its connection has ended: it changes nothing here then.

use crate::principal::{Acceptance, Principal, RegisteredNode, User};
use rpc::Identity;
use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use types::{Millis, NodeId};

#[derive(Debug, Default)]
pub(crate) struct Connections {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// By the peer's address.
    open: HashMap<SocketAddr, Connection>,
    /// The connection over which each node registered last: its end is the node's, that of others means nothing.
    last: HashMap<NodeId, SocketAddr>,
}

#[derive(Debug, Default)]
struct Connection {
    /// Connections that were opened and not seen to end: a new one may come from the same port before that. The last
    /// one is meant by whatever comes.
    open_count: u32,
    principal: Principal,
    /// What the certificate says of when it was made that the node showed which registered over it.
    issued_at: Option<Millis>,
}

impl Connections {
    fn lock(&self) -> MutexGuard<'_, State> {
        // Each change is made whole, or the assert that fails ends the call alone.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn opened(&self, peer: SocketAddr) {
        let mut state = self.lock();
        let connection = state.open.entry(peer).or_default();
        connection.open_count += 1;
        connection.issued_at = None;
        if let Some(node) = std::mem::take(&mut connection.principal).node {
            state.leave(node.id, peer);
        }
    }

    /// A connection has ended. Answers the node that registered last over it.
    pub(crate) fn closed(&self, peer: SocketAddr) -> Option<NodeId> {
        let mut state = self.lock();
        let connection = state.open.get_mut(&peer)?;
        assert!(connection.open_count > 0, "the end of a connection of {peer} that was not opened");
        connection.open_count -= 1;
        if connection.open_count > 0 {
            return None; // an earlier one: what came since is the new one's
        }
        let node = state.open.remove(&peer)?.principal.node?.id;
        let was_last = state.leave(node, peer);
        state.check();
        was_last.then_some(node)
    }

    pub(crate) fn user(&self, peer: SocketAddr, identity: &Arc<Identity>, now: Duration) -> Option<Arc<User>> {
        self.lock().open.get(&peer)?.principal.user(identity, now)
    }

    pub(crate) fn set_user(&self, peer: SocketAddr, identity: &Arc<Identity>, user: &Arc<User>, now: Duration) {
        if let Some(connection) = self.lock().open.get_mut(&peer) {
            connection.principal.set_user(identity, user, now);
        }
    }

    /// Groups are to be read again.
    pub(crate) fn forget_users(&self) {
        self.lock().open.values_mut().for_each(|connection| connection.principal.forget_user());
    }

    /// The process that registered over this connection.
    pub(crate) fn node(&self, peer: SocketAddr) -> Option<RegisteredNode> {
        self.lock().open.get(&peer)?.principal.node
    }

    /// `node` has registered over this connection, by a certificate that was made then if it has one. False: it has
    /// ended meanwhile, and so has the node's last one.
    pub(crate) fn bind(&self, peer: SocketAddr, node: RegisteredNode, issued_at: Option<Millis>) -> bool {
        let mut state = self.lock();
        let Some(connection) = state.open.get_mut(&peer) else { return state.last.contains_key(&node.id) };
        connection.issued_at = issued_at;
        let before = connection.principal.node.replace(node);
        if let Some(before) = before.filter(|before| before.id != node.id) {
            state.leave(before.id, peer); // of two that registered at the same time
        }
        state.last.insert(node.id, peer);
        state.check();
        true
    }

    /// When the certificate was made that `node` showed over the connection over which it registered last. `None`: that
    /// has ended, or it showed none.
    pub(crate) fn issued_at(&self, node: NodeId) -> Option<Millis> {
        let state = self.lock();
        state.open.get(state.last.get(&node)?)?.issued_at
    }

    /// Whether the connection over which `node` registered last is open.
    pub(crate) fn has(&self, node: NodeId) -> bool {
        self.lock().last.contains_key(&node)
    }

    pub(crate) fn acceptance(&self, peer: SocketAddr) -> Option<Acceptance> {
        self.lock().open.get(&peer)?.principal.member
    }

    pub(crate) fn accept(&self, peer: SocketAddr, member: Acceptance) {
        if let Some(connection) = self.lock().open.get_mut(&peer) {
            connection.principal.member = Some(member);
        }
    }
}

impl State {
    /// Each node's last connection is open, and its own.
    fn check(&self) {
        assert!(self.last.len() <= self.open.len(), "{} nodes, {} connections", self.last.len(), self.open.len());
        let is_of = |peer: &SocketAddr, id| {
            self.open.get(peer).is_some_and(|of| of.principal.node.is_some_and(|node| node.id == id))
        };
        debug_assert!(self.last.iter().all(|(node, peer)| is_of(peer, *node)), "{self:?}");
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
    use blocks::Incarnation;

    const NODE: RegisteredNode = node(1);
    const OTHER: RegisteredNode = node(2);

    const fn node(number: u8) -> RegisteredNode {
        RegisteredNode { id: NodeId([number; 16]), incarnation: Incarnation { start_ms: 1, nonce: 1 } }
    }

    fn peer(port: u16) -> SocketAddr {
        ([127, 0, 0, 1], port).into()
    }

    fn connections(ports: impl IntoIterator<Item = u16>) -> Connections {
        let connections = Connections::default();
        ports.into_iter().for_each(|port| connections.opened(peer(port)));
        connections
    }

    fn is_empty(connections: &Connections) -> bool {
        let state = connections.lock();
        state.open.is_empty() && state.last.is_empty()
    }

    #[test]
    fn the_end_of_the_last_connection_is_the_nodes() {
        let connections = connections([1, 2, 3]);
        assert!(connections.bind(peer(1), NODE, None) && connections.bind(peer(2), NODE, None));
        assert_eq!(connections.closed(peer(1)), None, "it has another one");
        assert_eq!(connections.closed(peer(3)), None, "a client's");
        assert!(connections.has(NODE.id));
        assert_eq!(connections.closed(peer(2)), Some(NODE.id));
        assert!(!connections.has(NODE.id) && is_empty(&connections));
    }

    /// The end of a connection may be seen when the same process has opened the next one from the same port.
    #[test]
    fn the_end_of_an_earlier_connection_of_the_same_port_is_not_the_new_ones() {
        let connections = connections([1]);
        assert!(connections.bind(peer(1), NODE, None));
        connections.accept(peer(1), Acceptance { members_entry: None, is_stranger: false });
        connections.opened(peer(1));
        assert_eq!(connections.node(peer(1)), None, "a new connection is nobody's yet");
        assert_eq!(connections.acceptance(peer(1)), None);
        assert!(connections.bind(peer(1), NODE, None));
        assert_eq!(connections.closed(peer(1)), None, "the earlier one");
        assert_eq!(connections.node(peer(1)), Some(NODE));
        assert_eq!(connections.closed(peer(1)), Some(NODE.id));
        assert!(is_empty(&connections));
    }

    /// Calls are served to their end, whether their connection lasts or not.
    #[test]
    fn a_call_that_outlives_its_connection_leaves_nothing_behind() {
        let (identity, second) = (Arc::new(Identity::simple("alice", None)), Duration::from_secs(1));
        let caller = namespace::Caller { user: "alice".into(), ..namespace::Caller::system() };
        let proof = rpc::Proof::Nothing;
        let user = User { caller, right: None, name: "alice".into(), real: None, proof };
        for port in 1..100 {
            let connections = connections([port]);
            assert!(connections.bind(peer(port), NODE, None));
            assert_eq!(connections.closed(peer(port)), Some(NODE.id));
            assert!(!connections.bind(peer(port), NODE, None), "the node went meanwhile");
            connections.set_user(peer(port), &identity, &Arc::new(user.clone()), second);
            connections.accept(peer(port), Acceptance { members_entry: None, is_stranger: true });
            assert!(is_empty(&connections));
            connections.opened(peer(port + 1));
            assert!(
                connections.bind(peer(port + 1), NODE, None) && connections.bind(peer(port), NODE, None),
                "it is back already"
            );
            assert_eq!(connections.closed(peer(port + 1)), Some(NODE.id));
            assert!(is_empty(&connections));
        }
    }

    #[test]
    fn of_two_nodes_on_a_connection_the_last_one_ends_with_it() {
        let connections = connections([1]);
        assert!(connections.bind(peer(1), NODE, None) && connections.bind(peer(1), OTHER, None));
        assert!(!connections.has(NODE.id));
        assert_eq!(connections.closed(peer(1)), Some(OTHER.id));
        assert!(is_empty(&connections));
    }
}
