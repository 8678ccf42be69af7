//! What acts on the machine: clocks, chance, tasks, files, sockets.
//!
//! Promise: all `unsafe` is here (but for single calls in `kv`, `host` and `types`), and this is the only crate that
//! reads a clock, draws a random number or starts a thread or a task. Everything here is thin; what decides lives
//! elsewhere and takes these as arguments.
//!
//! | module | holds |
//! |---|---|
//! | [`clock`], [`random`], [`task`] | time, chance, and who runs when |
//! | [`TaskGroup`] | tasks that end together |
//! | [`simulated`], [`time`] | the same three from a simulation; waiting for time in either |
//! | [`CachedThreads`], [`ThreadQuota`] | threads that are used again; how many of the runtime's some work may hold |
//! | [`accepted()`], [`ConnectionLimit`] | connections of a port; how many it has, and which is closed when too many |
//! | [`file`] | residency, write-back, holes, free space; what is made durable, and how often |
//! | [`descriptors`], [`memory_file`] | descriptors over a Unix socket; files in memory for other processes |
//! | [`transfer`] | file to socket without a copy; small pieces with "more follows" |
//! | [`dial`], [`splice()`] | how servers are reached; from socket to socket without a copy |
//! | [`HeldPorts`] | ports that are chosen before their servers listen |
//! | [`socket`], [`poll`] | options of TCP connections; waiting for several descriptors |
//! | [`Driven`], [`request_connections`] | a socket and the machine that speaks over it; those kept for requests |
//! | [`limit`] | which errors speak of limits, and not of what was asked |
//! | [`LogLimit`] | how often a message is logged that others cause |

mod accept;
mod cached_threads;
pub mod clock;
mod connection_limit;
pub mod descriptors;
pub mod dial;
mod driven;
pub mod file;
mod held_ports;
pub mod limit;
mod log_limit;
pub mod memory_file;
pub mod poll;
pub mod random;
pub mod request_connections;
pub mod simulated;
pub mod socket;
mod splice;
pub mod task;
mod task_group;
mod thread_quota;
pub mod time;
pub mod transfer;

pub use accept::accepted;
pub use cached_threads::CachedThreads;
pub use clock::{Clock, ManualClock, SystemClock};
pub use connection_limit::{ConnectionLimit, ConnectionPermit, RequestGuard, StalledResponse};
pub use driven::Driven;
pub use held_ports::HeldPorts;
pub use log_limit::LogLimit;
pub use random::OsRandom;
pub use splice::splice;
pub use task_group::TaskGroup;
pub use thread_quota::{Hung, ThreadQuota};
