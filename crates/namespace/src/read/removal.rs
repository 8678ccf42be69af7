//! May this caller delete that tree, or move it to the trash? Examined in steps before the change is proposed, so that
//! no other waits.
//!
//! HDFS asks for all rights on each directory that is not empty, and holds the sticky bits in the tree. Files matter
//! below a sticky directory alone. So a directory that has none below it and is not sticky is passed by, however many
//! files it has.
//!
//! What comes into the tree behind the walk's place is not examined: the directories of others are deleted with the
//! rest if they were made, or moved there, while the walk went on. HDFS excludes that by letting all others wait.

use crate::access::Access;
use crate::caller::Caller;
use crate::error::Purpose;
use crate::error::{Answer, Failure, split};
use crate::permission::{self, Ask};
use crate::record::Inode;
use crate::resolve::resolve;
use crate::usage::tally;
use crate::walk::{Seen, Walk};
use types::rows::{Rows, RowsError};
use types::{FsPath, InodeId};

/// An examination under way. Changes of the tree meanwhile are seen where it has not been yet.
#[derive(Clone, Debug)]
pub struct Removal {
    top: InodeId,
    /// `None`: all rights that matter are those on the top.
    walk: Option<Walk>,
}

impl Removal {
    /// `None`: there is nothing to examine below the path; the change itself finds out about the rest.
    pub fn start(rows: &dyn Rows, caller: &Caller, path: &FsPath) -> Answer<Option<Self>> {
        split(resolve(rows, caller, path, Purpose::Find).and_then(|resolved| {
            let Some(node) = resolved.last().filter(|node| node.inode.child_count() > 0) else { return Ok(None) };
            // In the order of the change itself: who may not unhook the top hears of that, and nothing of what is
            // inside.
            let ask = Ask { parent: Some(Access::WRITE), path: Some(Access::ALL), ..Ask::default() };
            permission::check(caller, &resolved, ask)?;
            let walk = matters_below(rows, caller, &node.inode)?;
            let walk = walk.then(|| Walk::new(node.inode.clone(), resolved.path.as_str()));
            Ok(Some(Self { top: node.inode.id, walk }))
        }))
    }

    /// Looks at up to `entries_max` more entries. `Some`: that was all; the tree that was examined.
    pub fn step(&mut self, rows: &dyn Rows, caller: &Caller, entries_max: usize) -> Answer<Option<InodeId>> {
        let top = self.top;
        let Some(walk) = &mut self.walk else { return Ok(Ok(Some(top))) };
        let ended = walk.step(rows, entries_max.max(1), &mut |seen| {
            check(caller, &seen)?;
            Ok(matters_below(rows, caller, seen.inode)?)
        });
        split(ended.map(|ended| ended.then_some(top)))
    }
}

/// Files and empty directories need no rights of their own.
fn check(caller: &Caller, seen: &Seen<'_>) -> Result<(), Failure> {
    if permission::breaks_sticky(caller, seen.parent, seen.inode) {
        let parent = (seen.parent, seen.parent_path);
        return Err(permission::denied_sticky(caller, parent, (seen.inode, &seen.path())).into());
    }
    if seen.inode.child_count() == 0 || permission::allows(caller, seen.inode, Access::ALL) {
        return Ok(());
    }
    Err(permission::denied(caller, seen.inode, &seen.path(), Access::ALL).into())
}

/// Whether anything in this directory could forbid that it is deleted.
fn matters_below(rows: &dyn Rows, caller: &Caller, inode: &Inode) -> Result<bool, RowsError> {
    if inode.child_count() == 0 {
        return Ok(false);
    }
    Ok(permission::guards_children(caller, inode) || tally(rows, inode.id)?.below.directories > 0)
}
