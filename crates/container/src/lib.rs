//! The replicas of one disk of a datanode: written, put, found, read, recovered and deleted.
//!
//! ```text
//! create ──▶ Writer: write · sync · set_visible ──▶ put ──▶ finalized ──▶ read: Reader ──▶ delete
//!               ▲                                              │
//!               └── reopen, begin_recovery + finish_recovery ──┘   always under a higher generation
//! ```
//!
//! Promises:
//! - What was *put* is there after a crash, with the right bytes ([`Durability`] says after which crash).
//! - What was written and not put is there as a replica that waits for recovery, as far as its checksums vouch for it.
//! - A replica never changes under its generation once it is finalized, and a writer that was superseded writes no
//!   more.
//! - Nothing here trusts the index more than the files: it is rebuilt from them wherever it may lag.
//!
//! Calls may wait for the disk: run them where that is welcome. Where things lie is drawn in [`layout`]; the file
//! formats in [`header`] and [`record`]; start reading at [`Volume`].

mod batch;
mod compact;
mod create;
mod delete;
mod directories;
mod errno;
mod error;
mod flush;
#[doc(hidden)]
pub mod fuzz;
#[cfg(test)]
mod golden;
mod group_sync;
pub mod header;
mod health;
mod index;
mod index_lag;
mod inner;
pub mod layout;
mod lookup;
mod meters;
mod open;
mod open_packs;
mod options;
mod owner;
mod pack;
mod put;
mod reader;
pub mod record;
mod recovery;
mod reopen;
mod replica;
mod reserve;
mod restore;
mod room;
mod slots;
mod staging;
mod version;
mod volume;
mod writer;

pub use batch::SmallPut;
pub use error::{Advice, DiskOp, ReplicaError, VolumeError};
pub use meters::Meters;
pub use open::Packet;
pub use options::{Durability, Options};
pub use reader::{OwnFiles, Reader};
pub use reopen::{ReopenAsk, ReopenKind};
pub use replica::{Identity, ReplicaInfo};
pub use version::{Salt, VolumeIdentity};
pub use volume::{Volume, VolumeUsage};
pub use writer::{Progress, Writer};
