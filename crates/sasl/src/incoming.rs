//! What one end receives: opened, and kept until somebody asks for it.
//!
//! ```text
//! plain, AES   socket ──▶ where its reader wants it, opened in place
//! sealed       socket ──▶ scratch ──▶ whole pieces, opened: handed out from there
//!                            └──▶ the beginning of the next piece
//! ```
//!
//! Promise: what is handed out was verified, and stands in its order; after a byte that does not belong nothing more
//! comes. One piece is held until it is whole, and memory is counted before it is taken. It knows no socket.

use crate::error::ended;
use crate::idle::IDLE_LEN;
use crate::room::Room;
use io::task;
use security::sasl::transfer::Receiving;
use std::io::{Error, ErrorKind, Result};
use xfer::memory::Held;

/// Bytes that are read at once while many come: as many pieces as are opened side by side, of those that we seal
/// ourselves.
const READ_LEN: usize = 132 << 10;
/// Opened bytes for which there is room without need: those, and a piece that they complete, of JDK's.
const OPENED_LEN_MAX: usize = READ_LEN + (64 << 10);
/// A longer piece is opened on a thread for what blocks: by 3des it takes a core 2 ms for 64 KiB, which stock clients
/// send, but half a second for the longest. Twice a piece of JDK's, for clients whose packets are a little longer.
const INLINE_LEN_MAX: usize = 128 << 10;

#[derive(Debug)]
pub struct Incoming {
    /// Gone after an error, and while a long piece is being opened.
    receiving: Option<Receiving>,
    opened: Vec<u8>,
    /// Where the bytes begin that were not handed out.
    taken: usize,
    /// Sealed bytes as they come from the socket.
    scratch: Vec<u8>,
    /// The socket filled it: more is to come.
    was_filled: bool,
    room: Room,
}

impl Incoming {
    /// `came`: what is here already. `held` has nothing yet; where nothing protects the connection it is let go.
    pub(crate) fn new(mut receiving: Receiving, mut came: Vec<u8>, held: impl Held + Send + 'static) -> Result<Self> {
        if matches!(receiving, Receiving::Plain) {
            return Ok(Self { opened: came, ..Self::plain() });
        }
        let room = Room::new(held);
        if receiving.receive_in_place(&mut came) {
            return Ok(Self { receiving: Some(receiving), opened: came, room, ..Self::ended() });
        }
        let mut incoming = Self { receiving: Some(receiving), room, ..Self::ended() };
        if !incoming.room.set_own(IDLE_LEN) {
            return Err(Error::new(ErrorKind::OutOfMemory, "no memory for a protected connection"));
        }
        let len = came.len();
        incoming.scratch = came;
        incoming.open(len)?;
        (incoming.scratch, incoming.was_filled) = (Vec::new(), false);
        Ok(incoming)
    }

    /// Of a connection that nothing protects.
    pub fn plain() -> Self {
        Self { receiving: Some(Receiving::Plain), ..Self::ended() }
    }

    fn ended() -> Self {
        let (opened, scratch) = (Vec::new(), Vec::new());
        Self { receiving: None, opened, taken: 0, scratch, was_filled: false, room: Room::none() }
    }

    /// Bytes that came are opened where they came to.
    fn is_in_place(&self) -> bool {
        matches!(self.receiving, Some(Receiving::Plain | Receiving::Aes(_)))
    }

    /// Opened bytes that were not handed out: they come before all that the socket has.
    pub fn opened(&self) -> &[u8] {
        &self.opened[self.taken..]
    }

    pub fn has_opened(&self) -> bool {
        !self.opened().is_empty()
    }

    /// Hands out opened bytes, as many as `dest` takes.
    pub fn take(&mut self, dest: &mut [u8]) -> usize {
        let len = dest.len().min(self.opened().len());
        dest[..len].copy_from_slice(&self.opened()[..len]);
        self.consume(len);
        len
    }

    /// So many of [`Incoming::opened`] were handed out.
    pub fn consume(&mut self, len: usize) {
        self.taken += len;
        assert!(self.taken <= self.opened.len(), "{len} bytes were handed out that are not there");
        if self.has_opened() {
            return;
        }
        self.opened.clear();
        self.taken = 0;
        if self.scratch.len() <= IDLE_LEN {
            self.give_back();
        } else if self.opened.capacity() > OPENED_LEN_MAX {
            self.opened.shrink_to(OPENED_LEN_MAX);
            self.count();
        }
    }

    /// Where the socket's next bytes go: to `dest`, or to where they are sealed still. Nothing opened may be left.
    pub fn room<'a>(&'a mut self, dest: &'a mut [u8]) -> Result<&'a mut [u8]> {
        assert!(!self.has_opened(), "what was opened before is handed out first");
        if self.receiving.is_none() {
            return Err(ended());
        } else if self.is_in_place() {
            return Ok(dest);
        }
        let grows = self.was_filled && self.scratch.len() < READ_LEN;
        if grows && self.room.set_own(READ_LEN + 2 * (self.held_len() + READ_LEN)) {
            self.scratch = vec![0; READ_LEN];
        } else if self.scratch.is_empty() {
            self.scratch = vec![0; IDLE_LEN];
        }
        Ok(&mut self.scratch)
    }

    /// So many bytes came into [`Incoming::room`]. Says how many of `dest` are opened bytes; if none, look at
    /// [`Incoming::opened`], and else more must come.
    pub fn received(&mut self, dest: &mut [u8], len: usize) -> Result<usize> {
        match &mut self.receiving {
            Some(Receiving::Sealed { .. }) | None => self.open(len).map(|()| 0),
            Some(receiving) => {
                receiving.receive_in_place(&mut dest[..len]);
                Ok(len)
            }
        }
    }

    /// As [`Incoming::received`], where nobody else has to wait for a long piece. If the future is dropped, the
    /// connection has ended.
    pub async fn received_beside_others(&mut self, dest: &mut [u8], len: usize) -> Result<usize> {
        let completes = |receiving: &Receiving| receiving.completed_len(&self.scratch[..len]);
        if self.is_in_place() || self.receiving.as_ref().map_or(0, completes) <= INLINE_LEN_MAX {
            return self.received(dest, len);
        }
        let mut lent = std::mem::replace(self, Self::ended());
        let opening = task::blocking(move || {
            let opened = lent.open(len);
            (lent, opened)
        });
        let (back, opened) = opening.await;
        *self = back;
        opened.map(|()| 0)
    }

    /// Opens the first bytes of the scratch.
    fn open(&mut self, len: usize) -> Result<()> {
        let is_counted = self.count_with(len);
        let Some(mut receiving) = self.receiving.take() else { return Err(ended()) };
        if !is_counted {
            return Err(Error::new(ErrorKind::OutOfMemory, "no memory for a sealed piece"));
        }
        self.was_filled = len == self.scratch.len();
        self.opened.reserve_exact(receiving.held_len() + len);
        receiving.receive(&self.scratch[..len], &mut self.opened).map_err(Error::other)?;
        self.receiving = Some(receiving);
        if !self.has_opened() && self.scratch.len() <= IDLE_LEN {
            self.give_back();
        }
        Ok(())
    }

    /// The socket has ended; an error, if that was within a piece.
    pub fn on_end(&self) -> Result<()> {
        match &self.receiving {
            Some(receiving) if receiving.is_within_piece() => Err(ErrorKind::UnexpectedEof.into()),
            _ => Ok(()),
        }
    }

    /// Whether there is something to be given back by [`Incoming::rest`].
    pub fn is_roomy(&self) -> bool {
        self.scratch.len() > IDLE_LEN
    }

    /// Nothing has come for a while: gives back what few bytes do not need.
    pub fn rest(&mut self) {
        if self.scratch.len() > IDLE_LEN {
            self.scratch = Vec::new();
        }
        self.was_filled = false;
        self.give_back();
    }

    /// Gives back what holds nothing.
    fn give_back(&mut self) {
        if let Some(receiving) = &mut self.receiving {
            receiving.rest();
        }
        if !self.has_opened() {
            (self.opened, self.taken) = (Vec::new(), 0);
        }
        self.count();
    }

    /// Of a piece that is not whole.
    fn held_len(&self) -> usize {
        self.receiving.as_ref().map_or(0, Receiving::held_len)
    }

    /// Counts what is held at most when the first bytes of the scratch are opened. False: there is no memory for it.
    fn count_with(&mut self, len: usize) -> bool {
        let Some(receiving) = &self.receiving else { return true };
        // A piece is held until it is whole, and then once more as what it is.
        let opened_len = self.opened.capacity().max(receiving.held_len() + len);
        let held_len = self.scratch.len() + opened_len + receiving.held_len_with(&self.scratch[..len]);
        held_len <= self.room.own() || self.room.set_own(held_len)
    }

    /// Counts what is held now, which is not more than before.
    fn count(&mut self) {
        let held_len = self.scratch.len().max(IDLE_LEN) + self.opened.capacity() + self.held_len();
        self.room.set_own(held_len.min(self.room.own()));
    }

    /// Its user holds so many bytes, from now on. False: there is no memory for that.
    pub fn set_beside(&mut self, len: usize) -> bool {
        self.room.set_beside(len)
    }
}
