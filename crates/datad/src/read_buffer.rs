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

/// Operations that take less than this when they are decoded are not counted: those of chains of some twenty nodes.
/// There are no more of them than may be under way.
const FREE_LEN: usize = 64 << 10;

/// What a byte of a message may take when it is decoded, its own included: it may be one of the numbers of a packed
/// list, which take four bytes each, in a list that has grown to twice its length.
const BYTE_LEN: usize = 9;

/// Of a message; the longest lists are of the blocks of a request for ranges, and of the nodes of a chain. With more it
/// is refused: before its token is looked at, its fields take memory that others would have to make room for.
const FIELD_COUNT_MAX: usize = 2 * wire::ranges::BLOCK_COUNT_MAX;
const _: () = assert!(FIELD_COUNT_MAX > 8 * types::limits::REPLICATION_MAX as usize);

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
    #[error("an operation of which no end came made way for another")]
    GaveWay,
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
            self.front.keep(READ_LEN); // a connection that waits for its next op holds little
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
    /// long or has long lists, is counted before it takes that, in `coming` until it is whole.
    pub(crate) fn operation<M: Message + Default>(
        &mut self,
        coming: &mut impl Held,
        memory: &mut Option<Reservation>,
        budget: &Budget,
    ) -> Result<Option<M>, ReadError> {
        const WHAT: &str = "operation";
        let Some((len, start)) = delimited::length(self.front.bytes(), WHAT, OP_MESSAGE_LEN_MAX as usize)? else {
            return Ok(None);
        };
        // What came of it, not what it says: it may be a peer that sends nothing more.
        let came = self.front.bytes().len();
        let Some(message) = self.front.bytes().get(start..start + len) else {
            // The buffer may grow to twice what it was. What is read first is not counted.
            return match came < READ_LEN || coming.grow_to(2 * (came + READ_LEN) as u64) {
                true => Ok(None),
                false => Err(ReadError::Memory(came)),
            };
        };
        let field_count = fields::count(message, 0);
        if field_count > FIELD_COUNT_MAX {
            let (what, len, max) = ("list of fields of an operation", field_count as u64, FIELD_COUNT_MAX as u64);
            return Err(WireError::TooLong { what, len, max }.into());
        }
        // A list has room for twice as many when it has grown.
        count(memory, BYTE_LEN * len + fields::FIELD_LEN * field_count.next_power_of_two(), budget)?;
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
            Self::Wire(_) | Self::Memory(_) | Self::GaveWay => false,
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

    /// No more than so many bytes.
    #[derive(Debug)]
    struct AtMost(u64);

    impl Held for AtMost {
        fn held_len(&self) -> u64 {
            0
        }

        fn grow_to(&mut self, len: u64) -> bool {
            len <= self.0
        }
    }

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
        let op: hdfs::proto::OpWriteBlockProto =
            buffer.operation(&mut AtMost(0), &mut memory, &budget).unwrap().unwrap();
        let taken_len = op.stream.unwrap().parents.capacity() * size_of::<u32>();
        assert!(memory.as_ref().is_some_and(|memory| memory.held_len() >= taken_len as u64), "{taken_len}: {memory:?}");
        let mut again = Vec::new();
        delimited::put(&hdfs::proto::OpWriteBlockProto::default(), &mut again);
        let mut buffer = holding(&again);
        let (mut memory, none) = (None, Budget::new(0));
        assert!(
            buffer.operation::<hdfs::proto::OpWriteBlockProto>(&mut AtMost(0), &mut memory, &none).unwrap().is_some(),
            "a common one"
        );
    }

    /// Two bytes for each of them.
    #[test]
    fn lists_of_empty_messages_are_counted_as_they_are_decoded() {
        let op = hdfs::proto::OpTransferBlockProto::default().encode_to_vec();
        let delimited = |count: usize| {
            let bytes = [&op[..], &[0x12, 2, 0x0a, 0].repeat(count)].concat();
            let mut delimited = Vec::new();
            prost::encode_length_delimiter(bytes.len(), &mut delimited).unwrap();
            [delimited, bytes].concat()
        };
        let (mut memory, budget) = (None, Budget::new(256 << 20));
        let mut many = holding(&delimited(100_000));
        let refused = many.operation::<hdfs::proto::OpTransferBlockProto>(&mut AtMost(0), &mut memory, &budget);
        assert!(matches!(refused, Err(ReadError::Wire(WireError::TooLong { .. }))), "{refused:?}");
        assert!(memory.is_none(), "it took memory from others");
        let op = holding(&delimited(5000)).operation(&mut AtMost(0), &mut memory, &budget).unwrap().unwrap();
        let hdfs::proto::OpTransferBlockProto { targets, .. } = op;
        let taken_len = targets.capacity() * size_of::<hdfs::proto::DatanodeInfoProto>();
        assert!(memory.as_ref().is_some_and(|memory| memory.held_len() >= taken_len as u64), "{taken_len}: {memory:?}");
    }

    #[test]
    fn what_comes_of_an_operation_is_counted_as_it_grows() {
        let mut long = Vec::new();
        delimited::put(&"x".repeat(100_000), &mut long);
        let mut buffer = ReadBuffer::default();
        for piece in long[..90_000].chunks(1000) {
            buffer.put(piece);
            let came = buffer.bytes().len();
            let mut check = |room: usize| {
                buffer.operation::<String>(&mut AtMost(room as u64), &mut None, &Budget::new(1 << 30)).is_ok()
            };
            assert_eq!((check(came), check(2 * (came + READ_LEN))), (came < READ_LEN, true), "{came}");
        }
    }
}
