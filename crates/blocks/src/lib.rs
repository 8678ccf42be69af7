//! The replicated half of the block side: which datanodes there are, which sets of them hold a container, and which
//! jobs were asked for.
//!
//! ```text
//! rows (durable, replicated)
//!   node ─┐
//!   pipeline ── members, epoch        apply(Command) ◀── Raft ◀── what the leader decided (crate `lead`)
//!   container ── pipeline, state  ◀────────┘
//!   job
//! ```
//!
//! Promise: [`apply`] is a function of rows and command, so every copy of the state holds the same rows. A block id is
//! handed out once, ever: ids are leased in batches by a command, and a lease names the process that asked for it.
//! Nothing here knows files: a block of this crate is an id and the container that is its home.

mod command;
mod example;
#[doc(hidden)]
pub mod fuzz;
#[cfg(test)]
mod golden;
mod node;
mod restored;
pub mod tables;

pub use command::{BlocksError, Command, IsEmpty, Reply, apply, apply_with};
pub use node::{Incarnation, Node, Outside, Place};
pub use restored::restore;
pub use tables::{
    ContainerRow, ContainerState, JobEnd, JobKind, JobRow, JobTask, Leave, LeaveKind, Listed, PipelineRow, RepairHold,
    Restored, Service, Work, has_container,
};
