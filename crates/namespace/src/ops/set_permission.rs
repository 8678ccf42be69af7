//! Changing a mode.

use crate::context::Context;
use crate::error::absent::Absent;
use crate::error::{Failure, Purpose};
use crate::inode::{Node, write_node};
use crate::permission::{self, Ask};
use crate::reply::Reply;
use crate::resolve::resolve;
use types::FsPath;
use types::limits::MODE_MASK;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetPermission {
    pub path: FsPath,
    /// Bits above 01777 are ignored.
    pub mode: u16,
}
types::record!(SetPermission { 0: path, 1: mode });

impl SetPermission {
    pub(crate) fn run(&self, context: &mut Context<'_>) -> Result<Reply, Failure> {
        let mut node = find_owned(context, &self.path)?;
        node.inode.mode = self.mode & MODE_MASK;
        write_node(context.rows, &node);
        Ok(Reply::Done)
    }
}

/// What the path names, if the caller owns it.
pub(crate) fn find_owned(context: &Context<'_>, path: &FsPath) -> Result<Node, Failure> {
    find_owned_as(context, path, || Absent::Owned(path.clone()))
}

/// With the error for nothing being there.
pub(crate) fn find_owned_as(
    context: &Context<'_>,
    path: &FsPath,
    absent: impl FnOnce() -> Absent,
) -> Result<Node, Failure> {
    let resolved = resolve(context.rows, context.caller, path, Purpose::Find)?;
    permission::check(context.caller, &resolved, Ask { owner: true, ..Ask::default() })?;
    resolved.into_last().ok_or_else(|| absent().into())
}
