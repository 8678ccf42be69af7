//! Taking an open file from its writer.

use crate::access::Access;
use crate::context::Context;
use crate::error::absent::Absent;
use crate::error::{Failure, NsError, Purpose};
use crate::inode::{Node, find_standing};
use crate::permission::{self, Ask};
use crate::recovery;
use crate::reply::{Recovery, Reply};
use crate::resolve::resolve;
use types::{FileId, FsPath};

/// Shuts the writer out and closes the file, at once if all its blocks are whole; otherwise the last block must be
/// recovered under the new generation in the answer. Asked again, it issues a still higher one. Answers
/// `Reply::Recovery`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BeginRecovery {
    pub target: RecoveryTarget,
    /// Only if this holder still has the file; `None`: whoever has it.
    pub holder: Option<String>,
}
types::record!(BeginRecovery { 0: target, 1: holder });

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RecoveryTarget {
    /// As a client asks; needs WRITE on the path.
    Path(FsPath),
    /// As the leader asks, of a lease past the hard limit.
    File(FileId),
}
types::variants!(RecoveryTarget { 0 => Path(0: path), 1 => File(0: file) });

impl BeginRecovery {
    pub(crate) fn run(&self, context: &mut Context<'_>) -> Result<Reply, Failure> {
        let mut node = self.find(context)?;
        let id = node.inode.id;
        let Some(open) = node.inode.file().and_then(|file| file.open.as_ref()) else {
            return Ok(Reply::Recovery(Recovery::Closed { file: id }));
        };
        if self.holder.as_ref().is_some_and(|holder| *holder != open.holder) {
            return Ok(Reply::Recovery(Recovery::NotHeld { file: id }));
        }
        Ok(Reply::Recovery(recovery::begin(context, &mut node)?))
    }

    fn find(&self, context: &Context<'_>) -> Result<Node, Failure> {
        match &self.target {
            RecoveryTarget::File(id) => match find_standing(context.rows, *id)? {
                Some((node, _)) if !node.inode.is_directory() => Ok(node),
                _ => Err(Absent::Inode(*id).into()),
            },
            RecoveryTarget::Path(path) => {
                let resolved = resolve(context.rows, context.caller, path, Purpose::Find)?;
                if resolved.last().is_some_and(|node| node.inode.is_directory()) {
                    return Err(NsError::not_a_file(path).into());
                }
                let ask = Ask { path: Some(Access::WRITE), ..Ask::default() };
                permission::check(context.caller, &resolved, ask)?;
                Ok(resolved.into_last().ok_or_else(|| NsError::no_file(path))?)
            }
        }
    }
}
