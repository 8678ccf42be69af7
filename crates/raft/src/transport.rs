//! How bytes reach another member. This crate says what to send; whoever starts it says how: metad over Hadoop RPC, a
//! test or the simulation in memory.
//!
//! A transport may lose a message, deliver it late, or answer an error although it was delivered. It must not change
//! one.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::time::Duration;

/// Another member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    pub id: u64,
    /// What the group's membership says; a transport may know a newer address.
    pub addr: String,
}

/// Messages of one lane must not wait for those of another: a heartbeat that waits for a snapshot costs an election.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Lane {
    /// Heartbeats and votes: short, and urgent.
    Beat,
    /// Log entries.
    Log,
    /// Chunks of a snapshot.
    Snapshot,
}

/// The answer of the other member's [`crate::Raft::handle`], or why there is none.
pub type Answer<'a> = Pin<Box<dyn Future<Output = io::Result<Vec<u8>>> + Send + 'a>>;

pub trait Transport: Send + Sync + 'static {
    /// Sends `message` and waits for the answer, at most for `wait_max`. An error of kind `ConnectionRefused`,
    /// `HostUnreachable` or `NotConnected` means that trying again at once is of no use.
    fn send<'a>(&'a self, to: &'a Peer, lane: Lane, message: Vec<u8>, wait_max: Duration) -> Answer<'a>;
}
