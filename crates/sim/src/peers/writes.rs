//! A writer as HDFS's own clients are, against datanodes of ours: packets, heartbeats and syncs at any time, overlaps
//! after a flush inside of a chunk; and one that does what no writer may do.

use super::line::{Line, Missing, SOON, operation, packet};
use super::{GENERATION, Stage, Told, host, must, token};
use crate::client::member;
use crate::platter::SPEC;
use crate::world::World;
use hdfs::proto::{self, BlockConstructionStage, ExtendedBlockProto, TokenProto};
use std::collections::VecDeque;
use std::rc::Rc;
use std::time::Duration;
use types::BlockId;
use wire::{Abilities, Op, PacketHeader, PipelineAck, Status};

const CHUNK: usize = SPEC.chunk_len as usize;

/// A writer at its block.
pub(super) struct StockWriter {
    pub(super) line: Line,
    pub(super) block: BlockId,
    pub(super) tag: u64,
    node_count: usize,
    seqno: i64,
    /// Bytes of the block that were sent.
    pub(super) sent: usize,
    /// Packets without an ack, oldest first: number, and where the block ends with it.
    unacked: VecDeque<(i64, usize)>,
    pub(super) acked: usize,
}

/// Asks a node to write a new block, and to send it on to the others. `keepalives`: the writer understands keepalives.
pub(super) fn request(stage: &Stage, block: BlockId, nodes: &[usize], keepalives: bool) -> Vec<u8> {
    let targets: Vec<_> = nodes[1..].iter().map(|node| member(&stage.world, World::node_id(*node)).info).collect();
    let identifier = token();
    let base_header = proto::BaseHeaderProto {
        block: ExtendedBlockProto::of("", block, GENERATION, 0),
        token: Some(TokenProto { identifier, ..TokenProto::default() }),
        trace_info: None,
    };
    let stream = keepalives
        .then(|| proto::StreamProto { abilities: Some(Abilities::OF_STREAM.bits()), ..proto::StreamProto::default() });
    let write = proto::OpWriteBlockProto {
        header: proto::ClientOperationHeaderProto { base_header, client_name: "stock".to_owned() },
        targets,
        stage: BlockConstructionStage::PipelineSetupCreate.into(),
        pipeline_size: nodes.len() as u32,
        requested_checksum: SPEC.into(),
        stream,
        ..Default::default()
    };
    operation(Op::WriteBlock, &write)
}

impl StockWriter {
    /// With its chain set up.
    pub(super) async fn begin(stage: &Stage, nodes: &[usize], keepalives: bool) -> Result<Self, String> {
        let mut writer = Self::ask(stage, nodes, keepalives).await?;
        let answer = writer.line.hear_answer().await?;
        must(answer.status == i32::from(Status::SUCCESS.0), || format!("the set-up is refused: {answer:?}"))?;
        must(keepalives == answer.abilities.is_some(), || format!("keepalives: {keepalives}, but {answer:?}"))?;
        Ok(writer)
    }

    /// With the answer still to come.
    pub(super) async fn ask(stage: &Stage, nodes: &[usize], keepalives: bool) -> Result<Self, String> {
        let (block, tag) = stage.next_block();
        let dialed = stage.world.dial_write(host(), nodes[0], SOON).await;
        let line = Line::new(stage.sim.clone(), dialed.map_err(|error| format!("{error:?}"))?);
        line.say(&request(stage, block, nodes, keepalives)).await;
        let node_count = nodes.len();
        Ok(Self { line, block, tag, node_count, seqno: 0, sent: 0, unacked: VecDeque::new(), acked: 0 })
    }

    /// The next packet with up to so many bytes, which end with a chunk if they begin inside of one.
    pub(super) fn next(&mut self, len: usize, sync: bool) -> Vec<u8> {
        let into = self.sent % CHUNK;
        let len = if into > 0 { len.min(CHUNK - into) } else { len };
        self.packet_at(self.sent, len, sync, false)
    }

    fn packet_at(&mut self, offset: usize, len: usize, sync: bool, last: bool) -> Vec<u8> {
        let header = PacketHeader { offset: offset as i64, seqno: self.seqno, last, data_len: len as i32, sync };
        self.sent = self.sent.max(offset + len);
        self.unacked.push_back((self.seqno, offset + len));
        self.seqno += 1;
        packet(header, self.tag)
    }

    pub(super) fn last(&mut self) -> Vec<u8> {
        self.packet_at(self.sent, 0, false, true)
    }

    /// Takes acks until all that was sent is acknowledged by every node.
    pub(super) async fn drain(&mut self, limit: Duration) -> Result<(), String> {
        while !self.unacked.is_empty() {
            let ack = self.line.hear_ack(limit).await?;
            if ack.seqno == PipelineAck::HEARTBEAT {
                continue;
            }
            let (seqno, end) = self.unacked.pop_front().expect("looked at above");
            let is_good = ack.seqno == seqno && ack.replies == vec![Status::SUCCESS; self.node_count];
            must(is_good, || format!("packet {seqno} of {} nodes is answered by {ack:?}", self.node_count))?;
            self.acked = self.acked.max(end);
        }
        Ok(())
    }

    /// The next ack that is no keepalive.
    pub(super) async fn ack(&mut self, limit: Duration) -> Result<PipelineAck, Missing> {
        let until = self.line.sim.now() + limit;
        loop {
            let ack = self.line.hear_ack(until.saturating_sub(self.line.sim.now())).await?;
            if ack.seqno != PipelineAck::HEARTBEAT {
                return Ok(ack);
            }
        }
    }
}

fn heartbeat() -> Vec<u8> {
    packet(PacketHeader { seqno: PacketHeader::HEARTBEAT, ..PacketHeader::default() }, 0)
}

/// All is as it should be; all nodes have the block in the end.
pub(super) async fn whole(stage: Rc<Stage>) -> Told {
    let sim = stage.sim.clone();
    let nodes: Vec<usize> = (0..1 + sim.below(super::NODE_COUNT)).collect();
    let mut writer = StockWriter::begin(&stage, &nodes, sim.one_in(2)).await?;
    for _ in 0..1 + sim.below(12) {
        let mut bytes = match sim.below(8) {
            0 => heartbeat(),
            // After a flush within a chunk Java's client sends that chunk from its beginning.
            1 if !writer.sent.is_multiple_of(CHUNK) => {
                let from = writer.sent - writer.sent % CHUNK;
                writer.packet_at(from, writer.sent - from + sim.below(2 * CHUNK), false, false)
            }
            _ => writer.next(sim.below(5 * CHUNK), sim.one_in(4)),
        };
        if sim.one_in(3) {
            // Together with the one before.
            bytes.extend_from_slice(&writer.next(1 + sim.below(3 * CHUNK), false));
        }
        must(writer.line.say(&bytes).await, || "the node takes no packets".to_owned())?;
        if sim.one_in(3) {
            writer.drain(SOON).await?;
            for node in &nodes {
                let info = stage.replica(*node, writer.block);
                must(info.is_some_and(|info| info.visible >= writer.acked), || {
                    format!("node {node} shows {info:?}, but {} bytes are acknowledged", writer.acked)
                })?;
            }
        }
        if sim.one_in(6) {
            sim.sleep(sim.between(Duration::ZERO, Duration::from_secs(40))).await;
        }
    }
    let last = writer.last();
    writer.line.say(&last).await;
    writer.drain(SOON).await?;
    writer.line.hear_end().await?;
    for node in nodes {
        stage.is_whole(node, writer.block, writer.tag, writer.sent).await?;
    }
    Ok(())
}

/// What no writer may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wrong {
    /// A packet that begins behind what came.
    Gap,
    Negative,
    /// One that begins in a chunk and goes on behind it.
    Unaligned,
    /// Checksums of more or fewer chunks than there are.
    Sums,
    /// The last packet says that the block is shorter.
    Short,
    AfterLast,
    BadSum,
    Garbage,
    /// The connection ends at any byte.
    Cut,
    /// Nothing more comes.
    Silent,
    /// A packet comes byte by byte, and would take an hour.
    Trickles,
}

const WRONG: &[Wrong] = &[
    Wrong::Gap,
    Wrong::Negative,
    Wrong::Unaligned,
    Wrong::Sums,
    Wrong::Short,
    Wrong::AfterLast,
    Wrong::BadSum,
    Wrong::Garbage,
    Wrong::Cut,
    Wrong::Silent,
    Wrong::Trickles,
];

/// The node lives on, and takes nothing that was not sent in order.
pub(super) async fn broken(stage: Rc<Stage>) -> Told {
    let sim = stage.sim.clone();
    let wrong = stage.chance(WRONG);
    let nodes: Vec<usize> = (0..1 + sim.below(2)).collect();
    sim.say(|| format!("{wrong:?} to {nodes:?}"));
    let mut writer = StockWriter::begin(&stage, &nodes, sim.one_in(2)).await?;
    // Ends inside of a chunk.
    let first = writer.next(2 * CHUNK + 1 + sim.below(CHUNK - 1), false);
    writer.line.say(&first).await;
    writer.drain(SOON).await?;
    let (sent, at) = (writer.sent, writer.sent as i64);
    let header = PacketHeader { offset: at, seqno: writer.seqno, ..PacketHeader::default() };
    let rest = (CHUNK - sent % CHUNK) as i32;
    let bytes = match wrong {
        Wrong::Gap => {
            packet(PacketHeader { offset: at + 1 + sim.below(CHUNK) as i64, data_len: 1, ..header }, writer.tag)
        }
        Wrong::Negative => {
            let mut bytes = packet(PacketHeader { data_len: rest, ..header }, writer.tag);
            let place = wire::PacketPrefix::LEN + 1;
            bytes[place..place + 8].copy_from_slice(&(-1i64).to_le_bytes());
            bytes
        }
        Wrong::Unaligned => packet(PacketHeader { data_len: rest + 1, ..header }, writer.tag),
        Wrong::Sums => {
            let mut bytes = Vec::new();
            PacketHeader { data_len: rest, ..header }.put(8, &mut bytes);
            bytes.resize(bytes.len() + 8 + rest as usize, 0);
            bytes
        }
        Wrong::Short => packet(PacketHeader { offset: at - 1, last: true, ..header }, writer.tag),
        Wrong::AfterLast => [writer.last(), writer.next(1, false)].concat(),
        Wrong::BadSum => {
            let mut bytes = packet(PacketHeader { data_len: rest, ..header }, writer.tag);
            *bytes.last_mut().expect("it has data") ^= 1 << sim.below(8);
            bytes
        }
        Wrong::Garbage => (0..40).map(|_| sim.below(256) as u8).collect(),
        Wrong::Cut => {
            let mut bytes = writer.next(rest as usize, false);
            bytes.truncate(sim.below(bytes.len()));
            bytes
        }
        Wrong::Silent | Wrong::Trickles => Vec::new(),
    };
    writer.line.say(&bytes).await;
    match wrong {
        Wrong::BadSum => {
            // In a chain the node below finds it first, and the one above says nothing, as it looks like the bad one.
            if let Ok(ack) = writer.ack(SOON).await {
                must(ack.replies == [Status::ERROR_CHECKSUM], || format!("bad bytes are answered by {ack:?}"))?;
            }
        }
        Wrong::AfterLast => writer.line.drop_all(SOON).await,
        Wrong::Silent => {
            sim.sleep(Duration::from_secs(119)).await;
            let heard = writer.line.hear_end();
            must(heard.await.is_ok(), || "a silent writer is kept".to_owned())?;
        }
        Wrong::Trickles => {
            let bytes = packet(PacketHeader { data_len: rest, ..header }, writer.tag);
            for byte in bytes.chunks(1).take(8) {
                writer.line.say(byte).await;
                sim.sleep(Duration::from_secs(20)).await;
            }
            loop {
                match writer.line.hear_ack(SOON).await {
                    Ok(ack) if ack.is_keepalive() => {}
                    Err(Missing::End) => break,
                    other => return Err(format!("a packet that trickles is answered by {other:?}")),
                }
            }
        }
        // What it begins with may be the beginning of a packet.
        Wrong::Garbage | Wrong::Cut => {}
        _ => writer.line.hear_end().await.map_err(|why| format!("{wrong:?}: {why}"))?,
    }
    let block = writer.block;
    drop(writer);
    sim.sleep(Duration::from_secs(5)).await;
    if wrong == Wrong::AfterLast {
        // The block may be put; if so, as it was before.
        let info = stage.replica(0, block);
        return must(info.is_none_or(|info| info.len <= sent), || {
            format!("{info:?}, where {sent} bytes are the block")
        });
    }
    nodes.iter().try_for_each(|node| stage.is_open_or_gone(*node, block, sent))
}
