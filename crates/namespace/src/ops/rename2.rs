//! The rename that says why not, and may replace its target.

use crate::access::Access;
use crate::context::Context;
use crate::error::absent::{Absent, Existing};
use crate::error::rename_fault::RenameFault;
use crate::error::{Failure, NsError, Purpose};
use crate::make::{move_node, remove_child};
use crate::permission::{self, Ask, check_top};
use crate::record::{Body, File, Inode};
use crate::reply::Reply;
use crate::reserved;
use crate::resolve::resolve;
use crate::resolved::Resolved;
use types::{FsPath, InodeId, Millis};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rename2 {
    pub from: FsPath,
    pub to: FsPath,
    /// Replaces a file, or an empty directory by a directory, in one step.
    pub overwrite: bool,
    /// The caller must be allowed to delete the source, not only to move it.
    pub to_trash: bool,
    /// Of a move to the trash: the top of the tree that was examined, as in [`super::Delete`].
    pub examined: Option<InodeId>,
    /// What the caller has seen at the target, and means to replace: nothing else is.
    pub replaces: Option<FileVersion>,
}
types::record!(Rename2 { 0: from, 1: to, 2: overwrite, 3: to_trash, 4: examined, 5: replaces });

/// A file as somebody saw it. With other bytes it has another length or time, or is another file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileVersion {
    pub file: InodeId,
    pub modified: Millis,
    pub len: u64,
}
types::record!(FileVersion { 0: file, 1: modified, 2: len });

impl FileVersion {
    fn is_of(&self, inode: &Inode) -> bool {
        let Body::File(File { len, .. }) = &inode.body else { return false };
        *self == Self { file: inode.id, modified: inode.modified, len: *len }
    }
}

impl Rename2 {
    pub(crate) fn run(&self, context: &mut Context<'_>) -> Result<Reply, Failure> {
        let from = resolve(context.rows, context.caller, &self.from, Purpose::Find)?;
        if from.last().is_some() && !reserved::may_be_made(&self.to) {
            return Err(Absent::RenameParent(self.to.clone()).into());
        }
        let mut to = resolve(context.rows, context.caller, &self.to, Purpose::Make)?;
        if self.to_trash {
            check_top(context.caller, &from, self.examined)?;
        } else {
            let ask = Ask { parent: Some(Access::WRITE), ..Ask::default() };
            permission::check(context.caller, &from, ask)?;
        }
        let ask = Ask { ancestor: Some(Access::WRITE), ..Ask::default() };
        permission::check(context.caller, &to, ask)?;
        self.check_ends(&from, &to)?;
        if let Some(version) = self.replaces
            && !to.last().is_some_and(|target| version.is_of(&target.inode))
        {
            return Err(NsError::from(RenameFault::OtherTarget(to.path)).into());
        }
        if to.last().is_some() {
            // To replace a file is to delete it, so the sticky bit counts. (HDFS forgets it here.)
            if !context.caller.superuser {
                permission::check_sticky(context.caller, &to)?;
            }
            remove_child(context, &mut to)?;
        }
        move_node(context, from, to)?;
        Ok(Reply::Done)
    }

    /// Refuses what can not be renamed, or not to there.
    fn check_ends(&self, from: &Resolved, to: &Resolved) -> Result<(), NsError> {
        let (src, dst) = (&from.path, &to.path);
        let Some(source) = from.last() else {
            return Err(NsError::NotFound(Absent::RenameSource(src.clone())));
        };
        if src.is_root() {
            return Err(RenameFault::SourceIsRoot.into());
        }
        if src == dst {
            return Err(NsError::AlreadyExists(Existing::RenameSource { from: src.clone(), to: dst.clone() }));
        }
        if dst.is_below(src) {
            return Err(RenameFault::TargetBelowSource { from: src.clone(), to: dst.clone() }.into());
        }
        if dst.is_root() {
            return Err(RenameFault::TargetIsRoot.into());
        }
        let Some(target) = to.last() else {
            return match to.parent_index() {
                Some(_) => Ok(()),
                None => Err(NsError::NotFound(Absent::RenameParent(dst.clone()))),
            };
        };
        if source.inode.is_directory() != target.inode.is_directory() {
            return Err(RenameFault::KindsDiffer { from: src.clone(), to: dst.clone() }.into());
        }
        if !self.overwrite {
            return Err(NsError::AlreadyExists(Existing::RenameTarget(dst.clone())));
        }
        if target.inode.child_count() > 0 {
            return Err(RenameFault::TargetNotEmpty(dst.clone()).into());
        }
        Ok(())
    }
}
