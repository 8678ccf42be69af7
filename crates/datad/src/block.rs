//! What operations name besides their block, freed of HDFS's clothes.

use hdfs::proto;
use std::net::{IpAddr, SocketAddr};

/// `ip:port` of a node, exactly as the client names it in its own list.
pub(crate) fn link_text(node: &proto::DatanodeInfoProto) -> String {
    node.id.xfer_addr()
}

pub(crate) fn node_addr(node: &proto::DatanodeInfoProto) -> Option<SocketAddr> {
    let ip: IpAddr = node.id.ip_addr.parse().ok()?;
    Some(SocketAddr::new(ip, u16::try_from(node.id.xfer_port).ok()?))
}
