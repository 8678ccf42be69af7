//! Joining files: the blocks of several become the end of one.

use crate::access::Access;
use crate::block::{hook_row, scan_rows};
use crate::context::Context;
use crate::damage;
use crate::deleted_trees;
use crate::error::concat_fault::ConcatFault;
use crate::error::limit::Limit;
use crate::error::{Failure, NsError, Purpose, corrupt};
use crate::inode::{Node, change_children, unhook_node, write_node};
use crate::limits::{BLOCK_COUNT_MAX, BLOCKS_CHANGED_MAX};
use crate::permission::{self, Ask};
use crate::record::File;
use crate::reply::Reply;
use crate::resolve::resolve;
use crate::resolved::Resolved;
use crate::tables::{BLOCK, RESIZED, block_key, inode_key};
use crate::usage::{self, Excess};
use std::ops::ControlFlow;
use types::FsPath;

/// Moves all blocks of `sources`, in their order, behind those of `target`, and removes the sources, in one step. All
/// stand in one directory and are closed. Blocks keep their ids and places, so a file may have short ones in its middle
/// from then on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Concat {
    pub target: FsPath,
    pub sources: Vec<FsPath>,
    /// Each block remembers the file under which its replicas were written. `None`: not all servers know that form.
    pub remembers: Option<bool>,
}
types::record!(Concat { 0: target, 1: sources, 2: remembers });

impl Concat {
    /// Each source has a block at least.
    pub(super) fn check_len(&self) -> Result<(), NsError> {
        let count = self.sources.len();
        if count > BLOCKS_CHANGED_MAX as usize {
            return Err(Limit::ConcatSources { count }.into());
        }
        Ok(())
    }

    pub(crate) fn run(&self, context: &mut Context<'_>) -> Result<Reply, Failure> {
        self.check_len()?;
        let (mut parent, mut target) = self.find_target(context)?;
        if self.sources.is_empty() {
            return Err(ConcatFault::NoSources.into());
        }
        let mut sources: Vec<Node> = Vec::new();
        for path in &self.sources {
            let source = self.find_source(context, path, &target)?;
            if sources.iter().any(|known| known.inode.id == source.inode.id) {
                return Err(ConcatFault::Repeated.into());
            }
            sources.push(source);
        }
        let blocks = sources.iter().map(|source| source.inode.file().map_or(0, |file| u64::from(file.block_count)));
        let block_count: u64 = blocks.sum();
        if block_count > BLOCKS_CHANGED_MAX.into() {
            return Err(Limit::ConcatBlocks { count: block_count }.into());
        }
        let mut bill = usage::bill(context.rows, &target)?;
        for source in sources {
            bill.joins(context.rows, &source.inode)?;
            let replication = |node: &Node| node.inode.file().map(|file| file.replication);
            let resized = context.rows.get(RESIZED, &inode_key(source.inode.id))?.is_some();
            if resized || replication(&source) != replication(&target) {
                context.rows.put(RESIZED, &inode_key(target.inode.id), Vec::new());
                context.effects.has_resized = true;
            }
            move_blocks(context, &source, &mut target, self.remembers == Some(true))?;
            remove_emptied(context, source)?;
            change_children(context, &mut parent, -1)?;
        }
        target.inode.modified = context.now;
        write_node(context.rows, &target);
        bill.settle(context.rows, &target.inode, Excess::Refused)?;
        Ok(Reply::Done)
    }

    /// The directory, and the file that grows.
    fn find_target(&self, context: &Context<'_>) -> Result<(Node, Node), Failure> {
        let path = &self.target;
        let resolved = resolve(context.rows, context.caller, path, Purpose::Find)?;
        let ask = Ask { path: Some(Access::WRITE), ..Ask::default() };
        permission::check(context.caller, &resolved, ask)?;
        if file_of(&resolved, path)?.open.is_some() {
            return Err(ConcatFault::TargetOpen(path.clone()).into());
        }
        match (resolved.parent().cloned(), resolved.into_last()) {
            (Some(parent), Some(target)) => Ok((parent, target)),
            _ => Err(NsError::no_file(path).into()),
        }
    }

    fn find_source(&self, context: &Context<'_>, path: &FsPath, target: &Node) -> Result<Node, Failure> {
        let resolved = resolve(context.rows, context.caller, path, Purpose::Find)?;
        let ask = Ask { path: Some(Access::READ), parent: Some(Access::WRITE), ..Ask::default() };
        permission::check(context.caller, &resolved, ask)?;
        let file = file_of(&resolved, path)?;
        let block_len_max = target.inode.file().map_or(0, |target| target.block_len);
        let (source, target_path) = (path.clone(), self.target.clone());
        if resolved.parent().is_none_or(|parent| parent.inode.id != target.place.parent) {
            return Err(ConcatFault::OtherDirectory { source, target: target_path }.into());
        }
        if resolved.last().is_some_and(|source| source.inode.id == target.inode.id) {
            return Err(ConcatFault::SourceIsTarget { source, target: target_path }.into());
        }
        if file.open.is_some() || file.block_count == 0 {
            return Err(ConcatFault::OpenOrEmpty { source }.into());
        }
        if file.block_len > block_len_max {
            return Err(ConcatFault::BlockLen { source, len: file.block_len, len_max: block_len_max }.into());
        }
        resolved.into_last().ok_or_else(|| NsError::no_file(path).into())
    }
}

fn file_of<'a>(resolved: &'a Resolved, path: &FsPath) -> Result<&'a File, NsError> {
    let node = resolved.last().ok_or_else(|| NsError::no_file(path))?;
    node.inode.file().ok_or_else(|| NsError::not_a_file(path))
}

/// `target` is changed but not written.
fn move_blocks(context: &mut Context<'_>, source: &Node, target: &mut Node, remembers: bool) -> Result<(), Failure> {
    let from = source.inode.id;
    let mut moved = Vec::new();
    scan_rows(context.rows, from, 0, &mut |offset, row| {
        moved.push((offset, row));
        ControlFlow::Continue(())
    })?;
    let counted = source.inode.file().map(|file| (file.block_count as usize, file.len));
    let found = (moved.len(), types::len::total(moved.iter().map(|(_, row)| row.len)));
    debug_assert!(
        damage::is_expected() || counted == Some(found),
        "{from} has {found:?} blocks and bytes: {counted:?}"
    );
    let to = target.inode.id;
    let file = target.inode.file_mut().ok_or_else(|| corrupt("join files", format!("{to} is a directory")))?;
    for (offset, mut row) in moved {
        if file.block_count >= BLOCK_COUNT_MAX {
            return Err(Limit::JoinedBlockCount.into());
        }
        crate::block::check_end(file.len, row.len)?;
        context.rows.delete(BLOCK, &block_key(from, offset));
        row.replaces = None;
        if remembers {
            row.written_for = row.written_for.or(Some(from));
        }
        hook_row(context.rows, to, file.len, &row);
        file.len += row.len;
        file.block_count += 1;
    }
    Ok(())
}

/// A source without its blocks: nothing is left to free.
fn remove_emptied(context: &mut Context<'_>, mut source: Node) -> Result<(), Failure> {
    unhook_node(context.rows, &source);
    if let Some(file) = source.inode.file_mut() {
        (file.len, file.block_count) = (0, 0);
    }
    Ok(deleted_trees::doom_tree(context, source.inode)?)
}
