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

mod access;
mod acl;
mod acl_entry;
mod apply;
mod block;
mod caller;
pub mod check;
mod context;
#[doc(hidden)]
pub mod damage;
mod delegation_token;
mod deleted_trees;
mod effects;
pub mod error;
#[doc(hidden)]
pub mod fuzz;
#[cfg(test)]
mod golden;
mod inode;
mod lease;
mod limits;
mod make;
mod next_block;
pub mod ops;
mod permission;
mod queue_head;
mod quota;
pub mod read;
mod record;
mod recovery;
mod reply;
mod request;
mod reserved;
mod resolve;
mod resolved;
mod restored;
mod retry;
mod retry_key;
mod safe_mode;
mod safe_mode_gate;
pub mod tables;
mod tree_usage;
mod usage;
mod view;
mod walk;
mod xattr;
mod xattr_name;

pub use access::Access;
pub use acl::{ACL_ENTRY_COUNT_MAX, ACL_NAME_LEN_MAX, AclChange};
pub use acl_entry::{AclEntry, AclKey, AclKind, AclScope};
pub use apply::{IsThere, apply, apply_with};
pub use caller::Caller;
pub use delegation_token::DelegationToken;
pub use effects::{Applied, Doubt, DoubtCause, Effects, Written};
pub use error::{Answer, NsError};
pub use inode::{ROOT, has_entries};
pub use lease::{RECOVERY_HOLDER, client_of, holder_name, user_of};
pub use limits::{BLOCK_COUNT_MAX, BLOCKS_CHANGED_MAX, HOLDER_LEN_MAX, RESERVED_COUNT_MAX, RETRY_KEPT, TREE_DEPTH_MAX};
pub use ops::{
    AbandonBlock, AddBlock, AddLeased, Allocated, Append, BeginRecovery, BlockMove, BumpGeneration, CancelToken,
    Complete, Concat, Create, Delete, FileVersion, FinishRecovery, ForgetDoomed, ForgetResized, ForgetTokens, Format,
    Fsync, IssueToken, Mkdirs, MoveBlocks, OWNER_NAME_LEN_MAX, Op, PutBlock, PutFile, QuotaChange, Reap,
    RecoveryTarget, RemoveXattr, Rename, Rename2, RenewToken, Reserve, SetAcl, SetOwner, SetPermission, SetQuota,
    SetReplication, SetSafeMode, SetTimes, SetXattr, TouchAccessTime, Truncate, UpdatePipeline,
};
pub use quota::{Limits, StorageType};
pub use reply::{Recovery, Reply};
pub use request::Request;
pub use restored::restore;
pub use retry_key::RetryKey;
pub use safe_mode::SafeMode;
pub use tree_usage::TreeUsage;
pub use view::{BlockRef, BlockView, DoomedBlock, FileBlocks, Kind, Status, StatusRow};
pub use xattr::{XATTR_COUNT_MAX, XATTR_LEN_MAX, XATTR_NAME_LEN_MAX};
pub use xattr_name::{Xattr, XattrName, XattrSpace};
