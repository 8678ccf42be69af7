//! The messages in the bytes that came on a connection and were not consumed yet.

use crate::budget::{Budget, Reservation};
use hdfs::fields;
use prost::Message;
use std::io;
use std::io::ErrorKind;
use types::limits::OP_MESSAGE_LEN_MAX;
use wire::{OpHeader, WireError, delimited};
use xfer::front::Front;
use xfer::memory::{Held, Memory};
use xfer::read::Sender;

/// Bytes asked of the kernel at a time: an op message of a common chain, with its header.
const READ_LEN: usize = 4096;

/// Operations that take less than this are not counted: those of chains of some twenty nodes.
const FREE_LEN: usize = 64 << 10;

/// What a byte of a message may take when it is decoded, its own included: it may be one of the numbers of a packed
/// list, which take four bytes each, in a list that has grown to twice its length.
const BYTE_LEN: usize = 9;

#[derive(Debug, Default)]
pub(crate) struct ReadBuffer {
    front: Front,
}

/// Why no message came.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReadError {
    #[error("the peer closed the connection in the middle of a message")]
    Torn,
    #[error("no memory left for an operation that takes {0} bytes")]
    Memory(usize),
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error(transparent)]
    Wire(#[from] WireError),
}

impl ReadBuffer {
    /// What came and was not asked for: whatever follows the last message.
    pub(crate) fn into_rest(self) -> Vec<u8> {
        self.front.into_rest()
    }

    /// Came before there was this.
    pub(crate) fn put(&mut self, bytes: &[u8]) {
        self.front.room(bytes.len()).copy_from_slice(bytes);
        self.front.received(bytes.len());
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        self.front.bytes()
    }

    pub(crate) fn consume(&mut self, len: usize) {
        self.front.consume(len);
        if self.front.is_empty() {
            self.front.give_back(); // a connection that waits for its next op holds little
        }
    }

    /// Where the next bytes go.
    pub(crate) fn room(&mut self) -> &mut [u8] {
        self.front.room(READ_LEN)
    }

    /// So many bytes came into the room.
    pub(crate) fn received(&mut self, len: usize) {
        self.front.received(len);
    }

    /// All that came was consumed.
    pub(crate) fn is_empty(&self) -> bool {
        self.front.is_empty()
    }

    /// The header of the next op; `None`: it is not all here.
    pub(crate) fn op_header(&mut self) -> Result<Option<OpHeader>, WireError> {
        let Some(header) = self.front.bytes().first_chunk::<{ OpHeader::LEN }>() else { return Ok(None) };
        let header = OpHeader::decode(*header)?;
        self.consume(OpHeader::LEN);
        Ok(Some(header))
    }

    /// Gives `sender` what came; true if it has heard the peer's last word. What is behind that stays.
    pub(crate) fn last_word(&mut self, sender: &mut Sender) -> Result<bool, WireError> {
        let consumed = sender.on_bytes(self.front.bytes())?;
        self.consume(consumed);
        Ok(sender.is_done())
    }

    /// What an operation asks for; `None`: it is not all here. A stranger says it: what takes much memory, as it is
    /// long or has long lists, is counted before it takes that.
    pub(crate) fn operation<M: Message + Default>(
        &mut self,
        memory: &mut Option<Reservation>,
        budget: &Budget,
    ) -> Result<Option<M>, ReadError> {
        const WHAT: &str = "operation";
        let Some((len, start)) = delimited::length(self.front.bytes(), WHAT, OP_MESSAGE_LEN_MAX as usize)? else {
            return Ok(None);
        };
        // What came of it, not what it says: it may be a peer that sends nothing more.
        count(memory, len.min(self.front.bytes().len()), budget)?;
        let Some(message) = self.front.bytes().get(start..start + len) else { return Ok(None) };
        count(memory, BYTE_LEN * len + fields::FIELD_LEN * fields::count(message, 0), budget)?;
        let message = delimited::decode(message, WHAT)?;
        self.consume(start + len);
        Ok(Some(message))
    }
}

impl ReadError {
    /// The peer left, which is its right at any moment, and clients do all the time.
    pub(crate) fn is_hang_up(&self) -> bool {
        match self {
            Self::Torn => true,
            Self::Io(error) => is_hang_up(error),
            Self::Wire(_) | Self::Memory(_) => false,
        }
    }
}

/// Has `memory` be for `len` bytes, if those are many.
fn count(memory: &mut Option<Reservation>, len: usize, budget: &Budget) -> Result<(), ReadError> {
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
    if counted { Ok(()) } else { Err(ReadError::Memory(len)) }
}

fn is_hang_up(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::BrokenPipe | ErrorKind::ConnectionReset | ErrorKind::ConnectionAborted | ErrorKind::NotConnected
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holding(bytes: &[u8]) -> ReadBuffer {
        let mut buffer = ReadBuffer::default();
        buffer.put(bytes);
        buffer
    }

    /// A routing table of a byte for each node: some hundred kilobytes of it take a megabyte.
    #[test]
    fn packed_lists_are_counted_as_they_are_decoded() {
        let stream = hdfs::proto::StreamProto { parents: vec![1; 300_000], ..Default::default() };
        let op = hdfs::proto::OpWriteBlockProto { stream: Some(stream), ..Default::default() };
        let mut bytes = Vec::new();
        delimited::put(&op, &mut bytes);
        let (mut memory, budget) = (None, Budget::new(64 << 20));
        let mut buffer = holding(&bytes);
        let op: hdfs::proto::OpWriteBlockProto = buffer.operation(&mut memory, &budget).unwrap().unwrap();
        let taken_len = op.stream.unwrap().parents.capacity() * size_of::<u32>();
        assert!(memory.as_ref().is_some_and(|memory| memory.held_len() >= taken_len as u64), "{taken_len}: {memory:?}");
        let mut again = Vec::new();
        delimited::put(&hdfs::proto::OpWriteBlockProto::default(), &mut again);
        let mut buffer = holding(&again);
        let (mut memory, none) = (None, Budget::new(0));
        assert!(
            buffer.operation::<hdfs::proto::OpWriteBlockProto>(&mut memory, &none).unwrap().is_some(),
            "a common one"
        );
    }
}
