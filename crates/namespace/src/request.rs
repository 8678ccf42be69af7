//! What comes in and what goes out: a request with everything the leader decided, and the reply.

use crate::ops::Op;
use crate::view::{BlockView, Status};
use types::{FileId, Generation, Millis};

/// Who asks. The leader looks groups and the superuser up; copies of the state do not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    pub user: String,
    pub groups: Vec<String>,
    /// False: the user database did not answer. Then only what everybody may do in whatever group is granted, and
    /// nothing is denied for good.
    pub groups_known: bool,
    /// The user that runs the server, or a member of its supergroup: all checks are skipped.
    pub superuser: bool,
}
types::record!(Caller { 0: user, 1: groups, 2: groups_known, 3: superuser });

impl Caller {
    /// The server itself, when no client asked.
    pub fn system() -> Self {
        Self { user: "levada".into(), groups: Vec::new(), groups_known: true, superuser: true }
    }
}

/// Names a call across its retries: a client takes a new number for each call, and keeps it when it repeats one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RetryKey {
    pub client: [u8; 16],
    pub call: i32,
}
types::record!(RetryKey { 0: client, 1: call });

/// One change of the namespace, as it stands in the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// The leader's clock. The state knows no other.
    pub now: Millis,
    pub caller: Caller,
    /// `None` if the client gave no usable id (empty client id, negative call id): then a repeat runs again.
    pub retry: Option<RetryKey>,
    pub op: Op,
}
types::record!(Request { 0: now, 1: caller, 2: retry, 3: op });

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
    /// recovered first: the client is then told RecoveryInProgress.
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
    /// `FinishRecovery` brings that length. `message` is what a waiting client is told.
    Started { file: FileId, last: BlockView, generation: Generation, message: String },
}
types::variants!(Recovery {
    0 => Closed { 0: file },
    1 => NotHeld { 0: file },
    2 => Started { 0: file, 1: last, 2: generation, 3: message },
});
