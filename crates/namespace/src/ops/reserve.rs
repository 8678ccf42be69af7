//! Ids of files taken ahead of time, for clients that put whole files.

use crate::context::Context;
use crate::error::Failure;
use crate::error::limit::Limit;
use crate::inode::{next_generation, read_counters, write_counters};
use crate::limits::RESERVED_COUNT_MAX;
use crate::reply::Reply;
use crate::tables::{RESERVED, RESERVED_KEY, inode_key};
use types::InodeId;

/// Takes `count` ids that no file will have unless it is put under one of them, and a generation for their blocks.
/// Answers `Reply::Reserved`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reserve {
    pub count: u32,
}
types::record!(Reserve { 0: count });

impl Reserve {
    pub(crate) fn run(&self, context: &mut Context<'_>) -> Result<Reply, Failure> {
        if self.count == 0 || self.count > RESERVED_COUNT_MAX {
            return Err(Limit::ReservedIds { count: self.count }.into());
        }
        let generation = next_generation(context.rows)?;
        let mut counters = read_counters(context.rows)?.expect("the generation just came from there");
        let first = InodeId(counters.inode.0 + 1);
        counters.inode.0 += u64::from(self.count);
        write_counters(context.rows, counters);
        context.rows.put(RESERVED, RESERVED_KEY, inode_key(counters.inode).to_vec());
        Ok(Reply::Reserved { first, generation })
    }
}
