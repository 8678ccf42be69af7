//! The disks of a node: several volumes that look like one.
//!
//! ```text
//! create, small put ──▶ choose: room per stream ──▶ one volume ──▶ index: block ──▶ disk
//! read, find, reopen, recover, delete ──▶ index ──▶ that volume
//! watch, each second ──▶ gauge (bytes), directory there? ──▶ a disk that failed is left alone
//! ```
//!
//! Promises:
//! - A block is on one disk. Where a crash in the middle of a move, or a disk that was away, has left two, one counts
//!   and the other goes ([`resolve_duplicates`]).
//! - What has to do with one disk waits for no other. Only a start looks at all of them.
//! - On a failed disk nothing is written, and what it had counts as absent, so that the metadata server has it copied
//!   as it would that of a lost node; whether another one works or not. If it was only made read-only it still
//!   serves readers, and copies that get what it has off it ([`readable`]); and while no other one works, what it has
//!   counts.
//! - A disk that a sync found full takes no writes until the next start, and has not failed: what it has counts and
//!   serves.
//! - While no disk works, all serve what still reads: checksums tell what does not.
//!
//! - One disk is several of which there is one; these rules hold for any number. A disk is silent, and in the end
//!   declared failed, only if another one answers meanwhile. Where no disk takes a replica, those that answer are
//!   asked, so that the writer gets the disk's own error. One that does not open, or cannot be bound to a block pool,
//!   has failed if another one has not; else that error is the node's. What is reported of a disk is what it said in
//!   its last probe. One disk has no index alone ([`block_locations`]), as it would say nothing.
//!
//! A failed disk comes back with the next start of the node ([`join`]).

mod balance;
mod block_locations;
mod change_over;
mod check;
mod choose;
mod claims;
mod create;
mod disk;
mod disk_list;
mod disks;
mod duplicates;
mod index;
mod join;
mod load;
mod readable;
mod replicas;
mod report;
mod resolve_duplicates;
mod thread_quota;
mod watch;
mod work;
mod writer;

pub use balance::{BalanceEnd, BalanceOrder, Balancing};
pub use disk::Disk;
pub use disks::Disks;
pub use index::DISK_COUNT_MAX;
pub use join::{OpenError, open};
pub use load::Stream;
pub use resolve_duplicates::resolve_duplicates;
pub use watch::watch;
pub use writer::Writer;
