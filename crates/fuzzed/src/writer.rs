//! The writer's end of a chain: what nodes answer to a set-up, and to packets.

use hdfs::proto::{BlockOpResponseProto, OpWriteBlockProto, StreamProto};
use std::sync::Arc;
use std::time::Duration;
use wire::{Abilities, PacketHeader, delimited};
use xfer::writer::{Opening, Packet, Patience, SetUp, Stream};

const PATIENCE: Patience = Patience {
    connect: Duration::from_secs(10),
    silence: Duration::from_secs(60),
    stalled: Duration::from_secs(2),
    in_flight_max: 8,
};
const DATA_LEN: i32 = 3;

/// The first byte tells how many nodes there are, whether they branch, and whether an answer of ours comes before the
/// bytes; the second, in what pieces they come.
pub(crate) fn answers(bytes: &[u8]) {
    let Some(([how, piece_len], bytes)) = bytes.split_first_chunk::<2>() else { return };
    let node_count = 1 + usize::from(how % 4);
    let parents = if how & 4 > 0 { vec![0; node_count - 1] } else { Vec::new() };
    let stream = StreamProto { parents, abilities: Some(Abilities::OF_STREAM.bits()), packet_len: None };
    let request = OpWriteBlockProto { stream: Some(stream), ..OpWriteBlockProto::default() };
    let nodes = (0..node_count).map(|node| node.to_string()).collect();
    let mut set_up = SetUp::new(Duration::ZERO, &Opening { request, nodes, spare: how & 8 > 0 }, PATIENCE);
    set_up.on_connected(Duration::ZERO);
    set_up.on_sent(Duration::ZERO, set_up.unsent().len());
    let mut pieces = bytes.chunks(1 + usize::from(*piece_len)).enumerate();
    if how & 16 > 0 {
        let mut answer = Vec::new();
        delimited::put(&BlockOpResponseProto::default(), &mut answer);
        set_up.handle_bytes(Duration::ZERO, &answer);
    }
    while !set_up.is_over() {
        let Some((_, piece)) = pieces.next() else { return };
        set_up.handle_bytes(Duration::ZERO, piece);
    }
    match set_up.into_stream(Duration::ZERO) {
        Ok(stream) => acks(stream, node_count, pieces),
        Err(broken) => assert!(broken.nodes.iter().all(|(node, _)| *node < node_count), "{broken:?}"),
    }
}

/// Between the pieces packets are sent, some of them in part.
fn acks<'a>(mut stream: Stream, node_count: usize, pieces: impl Iterator<Item = (usize, &'a [u8])>) {
    let (mut seqno, mut sent_len) = (0, 0);
    for (number, piece) in pieces {
        let now = Duration::from_millis(number as u64 * 100);
        if stream.has_room() {
            let header = PacketHeader { offset: sent_len, seqno, last: seqno == 30, data_len: DATA_LEN, sync: false };
            let mut buffer = Vec::new();
            header.put(0, &mut buffer);
            buffer.extend_from_slice(&[7; DATA_LEN as usize]);
            let len = buffer.len();
            stream.push(Arc::new(Packet::new(header, buffer, 0..len)));
            (seqno, sent_len) = (seqno + 1, sent_len + i64::from(DATA_LEN));
        }
        if let Some(outgoing) = stream.next(now) {
            let len = if number.is_multiple_of(3) { outgoing.bytes().len() / 2 } else { outgoing.bytes().len() };
            stream.on_sent(now, &outgoing, len);
        }
        stream.handle_bytes(now, piece);
        stream.handle_timeout(now);
        stream.check();
    }
    let rest = stream.take_rest();
    assert!(rest.broken.nodes.iter().all(|(node, _)| *node < node_count), "{:?}", rest.broken);
    let unacked_len = rest.unacked.len() as u64 * DATA_LEN as u64;
    assert_eq!(rest.acked_len + unacked_len, sent_len as u64, "every byte is acknowledged or in the window");
}
