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
mod digests;
mod disk;
mod doubt;
mod driver;
mod founding;
#[doc(hidden)]
pub mod fuzz;
mod group;
mod inbox;
mod interfere;
mod leading;
mod level;
mod limits;
mod log;
mod machine;
mod machine_error;
mod mark;
mod members;
mod message;
mod meters;
mod network;
mod position;
#[cfg(test)]
mod power;
mod raft;
mod raft_error;
mod record;
mod runtime;
mod segment;
mod snapshot;
mod standing;
mod stop;
mod stopped;
mod synced;
mod timing;
mod transport;
mod types;
mod writer;

pub use disk::{Directory, Disk, Paper};
pub use group::{Group, Member, Role};
pub use limits::{COMMAND_LEN_MAX, MESSAGE_LEN_MAX};
pub use machine::{LEVEL_FIRST, Machine};
pub use machine_error::MachineError;
pub use meters::Meters;
pub use position::{entry_id, entry_index};
pub use raft::{GroupOptions, Options, Raft};
pub use raft_error::RaftError;
pub use snapshot::{Export, Import};
pub use standing::Standing;
pub use stop::Fault;
pub use stopped::replay;
pub use timing::Timing;
pub use transport::{Answer, Lane, Peer, Transport};
