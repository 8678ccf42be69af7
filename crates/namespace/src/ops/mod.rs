//! One operation a file. Each is a struct with what the client sent and the leader decided, and its `run`.

mod abandon_block;
mod add_block;
mod add_leased;
mod append;
mod begin_recovery;
mod bump_generation;
mod cancel_token;
mod complete;
mod concat;
mod create;
mod delete;
mod finish_recovery;
mod forget_doomed;
mod forget_resized;
mod forget_tokens;
mod format;
mod fsync;
mod issue_token;
mod mkdirs;
mod move_blocks;
mod put_file;
mod reap;
mod rename;
mod rename2;
mod renew_token;
mod reserve;
mod set_acl;
mod set_owner;
mod set_permission;
mod set_quota;
mod set_replication;
mod set_safe_mode;
mod set_times;
mod set_xattr;
mod touch_access_time;
mod truncate;
mod update_pipeline;

pub use abandon_block::AbandonBlock;
pub use add_block::{AddBlock, Allocated};
pub use add_leased::AddLeased;
pub use append::Append;
pub use begin_recovery::{BeginRecovery, RecoveryTarget};
pub use bump_generation::BumpGeneration;
pub use cancel_token::CancelToken;
pub use complete::Complete;
pub use concat::Concat;
pub use create::Create;
pub use delete::Delete;
pub use finish_recovery::FinishRecovery;
pub use forget_doomed::ForgetDoomed;
pub use forget_resized::ForgetResized;
pub use forget_tokens::ForgetTokens;
pub use format::Format;
pub use fsync::Fsync;
pub use issue_token::IssueToken;
pub use mkdirs::Mkdirs;
pub use move_blocks::{BlockMove, MoveBlocks};
pub use put_file::{PutBlock, PutFile};
pub use reap::Reap;
pub use rename::Rename;
pub use rename2::{FileVersion, Rename2};
pub use renew_token::RenewToken;
pub use reserve::Reserve;
pub use set_acl::SetAcl;
pub use set_owner::{OWNER_NAME_LEN_MAX, SetOwner};
pub use set_permission::SetPermission;
pub use set_quota::{QuotaChange, SetQuota};
pub use set_replication::SetReplication;
pub use set_safe_mode::SetSafeMode;
pub use set_times::SetTimes;
pub use set_xattr::{RemoveXattr, SetXattr};
pub use touch_access_time::TouchAccessTime;
pub use truncate::Truncate;
pub use update_pipeline::UpdatePipeline;

use crate::context::Context;
use crate::error::{Failure, NsError};
use crate::reply::Reply;
use types::{ContainerId, FsPath};

macro_rules! operations {
    ($($number:literal $op:ident: $name:literal, $once:literal;)*) => {
        /// One change of the namespace.
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub enum Op {
            $($op($op),)*
        }
        types::variants!(Op { $($number => $op[op]),* });

        $(impl From<$op> for Op {
            fn from(op: $op) -> Self {
                Self::$op(op)
            }
        })*

        impl Op {
            #[cfg(test)]
            pub(crate) const COUNT: usize = [$($name),*].len();

            /// For the audit log; HDFS's name where it has one.
            pub fn name(&self) -> &'static str {
                match self { $(Self::$op(_) => $name,)* }
            }

            /// True if a repeat must not run again, so its outcome is kept under the retry key.
            pub fn is_at_most_once(&self) -> bool {
                match self { $(Self::$op(_) => $once,)* }
            }

            pub(crate) fn run(&self, context: &mut Context<'_>) -> Result<Reply, Failure> {
                match self { $(Self::$op(op) => op.run(context),)* }
            }
        }
    };
}

// The numbers are those in the log: each stays with its operation.
operations! {
    0 Format: "format", false;
    1 Mkdirs: "mkdirs", false;
    2 Create: "create", true;
    3 Append: "append", true;
    4 AddBlock: "addBlock", false;
    5 AbandonBlock: "abandonBlock", false;
    6 BumpGeneration: "updateBlockForPipeline", false;
    7 UpdatePipeline: "updatePipeline", true;
    8 Complete: "complete", false;
    9 Fsync: "fsync", false;
    10 Rename: "rename", true;
    11 Rename2: "rename2", true;
    12 Delete: "delete", true;
    13 SetPermission: "setPermission", false;
    14 SetOwner: "setOwner", false;
    15 SetTimes: "setTimes", false;
    16 SetReplication: "setReplication", false;
    17 BeginRecovery: "recoverLease", false;
    18 FinishRecovery: "commitBlockSynchronization", false;
    19 Reap: "reap", false;
    20 ForgetDoomed: "forgetDoomed", false;
    21 TouchAccessTime: "touchAccessTime", false;
    22 PutFile: "putFile", true;
    23 Reserve: "reserve", false;
    24 SetAcl: "setAcl", false;
    25 SetXattr: "setXAttr", true;
    26 RemoveXattr: "removeXAttr", true;
    27 Concat: "concat", true;
    28 AddLeased: "addLeased", false;
    29 MoveBlocks: "moveBlocks", false;
    30 ForgetResized: "forgetResized", false;
    31 SetQuota: "setQuota", false;
    32 Truncate: "truncate", false;
    33 SetSafeMode: "setSafeMode", false;
    34 IssueToken: "getDelegationToken", false;
    35 RenewToken: "renewDelegationToken", false;
    36 CancelToken: "cancelDelegationToken", false;
    37 ForgetTokens: "forgetTokens", false;
}

impl Op {
    /// Source and destination, for the audit log.
    pub fn paths(&self) -> (Option<&FsPath>, Option<&FsPath>) {
        match self {
            Self::Mkdirs(op) => (Some(&op.path), None),
            Self::Create(op) => (Some(&op.path), None),
            Self::PutFile(op) => (Some(&op.create.path), None),
            Self::Append(op) => (Some(&op.path), None),
            Self::AddBlock(op) => (Some(&op.path), None),
            Self::AddLeased(op) => (Some(&op.add.path), None),
            Self::AbandonBlock(op) => (Some(&op.path), None),
            Self::Complete(op) => (Some(&op.path), None),
            Self::Fsync(op) => (Some(&op.path), None),
            Self::Rename(op) => (Some(&op.from), Some(&op.to)),
            Self::Rename2(op) => (Some(&op.from), Some(&op.to)),
            Self::Delete(op) => (Some(&op.path), None),
            Self::SetPermission(op) => (Some(&op.path), None),
            Self::SetOwner(op) => (Some(&op.path), None),
            Self::SetTimes(op) => (Some(&op.path), None),
            Self::SetReplication(op) => (Some(&op.path), None),
            Self::TouchAccessTime(op) => (Some(&op.path), None),
            Self::SetAcl(op) => (Some(&op.path), None),
            Self::SetXattr(op) => (Some(&op.path), None),
            Self::RemoveXattr(op) => (Some(&op.path), None),
            Self::SetQuota(op) => (Some(&op.path), None),
            Self::Truncate(op) => (Some(&op.path), None),
            Self::Concat(op) => (op.sources.first(), Some(&op.target)),
            Self::BeginRecovery(BeginRecovery { target: RecoveryTarget::Path(path), .. }) => (Some(path), None),
            Self::BeginRecovery(_)
            | Self::Format(_)
            | Self::BumpGeneration(_)
            | Self::UpdatePipeline(_)
            | Self::FinishRecovery(_)
            | Self::Reap(_)
            | Self::Reserve(_)
            | Self::ForgetDoomed(_)
            | Self::MoveBlocks(_)
            | Self::ForgetResized(_)
            | Self::SetSafeMode(_)
            | Self::IssueToken(_)
            | Self::RenewToken(_)
            | Self::CancelToken(_)
            | Self::ForgetTokens(_) => (None, None),
        }
    }
}

impl Op {
    /// Refuses what is longer than its kind may be, before it takes room in the log. `run` asks again: a log holds what
    /// it holds.
    pub fn check_lens(&self) -> Result<(), NsError> {
        match self {
            Self::SetXattr(op) => op.check_len(),
            Self::RemoveXattr(op) => op.check_len(),
            Self::SetAcl(op) => op.check_len(),
            Self::SetOwner(op) => op.check_len(),
            Self::Concat(op) => op.check_len(),
            _ => Ok(()),
        }
    }
}

impl Op {
    /// False for what a client may do when the server has no space left but its reserve: it frees rows, moves them, or
    /// ends the writing of a file.
    pub fn takes_room(&self) -> bool {
        !matches!(
            self,
            Self::Delete(_)
                | Self::Truncate(_)
                | Self::Rename(_)
                | Self::Rename2(_)
                | Self::Concat(_)
                | Self::RemoveXattr(_)
                | Self::AbandonBlock(_)
                | Self::Fsync(_)
                | Self::BumpGeneration(_)
                | Self::UpdatePipeline(_)
                | Self::Complete(_)
                | Self::BeginRecovery(_)
                | Self::SetSafeMode(_)
                | Self::RenewToken(_)
                | Self::CancelToken(_)
                | Self::ForgetTokens(_)
        )
    }

    /// Containers that blocks have as their home from then on.
    pub(crate) fn homes(&self) -> Vec<ContainerId> {
        match self {
            Self::AddBlock(op) => vec![op.allocated.home],
            Self::AddLeased(op) => vec![op.add.allocated.home],
            Self::PutFile(op) => op.block.iter().map(|put| put.home).collect(),
            Self::UpdatePipeline(op) => op.home.into_iter().collect(),
            Self::MoveBlocks(op) => op.moves.iter().map(|one| one.to).collect(),
            _ => Vec::new(),
        }
    }
}
