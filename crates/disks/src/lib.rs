//! The disks of a node: several volumes that look like one.
//!
//! ```text
//! create, small put ──▶ choose: room per stream ──▶ one volume ──▶ index: block ──▶ disk
//! read, find, reopen, recover, delete ──▶ index ──▶ that volume
//! watch, each second ──▶ gauge (bytes), directory there? ──▶ a disk that failed is out
//! ```
//!
//! Promises:
//! - A block is on one disk. Where a crash in the middle of a move, or a disk that was away, has left two, one counts
//!   and the other goes ([`settle`]).
//! - What has to do with one disk waits for no other. Only a start looks at all of them.
//! - A disk that failed is *out*: nothing is written there, and what it had counts as absent, so that the metadata
//!   server has it copied as it would that of a lost node; whether another one works or not. If it was only made
//!   read-only it still serves readers, and copies that get what it has off it ([`readable`]); and while no other one
//!   works, what it has counts.
//! - A disk that a sync found full takes no writes until the next start, and is not out: what it has counts and serves.
//! - While no disk works, all serve what still reads: checksums tell what does not.
//!
//! - One disk is several of which there is one; these rules hold for any number. A disk is silent, and in the end given
//!   up, only if another one answers meanwhile. Where no disk takes a replica, those that answer are asked, so that
//!   whoever writes hears the disk's own error. One that does not open, or cannot be bound to a block pool, is out if
//!   another one is not; else that error is the node's. What is reported of a disk is what it said in its last look.
//!   One disk has no index alone ([`places`]), as it would say nothing.
//!
//! A disk that is out comes back with the next start of the node ([`join`]).

mod change_over;
mod choose;
mod claims;
mod disk;
mod disks;
mod doubles;
mod index;
mod join;
mod known;
mod level;
mod load;
mod place;
mod places;
mod readable;
mod replicas;
mod report;
mod settle;
mod thread_quota;
mod watch;
mod work;
mod writer;

pub use disk::Disk;
pub use disks::Disks;
pub use index::DISK_COUNT_MAX;
pub use join::{OpenError, open};
pub use level::{BalanceOrder, Balancing, Ended};
pub use load::Stream;
pub use settle::settle;
pub use watch::watch;
pub use writer::Writer;
