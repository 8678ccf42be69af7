//! Reading many ranges of blocks by one request (op 201), both ends of it.
//!
//! ```text
//! reader                                                    datanode
//!          request ─────────────────────────────────────▶   Plan: reads in the order of the disk, each for some parts
//! Receiver ◀── answer │ head · bytes │ … │ end ──────────     Batch: some of them at a time, made by a thread that may wait
//! ```
//!
//! Short ranges are copied out of one read of what lies near each other; pieces of long ones go from the file to the
//! socket, and what is read of them is the chunks at their ends.
//!
//! Promise: a byte that a [`Receiver`] gives was held against a checksum that follows from those that were stored. A
//! [`Plan`] holds what was asked for of a block and no data; the making of a [`Batch`] takes [`memory_len`] at most.

mod chunks;
mod plan;
mod receiver;

pub use plan::{Batch, Composer, Made, Piece, Plan, Source, Unread, has_all, memory_len, refusal};
pub use receiver::{Dests, Event, Receiver};
