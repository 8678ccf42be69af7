//! The block side: which datanodes there are, which sets of them hold a container, and where the next block goes.
//!
//! ```text
//! rows (durable, replicated)          Cluster (the leader's picture)               decisions
//!   node ─┐                            the rows, mirrored                           place, home_for, additional
//!   pipeline ── members, epoch   ──▶   + heartbeats, load, free space        ──▶    ahead: what to prepare
//!   container ── pipeline, state       + block ids in hand, deletions owed          order of nodes, deletions
//!        ▲                                                                             │
//!        └───────────────────────────── apply(Command) ◀── Raft ◀── Plan::Propose ─────┘
//! ```
//!
//! Promise: [`apply`] is a function of rows and command, so every copy of the state holds the same rows; [`Cluster`]
//! takes time and chance as arguments, so a whole history replays from a seed. A block id is handed out once, ever: ids
//! are leased in batches by a command, and a lease names the process that asked for it. Nothing here knows files: a
//! block of this crate is an id and the container that is its home.

mod ahead;
mod answers;
mod balance;
mod chain_sets;
mod claim;
mod clearance;
mod cluster;
mod command;
mod comparison;
mod complaints;
mod disk_balance;
mod doomed;
mod drain;
mod exchange;
#[cfg(test)]
mod first;
#[doc(hidden)]
pub mod fuzz;
#[cfg(test)]
mod golden;
mod healing;
mod index;
mod job;
mod judge;
mod mend;
mod node;
mod order;
mod place;
mod reception;
mod removal;
mod repair;
mod resizing;
mod room;
mod scrub;
mod sealing;
mod surplus;
mod survivors;
pub mod tables;
mod unconfirmed;

pub use answers::{Answers, Expected, Fitness};
pub use balance::{Balancing, FULL_PARTS, Move};
pub use chain_sets::{ChainSets, TooManySets};
pub use claim::{Claim, Crowded, Newcomers, Standing};
pub use clearance::{Clearance, Cleared};
pub use cluster::{Cluster, Container, Pipeline};
pub use command::{BlocksError, Command, IsEmpty, Reply, apply, apply_with};
pub use comparison::{Compared, Comparison, Outcome};
pub use complaints::{Complainant, Complaints};
pub use disk_balance::{DiskBalance, Levelled};
pub use doomed::{Doomed, DoomedReplicas};
pub use drain::{DrainPicture, LeftBehind};
pub use healing::Healing;
pub use job::{Job, JobKind, JobState, Jobs, Work, unended_jobs};
pub use judge::{Fate, Judgement, Told, Undecided, Wanted};
pub use mend::{MendRules, Mending, Step as MendStep};
pub use node::{Incarnation, Member, Node, QUIET_MAX, SILENCE_MAX, Usage};
pub use order::Distance;
pub use place::{Allocation, Ask, Batch, PlaceError, Plan};
pub use reception::Reception;
pub use repair::{Copy, Lack, Missing, Progress, Repair};
pub use resizing::{Resizing, Transfer};
pub use room::Shortage;
pub use scrub::{Scrub, Scrubbed};
pub use sealing::Sealing;
pub use surplus::Surplus;
pub use survivors::{Agreed, Hearing, Inquest, Next, ReplicaState, Shown, Step, Survivor};
pub use tables::{ContainerState, JobEnd, JobRow, JobTask, PipelineRow, Service, has_container};
