//! The writer's end of a chain: what a client keeps of a block until all nodes have it.
//!
//! ```text
//!   Block       one block: its nodes, its generation, which step comes next when a chain breaks
//!     └─ SetUp     one attempt: connection, request, answer; ends as a stream, or with the nodes to blame
//!          └─ Stream  one connection that carries packets: window, acks, silence, heartbeats
//! ```
//!
//! Before them a [`Packer`] cuts bytes into packets. Beside them [`Shortfall`] says when a block whose chain has lost
//! nodes is to end early.
//!
//! A chain is one form of a tree, and a stream writes to its first node whatever the form is. A driver owns the socket
//! and the calls to the metadata server. It carries bytes and outcomes, and takes no decision.
//!
//! Promise: a packet leaves the window only with an ack in which every node says that it has the packet. What a broken
//! stream leaves goes down the next one, in the same order, before any other packet.

mod block;
mod fault;
mod nodes;
mod opening;
mod packer;
mod packet;
mod set_up;
mod shortfall;
mod stream;
mod window;

pub use block::{Block, RECOVERIES_MAX, Resend, Step, Update};
pub use fault::Break;
pub use nodes::{Member, Shape};
pub use opening::{Identity, Manner, Opening};
pub use packer::{Packer, Plan, Whole, whole_len_max};
pub use packet::Packet;
pub use set_up::{Patience, SetUp};
pub use shortfall::Shortfall;
pub use stream::{BLAME_WAIT_MAX, Stream};
pub use window::{Outgoing, Rest};
