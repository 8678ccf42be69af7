//! What acts on the machine: clocks, chance, tasks, files, sockets.
//!
//! Promise: this is the only crate with `unsafe`, and the only one that reads a clock, draws a random number or starts
//! a thread or a task. Everything here is thin; what decides lives elsewhere and takes these as arguments.
//!
//! | module | holds |
//! |---|---|
//! | [`clock`], [`random`], [`task`] | time, chance, and who runs when |
//! | [`stage`] | the same three from somebody who plays them |
//! | [`Crew`], [`Share`] | threads that are used again; a bounded part of the runtime's |
//! | [`Crowd`] | who is connected to a port, and who goes when there are too many |
//! | [`file`] | residency, write-back, holes, free space; what is made durable, and how often |
//! | [`process`] | what this process has used |
//! | [`transfer`] | file to socket without a copy; small pieces with "more follows" |
//! | [`socket`], [`poll`] | options of TCP connections; waiting for several descriptors |
//! | [`limit`], [`memory`] | open files; memory that is free again |
//! | [`user`] | names and groups of the machine's users |

pub mod clock;
mod crew;
mod crowd;
pub mod file;
pub mod limit;
pub mod memory;
pub mod poll;
pub mod process;
pub mod random;
mod share;
pub mod socket;
pub mod stage;
pub mod task;
pub mod transfer;
pub mod user;

pub use clock::{Clock, ManualClock, SystemClock};
pub use crew::Crew;
pub use crowd::{Crowd, Seat, Stall, Work};
pub use random::OsRandom;
pub use share::{Share, Stuck};
