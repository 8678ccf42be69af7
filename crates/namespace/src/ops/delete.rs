//! Deleting a file or a tree, in constant time.

use crate::context::Context;
use crate::error::{Failure, NsError, Purpose};
use crate::make::remove_child;
use crate::permission::check_top;
use crate::reply::Reply;
use crate::resolve::resolve;
use types::{FsPath, InodeId};

/// Unhooks the tree; `Reap` frees it bit by bit. Answers `Reply::Bool`: false if there was nothing, or for the root.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delete {
    pub path: FsPath,
    pub recursive: bool,
    /// The top of the tree that `read::Removal` examined for an ordinary user. If something else stands there by now
    /// and is not empty, this is refused as `NotExamined`.
    pub examined: Option<InodeId>,
}
types::record!(Delete { 0: path, 1: recursive, 2: examined });

impl Delete {
    pub(crate) fn run(&self, context: &mut Context<'_>) -> Result<Reply, Failure> {
        let mut resolved = resolve(context.rows, context.caller, &self.path, Purpose::Find)?;
        let top = resolved.last().filter(|node| node.inode.child_count() > 0).map(|node| node.inode.id);
        // Without `recursive` a tree is refused anyway: nobody needs to examine it first.
        let examined = if self.recursive { self.examined } else { top };
        check_top(context.caller, &resolved, examined)?;
        if !self.recursive && top.is_some() {
            return Err(NsError::NotEmpty(resolved.path).into());
        }
        if resolved.last().is_none() || resolved.path.is_root() {
            return Ok(Reply::Bool(false));
        }
        remove_child(context, &mut resolved)?;
        Ok(Reply::Bool(true))
    }
}
