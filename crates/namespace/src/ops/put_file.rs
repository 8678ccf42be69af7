//! A small file, whole: created, given its one block and completed by one command.

use super::create::{Create, Made};
use crate::block::{self, check_end, hook_row};
use crate::context::Context;
use crate::effects::DoubtCause;
use crate::error::Failure;
use crate::error::lease_fault::LeaseFault;
use crate::error::limit::Limit;
use crate::inode::{read_counters, read_place};
use crate::record::{BlockRow, BlockState, File};
use crate::reply::Reply;
use crate::tables::{DOOMED_BLOCK, DOOMED_TREE, doomed_block_key, inode_key};
use crate::view::status_of;
use types::rows::{Rows, RowsError};
use types::{BlockId, ContainerId, FileId, Generation};

/// What `Create`, `AddBlock` and `Complete` would do one after the other, for a block that its nodes have put already.
/// Rights, overwriting and parents are as in [`Create`]; the file is never open. Answers `Reply::Status`, or
/// `Reply::Recovery(Started)` as `Create` does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PutFile {
    pub create: Create,
    /// `None`: the file is empty.
    pub block: Option<PutBlock>,
}
types::record!(PutFile { 0: create, 1: block });

/// The block, with ids that were leased to the client. That the lease still stands is the leader's business; that
/// nothing else has these ids is looked at here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PutBlock {
    /// Reserved together with the block; the replicas name it as their owner.
    pub file: FileId,
    pub block: BlockId,
    pub generation: Generation,
    pub len: u64,
    pub home: ContainerId,
}
types::record!(PutBlock { 0: file, 1: block, 2: generation, 3: len, 4: home });

impl PutFile {
    pub(crate) fn run(&self, context: &mut Context<'_>) -> Result<Reply, Failure> {
        let mut file = self.create.wished();
        if let Some(put) = &self.block {
            put.check(context.rows, &file)?;
            (file.len, file.block_count) = (put.len, 1);
        }
        let node = match self.create.make(context, self.block.map(|put| put.file), file)? {
            Made::File(node) => node,
            Made::Must(recovery) => return Ok(Reply::Recovery(recovery)),
        };
        if let Some(PutBlock { block, generation, len, home, .. }) = self.block {
            let state = BlockState::Complete;
            let row =
                BlockRow { block, generation, issued: generation, len, home, state, replaces: None, written_for: None };
            hook_row(context.rows, node.inode.id, 0, &row);
            context.effects.wrote(block, home, 0, len);
            context.effects.doubt(block, home, DoubtCause::Leased);
        }
        Ok(Reply::Status(status_of(&node.inode, "")))
    }
}

impl PutBlock {
    fn check(&self, rows: &dyn Rows, file: &File) -> Result<(), Failure> {
        if self.len == 0 || self.len > file.block_len {
            return Err(Limit::PutLen { len: self.len, block_len: file.block_len }.into());
        }
        check_end(0, self.len)?;
        if !self.is_free(rows)? {
            // The client takes other ids, and puts the file again.
            return Err(LeaseFault::IdsNotLeased { block: self.block, file: Some(self.file) }.into());
        }
        Ok(())
    }

    /// The ids were given out, and nothing has them. A block that waits for its deletion was somebody's once.
    fn is_free(&self, rows: &dyn Rows) -> Result<bool, RowsError> {
        let Some(counters) = read_counters(rows)? else { return Ok(false) };
        let given_out = self.file > crate::inode::ROOT
            && self.file <= counters.inode
            && self.generation > Generation(0)
            && self.generation <= counters.generation;
        Ok(given_out
            && read_place(rows, self.file)?.is_none()
            && rows.get(DOOMED_TREE, &inode_key(self.file))?.is_none()
            && block::find(rows, self.block)?.is_none()
            && rows.get(DOOMED_BLOCK, &doomed_block_key(self.block, self.home))?.is_none())
    }
}
