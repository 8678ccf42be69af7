//! Changing how many replicas a file should have.

use crate::access::Access;
use crate::context::Context;
use crate::error::limit::Limit;
use crate::error::{Failure, NsError, Purpose};
use crate::inode::write_node;
use crate::permission::{self, Ask};
use crate::reply::Reply;
use crate::resolve::resolve;
use crate::tables::{RESIZED, inode_key};
use crate::usage::{self, Excess};
use types::FsPath;
use types::limits::REPLICATION_MAX;

/// Answers `Reply::Bool`: false for a directory and for a missing path. Moving the replicas is the block side's work:
/// the file is listed for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetReplication {
    pub path: FsPath,
    pub replication: u16,
}
types::record!(SetReplication { 0: path, 1: replication });

impl SetReplication {
    pub(crate) fn run(&self, context: &mut Context<'_>) -> Result<Reply, Failure> {
        check_replication(self.replication, &self.path, None)?;
        let resolved = resolve(context.rows, context.caller, &self.path, Purpose::Find)?;
        let ask = Ask { path: Some(Access::WRITE), ..Ask::default() };
        permission::check(context.caller, &resolved, ask)?;
        let Some(mut node) = resolved.into_last() else { return Ok(Reply::Bool(false)) };
        let id = node.inode.id;
        let bill = usage::bill(context.rows, &node)?;
        let Some(file) = node.inode.file_mut() else { return Ok(Reply::Bool(false)) };
        if file.replication != self.replication && file.block_count > 0 {
            context.rows.put(RESIZED, &inode_key(id), Vec::new());
            context.effects.has_resized = true;
        }
        file.replication = self.replication;
        write_node(context.rows, &node);
        bill.settle(context.rows, &node.inode, Excess::Refused)?;
        Ok(Reply::Bool(true))
    }
}

pub(crate) fn check_replication(replication: u16, path: &FsPath, client_host: Option<&str>) -> Result<(), NsError> {
    if (1..=REPLICATION_MAX).contains(&replication) {
        return Ok(());
    }
    Err(Limit::Replication { replication, path: path.clone(), client_host: client_host.map(Into::into) }.into())
}
