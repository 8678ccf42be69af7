//! Small files: one request to a datanode, one call to the metadata server.
//!
//! ```text
//!   Stock: blocks on lease, taken ahead of time       (leaseBlocks, in batches)
//!     │ one
//!     ▼
//!   small write ──▶ the nearest of its nodes, which brings it to the others
//!     │ all have it, or most
//!     ▼
//!   putFile ──▶ metadata server: the file is there
//! ```
//!
//! Promise: a file is there whole or not at all. Whatever goes wrong with a block, another one is taken, and after a
//! few the file is streamed; what the server says about the *file* (it exists, it may not be written) ends the attempt.
//! Only a server that states the ability (`wire::abilities`) is asked.

mod lease;
mod put;
mod wish;

pub(crate) use wish::Wish;
