//! A file was read.

use crate::caller::Caller;
use crate::context::Context;
use crate::error::Failure;
use crate::error::Purpose;
use crate::inode::write_node;
use crate::reply::Reply;
use crate::resolve::resolve;
use types::{FsPath, Millis};

/// Sets the access time of a file. The leader proposes this only when the time there is older than its precision (1 h
/// in HDFS), so that reads stay reads. A file that is gone meanwhile, or a later time, is left alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TouchAccessTime {
    pub path: FsPath,
    pub at: Millis,
}
types::record!(TouchAccessTime { 0: path, 1: at });

impl TouchAccessTime {
    pub(crate) fn run(&self, context: &mut Context<'_>) -> Result<Reply, Failure> {
        // Whoever read the file was allowed to; a path that became something else meanwhile is no error.
        let resolved = match resolve(context.rows, &Caller::system(), &self.path, Purpose::Find) {
            Ok(resolved) => resolved,
            Err(Failure::Refused(_)) => return Ok(Reply::Done),
            Err(failure) => return Err(failure),
        };
        if let Some(mut node) = resolved.into_last()
            && !node.inode.is_directory()
            && node.inode.accessed < self.at
        {
            node.inode.accessed = self.at;
            write_node(context.rows, &node);
        }
        Ok(Reply::Done)
    }
}
