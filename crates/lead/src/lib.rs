//! What the leading metadata server knows and does not replicate, and what it decides by that.
//!
//! ```text
//! rows (durable, replicated)          Cluster (the leader's picture)               decisions
//!   node ─┐                            the rows, mirrored                           place, home_for, additional
//!   pipeline ── members, epoch   ──▶   + heartbeats, load, free space        ──▶    preallocate: what to prepare
//!   container ── pipeline, state       + block ids in hand, deletions owed          order of nodes, deletions
//!        ▲                                                                             │
//!        └──────────────────────── blocks::apply(Command) ◀── Raft ◀── Plan::Propose ──┘
//! ```
//!
//! Promise: time and chance are arguments, so a whole history replays from a seed. Nothing here is the only place of a
//! fact that must last: a new leader begins with the rows, and learns the rest from its datanodes and its clients.

mod balance;
mod block_recovery;
mod chain_sets;
mod claim;
mod clearance;
mod cluster;
mod compare_answer;
mod comparison;
mod complaints;
mod disk_balance;
mod doomed;
mod drain;
mod effects;
mod exchange;
#[cfg(test)]
mod first;
mod healing;
mod index;
mod jobs;
mod leased;
mod leases;
mod member;
mod membership;
mod place;
mod preallocate;
mod proximity;
mod reception;
mod removal;
mod repair;
mod replica_fate;
mod resizing;
mod room;
mod scrub;
mod sealing;
mod surplus;
mod tally;
mod unconfirmed;

pub use balance::{Balancing, FULL_PARTS, Move};
pub use block_recovery::{Agreed, Hearing, Inquest, Next, Shown, Step, Survivor};
pub use chain_sets::{ChainSets, TooManySets};
pub use claim::{Claim, Crowded, Newcomers, Standing};
pub use clearance::{Clearance, Cleared};
pub use cluster::{Cluster, Container, Pipeline};
pub use compare_answer::{Answers, Expected};
pub use comparison::{Compared, Comparison, Outcome};
pub use complaints::{Complainant, Complaints};
pub use disk_balance::{DiskBalance, Levelled};
pub use doomed::Doomed;
pub use drain::{DrainPicture, LeftBehind};
pub use effects::{Aftermath, Wakes};
pub use healing::Healing;
pub use jobs::{Job, JobState, Jobs};
pub use leased::{Grant, LeaseRefused, Leased, LeasedHome, LeasedPut, PutFate};
pub use leases::Leases;
pub use member::{Member, QUIET_MAX, SILENCE_MAX, Usage};
pub use membership::{MendRules, Mending, Step as MendStep};
pub use place::{Allocation, Ask, Batch, PlaceError, Plan};
pub use proximity::Distance;
pub use reception::Reception;
pub use repair::{Copy, Lack, Missing, Progress, Repair};
pub use replica_fate::{Fate, Judgement, Told, Undecided, Wanted};
pub use resizing::{Resizing, Transfer};
pub use room::Shortage;
pub use scrub::{Scrub, Scrubbed};
pub use sealing::Sealing;
pub use surplus::Surplus;
