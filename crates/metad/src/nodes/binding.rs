//! Binding of a connection to a datanode's process: a registration binds it, and each further message must come over
//! it.
//!
//! A message in a node's name over another connection is answered that the node is not known, so the process registers
//! there too. A node's id and incarnation are no secrets. A caller that has them thus sends nothing in the node's name
//! without a registration, which is logged and limited.

use super::messages::{incarnation, no_incarnation, node_id};
use crate::leadership::Leadership;
use crate::principal::RegisteredNode;
use crate::refusal;
use crate::visit::Visit;
use blocks::Node;
use hdfs::Exception;
use lead::Cluster;
use rpc::{Call, Proof};
use security::node_name::{Certified, NodeName};
use types::NodeId;
use wire::node::Sender;

/// The process that sends a message, and the transfer address that it registered. `None`: it has not registered over
/// this connection.
pub(super) fn registered<'a>(
    visit: &Visit,
    node: &str,
    sender: Option<&'a Sender>,
) -> Result<Option<(RegisteredNode, &'a str)>, Exception> {
    let id = node_id(node)?;
    let sender = sender.ok_or_else(no_incarnation)?;
    let process = RegisteredNode { id, incarnation: incarnation(sender.incarnation)? };
    let is_registered = visit.leadership.connections.node(visit.call.peer) == Some(process);
    Ok(is_registered.then_some((process, &sender.addr)))
}

/// As [`registered`], at the leader. `None` as well for who was taken out of the lists of hosts since: it is to
/// register, and learns why it may not.
pub(super) fn listed<'a>(
    visit: &Visit,
    node: &str,
    sender: Option<&'a Sender>,
) -> Result<Option<(RegisteredNode, &'a str)>, Exception> {
    let Some(known) = registered(visit, node, sender)? else { return Ok(None) };
    let core = visit.core();
    let Some(lists) = &core.host_lists else { return Ok(Some(known)) };
    let is_unlisted = |cluster: &Cluster| cluster.node(known.0.id).is_some_and(|member| !lists.admits(&member.node));
    Ok((!core.with_cluster(|cluster, _| is_unlisted(cluster))).then_some(known))
}

/// A connection over which a node registered is that node's, and so is one over which it showed its certificate.
pub(super) fn must_be_free(leadership: &Leadership, call: &Call, node: NodeId) -> Result<(), Exception> {
    if let Proof::Node(Certified { name: proven, .. }) = call.user.proof
        && proven != NodeName::Datanode(node)
    {
        return Err(refusal::denied(format!("the certificate is of {proven}, and the message of datanode {node}")));
    }
    match leadership.connections.node(call.peer) {
        Some(known) if known.id != node => {
            Err(refusal::denied(format!("this connection is datanode {}'s, and the message is of {node}", known.id)))
        }
        _ => Ok(()),
    }
}

/// `node` has registered by this call.
pub(super) fn bind(leadership: &Leadership, call: &Call, node: RegisteredNode) {
    let issued_at = match call.user.proof {
        Proof::Node(Certified { issued_at, .. }) => Some(issued_at),
        _ => None,
    };
    if !leadership.connections.bind(call.peer, node, issued_at) {
        leadership.disconnected(node.id);
    }
}

pub(super) fn process_of(node: &Node) -> RegisteredNode {
    RegisteredNode { id: node.id, incarnation: node.incarnation }
}
