//! What one end sends: sealed, and kept until a socket has taken it.
//!
//! ```text
//! bytes ──seal──▶ ┌──────┬─────────┐ ──▶ socket
//!                 │ sent │ pending │
//!                 └──────┴─────────┘
//! ```
//!
//! Promise: what is pending leaves before anything else is sealed, so a connection keeps [`SEND_LEN`] bytes at most, in
//! their order. It knows no socket.

use crate::error::ended;
use crate::idle::IDLE_LEN;
use crate::room::Room;
use security::sasl::transfer::{SEND_LEN, Sending};
use std::io::{Error, ErrorKind, Result};
use xfer::memory::Held;

#[derive(Debug)]
pub struct Outgoing {
    sending: Sending,
    sealed: Vec<u8>,
    /// Where the pending bytes begin.
    sent: usize,
    /// Bytes were dropped: what followed them would not be understood.
    is_abandoned: bool,
    room: Room,
}

impl Outgoing {
    /// `held` has nothing yet; where nothing protects the connection it is let go.
    pub(crate) fn new(sending: Sending, held: impl Held + Send + 'static) -> Result<Self> {
        if sending.is_plain() {
            return Ok(Self::plain());
        }
        let mut room = Room::new(held);
        if !room.set_own(2 * IDLE_LEN) {
            return Err(Error::new(ErrorKind::OutOfMemory, "no memory for a protected connection"));
        }
        Ok(Self { sending, sealed: Vec::new(), sent: 0, is_abandoned: false, room })
    }

    /// Of a connection that nothing protects: its bytes may go as they are.
    pub fn plain() -> Self {
        Self { sending: Sending::Plain, sealed: Vec::new(), sent: 0, is_abandoned: false, room: Room::none() }
    }

    /// Bytes may go to the socket as they are, from a file too.
    pub fn is_plain(&self) -> bool {
        self.sending.is_plain()
    }

    /// Seals as many of `bytes` as go at once, and says how many those are. Nothing may be pending.
    pub fn seal(&mut self, bytes: &[u8]) -> Result<usize> {
        assert!(!self.is_pending(), "what was sealed before goes first");
        if self.is_abandoned {
            return Err(ended());
        }
        let len = bytes.len().min(self.take_len(bytes.len()));
        self.sending.send(&bytes[..len], &mut self.sealed).map_err(Error::other)?;
        Ok(len)
    }

    /// Has room for what many bytes become, if there is memory; and else for few.
    fn take_len(&mut self, wanted: usize) -> usize {
        let many = self.sending.sealed_len_max(SEND_LEN);
        if self.sealed.capacity() >= many {
            return SEND_LEN;
        }
        let (len, room) = if wanted > IDLE_LEN && self.room.set_own(many) {
            (SEND_LEN, many)
        } else {
            (IDLE_LEN, self.sending.sealed_len_max(IDLE_LEN))
        };
        self.sealed.reserve_exact(room);
        len
    }

    /// What is to be sent.
    pub fn pending(&self) -> &[u8] {
        &self.sealed[self.sent..]
    }

    pub fn is_pending(&self) -> bool {
        !self.pending().is_empty()
    }

    /// The socket took so many bytes of that.
    pub fn on_sent(&mut self, len: usize) {
        assert!(len <= self.pending().len(), "{len} bytes were sent that are not there");
        self.sent += len;
        if !self.is_pending() {
            self.sealed.clear();
            self.sent = 0;
        }
    }

    /// The socket takes no more: what is pending is dropped, and nothing is sealed any longer.
    pub fn abandon(&mut self) {
        (self.sealed, self.sent, self.is_abandoned) = (Vec::new(), 0, true);
        self.rest();
    }

    /// Whether there is something to be given back by [`Outgoing::rest`].
    pub fn is_roomy(&self) -> bool {
        self.room.own() > 2 * IDLE_LEN
    }

    /// Nothing was sent for a while: gives back what few bytes do not need.
    pub fn rest(&mut self) {
        if self.is_roomy() && !self.is_pending() {
            self.sealed = Vec::new();
            self.room.set_own(2 * IDLE_LEN);
        }
    }

    /// Its user holds so many bytes, from now on. False: there is no memory for that.
    pub fn set_beside(&mut self, len: usize) -> bool {
        self.room.set_beside(len)
    }
}
