//! Making a file shorter.

use crate::access::Access;
use crate::block::{self, Placed, doom_row, row_at_most, scan_rows, write_row};
use crate::context::Context;
use crate::error::held::{Held, Holder, Opening};
use crate::error::limit::Limit;
use crate::error::{Failure, NsError, Purpose};
use crate::inode::{Node, next_generation, write_node};
use crate::lease::{self, RECOVERY_HOLDER};
use crate::limits::BLOCKS_CHANGED_MAX;
use crate::permission::{self, Ask};
use crate::record::{BlockState, OpenFile};
use crate::recovery::{Newcomer, meet_open};
use crate::reply::Reply;
use crate::resolve::resolve;
use crate::usage::{self, Excess};
use std::ops::ControlFlow;
use types::FsPath;

/// Cuts a file to `len` bytes. Answers `Reply::Bool(true)` if it ends with a block now. Otherwise the file is under
/// recovery until its last block is cut: `Reply::Cutting` tells of that, and `Reply::Bool(false)` whoever asks for the
/// same once more. `Reply::Recovery(Started)` as `Create` does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Truncate {
    pub path: FsPath,
    pub len: u64,
    pub client: String,
    pub client_host: String,
    pub takeover: Option<String>,
}
types::record!(Truncate { 0: path, 1: len, 2: client, 3: client_host, 4: takeover });

impl Truncate {
    pub(crate) fn run(&self, context: &mut Context<'_>) -> Result<Reply, Failure> {
        lease::check_holder_name(&self.client)?;
        let resolved = resolve(context.rows, context.caller, &self.path, Purpose::Find)?;
        let ask = Ask { path: Some(Access::WRITE), ..Ask::default() };
        permission::check(context.caller, &resolved, ask)?;
        let path = resolved.path.clone();
        let mut node = resolved.into_last().ok_or_else(|| NsError::no_file(&path))?;
        if node.inode.is_directory() {
            return Err(NsError::not_a_file(&path).into());
        }
        if let Some(wanted) = self.under_way(context, &node)? {
            return self.once_more(&path, wanted);
        }
        let newcomer = Newcomer {
            opening: Opening::Truncate,
            client: &self.client,
            client_host: &self.client_host,
            takeover: self.takeover.as_deref(),
        };
        if let Some(started) = meet_open(context, &mut node, path.as_str(), &newcomer)? {
            return Ok(Reply::Recovery(started));
        }
        let old = node.inode.file().map_or(0, |file| file.len);
        if old < self.len {
            return Err(Limit::TruncateLen { have: old, wanted: self.len }.into());
        }
        if old == self.len {
            return Ok(Reply::Bool(true));
        }
        let bill = usage::bill(context.rows, &node)?;
        node.inode.modified = context.now;
        let reply = match self.drop_behind(context, &mut node)? {
            Some(last) => self.begin(context, &mut node, last)?,
            None => Reply::Bool(true),
        };
        write_node(context.rows, &node);
        bill.settle(context.rows, &node.inode, Excess::Refused)?;
        Ok(reply)
    }

    /// The length that the file is being cut to.
    fn under_way(&self, context: &Context<'_>, node: &Node) -> Result<Option<u64>, Failure> {
        if node.inode.file().is_none_or(|file| file.open.is_none()) {
            return Ok(None);
        }
        let last = block::last_row(context.rows, &node.inode)?;
        Ok(last.and_then(|(offset, row)| Some(offset + row.cut_len()?)))
    }

    fn once_more(&self, path: &FsPath, wanted: u64) -> Result<Reply, Failure> {
        if wanted == self.len {
            return Ok(Reply::Bool(false));
        }
        let held = Held {
            opening: Opening::Truncate,
            path: path.to_string(),
            client: self.client.clone(),
            client_host: self.client_host.clone(),
            by: Holder::Truncation,
        };
        Err(NsError::AlreadyBeingCreated(held.into()).into())
    }

    /// Takes away all blocks that begin at the new end or behind it. The one that reaches over the end, if there is
    /// one, stays.
    fn drop_behind(&self, context: &mut Context<'_>, node: &mut Node) -> Result<Option<Placed>, Failure> {
        let id = node.inode.id;
        let mut over = None;
        let mut behind = Vec::new();
        let first = row_at_most(context.rows, id, self.len)?.map_or(0, |(offset, _)| offset);
        scan_rows(context.rows, id, first, &mut |offset, row| {
            if offset >= self.len {
                behind.push((offset, row));
            } else if offset + row.len > self.len {
                over = Some((offset, row));
            }
            if behind.len() <= BLOCKS_CHANGED_MAX as usize { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        })?;
        if behind.len() > BLOCKS_CHANGED_MAX as usize {
            return Err(Limit::TruncatedBlocks { path: self.path.clone(), len: self.len }.into());
        }
        for (offset, row) in behind {
            doom_row(context, id, offset, &row)?;
            block::resize(node, row.len, 0, -1)?;
        }
        Ok(over)
    }

    /// The file is as if its writer had died: nobody writes it, and what ends its recovery ends this.
    fn begin(&self, context: &mut Context<'_>, node: &mut Node, (offset, mut row): Placed) -> Result<Reply, Failure> {
        let id = node.inode.id;
        assert!(offset < self.len && self.len - offset < row.len, "{} is not cut inside {row:?}", self.path);
        let generation = next_generation(context.rows)?;
        row.issued = generation;
        row.state = BlockState::Cutting { len: self.len - offset };
        write_row(context.rows, id, offset, &row);
        if let Some(file) = node.inode.file_mut() {
            file.open = Some(OpenFile {
                holder: RECOVERY_HOLDER.into(),
                client_host: self.client_host.clone(),
                recovery: Some(generation),
            });
        }
        lease::grant(context.rows, id, RECOVERY_HOLDER);
        Ok(Reply::Cutting { file: id, last: block::view(id, &(offset, row)), generation })
    }
}
