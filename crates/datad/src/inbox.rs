//! Bytes that came on a connection and were not consumed yet, and the messages they hold.

use crate::budget::{Budget, Reservation};
use hdfs::fields;
use prost::Message;
use std::io;
use std::io::ErrorKind;
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use types::limits::OP_MESSAGE_LEN_MAX;
use wire::{OpHeader, WireError, delimited};
use xfer::read::Sender;

/// Bytes asked of the kernel at a time: an op message of a common chain, with its header.
const READ_LEN: usize = 4096;

/// Operations that take less than this are not counted: those of chains of some twenty nodes.
const FREE_LEN: usize = 64 << 10;

#[derive(Debug, Default)]
pub(crate) struct Inbox {
    bytes: Vec<u8>,
    /// What lies before is consumed.
    at: usize,
}

/// Why no message came.
#[derive(Debug, thiserror::Error)]
pub(crate) enum InboxError {
    #[error("the peer closed the connection in the middle of a message")]
    Torn,
    #[error("no memory left for an operation that takes {0} bytes")]
    Memory(usize),
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error(transparent)]
    Wire(#[from] WireError),
}

impl Inbox {
    /// What came and was not asked for: whatever follows the last message.
    pub(crate) fn into_rest(mut self) -> Vec<u8> {
        self.bytes.drain(..self.at);
        self.bytes
    }

    fn rest(&self) -> &[u8] {
        &self.bytes[self.at..]
    }

    fn consume(&mut self, len: usize) {
        self.at += len;
        assert!(self.at <= self.bytes.len(), "more consumed than came");
        if self.at == self.bytes.len() {
            self.at = 0;
            self.bytes.clear();
            self.bytes.shrink_to(READ_LEN); // a connection that waits for its next op holds little
        }
    }

    /// One read of the socket; false at its end.
    async fn fill(&mut self, socket: &mut TcpStream) -> io::Result<bool> {
        self.bytes.drain(..self.at);
        self.at = 0;
        self.bytes.reserve(READ_LEN);
        Ok(socket.read_buf(&mut self.bytes).await? > 0)
    }

    /// The header of the next op; `None` if the peer closed instead. Nothing is lost if the future is dropped.
    pub(crate) async fn op_header(&mut self, socket: &mut TcpStream) -> Result<Option<OpHeader>, InboxError> {
        loop {
            if let Some(header) = self.rest().first_chunk::<{ OpHeader::LEN }>() {
                let header = OpHeader::decode(*header)?;
                self.consume(OpHeader::LEN);
                return Ok(Some(header));
            }
            if !self.fill(socket).await? {
                return if self.rest().is_empty() { Ok(None) } else { Err(InboxError::Torn) };
            }
        }
    }

    /// Gives `sender` what comes, until it has heard the peer's last word. What is behind that stays.
    pub(crate) async fn last_word(&mut self, socket: &mut TcpStream, sender: &mut Sender) -> Result<(), InboxError> {
        loop {
            let consumed = sender.on_bytes(self.rest())?;
            self.consume(consumed);
            if sender.is_done() {
                return Ok(());
            }
            if !self.fill(socket).await? {
                return Err(InboxError::Torn);
            }
        }
    }

    /// What an operation asks for. A stranger says it: what takes much memory, as it is long or has long lists, is
    /// counted before it takes that.
    pub(crate) async fn operation<M: Message + Default>(
        &mut self,
        socket: &mut TcpStream,
        budget: &Budget,
    ) -> Result<(M, Option<Reservation>), InboxError> {
        const WHAT: &str = "operation";
        let mut memory = None;
        loop {
            if let Some((len, start)) = delimited::length(self.rest(), WHAT, OP_MESSAGE_LEN_MAX as usize)? {
                // What came of it, not what it says: it may be a peer that sends nothing more.
                count(&mut memory, len.min(self.rest().len()), budget)?;
                if let Some(message) = self.rest().get(start..start + len) {
                    count(&mut memory, len + fields::FIELD_LEN * fields::count(message, 0), budget)?;
                    let message = delimited::decode(message, WHAT)?;
                    self.consume(start + len);
                    return Ok((message, memory));
                }
            }
            if !self.fill(socket).await? {
                return Err(InboxError::Torn);
            }
        }
    }
}

/// Has `memory` be for `len` bytes, if those are many.
fn count(memory: &mut Option<Reservation>, len: usize, budget: &Budget) -> Result<(), InboxError> {
    if len <= FREE_LEN {
        return Ok(());
    }
    let counted = match memory {
        Some(memory) => memory.grow_to(len as u64),
        None => {
            *memory = budget.take(len as u64);
            memory.is_some()
        }
    };
    if counted { Ok(()) } else { Err(InboxError::Memory(len)) }
}

/// The peer left, which is its right at any moment.
pub(crate) fn is_hang_up(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::BrokenPipe | ErrorKind::ConnectionReset | ErrorKind::ConnectionAborted | ErrorKind::NotConnected
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_follows_a_message_stays() {
        let mut inbox = Inbox { bytes: vec![9, 1, 2, 3], at: 0 };
        inbox.consume(1);
        assert_eq!(inbox.into_rest(), [1, 2, 3]);
    }
}
