//! The write chain, as one of its nodes lives it: packets come in, bytes and acks go out.
//!
//! ```text
//! client ══packets══▶ head ══▶ middle ══▶ tail      and acks come back the same way ◀──
//! ```
//!
//! A node may send to several others: then the nodes are a tree, and a chain is the one without branches.
//!
//! Promise: an ack for packet `n` without an error means that this node and every node below it hold all bytes up
//! to `n`; the ack of the last packet, that they all have put the block. A [`Link`] reads no clock, no socket and no
//! disk: events come in, actions go out, so a test can replay any crash. The frames are in the crate `wire`; start
//! reading at [`Link::on_event`].

mod link;
mod packet;

pub use link::{Action, Ending, Event, Failure, Link};
pub use packet::{HEARTBEAT, Packet, Refusal, Reply};
