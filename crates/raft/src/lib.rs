//! Agreement on a log of commands, and that a command is durable before it is answered.
//!
//! Promise: [`Raft::propose`] answers when the command's entry is synced in the log of a majority (today: of the one
//! member) and was applied to the [`Machine`]. Entries are applied in one order, on every member. The machine keeps its
//! own state; the log is cut behind what the machine has made durable, so it stays as long as a second of work.
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
//! openraft is seen by this crate alone. How members reach each other has one file, [`mod@network`], which today reaches nobody.

mod group;
mod log;
mod machine;
mod network;
mod position;
mod raft;
mod record;
mod segment;
mod stop;
mod types;
mod writer;

pub use group::{Group, Member, Role};
pub use machine::{Machine, MachineError};
pub use raft::{Options, Raft, RaftError};

/// Longest command, encoded. Those of the namespace are below 100 KB: a path of 1000 levels and 32 KB, twice.
pub const COMMAND_LEN_MAX: usize = 16 << 20;
