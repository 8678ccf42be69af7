//! What a request comes to for who asked.

use crate::view::{BlockView, Status};
use types::{FileId, Generation};

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    Done,
    Bool(bool),
    /// Of the file just created.
    Status(Status),
    /// `last` is the partial last block. If it is not `complete`, the client goes on writing it; if it is (the client
    /// asked for a new block), it tells the position alone and is sent without locations.
    Append {
        last: Option<BlockView>,
        status: Status,
    },
    /// The block to write. If its id is not the one that was brought along, the request was a retry: the id that was
    /// brought along is still free.
    Block(BlockView),
    Generation(Generation),
    /// Answer to `BeginRecovery`; also of `Create` and `Append` when they took a lease over and the last block must be
    /// recovered first: the client has to come back later.
    Recovery(Recovery),
    /// `more`: another step is needed.
    Reaped {
        more: bool,
    },
    /// Ids `first..first + count` are nobody's but the asker's, and blocks that go with them are written under
    /// `generation`.
    Reserved {
        first: FileId,
        generation: Generation,
    },
    /// Answer to `Truncate` inside a block: the replicas of `last` must be cut under `generation`, as in a recovery.
    Cutting {
        file: FileId,
        last: BlockView,
        generation: Generation,
    },
}
types::variants!(Reply {
    0 => Done,
    1 => Bool(0: is),
    2 => Status[status],
    3 => Append { 0: last, 1: status },
    4 => Block[block],
    5 => Generation(0: generation),
    6 => Recovery(0: recovery),
    7 => Reaped { 0: more },
    8 => Reserved { 0: first, 1: generation },
    9 => Cutting { 0: file, 1: last, 2: generation },
});

/// How far the recovery of an open file has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Recovery {
    /// The file is closed: it was already, or all its blocks were whole.
    Closed { file: FileId },
    /// The holder named in the request holds the file no more. Nothing was changed.
    NotHeld { file: FileId },
    /// The old writer is shut out. The replicas of `last` must be fenced with `generation`, cut to one length, and
    /// `FinishRecovery` brings that length.
    Started { file: FileId, last: BlockView, generation: Generation },
}
types::variants!(Recovery {
    0 => Closed { 0: file },
    1 => NotHeld { 0: file },
    2 => Started { 0: file, 1: last, 2: generation },
});
