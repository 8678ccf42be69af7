//! The writer's end of a chain: what it does event by event, and whole blocks from a seed.

mod block;
mod set_up;
mod simulation;
mod stream;

use hdfs::proto::{BlockOpResponseProto, OpWriteBlockProto, StreamProto};
use std::sync::Arc;
use std::time::Duration;
use wire::{Abilities, PacketHeader, PipelineAck, Routing, Status, delimited};
use xfer::writer::{Opening, Packet, Patience, SetUp, Stream};

const PATIENCE: Patience = Patience {
    connect: Duration::from_secs(10),
    silence: Duration::from_secs(60),
    stalled: Duration::from_secs(2),
    in_flight_max: 4,
};

fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// A packet whose data tells where in the block it stands.
fn packet(seqno: i64, offset: u64, data_len: usize, last: bool) -> Arc<Packet> {
    let header = PacketHeader { offset: offset as i64, seqno, last, data_len: data_len as i32, sync: false };
    let mut buffer = Vec::new();
    header.put(0, &mut buffer);
    buffer.extend((offset..offset + data_len as u64).map(content));
    let place = 0..buffer.len();
    Arc::new(Packet::new(header, buffer, place))
}

fn content(offset: u64) -> u8 {
    (offset.wrapping_mul(31) >> 2) as u8
}

fn answer(answer: &BlockOpResponseProto) -> Vec<u8> {
    let mut bytes = Vec::new();
    delimited::put(answer, &mut bytes);
    bytes
}

/// `+` is SUCCESS, `-` ERROR, `r` OOB_RESTART, `?` IN_PROGRESS.
fn ack(seqno: i64, replies: &str) -> Vec<u8> {
    let reply = |mark| match mark {
        '+' => Status::SUCCESS,
        'r' => Status::OOB_RESTART,
        '?' => Status::IN_PROGRESS,
        _ => Status::ERROR,
    };
    let mut bytes = Vec::new();
    PipelineAck { seqno, replies: replies.chars().map(reply).collect() }.put(&mut bytes);
    bytes
}

/// An attempt over nodes `a`, `b`, `c` …; `ours` with this table.
fn opening(node_count: usize, ours: Option<Routing>, spare: bool) -> Opening {
    let stream = ours.map(|table| StreamProto { parents: table.encode(), abilities: Some(1), packet_len: None });
    let request = OpWriteBlockProto { stream, ..OpWriteBlockProto::default() };
    Opening { request, nodes: ('a'..).take(node_count).map(String::from).collect(), spare }
}

/// A stream that stands since the beginning of time.
fn stream(opening: &Opening) -> Stream {
    let start = Duration::ZERO;
    let mut set_up = SetUp::new(start, opening, PATIENCE);
    set_up.on_connected(start);
    set_up.on_sent(start, set_up.unsent().len());
    let abilities = opening.request.stream.is_some().then_some(Abilities::OF_STREAM.bits());
    set_up.handle_bytes(start, &answer(&BlockOpResponseProto { abilities, ..BlockOpResponseProto::default() }));
    set_up.into_stream(start).expect("a stream")
}
