//! Commands in a metadata server's Raft log, and the replies of applying them.

use namespace::{NsError, Op};
use security::joining::{self, JoinError};
use security::rings::{self, RingError};

/// The highest level of forms that this program knows. It rises by one with each version that writes a field or a
/// variant which the version before does not know; [`Command::level`] says which ones those are (docs/adr/0014).
pub(crate) const LEVEL: u8 = LEAVES;

/// Rings of keys, and blocks that remember under which file they were written.
pub(crate) const KEY_RINGS: u8 = raft::LEVEL_FIRST + 1;

/// Delegation tokens that were given out.
pub(crate) const DELEGATION_TOKENS: u8 = KEY_RINGS + 1;

/// Invitations of datanodes, and certificates that were revoked.
pub(crate) const JOINING: u8 = DELEGATION_TOKENS + 1;

/// Datanodes' times away, holds on repair, where datanodes are dialled from outside, rates of balancing, the release of
/// found blocks, and what lists of hosts say.
pub(crate) const LEAVES: u8 = JOINING + 1;

/// One change, with everything the leader decided in it. The order of the variants is that of the numbers in the log:
/// new ones go to the end, and have a level of their own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Command {
    Namespace(namespace::Request),
    Blocks(blocks::Command),
    /// Gives the store its block pool, once.
    Found(Founding),
    /// Lets forms of this level be written from here on, as all members know them.
    Raise {
        level: u8,
    },
    Rings(rings::Command),
    Joining(joining::Command),
}
types::variants!(Command {
    0 => Namespace[request],
    1 => Blocks[command],
    2 => Found[founding],
    3 => Raise { 0: level },
    4 => Rings[command],
    5 => Joining[command],
});

impl Command {
    /// The level to which its form belongs: that of the newest field or variant that it uses.
    pub(crate) fn level(&self) -> u8 {
        match self {
            Self::Namespace(namespace::Request {
                op: Op::IssueToken(_) | Op::RenewToken(_) | Op::CancelToken(_) | Op::ForgetTokens(_),
                ..
            }) => DELEGATION_TOKENS,
            Self::Namespace(namespace::Request { op: Op::Concat(concat), .. }) if concat.remembers.is_some() => {
                KEY_RINGS
            }
            Self::Blocks(blocks::Command::Register(node)) if node.outside.is_some() => LEAVES,
            Self::Blocks(blocks::Command::BeginJob { row, .. })
                if matches!(row.task, blocks::JobTask::Balance { len_per_s: Some(_), .. }) =>
            {
                LEAVES
            }
            Self::Blocks(
                blocks::Command::SetLeave { .. }
                | blocks::Command::HoldRepair { .. }
                | blocks::Command::ReleaseFound { .. }
                | blocks::Command::SetListed { .. },
            ) => LEAVES,
            Self::Namespace(_) | Self::Blocks(_) | Self::Found(_) | Self::Raise { .. } => raft::LEVEL_FIRST,
            Self::Rings(_) => KEY_RINGS,
            Self::Joining(_) => JOINING,
        }
    }
}

/// The identity of this store. It never changes once the store is founded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Founding {
    /// Datanodes refuse another store's blocks by this name. In HDFS's form, `BP-<random>-<address>-<ms>`.
    pub(crate) pool: String,
}
types::record!(Founding { 0: pool });

#[derive(Clone, Debug)]
pub(crate) enum Reply {
    /// A blank entry of Raft's own.
    Nothing,
    Namespace(Result<namespace::Reply, NsError>),
    Blocks(Result<blocks::Reply, blocks::BlocksError>),
    Founded,
    Raised,
    Rings(Result<(), RingError>),
    Joining(Result<(), JoinError>),
    /// Founding the store, or raising its level, panicked.
    Failed,
}

impl Reply {
    /// Whether what was staged for it counts: nothing does of what was refused.
    pub(crate) fn keeps_rows(&self) -> bool {
        match self {
            Self::Nothing | Self::Founded | Self::Raised => true,
            Self::Namespace(answer) => answer.is_ok(),
            Self::Blocks(answer) => answer.is_ok(),
            Self::Rings(answer) => answer.is_ok(),
            Self::Joining(answer) => answer.is_ok(),
            Self::Failed => false,
        }
    }
}
