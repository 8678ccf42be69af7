//! A gateway near its readers: what they read is kept here, and comes from the store far away once.
//!
//! ```text
//! HTTP, root:// ──▶ look: may he, and which bytes are these? ── one flight ──▶ the store
//!                    │
//!                    └─▶ [`EdgeFile`] ──▶ [`kept`] ── memory │ disk │ others' flights
//!                                           └─ what nobody has ──▶ [`upstream`], reading ahead ──▶ the store
//! ```
//!
//! Promise: a file that is opened has the bytes that the store named at that moment, or an answer of before, said to be
//! such, while the [`link`] is down. Nobody reads what the store did not let him open. A refusal of whatever was asked
//! is learned from. What is kept is bounded.
//!
//! Why it is so is explained in docs/adr/0038.

mod asking;
mod belief;
mod config;
mod disk;
mod file;
mod flight;
mod kept;
mod link;
mod look;
mod remembered;
mod room;
#[cfg(test)]
pub(crate) mod scripted;
mod tally;
#[cfg(test)]
mod tests;
mod upstream;

pub(crate) use asking::Edge;
pub use config::EdgeConfig;
pub(crate) use file::EdgeFile;
#[cfg(test)]
pub(crate) use file::LOOK_EACH;
pub(crate) use look::Looked;
