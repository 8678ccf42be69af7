//! Freeing deleted trees, a bounded step at a time.

use super::Context;
use crate::block::{doom_row, scan_rows};
use crate::doom;
use crate::error::Failure;
use crate::inode::{Node, Place, unhook_node};
use crate::record::{Body, Inode, decode, encode};
use crate::request::Reply;
use crate::tables::{DOOMED_TREE, inode_key};
use crate::view::DoomedBlock;
use crate::walk::scan_children;
use serde::{Deserialize, Serialize};
use std::ops::{Bound, ControlFlow};
use types::rows::{Rows, RowsError};

/// Frees at most `inodes_max` inodes and blocks (each counts as one). Answers `Reply::Reaped`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reap {
    pub inodes_max: u32,
}

impl Reap {
    pub(crate) fn run(&self, context: &mut Context<'_>) -> Result<Reply, Failure> {
        let mut doomed = Vec::new();
        let mut left = self.inodes_max.max(1) as usize;
        while left > 0 {
            let Some(tree) = first_tree(context.rows)? else { return Ok(Reply::Reaped { more: false, doomed }) };
            left -= 1;
            match &tree.body {
                Body::File(_) => reap_file(context, tree, &mut left, &mut doomed)?,
                Body::Directory { .. } => reap_directory(context, tree, &mut left)?,
            }
        }
        Ok(Reply::Reaped { more: first_tree(context.rows)?.is_some(), doomed })
    }
}

pub(crate) fn first_tree(rows: &dyn Rows) -> Result<Option<Inode>, RowsError> {
    let mut found = None;
    rows.scan(DOOMED_TREE, Bound::Unbounded, &mut |_, value| {
        found = Some(decode("reap a deleted tree", value));
        ControlFlow::Break(())
    })?;
    found.transpose()
}

fn reap_file(
    context: &mut Context<'_>,
    mut file: Inode,
    left: &mut usize,
    doomed: &mut Vec<DoomedBlock>,
) -> Result<(), Failure> {
    let mut placed = Vec::new();
    let mut ended = true;
    scan_rows(context.rows, file.id, 0, &mut |offset, row| {
        if placed.len() == *left {
            ended = false;
            return ControlFlow::Break(());
        }
        placed.push((offset, row));
        ControlFlow::Continue(())
    })?;
    *left -= placed.len();
    for (offset, row) in &placed {
        doomed.push(doom_row(context.rows, file.id, *offset, row)?);
    }
    if ended {
        context.rows.delete(DOOMED_TREE, &inode_key(file.id));
    } else if let Some(body) = file.file_mut() {
        // The first blocks go first, so that what is left still agrees with itself.
        body.len = body.len.saturating_sub(placed.iter().map(|(_, row)| row.len).sum());
        body.block_count = body.block_count.saturating_sub(placed.len() as u32);
        context.rows.put(DOOMED_TREE, &inode_key(file.id), encode(&file));
    }
    Ok(())
}

/// Children become doomed trees of their own, or vanish at once if nothing hangs on them.
fn reap_directory(context: &mut Context<'_>, mut directory: Inode, left: &mut usize) -> Result<(), Failure> {
    let mut children = Vec::new();
    let mut ended = true;
    scan_children(context.rows, directory.id, b"", &mut |name, inode| {
        if children.len() == *left {
            ended = false;
            return Ok(ControlFlow::Break(()));
        }
        children.push(Node { place: Place { parent: directory.id, name: name.into() }, inode });
        Ok(ControlFlow::Continue(()))
    })?;
    *left -= children.len();
    let count = children.len() as u32;
    for child in children {
        unhook_node(context.rows, &child);
        doom::doom_tree(context.rows, child.inode);
    }
    if ended {
        context.rows.delete(DOOMED_TREE, &inode_key(directory.id));
    } else {
        directory.body = Body::Directory { child_count: directory.child_count().saturating_sub(count) };
        context.rows.put(DOOMED_TREE, &inode_key(directory.id), encode(&directory));
    }
    Ok(())
}
