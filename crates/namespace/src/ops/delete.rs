//! Deleting a file or a tree, in constant time.

use super::Context;
use crate::error::{Failure, NsError};
use crate::make::remove_child;
use crate::permission::{self, Access, Ask};
use crate::request::Reply;
use crate::resolve::{Purpose, resolve};
use serde::{Deserialize, Serialize};
use types::FsPath;

/// Unhooks the tree; `Reap` frees it bit by bit. Answers `Reply::Bool`: false if there was nothing, or for the root.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Delete {
    pub path: FsPath,
    pub recursive: bool,
}

impl Delete {
    pub(crate) fn run(&self, context: &mut Context<'_>) -> Result<Reply, Failure> {
        let mut resolved = resolve(context.rows, context.caller, &self.path, Purpose::Find)?;
        let not_empty = resolved.last().is_some_and(|node| node.inode.child_count() > 0);
        let mut ask = Ask { parent: Some(Access::WRITE), ..Ask::default() };
        if !self.recursive && not_empty {
            // It will be refused anyway: no need to look at the whole tree first.
            ask.path = Some(Access::ALL);
        } else {
            ask.tree = Some(Access::ALL);
        }
        permission::check(context.rows, context.caller, &resolved, ask)?;
        if !self.recursive && not_empty {
            return Err(NsError::NotEmpty(format!("`{} is non empty': Directory is not empty", resolved.path)).into());
        }
        if resolved.last().is_none() || resolved.path.is_root() {
            return Ok(Reply::Bool(false));
        }
        remove_child(context, &mut resolved)?;
        Ok(Reply::Bool(true))
    }
}
