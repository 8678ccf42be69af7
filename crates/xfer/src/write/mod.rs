//! The write chain, as one of its nodes lives it: packets come in, bytes and acks go out.
//!
//! ```text
//! client ══packets══▶ head ══▶ middle ══▶ tail      and acks come back the same way ◀──
//! ```
//!
//! A node may send to several others: then the nodes are a tree, and a chain is the one without branches.
//!
//! Promise: an ack for packet `n` without an error means that this node and every node below it hold all bytes up
//! to `n`; the ack of the last packet, that they all have put the block. A [`Link`] decides that, without bytes and
//! without time; a [`Relay`] is the whole node, from the bytes of its sockets to what its disk is to store. Neither
//! reads a clock, a socket or a disk, so a test can replay any crash. The frames are in the crate `wire`; start reading
//! at [`Relay::step`] and [`Link::on_event`].
//!
//! ```text
//! setup    op ─▶ Join: op_for_below ─▶ each node below; their answers ─▶ Above::put_ready
//! stream   bytes ─▶ Relay ─▶ each node below, Step::Store; acks ─▶ Above
//! ```

mod above;
mod below;
mod buffer;
mod gather;
mod join;
mod limits;
mod link;
mod lost;
mod mode;
mod packet;
mod relay;
mod run;

pub use above::Above;
pub use buffer::{BufferError, buffer_len};
pub use gather::Gather;
pub use join::{Join, Joined, op_for_below};
pub use limits::{ANSWER_WAIT, FLUSH, LINGER, Limits, TIME_PER_NODE};
pub use link::{Action, Ending, Event, Failure, Link};
pub use lost::Lost;
pub use mode::Mode;
pub use packet::{BadPacket, Packet};
pub use relay::{Begin, Relay, Step};
pub use run::{Piece, Store};
