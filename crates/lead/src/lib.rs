//! What the leading metadata server knows and does not replicate, and its decisions.
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
//! fact that must last. A new leader begins with the rows, and learns the rest from its datanodes and its clients.

mod balance;
mod balance_job;
mod block_leases;
mod block_origin;
mod block_recovery;
mod census;
mod census_round;
mod chain_sets;
mod clearance;
mod cluster;
mod cluster_counts;
mod compare_answer;
mod comparison;
mod complaints;
mod container;
mod container_audit;
mod container_members;
mod container_removal;
mod container_sealing;
mod container_sizes;
mod disk;
mod disk_balance;
mod doomed;
mod drain;
mod drain_job;
mod effects;
#[cfg(test)]
mod first_choice;
mod found_blocks;
mod found_recovery;
mod found_reports;
mod fullness;
mod hash_tree_queue;
mod job_progress;
mod job_rounds;
mod job_state;
mod jobs;
mod key_rings;
mod leader;
mod leaves;
mod liveness;
mod make_room;
mod member;
mod membership;
mod named_lengths;
mod node_claim;
mod node_contact;
mod node_job;
mod pipeline;
mod placement;
mod places;
mod preallocate;
mod presence;
mod profile_pace;
mod proximity;
mod reader_order;
mod reception;
mod repair;
mod repair_context;
mod repair_job;
mod replica_fate;
mod reports;
mod resize_queue;
mod resizing;
mod row_mirror;
mod scrub;
mod surplus;
mod surplus_holders;
mod takeover;
mod tally;
mod token_numbers;
mod tree_comparison;
mod unconfirmed_lengths;
mod unresponsive;
mod unsound_replicas;
mod upkeep;
mod verification;
mod worklists;
mod writer_leases;

pub use balance::{BalancePlan, Move};
pub use balance_job::Balance;
pub use block_leases::{BlockLeases, Grant, HELD_COUNT_MAX, LeaseRefused, LeasedFor, LeasedHome, LeasedPut, PutFate};
pub use block_recovery::{FencedReplica, Next, RecordedBlock, RecoveryPlan, RecoveryReply, RecoveryRound, Step};
pub use census::{Census, LackingBlock, LastCensus};
pub use census_round::CensusRound;
pub use chain_sets::{ChainSets, Spender, TooManySets};
pub use clearance::{Clearance, Cleared};
pub use cluster::Cluster;
pub use compare_answer::Answers;
pub use comparison::{Compared, Comparison, Outcome};
pub use complaints::{Complainant, Complaints};
pub use container::Container;
pub use container_sealing::Sealing;
pub use container_sizes::ContainerSizes;
pub use disk::{FailedDisks, kept_text};
pub use disk_balance::{DiskBalance, DiskBalanceReport, DiskBalanceTerms};
pub use doomed::{Doomed, DoomedPage};
pub use drain::{DrainPicture, LeftBehind};
pub use effects::{EffectHandler, Wakeups};
pub use found_blocks::FoundBlocks;
pub use found_recovery::agree_on_found;
pub use fullness::FULL_PARTS;
pub use hash_tree_queue::{HashTreeQueue, TreeOutcome, TreesCompared};
pub use job_progress::{Drain, Running};
pub use job_rounds::StopRefused;
pub use job_state::JobState;
pub use jobs::{Job, Jobs};
pub use key_rings::{KeyRings, SignError};
pub use leader::Leader;
pub use liveness::{LivenessRules, Turn};
pub use member::{Member, NodeUsage, QUIET_MAX, SILENCE_MAX};
pub use membership::{MembershipRound, Step as MembershipStep};
pub use node_claim::{Claim, Crowded, Newcomers, Standing};
pub use node_job::{NodeJob, NodeOrder, NodeReport};
pub use pipeline::Pipeline;
pub use placement::{Allocation, Ask, Batch, NoRoom, PlaceError, Plan};
pub use presence::Presence;
pub use profile_pace::ProfilePace;
pub use proximity::Distance;
pub use reception::Reception;
pub use repair::{Lack, Missing, PlannedCopy, Progress, Repair};
pub use repair_context::RepairContext;
pub use replica_fate::{Judgement, ReplicaFate, ReportedReplica, Undecided};
pub use reports::{CopyFailure, CopyOrder, Heartbeat, HeartbeatOutcome, LookedUp, ReplicaOrders};
pub use resize_queue::ResizeQueue;
pub use resizing::{Resizing, Transfer};
pub use scrub::{Scrub, ScrubReport, ScrubTerms};
pub use surplus::Surplus;
pub use takeover::Shortage;
pub use token_numbers::TokenNumbers;
pub use tree_comparison::{TreeAnswer, TreeComparison, TreeFinding, TreeQuestion, TreeStep};
pub use unresponsive::Unresponsive;
pub use unsound_replicas::UnsoundReplicas;
pub use verification::Verified;
pub use writer_leases::WriterLeases;
