//! Reading ahead of a program, from far away: the learned cache of a file, which does what `prefetch` decides.
//!
//! ```text
//!   program ── read_at, read_ranges ──▶ Ahead ──▶ Prefetcher      under a lock that is held over no await
//!                 ▲                       │
//!                 │ copies of             ├──▶ flights: tasks with one vectored read each ──▶ Reader
//!                 ├───── what is held ◀── Kept ◀──┤
//!                 └───── what arrives ◀───────────┘
//!                                         ├── layout: asked of the file, by reads that the program makes as well
//!                                         └── Profiles: what earlier runs read, of this process and of the disk
//! ```
//!
//! Promise: bytes are those of plain reads, and so are errors: what a fetch could not bring is read as it was asked
//! for. Memory is bounded by the settings. Every task belongs to an [`Ahead`] and ends with it, or with the store.
//!
//! Start reading at [`Ahead::read_ranges`]; why bytes are fetched is explained in docs/adr/0032.

mod by_name;
mod chunk;
mod flight;
mod handle;
mod kept;
mod landing;
mod layout;
mod learned;
mod options;
mod origin;
mod rehearsal;
mod search;
mod shell;
mod state;
mod statistics;
mod tasks;
#[cfg(test)]
mod tests;

pub use handle::Ahead;
pub use options::{AheadOptions, DataSet};
pub use rehearsal::Rehearsal;
pub use statistics::AheadStatistics;
