//! May this caller delete that tree? Looked at in steps before the deletion is proposed, so that no change waits for a large tree.

use crate::error::{Answer, split};
use crate::permission::{self, Access, Ask};
use crate::request::Caller;
use crate::resolve::{Purpose, resolve};
use crate::walk::{Walk, check_entry};
use types::rows::Rows;
use types::{FsPath, InodeId};

/// A look at a tree under way. Changes of the tree meanwhile are seen where the look has not been yet.
#[derive(Clone, Debug)]
pub struct Removal {
    top: InodeId,
    walk: Walk,
}

impl Removal {
    /// `None`: there is nothing to look at below the path; the deletion itself finds out about the rest.
    pub fn start(rows: &dyn Rows, caller: &Caller, path: &FsPath) -> Answer<Option<Self>> {
        split(resolve(rows, caller, path, Purpose::Find).and_then(|resolved| {
            let Some(node) = resolved.last().filter(|node| node.inode.child_count() > 0) else { return Ok(None) };
            // In the order of the deletion itself: who may not unhook the top hears of that, and nothing of what is inside.
            let ask = Ask { parent: Some(Access::WRITE), path: Some(Access::ALL), ..Ask::default() };
            permission::check(rows, caller, &resolved, ask)?;
            Ok(Some(Self { top: node.inode.id, walk: Walk::new(node.inode.clone(), resolved.path.as_str()) }))
        }))
    }

    /// Looks at up to `entries_max` more entries. `Some`: that was all; the tree that was looked at.
    pub fn step(&mut self, rows: &dyn Rows, caller: &Caller, entries_max: usize) -> Answer<Option<InodeId>> {
        let top = self.top;
        let ended = self.walk.step(rows, entries_max.max(1), &mut |seen| check_entry(caller, &seen, Access::ALL));
        split(ended.map(|ended| ended.then_some(top)))
    }
}
