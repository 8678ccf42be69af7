//! Data transfer: what opens an operation, packets, acks.

use hdfs::proto::{
    BlockOpResponseProto, OpBlockChecksumProto, OpReadBlockProto, OpRequestShortCircuitAccessProto,
    OpTransferBlockProto, OpWriteBlockProto, ReleaseShortCircuitAccessRequestProto,
    ReleaseShortCircuitAccessResponseProto, ShortCircuitShmRequestProto, ShortCircuitShmResponseProto,
};
use prost::Message;
use std::fmt::Debug;
use types::limits::{OP_MESSAGE_LEN_MAX, PACKET_LEN_MAX};
use wire::packet::Parsed;
use wire::{BlockScope, Op, OpHeader, PacketFrame, PipelineAck, Routing, delimited};
use xfer::answer::Awaiting;

/// What opens an operation, the acks of a chain, and the block token inside.
pub(crate) fn operations(bytes: &[u8]) {
    let mut acks = bytes;
    while let Ok(Some((ack, len))) = PipelineAck::split(acks) {
        let mut again = Vec::new();
        ack.put(&mut again);
        assert_eq!(PipelineAck::split(&again), Ok(Some((ack, again.len()))));
        acks = &acks[len..];
    }
    scope(bytes);
    let limit = OP_MESSAGE_LEN_MAX as usize;
    if let Ok(Some((answer, _))) = delimited::split(bytes, "answer", limit) {
        let _ = delimited::decode::<BlockOpResponseProto>(answer, "answer");
    }
    let Some((head, rest)) = bytes.split_first_chunk::<{ OpHeader::LEN }>() else { return };
    let Ok(header) = OpHeader::decode(*head) else { return };
    assert_eq!(header.encode(), *head);
    let Ok(Some((message, _))) = delimited::split(rest, "op", limit) else { return };
    if let Ok(write) = delimited::decode::<OpWriteBlockProto>(message, "op") {
        scope(&write.header.base_header.token.unwrap_or_default().identifier);
        routing(&write.stream.unwrap_or_default().parents, write.targets.len());
    }
    let _ = delimited::decode::<OpReadBlockProto>(message, "op");
    let _ = delimited::decode::<OpBlockChecksumProto>(message, "op");
    let _ = delimited::decode::<OpTransferBlockProto>(message, "op");
}

/// What comes over a datanode's Unix socket, at either end.
pub(crate) fn local_reads(bytes: &[u8]) {
    if let Ok((consumed, _)) = Awaiting::default().on_bytes(bytes) {
        assert!(consumed <= bytes.len());
    }
    let Some((head, rest)) = bytes.split_first_chunk::<{ OpHeader::LEN }>() else { return };
    let Ok(header) = OpHeader::decode(*head) else { return };
    let Ok(Some((message, _))) = delimited::split(rest, "op", OP_MESSAGE_LEN_MAX as usize) else { return };
    match header.op {
        Op::RequestShortCircuitFds => {
            again::<OpRequestShortCircuitAccessProto>(message);
            again::<BlockOpResponseProto>(message);
        }
        Op::ReleaseShortCircuitFds => {
            again::<ReleaseShortCircuitAccessRequestProto>(message);
            again::<ReleaseShortCircuitAccessResponseProto>(message);
        }
        Op::RequestShortCircuitShm => {
            again::<ShortCircuitShmRequestProto>(message);
            again::<ShortCircuitShmResponseProto>(message);
        }
        _ => {}
    }
}

/// What it reads it writes again as the same.
fn again<M: Message + Default + PartialEq + Debug>(message: &[u8]) {
    if let Ok(read) = delimited::decode::<M>(message, "message") {
        assert_eq!(M::decode(&read.encode_to_vec()[..]).as_ref(), Ok(&read));
    }
}

pub(crate) fn scope(identifier: &[u8]) {
    if let Ok(Some(scope)) = BlockScope::decode(identifier) {
        assert_eq!(BlockScope::decode(&scope.encode()), Ok(Some(scope)));
    }
}

/// Whoever sends to whom: each target is reached once.
pub(crate) fn routing(parents: &[u32], target_count: usize) {
    let Ok(routing) = Routing::decode(parents, target_count) else { return };
    assert_eq!(Routing::decode(&routing.encode(), target_count).as_ref(), Ok(&routing));
    let children = routing.children();
    let mut next = 0;
    for child in &children {
        assert!(child.start == next && child.end > child.start, "{children:?}");
        next = child.end;
        let _ = routing.below(child);
    }
    assert_eq!(next, target_count);
}

/// Packets, one after the other, as a datanode takes them from a socket.
pub(crate) fn packets(bytes: &[u8]) {
    let mut rest = bytes;
    while let Ok(parsed) = PacketFrame::parse(rest) {
        match parsed {
            Parsed::Whole(frame) => {
                assert!(frame.sums.end == frame.data.start && frame.data.end == frame.packet_len());
                rest = &rest[frame.packet_len()..];
            }
            Parsed::Needs(more) => {
                assert!(more > rest.len(), "asks for what is there");
                assert!(more <= PACKET_LEN_MAX as usize + 2048, "asks for more than a packet can be");
                break;
            }
        }
    }
}
