//! What operations name besides their block, freed of HDFS's clothes.

use hdfs::proto;

/// `ip:port` of a node, exactly as the client names it in its own list.
pub(crate) fn link_text(node: &proto::DatanodeInfoProto) -> String {
    node.id.xfer_addr()
}
