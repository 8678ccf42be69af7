//! A whole cluster in one thread, from a seed.
//!
//! ```text
//!   clients ──calls──▶ metad group: raft ──▶ namespace::apply, blocks::apply ── rows
//!      ║                    │  lead::Cluster, next_step, judge, Doomed · namespace::Leases      decide
//!      ║ packets            ▼ orders
//!      ╚═══▶ datanode ═══▶ datanode ═══▶ datanode      chain::Link decides each stream
//!               │ volume (a model of `container`)
//!               ▼
//!             disk       one clock, one generator, one order of events          faults ──▶ hosts, wires, disks
//! ```
//!
//! Promise: [`run`] is a function of its seed, so every failure replays. The code that decides is that of the services;
//! what is modelled around it (network, disk, volume) is written for this crate, and `docs/adr/0009` says how far it is
//! to be believed. Start reading at [`run`], then `scenario` for the faults and `check` for what must hold.

mod administrator;
mod check;
mod client;
mod copier;
mod datanode;
mod disk;
mod executor;
mod groups;
mod history;
mod log_platter;
mod machine_copy;
mod member;
mod metad;
mod net;
mod oracle;
mod platter;
mod questions;
mod run;
mod scenario;
mod scrubber;
mod small;
mod stream;
mod volume;
mod work;
mod world;

pub use groups::run_group;
pub use run::{Options, Outcome, run, run_caught};
pub use world::Mutation;
