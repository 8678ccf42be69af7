//! What a write chain answers: one ack a packet, with one status a node, nearest first.

use crate::delimited;
use crate::error::WireError;
use crate::packet::PacketHeader;
use prost::Message;

/// HDFS's `Status`, as a number: a status nobody knows is passed on as it came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Status(pub u8);

impl Status {
    pub const SUCCESS: Self = Self(0);
    pub const ERROR: Self = Self(1);
    pub const ERROR_CHECKSUM: Self = Self(2);
    pub const ERROR_INVALID: Self = Self(3);
    pub const ERROR_EXISTS: Self = Self(4);
    pub const ERROR_ACCESS_TOKEN: Self = Self(5);
    pub const CHECKSUM_OK: Self = Self(6);
    pub const ERROR_UNSUPPORTED: Self = Self(7);
    pub const OOB_RESTART: Self = Self(8);
    pub const IN_PROGRESS: Self = Self(12);
}

/// `PipelineAckProto`: which packet, and what each node of the chain says to it.
///
/// The field `flag` (congestion) is not sent, and not needed when it comes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PipelineAck {
    /// The packet's number, or [`PipelineAck::HEARTBEAT`], or [`PipelineAck::OUT_OF_BAND`].
    pub seqno: i64,
    pub replies: Vec<Status>,
}

/// A chain longer than this is nobody's: HDFS's limit of replication is 512.
const REPLY_COUNT_MAX: usize = types::limits::REPLICATION_MAX as usize;

#[derive(Clone, PartialEq, Message)]
struct PipelineAckMessage {
    #[prost(sint64, required, tag = "1")]
    seqno: i64,
    // Sent unpacked, as proto2 has it for enums; read either way.
    #[prost(int32, repeated, packed = "false", tag = "2")]
    reply: Vec<i32>,
}

impl PipelineAck {
    pub const HEARTBEAT: i64 = PacketHeader::HEARTBEAT;
    /// Ours: the sender lives, and is still at it. Says nothing of any packet; only for those who announced that they
    /// understand it.
    pub const KEEPALIVE: Self = Self { seqno: Self::HEARTBEAT, replies: Vec::new() };
    /// Carries no packet's number, but a single reply of its sender.
    pub const OUT_OF_BAND: i64 = -2;
    /// 512 replies of two bytes, as many flags, and two numbers.
    pub const LEN_MAX: usize = 4096;

    pub fn is_keepalive(&self) -> bool {
        self.seqno == Self::HEARTBEAT && self.replies.is_empty()
    }

    /// Appends the ack behind its length.
    pub fn put(&self, out: &mut Vec<u8>) {
        let reply = self.replies.iter().map(|status| i32::from(status.0)).collect();
        delimited::put(&PipelineAckMessage { seqno: self.seqno, reply }, out);
    }

    /// The first ack in `bytes`, and how many bytes it takes. `None` means that more bytes must come.
    pub fn split(bytes: &[u8]) -> Result<Option<(Self, usize)>, WireError> {
        let Some((message, len)) = delimited::split(bytes, "ack", Self::LEN_MAX)? else { return Ok(None) };
        Ok(Some((Self::decode(message)?, len)))
    }

    pub fn decode(message: &[u8]) -> Result<Self, WireError> {
        let message: PipelineAckMessage = delimited::decode(message, "ack")?;
        if message.reply.len() > REPLY_COUNT_MAX {
            return Err(WireError::TooLong {
                what: "list of replies",
                len: message.reply.len() as u64,
                max: REPLY_COUNT_MAX as u64,
            });
        }
        let bad = |_| WireError::Message { what: "ack", reason: "a reply is no status".to_owned() };
        let status = |number: i32| u8::try_from(number).map(Status).map_err(bad);
        let replies = message.reply.into_iter().map(status).collect::<Result<_, _>>()?;
        Ok(Self { seqno: message.seqno, replies })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// As Hadoop's PipelineAck writes it (without `flag`): packet 3, [SUCCESS, ERROR].
    #[test]
    fn golden_ack() {
        let ack = PipelineAck { seqno: 3, replies: vec![Status::SUCCESS, Status::ERROR] };
        let mut bytes = Vec::new();
        ack.put(&mut bytes);
        assert_eq!(bytes, [6, 0x08, 6, 0x10, 0, 0x10, 1], "the number is zigzag");
        assert_eq!(PipelineAck::split(&bytes), Ok(Some((ack, 7))));
        let heartbeat = PipelineAck::decode(&[0x08, 1, 0x12, 2, 0, 0, 0x18, 7, 0x22, 1, 0x20]).unwrap();
        assert_eq!(
            heartbeat,
            PipelineAck { seqno: -1, replies: vec![Status::SUCCESS; 2] },
            "packed, with time and flag"
        );
    }

    proptest! {
        #[test]
        fn an_ack_is_found_again(seqno in any::<i64>(), replies in proptest::collection::vec(0u8..=255, 0..9)) {
            let ack = PipelineAck { seqno, replies: replies.into_iter().map(Status).collect() };
            let mut bytes = Vec::new();
            ack.put(&mut bytes);
            for short in 0..bytes.len() {
                prop_assert_eq!(PipelineAck::split(&bytes[..short]), Ok(None));
            }
            prop_assert_eq!(PipelineAck::split(&bytes), Ok(Some((ack, bytes.len()))));
        }

        #[test]
        fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            let _ = PipelineAck::split(&bytes);
            let _ = PipelineAck::decode(&bytes);
        }
    }
}
