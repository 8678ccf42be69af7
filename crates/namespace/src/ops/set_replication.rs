//! Changing how many replicas a file should have.

use crate::context::Context;
use crate::error::{Failure, NsError};
use crate::inode::write_node;
use crate::permission::{self, Access, Ask};
use crate::reply::Reply;
use crate::resolve::{Purpose, resolve};
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

pub(crate) fn check_replication(replication: u16, path: &FsPath, client: Option<&str>) -> Result<(), NsError> {
    let why = match replication {
        0 => "is less than the required minimum of 1".to_string(),
        1..=REPLICATION_MAX => return Ok(()),
        _ => format!("exceeds maximum of {REPLICATION_MAX}"),
    };
    let by = client.map(|client| format!(", clientName={client}")).unwrap_or_default();
    Err(NsError::Other(format!("Requested replication factor of {replication} {why} for {path}{by}")))
}
