//! All replicas are read against their checksums, now and then: what a disk has lost is to be found before the last
//! copy is.
//!
//! ```text
//! order of the metadata server ──▶ a pass at the rate it names, reported with each heartbeat
//! no order                     ──▶ each disk in three weeks ([`background`]); restarts keep its place ([`round`])
//!                                  damaged replicas: Replicas::found_damaged
//! ```
//!
//! Promise: at most so many bytes a second are read; one pass at a time, and the background waits for one that was
//! ordered; no more damaged replicas are found than can be told. Nothing is deleted here. A disk that does not answer
//! is waited for until it is given up, and then the pass goes on with the others.

mod background;
mod pages;
mod round;
mod scrubber;

pub(crate) use background::{Rate, run as background};
pub(crate) use scrubber::Scrubber;
