//! The namespace: files, directories, leases, and which blocks make up a file, as one pure state machine.
//!
//! ```text
//!            Request (time, caller, retry key, Op)                    Status, Listing, FileBlocks …
//!                          │                                                     ▲
//!                          ▼                                                     │
//!   retry ──▶ ops/… ──▶ resolve ──▶ permission ──▶ rows (tables.rs) ──────────▶ read/…
//! ```
//!
//! Promise: [`apply`] is a function of rows and request alone, so every copy of the state that applies the same
//! requests holds the same rows. It reads no clock and draws no number; the leader puts time, new block ids and
//! what it knows of silent lease holders into the request.
//!
//! Promise: the rows that one request touches are bounded by the depth of its paths, by the blocks it changes of a file
//! ([`BLOCKS_CHANGED_MAX`]) and by the items it names, never by the size of a tree. Each directory counts what is below
//! it (`usage`), and what needs the rights on every directory of a tree is examined in steps before it is proposed
//! ([`read::Removal`]). What must hold at all times is written down in [`check`].

mod acl;
mod block;
pub mod check;
mod doom;
mod effects;
mod error;
mod front;
#[doc(hidden)]
pub mod fuzz;
#[cfg(test)]
mod golden;
mod inode;
mod lease;
mod limits;
mod make;
pub mod ops;
mod permission;
mod quota;
pub mod read;
mod record;
mod recovery;
mod request;
mod reserved;
mod resolve;
mod retry;
mod safe_mode;
pub mod tables;
mod usage;
mod view;
mod walk;
mod xattr;

pub use acl::{ACL_ENTRY_COUNT_MAX, AclChange, AclEntry, AclKey, AclKind, AclScope};
pub use effects::{Applied, Doubt, DoubtCause, Effects, Written};
pub use error::{Answer, NsError};
pub use lease::RECOVERY_HOLDER;
pub use limits::{BLOCK_COUNT_MAX, BLOCKS_CHANGED_MAX, HOLDER_LEN_MAX, RESERVED_COUNT_MAX, RETRY_KEPT};
pub use ops::{
    AbandonBlock, AddBlock, AddLeased, Allocated, Append, BeginRecovery, BlockMove, BlockRef, BumpGeneration, Complete,
    Concat, Create, Delete, FinishRecovery, ForgetDoomed, ForgetResized, Format, Fsync, IsThere, Mkdirs, MoveBlocks,
    Op, PutBlock, PutFile, QuotaChange, Reap, RecoveryTarget, RemoveXattr, Rename, Rename2, Reserve, SetAcl, SetOwner,
    SetPermission, SetQuota, SetReplication, SetSafeMode, SetTimes, SetXattr, TouchAccessTime, Truncate,
    UpdatePipeline, apply, apply_with,
};
pub use permission::Access;
pub use quota::{Limits, StorageType};
pub use request::{Caller, Recovery, Reply, Request, RetryKey};
pub use resolve::ROOT;
pub use safe_mode::SafeMode;
pub use usage::Usage;
pub use view::{BlockView, DoomedBlock, FileBlocks, Kind, Status};
pub use xattr::{XATTR_COUNT_MAX, XATTR_LEN_MAX, XATTR_NAME_LEN_MAX, Xattr, XattrName, XattrSpace};
