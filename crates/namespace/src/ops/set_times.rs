//! Changing times.

use super::Context;
use super::set_permission::find_existing;
use crate::error::Failure;
use crate::inode::write_node;
use crate::permission::{Access, Ask};
use crate::request::Reply;
use serde::{Deserialize, Serialize};
use types::{FsPath, Millis};

/// `None` leaves one alone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SetTimes {
    pub path: FsPath,
    pub modified: Option<Millis>,
    /// Directories have none: ignored for them.
    pub accessed: Option<Millis>,
}

impl SetTimes {
    pub(crate) fn run(&self, context: &mut Context<'_>) -> Result<Reply, Failure> {
        let mut node = find_existing(context, &self.path, Ask { path: Some(Access::WRITE), ..Ask::default() })?;
        if let Some(modified) = self.modified {
            node.inode.modified = modified;
        }
        if let (Some(accessed), Some(file)) = (self.accessed, node.inode.file_mut()) {
            file.accessed = accessed;
        }
        write_node(context.rows, &node);
        Ok(Reply::Done)
    }
}
