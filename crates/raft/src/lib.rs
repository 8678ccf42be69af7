//! Agreement on a log of commands, and that a command is durable before it is answered.
//!
//! Promise: [`Raft::propose`] answers when the command's entry is synced in the log of a majority (today: of the one
//! member) and was applied to the [`Machine`]. Entries are applied once each, in one order, on every member. The machine
//! keeps its own state; the log is cut behind what the machine has made durable, so it stays as long as a second of work.
//!
//! openraft is seen by this crate alone. Its network has one file, [`mod@network`], which today reaches nobody.

mod entry;
mod log;
mod machine;
mod network;
mod raft;
mod segment;
mod writer;

pub use machine::{Machine, MachineError};
pub use raft::{Options, Raft, RaftError};

openraft::declare_raft_types!(
    /// What this log is made of: commands as bytes, outcomes as whatever the machine answers.
    pub(crate) Types:
        D = entry::Command,
        R = machine::Outcome,
        LeaderId = openraft::impls::leader_id_std::LeaderId<u64, u64>,
);

pub(crate) type LogId = openraft::alias::LogIdOf<Types>;
pub(crate) type Entry = openraft::alias::EntryOf<Types>;
pub(crate) type Vote = openraft::alias::VoteOf<Types>;
pub(crate) type StoredMembership = openraft::alias::StoredMembershipOf<Types>;
pub(crate) type SnapshotMeta = openraft::alias::SnapshotMetaOf<Types>;
