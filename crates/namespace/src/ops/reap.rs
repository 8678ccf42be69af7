//! Freeing deleted trees, a bounded step at a time.

use crate::block::{doom_row, scan_rows};
use crate::context::Context;
use crate::damage;
use crate::deleted_trees;
use crate::deleted_trees::first_tree;
use crate::error::Failure;
use crate::inode::{Node, Place, unhook_node};
use crate::limits::BLOCKS_CHANGED_MAX;
use crate::queue_head;
use crate::record::{Body, Inode, encode};
use crate::reply::Reply;
use crate::tables::{DOOMED_TREE, inode_key};
use crate::walk::scan_children;
use std::ops::ControlFlow;

/// Frees at most `inodes_max` inodes and blocks (each counts as one), and [`BLOCKS_CHANGED_MAX`] in any case. Answers
/// `Reply::Reaped`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reap {
    pub inodes_max: u32,
}
types::record!(Reap { 0: inodes_max });

impl Reap {
    pub(crate) fn run(&self, context: &mut Context<'_>) -> Result<Reply, Failure> {
        let mut left = self.inodes_max.clamp(1, BLOCKS_CHANGED_MAX) as usize;
        while left > 0 {
            let Some(tree) = first_tree(context.rows)? else { return Ok(Reply::Reaped { more: false }) };
            queue_head::take(context.rows, DOOMED_TREE, &inode_key(tree.id));
            left -= 1;
            match &tree.body {
                Body::File(_) => reap_file(context, tree, &mut left)?,
                Body::Directory { .. } => reap_directory(context, tree, &mut left)?,
            }
        }
        Ok(Reply::Reaped { more: first_tree(context.rows)?.is_some() })
    }
}

fn reap_file(context: &mut Context<'_>, mut file: Inode, left: &mut usize) -> Result<(), Failure> {
    let mut placed = Vec::new();
    let count = file.file().map_or(0, |body| body.block_count as usize);
    let wanted = count.min(*left);
    if wanted > 0 {
        scan_rows(context.rows, file.id, 0, &mut |offset, row| {
            placed.push((offset, row));
            go_on(placed.len() < wanted)
        })?;
    }
    assert!(placed.len() <= *left, "{} blocks of {} are more than {left}", placed.len(), file.id);
    *left -= placed.len();
    for (offset, row) in &placed {
        doom_row(context, file.id, *offset, row)?;
    }
    if placed.len() == wanted
        && wanted < count
        && let Some(body) = file.file_mut()
    {
        // The first blocks go first, so that what is left still agrees with itself.
        let freed = types::len::total(placed.iter().map(|(_, row)| row.len));
        debug_assert!(
            damage::is_expected() || freed <= body.len,
            "{freed} bytes are more than {} that the file has",
            body.len
        );
        body.len = body.len.saturating_sub(freed);
        body.block_count = body.block_count.saturating_sub(placed.len() as u32);
        queue_head::add(context.rows, DOOMED_TREE, &inode_key(file.id), encode(&file))?;
    }
    Ok(())
}

/// Children become doomed trees of their own, or vanish at once if nothing hangs on them.
fn reap_directory(context: &mut Context<'_>, mut directory: Inode, left: &mut usize) -> Result<(), Failure> {
    let mut children = Vec::new();
    let count = directory.child_count();
    let wanted = (*left).min(count as usize);
    if wanted > 0 {
        scan_children(context.rows, directory.id, b"", &mut |name, inode| {
            children.push(Node { place: Place { parent: directory.id, name: name.into() }, inode });
            Ok(go_on(children.len() < wanted))
        })?;
    }
    assert!(children.len() <= *left, "{} children of {} are more than {left}", children.len(), directory.id);
    *left -= children.len();
    // Fewer than were counted: then these were all there are.
    let rest = if children.len() == wanted { count.saturating_sub(wanted as u32) } else { 0 };
    for child in children {
        unhook_node(context.rows, &child);
        deleted_trees::doom_tree(context, child.inode)?;
    }
    if rest > 0 {
        directory.body = Body::Directory { child_count: rest };
        queue_head::add(context.rows, DOOMED_TREE, &inode_key(directory.id), encode(&directory))?;
    }
    Ok(())
}

/// A scan is ended with the last row wanted, not with the one behind: that one may be far, behind rows that were just
/// deleted.
fn go_on(wants_more: bool) -> ControlFlow<()> {
    if wants_more { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
}
