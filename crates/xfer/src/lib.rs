//! Data transfer as state machines without I/O: bytes and events in, bytes and actions out; time is an event.
//!
//! ```text
//!             reads            writes                    small writes
//! client   read::Receiver writer::Block, Stream          small::…
//!          ranges::Receiver
//! datanode read::Sender   write::Relay (each node)       small::…
//!          ranges::Plan
//!                 ╲            │                ╱
//!                  drivers: sockets, threads, tasks, the simulation's network
//! ```
//!
//! Promise: nothing here reads a clock, a socket or a disk, starts a thread or waits. A machine says when it wants to
//! be woken, and a driver tells it what time it is, so that a test can replay any order of events.

mod acks;
pub mod answer;
pub mod fault;
pub mod front;
pub mod memory;
pub mod ranges;
pub mod read;
pub mod request;
pub mod small;
pub mod write;
pub mod writer;
