//! Trees that were deleted and wait to be freed.

use crate::context::Context;
use crate::damage;
use crate::inode::read_place;
use crate::lease;
use crate::queue_head;
use crate::record::{Inode, decode, encode};
use crate::tables::{DOOMED_TREE, inode_key};
use crate::usage;
use crate::xattr;
use std::ops::ControlFlow;
use types::rows::{Rows, RowsError};

/// Takes over an inode that was unhooked from its place. A file's lease ends at once; what lies below a directory keeps
/// its rows until `Reap` comes to it, but nobody finds a way to it any more.
pub(crate) fn doom_tree(context: &mut Context<'_>, mut inode: Inode) -> Result<(), RowsError> {
    let rows = &mut *context.rows;
    let id = inode.id;
    debug_assert!(damage::is_expected() || matches!(read_place(rows, id), Ok(None)), "{id} still stands in the tree");
    usage::forget(rows, &inode);
    xattr::remove_all(rows, &mut inode)?;
    inode.extra.acl.clear();
    let mut hangs_on = inode.child_count() > 0;
    if let Some(file) = inode.file_mut() {
        if let Some(open) = file.open.take() {
            lease::release(rows, id, &open.holder);
        }
        hangs_on = file.block_count > 0;
    }
    if hangs_on {
        queue_head::add(rows, DOOMED_TREE, &inode_key(id), encode(&inode))?;
        context.effects.has_doomed_tree = true;
    }
    Ok(())
}

/// The one that is freed next.
pub(crate) fn first_tree(rows: &dyn Rows) -> Result<Option<Inode>, RowsError> {
    let mut found = None;
    queue_head::scan(rows, DOOMED_TREE, &mut |_, value| {
        found = Some(decode("reap a deleted tree", value));
        ControlFlow::Break(())
    })?;
    found.transpose()
}
