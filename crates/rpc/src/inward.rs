//! What comes over a connection: as it is, or, behind an exchange that agreed on protection, out of sealed pieces.
//!
//! Promise: sealed bytes are counted as they come, as everything that a connection holds, and a piece that has begun
//! must go on coming; only whole pieces that were verified are seen by whoever reads here.

use crate::budget::Charge;
use crate::pace::{Pace, Patience};
use crate::seal::Seal;
use bytes::{Buf, BufMut, Bytes, BytesMut};
use hdfs::frame;
use std::io;
use tokio::io::{AsyncRead, AsyncReadExt};

/// Room for reading at a time.
const READ_LEN: usize = 16 << 10;

#[derive(Debug)]
pub(crate) struct Inward<R> {
    socket: R,
    sealed: Option<Sealed>,
}

/// Pieces on their way in.
#[derive(Debug)]
struct Sealed {
    seal: Seal,
    /// Longest frame around a piece.
    frame_len_max: u32,
    buffer: BytesMut,
    /// Of the last piece, not yet taken.
    opened: Bytes,
    /// For all of it. `None`: it is counted nowhere, and waited for without a limit.
    room: Option<PieceRoom>,
}

/// What the pieces of a connection take of the memory of all, and how long others wait for it.
#[derive(Debug)]
pub(crate) struct PieceRoom {
    pub(crate) charge: Charge,
    pub(crate) patience: Patience,
}

impl Sealed {
    fn count(&mut self) {
        let len = self.buffer.len() + self.opened.len();
        self.room.iter_mut().for_each(|room| room.charge.resize(len));
    }

    fn whole_len(&self) -> io::Result<Option<usize>> {
        let len = frame::length(&self.buffer, self.frame_len_max).map_err(invalid)?;
        Ok(len.map(|len| frame::LENGTH_LEN + len))
    }

    /// Reads until a whole piece is here, and answers its length. `None`: the end.
    async fn piece(&mut self, socket: &mut (impl AsyncRead + Unpin)) -> io::Result<Option<usize>> {
        if self.whole_len()?.is_none() && self.buffer.is_empty() && !self.more(socket, None).await? {
            return Ok(None);
        }
        let patience = self.room.as_ref().map(|room| room.patience.clone());
        let mut pace = patience.as_ref().map(|patience| patience.begin(self.frame_len_max as usize));
        loop {
            match self.whole_len()? {
                Some(len) if self.buffer.len() >= len => return Ok(Some(len)),
                _ if self.more(socket, pace.as_mut()).await? => {}
                _ => return Ok(None),
            }
        }
    }

    /// Reads some bytes. False: the end.
    async fn more(&mut self, socket: &mut (impl AsyncRead + Unpin), pace: Option<&mut Pace<'_>>) -> io::Result<bool> {
        self.buffer.reserve(READ_LEN);
        let mut limited = (&mut self.buffer).limit(READ_LEN);
        let reading = socket.read_buf(&mut limited);
        let len = match pace {
            Some(pace) => pace.step(reading).await?,
            None => reading.await?,
        };
        self.count();
        Ok(len > 0)
    }
}

impl<R: AsyncRead + Unpin> Inward<R> {
    pub(crate) fn new(socket: R) -> Self {
        Self { socket, sealed: None }
    }

    /// All that comes from now on is sealed; `early` came already. `room` is for what is held of it.
    pub(crate) fn seal(&mut self, seal: Seal, frame_len_max: u32, early: BytesMut, room: Option<PieceRoom>) {
        let mut sealed = Sealed { seal, frame_len_max, buffer: early, opened: Bytes::new(), room };
        sealed.count();
        self.sealed = Some(sealed);
    }

    /// Whether a sealed piece has come in part.
    pub(crate) fn has_begun(&self) -> bool {
        self.sealed.as_ref().is_some_and(|sealed| !sealed.buffer.is_empty())
    }

    /// Appends some bytes, at most `len_max`; 0: the end. Whoever drops this loses nothing.
    pub(crate) async fn read(&mut self, buffer: &mut BytesMut, len_max: usize) -> io::Result<usize> {
        let Some(sealed) = &mut self.sealed else {
            buffer.reserve(len_max);
            return self.socket.read_buf(&mut buffer.limit(len_max)).await;
        };
        while sealed.opened.is_empty() {
            let Some(len) = sealed.piece(&mut self.socket).await? else { return Ok(0) };
            let mut piece = sealed.buffer.split_to(len);
            piece.advance(frame::LENGTH_LEN);
            if sealed.buffer.is_empty() {
                // A connection may be idle from now on.
                sealed.buffer = BytesMut::new();
            }
            sealed.opened = sealed.seal.open(piece.freeze())?.into();
            sealed.count();
        }
        let len = sealed.opened.len().min(len_max);
        if buffer.is_empty() && len == sealed.opened.len() {
            *buffer = BytesMut::from(std::mem::take(&mut sealed.opened));
        } else {
            buffer.put(sealed.opened.split_to(len));
        }
        sealed.count();
        Ok(len)
    }
}

/// Takes a whole frame of `len` bytes off, without its length. A long one takes its memory along: a connection may be
/// idle from then on.
pub(crate) fn take_frame(buffer: &mut BytesMut, len: usize) -> Bytes {
    let mut whole = buffer.split_to(frame::LENGTH_LEN + len);
    if len > READ_LEN {
        *buffer = BytesMut::from(&buffer[..]);
    }
    whole.split_off(frame::LENGTH_LEN).freeze()
}

fn invalid(error: impl std::error::Error + Send + Sync + 'static) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_memory_of_a_long_frame_goes_with_it() {
        let mut buffer = BytesMut::zeroed(frame::LENGTH_LEN + (4 << 20));
        buffer.extend_from_slice(b"next");
        let frame = take_frame(&mut buffer, 4 << 20);
        assert_eq!((frame.len(), &buffer[..]), (4 << 20, &b"next"[..]));
        drop(frame);
        buffer.reserve(READ_LEN);
        assert!(buffer.capacity() <= 2 * READ_LEN, "{}", buffer.capacity());
    }
}
