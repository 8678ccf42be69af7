//! Making an empty namespace.

use crate::context::Context;
use crate::error::Failure;
use crate::inode::{NOWHERE, Node, Place, ROOT, hook_node, read_counters, write_counters};
use crate::record::{Body, Counters, Extra, Inode};
use crate::reply::Reply;
use types::{Generation, Millis};

/// Makes the root directory. A namespace that has one stays as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Format {
    /// Owner and group of the root: the user that runs the server, and the supergroup.
    pub owner: String,
    pub group: String,
}
types::record!(Format { 0: owner, 1: group });

/// HDFS issues 1001 first.
const GENERATION_BEFORE_FIRST: Generation = Generation(1000);

impl Format {
    pub(crate) fn run(&self, context: &mut Context<'_>) -> Result<Reply, Failure> {
        if read_counters(context.rows)?.is_some() {
            return Ok(Reply::Done);
        }
        write_counters(context.rows, Counters { inode: ROOT, generation: GENERATION_BEFORE_FIRST });
        let inode = Inode {
            id: ROOT,
            owner: self.owner.clone(),
            group: self.group.clone(),
            mode: 0o755,
            modified: context.now,
            accessed: Millis(0),
            body: Body::Directory { child_count: 0 },
            extra: Extra::default(),
        };
        hook_node(context.rows, &Node { place: Place { parent: NOWHERE, name: String::new() }, inode });
        Ok(Reply::Done)
    }
}
