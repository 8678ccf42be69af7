//! Changing times.

use crate::access::Access;
use crate::context::Context;
use crate::error::absent::Absent;
use crate::error::{Failure, Purpose};
use crate::inode::write_node;
use crate::permission::{self, Ask};
use crate::reply::Reply;
use crate::resolve::resolve;
use types::{FsPath, Millis};

/// `None` leaves one alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetTimes {
    pub path: FsPath,
    pub modified: Option<Millis>,
    pub accessed: Option<Millis>,
}
types::record!(SetTimes { 0: path, 1: modified, 2: accessed });

impl SetTimes {
    pub(crate) fn run(&self, context: &mut Context<'_>) -> Result<Reply, Failure> {
        let resolved = resolve(context.rows, context.caller, &self.path, Purpose::Find)?;
        let ask = Ask { path: Some(Access::WRITE), ..Ask::default() };
        permission::check(context.caller, &resolved, ask)?;
        let mut node = resolved.into_last().ok_or_else(|| Absent::Timed(self.path.clone()))?;
        if let Some(modified) = self.modified {
            node.inode.modified = modified;
        }
        if let Some(accessed) = self.accessed {
            node.inode.accessed = accessed;
        }
        write_node(context.rows, &node);
        Ok(Reply::Done)
    }
}
