//! A whole cluster in one thread, from a seed.
//!
//! ```text
//!   clients ──calls──▶ metad::Server, one or three, as they ship: door, raft, rows, lead::Leader
//!      ║                    ▲ heartbeats
//!      ║ packets            ▼ orders
//!      ╚═══▶ datanode ═══▶ datanode ═══▶ datanode      xfer::write::Relay is each of them
//!               │ volume (a model of `container`)
//!               ▼
//!             disk       one clock, one generator, one order of events          faults ──▶ hosts, wires, disks
//! ```
//!
//! Promise: [`run`] is a function of its seed, so every failure replays. The metadata servers are those that
//! ship; datanodes, clients, network and disks are written for this crate, and `docs/adr/0009` says how far they are to
//! be believed. Start reading at [`run`], then `scenario` for the faults and `check` for what must hold. Before its
//! cluster each seed plays `peers`: scripts that keep to data transfer's protocol or break it, against the machines of
//! `xfer`; and a third of them `lost_rows`: a store that goes on with a backup of its rows.

mod administrator;
mod check;
mod client;
mod copier;
mod datanode;
mod deliberate;
mod disk;
mod drill;
mod executor;
mod groups;
mod history;
mod ledger;
mod log_platter;
mod lost_rows;
mod machine_copy;
mod member;
mod metad;
mod net;
mod oracle;
mod peers;
mod platter;
mod questions;
mod reads;
mod restarts;
mod run;
mod scenario;
mod scrubber;
mod small;
mod socket;
mod stream;
mod tokens;
mod users;
mod visitor;
mod volume;
mod work;
mod world;
mod write_op;

pub use deliberate::{DELIBERATE, Deliberate, FOUND_WITHIN};
pub use groups::run_group;
pub use run::{Options, Outcome, run, run_caught};
pub use types::Mutation;
