//! Reading a block (op 81), both ends of it, and copying one to another node (op 86), which sends the same packets.
//!
//! ```text
//! client, or a node that copies                                   datanode
//!            request ──────────────────────────────────────────▶  Plan: which bytes, in packets of which length
//! Receiver ◀── answer │ head · sums │ data │ … │ head (last) ───  Sender
//!            verdict ──────────────────────────────────────────▶
//! ```
//!
//! Promise: a byte that a [`Receiver`] gives was held against its checksum, and all of a range was given when it says
//! so. A machine is one range of one replica on a connection. Several of them on one stream are several machines, which
//! hand the [`Front`](crate::front::Front) on: each range has an answer and a last packet of its own.

mod incoming;
mod late;
pub(crate) mod patience;
mod plan;
mod range;
mod receiver;
mod sender;
mod verdict;

pub use incoming::Given;
pub use late::Late;
pub use plan::{Plan, Stored, Unserved, Wanted};
pub use range::{Extent, Range, Room};
pub use receiver::{Receiver, request};
pub use sender::{CopyTarget, Limits, Next, Outcome, Sender, copy_request};
