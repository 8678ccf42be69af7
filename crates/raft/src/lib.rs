//! Agreement on a log of commands, and that a command is durable before it is answered.
//!
//! Promise: [`Raft::propose`] answers when the command's entry is synced in the logs of a majority and was applied to
//! the [`Machine`] of the leader. Entries are applied in one order, on every member. The machine keeps its own state;
//! the log is cut behind what the machine has made durable, so it stays as long as a second of work, or, where there
//! are several members, as long as one of them may be away for a while.
//!
//! ```text
//!            propose                                             answer
//!               │                                                   ▲
//!               ▼                                                   │
//!   raft ──▶ openraft ──▶ log ──▶ writer: one write, one sync ──▶ driver: apply ──▶ Machine (rows above kv)
//!               ▲                    for all that wait                                │
//!               └──────── cut the log ◀──────── flush, each second ◀──────────────────┘
//! ```
//!
//! After a crash the machine is at some position that it flushed, and the entries behind it are applied again.
//! A fault of the log or of the machine stops Raft on this node for good, and every proposal says why: an entry that is
//! skipped would be a hole.
//!
//! Members reach each other by a [`Transport`] that whoever starts them brings along, so a whole group runs in one
//! process of a test; and in a simulation ([`io::simulated`]), with a [`Disk`] of its own, in one thread, from a seed.
//! openraft is seen by this crate alone.

mod agreement;
mod disk;
mod doubt;
mod founding;
#[doc(hidden)]
pub mod fuzz;
mod group;
mod inbox;
mod interfere;
mod leading;
mod log;
mod machine;
mod mark;
mod members;
mod message;
mod meters;
mod network;
mod position;
#[cfg(test)]
mod power;
mod raft;
mod record;
mod runtime;
mod segment;
mod snapshot;
mod stop;
mod stopped;
mod synced;
mod timing;
mod transport;
mod types;
mod writer;

pub use disk::{Directory, Disk, Paper};
pub use group::{Group, Member, Role};
pub use leading::Standing;
pub use machine::{LEVEL_FIRST, Machine, MachineError};
pub use meters::Meters;
pub use position::{entry_id, entry_index};
pub use raft::{GroupOptions, Options, Raft, RaftError};
pub use snapshot::{Export, Import};
pub use stop::Fault;
pub use stopped::replay;
pub use timing::Timing;
pub use transport::{Answer, Lane, Peer, Transport};

/// Longest command, encoded. Few are longer than 100 KB: a path of 1000 levels and 32 KB, twice. The longest join
/// files, of which each is named. A longer one must not get into the log: if no follower can take it, no change behind
/// it is committed, and as heartbeats go on the leader stays.
pub const COMMAND_LEN_MAX: usize = 1 << 20;
/// Longest message to another member: as much of the log, or of a snapshot, as is sent at once, one command or row
/// beyond, and what stands around them. A [`Transport`] must take such a message.
pub const MESSAGE_LEN_MAX: usize = log::MESSAGE_LEN + COMMAND_LEN_MAX + FRAME_LEN;
/// What stands around entries and rows. Some tens of bytes, or a membership's few addresses.
const FRAME_LEN: usize = 64 << 10;
