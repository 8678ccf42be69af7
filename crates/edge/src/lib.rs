//! What an edge keeps: which bytes of which contents of files, where they are, and what goes when room is needed.
//!
//! ```text
//!              plan(content, ranges)        parts: memory │ disk │ a flight of whoever asked first
//!   reader ─────────▶ shell ──▶ Shelf ───────────────────▶ shell copies, reads, or waits
//!                       ▲          │
//!             land(id)  │          ├─ the ranges that nobody has: one vectored read upstream
//!             fail(id) ─┘          └─ reserve(len): a place on the disk, or the segment that has to go first
//! ```
//!
//! Promise: no clock, no chance, no I/O, no threads. Bytes are named by their [`Content`], so those of a file that was
//! changed are never found under its new one. Whatever is kept in memory, on the disk and in the index is bounded by
//! [`Limits`]. Nothing here believes the disk: whoever reads a record verifies it ([`record`]).
//!
//! Start reading at [`Shelf::plan`]; why it is so is explained in docs/adr/0038.

mod content;
pub mod fuzz;
mod head;
mod openings;
pub mod record;
mod shelf;

pub use content::Content;
pub use head::{Head, HeadError, SEGMENT_BEGIN};
pub use openings::{Asked, FileId, OPENING_COST, Openings};
pub use record::EXTENT_LEN_MAX;
pub use shelf::{
    DiskPart, EXTENT_COST, Eviction, FlightId, Limits, Part, Place, Plan, Room, SEGMENT_NUMBER_MAX, Shelf, Source,
    Usage,
};
