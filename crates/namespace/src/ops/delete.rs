//! Deleting a file or a tree, in constant time.

use super::Context;
use crate::error::{Failure, NsError};
use crate::make::remove_child;
use crate::permission::{self, Access, Ask};
use crate::request::Reply;
use crate::resolve::{Purpose, resolve};
use serde::{Deserialize, Serialize};
use types::{FsPath, InodeId};

/// Unhooks the tree; `Reap` frees it bit by bit. Answers `Reply::Bool`: false if there was nothing, or for the root.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Delete {
    pub path: FsPath,
    pub recursive: bool,
}

/// As a recursive `Delete`, of a tree whose inside was looked at before this was proposed (`read::Removal`): only its top is checked
/// again. If something else stands there by now, all of that is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeleteWalked {
    pub path: FsPath,
    pub top: InodeId,
}

impl DeleteWalked {
    pub(crate) fn run(&self, context: &mut Context<'_>) -> Result<Reply, Failure> {
        Delete { path: self.path.clone(), recursive: true }.remove(context, Some(self.top))
    }
}

impl Delete {
    pub(crate) fn run(&self, context: &mut Context<'_>) -> Result<Reply, Failure> {
        self.remove(context, None)
    }

    fn remove(&self, context: &mut Context<'_>, walked: Option<InodeId>) -> Result<Reply, Failure> {
        let mut resolved = resolve(context.rows, context.caller, &self.path, Purpose::Find)?;
        let not_empty = resolved.last().is_some_and(|node| node.inode.child_count() > 0);
        let mut ask = Ask { parent: Some(Access::WRITE), ..Ask::default() };
        let was_walked = walked.is_some_and(|top| resolved.last().is_some_and(|node| node.inode.id == top));
        if was_walked && not_empty {
            ask.path = Some(Access::ALL);
        } else if !self.recursive && not_empty {
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
