//! Datanodes as people call them.

use crate::core::Core;
use crate::refusal;
use hdfs::Exception;
use hdfs::exception::Kind;
use types::NodeId;

/// Letters of an id that tell a node.
const PREFIX_LEN_MIN: usize = 4;
/// A name longer than that is none.
const NAME_LEN_MAX: usize = 300;

/// The node that is meant: its id or the beginning of it, its address, or its host's name where only one is there.
pub(crate) fn find(core: &Core, name: &str) -> Result<NodeId, Exception> {
    let no_such = |reason: String| Err(refusal::illegal(reason).with_kind(Kind::NoSuchDatanode));
    if name.len() > NAME_LEN_MAX {
        return no_such(format!("the name of a datanode has at most {NAME_LEN_MAX} bytes"));
    }
    let found: Vec<NodeId> = core.with_cluster(|cluster, _| {
        let is_meant = |member: &&lead::Member| {
            let node = &member.node;
            let id = node.id.to_string();
            node.xfer_addr() == name
                || format!("{}:{}", node.host, node.xfer_port) == name
                || node.host == name
                || name.len() >= PREFIX_LEN_MIN && id.starts_with(name)
        };
        cluster.nodes().filter(is_meant).map(|member| member.node.id).collect()
    });
    match found[..] {
        [node] => Ok(node),
        [] => no_such(format!("no datanode is called {name}")),
        _ => no_such(format!("{} datanodes are called {name}; give an id", found.len())),
    }
}
