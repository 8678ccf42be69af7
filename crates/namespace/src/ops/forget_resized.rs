//! The blocks of a file are where its replication wants them.

use crate::context::Context;
use crate::error::Failure;
use crate::inode::read_node;
use crate::reply::Reply;
use crate::tables::{RESIZED, inode_key};
use types::FileId;

/// Takes a file from the list that `SetReplication` put it on, unless its replication changed since.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForgetResized {
    pub file: FileId,
    pub replication: u16,
}
types::record!(ForgetResized { 0: file, 1: replication });

impl ForgetResized {
    pub(crate) fn run(&self, context: &mut Context<'_>) -> Result<Reply, Failure> {
        let node = read_node(context.rows, self.file)?;
        let changed =
            node.is_some_and(|node| node.inode.file().is_some_and(|file| file.replication != self.replication));
        if !changed {
            context.rows.delete(RESIZED, &inode_key(self.file));
        }
        Ok(Reply::Bool(!changed))
    }
}
