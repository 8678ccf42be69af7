//! Reads with a script at one end: a reader at a datanode of ours, a source for a reader of ours, and a node that gets
//! a copy.

use super::line::{Heard, Line, Missing, SOON, answer, operation, packet};
use super::{FILE, GENERATION, HOME, SCRIPTED, Stage, Told, host, must, token};
use crate::datanode::Datanode;
use crate::platter::{Identity, SPEC};
use crate::reads::Ask;
use crate::world::content;
use hdfs::proto::{self, BlockConstructionStage, ClientReadStatusProto, ExtendedBlockProto, TokenProto};
use std::cell::Cell;
use std::ops::Range;
use std::rc::Rc;
use std::time::Duration;
use types::{BlockId, ChecksumKind, Generation};
use wire::{Op, PacketHeader, Status};
use xfer::fault::Fault;
use xfer::read::{Extent, Outcome};

const CHUNK: usize = SPEC.chunk_len as usize;
const SILENT: Duration = Duration::from_secs(20);

/// A block that a node has put.
async fn put(stage: &Stage, number: usize) -> Result<(BlockId, u64, usize), String> {
    let (block, tag) = stage.next_block();
    let len = 1 + stage.sim.below(20 * CHUNK);
    let data: Vec<u8> = (0..len).map(|at| content(tag, at)).collect();
    let identity = Identity { block, generation: GENERATION, file: Some(FILE), home: Some(HOME) };
    let done = stage.node(number).volume.put_small(identity, &data, true).await;
    done.map_err(|error| format!("a replica is not put: {error:?}"))?;
    Ok((block, tag, len))
}

// ── a reader ──

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asked {
    Within,
    WithoutSums,
    /// Of a generation that the node does not have.
    Newer,
    /// More than there is, from within it or from behind it.
    TooLong,
    Behind,
    Absent,
    /// Something else in place of the verdict, or nothing.
    BadVerdict,
    NoVerdict,
    /// The reader leaves at any moment.
    Leaves,
}

const ASKED: &[Asked] = &[
    Asked::Within,
    Asked::Within,
    Asked::WithoutSums,
    Asked::Newer,
    Asked::TooLong,
    Asked::Behind,
    Asked::Absent,
    Asked::BadVerdict,
    Asked::NoVerdict,
    Asked::Leaves,
];

pub(super) async fn asked(stage: Rc<Stage>) -> Told {
    let way = stage.chance(ASKED);
    stage.sim.say(|| format!("the reader: {way:?}"));
    let (block, tag, len) = put(&stage, 0).await?;
    let from = stage.sim.below(len);
    let range = match way {
        Asked::TooLong => from..len + 1 + stage.sim.below(3 * CHUNK),
        Asked::Behind => len + 1..len + 2,
        _ => from..from + 1 + stage.sim.below(len - from),
    };
    let generation = Generation(GENERATION.0 + u64::from(way == Asked::Newer));
    let block = if way == Asked::Absent { BlockId(block.0 + 500) } else { block };
    let dialed = stage.world.dial(host(), 0, SOON, Datanode::accept_read).await;
    let mut line = Line::new(stage.sim.clone(), dialed.map_err(|error| format!("{error:?}"))?);
    line.say(&request(block, generation, &range, way != Asked::WithoutSums)).await;
    let said = line.hear_answer().await?;
    if matches!(way, Asked::Newer | Asked::TooLong | Asked::Behind | Asked::Absent) {
        return must(said.status != 0, || format!("{way:?} of {len} bytes is answered by {said:?}"));
    }
    let info = said.read_op_checksum_info.ok_or("no checksum in the answer")?;
    let with_sums = way != Asked::WithoutSums;
    let told = info.checksum.spec().ok_or("an unknown checksum in the answer")?;
    must(!with_sums || told == SPEC, || format!("{told:?} covers the bytes"))?;
    must(with_sums || told.kind == ChecksumKind::Null, || format!("{told:?} covers bytes without checksums"))?;
    let mut next = info.chunk_offset as usize;
    must(next <= range.start && range.start - next < told.chunk_len as usize, || format!("it begins at {next}"))?;
    if way == Asked::Leaves {
        line.drop_all(Duration::from_micros(stage.sim.below(3000) as u64)).await;
        return Ok(());
    }
    loop {
        let Heard { header, sums, data } = line.hear_packet(SOON).await?;
        must(header.offset as usize == next, || format!("a packet at {}, awaited at {next}", header.offset))?;
        if header.last {
            must(data.is_empty(), || "the last packet has bytes".to_owned())?;
            break;
        }
        let heard = Heard { header, sums, data };
        if with_sums {
            heard.verify(tag)?;
        } else {
            must(heard.sums.is_empty(), || "checksums that nobody wants".to_owned())?;
        }
        next += heard.data.len();
    }
    // A checksum covers a whole chunk, so nothing ends within one.
    must(next.is_multiple_of(CHUNK) || next == len, || format!("it ends at {next} of {len}, within a chunk"))?;
    must(next >= range.end, || format!("it ends at {next}, asked for {range:?}"))?;
    match way {
        Asked::BadVerdict => _ = line.say(&[0xff; 12]).await,
        Asked::NoVerdict => line.drop_all(Duration::from_secs(70)).await,
        _ => _ = line.say_message(&ClientReadStatusProto { status: Status::CHECKSUM_OK.0.into() }).await,
    }
    line.hear_end().await
}

fn request(block: BlockId, generation: Generation, range: &Range<usize>, with_sums: bool) -> Vec<u8> {
    let base_header = proto::BaseHeaderProto {
        block: ExtendedBlockProto::of("", block, generation, range.end as u64),
        token: Some(TokenProto { identifier: token(), ..TokenProto::default() }),
        trace_info: None,
    };
    let read = proto::OpReadBlockProto {
        header: proto::ClientOperationHeaderProto { base_header, client_name: "stock".to_owned() },
        offset: range.start as u64,
        len: range.len() as u64,
        send_checksums: Some(with_sums),
        caching_strategy: None,
    };
    operation(Op::ReadBlock, &read)
}

// ── a source ──

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sent {
    Well,
    /// The last packet comes late.
    LateEnd,
    /// A packet belongs elsewhere, or has another number.
    Misplaced,
    WrongSeqno,
    /// The read ends before all has come.
    Short,
    BadByte,
    BadSum,
    /// The packet's length is not that of its parts.
    WrongLen,
    Refuses,
    NoChecksum,
    UnknownChecksum,
    WrongStart,
    Silent,
    /// Byte by byte, each in time.
    Trickles,
    /// It says that it is at it, and never more.
    Busy,
    Leaves,
    Garbage,
}

const SENT: &[Sent] = &[
    Sent::Well,
    Sent::Well,
    Sent::LateEnd,
    Sent::Misplaced,
    Sent::WrongSeqno,
    Sent::Short,
    Sent::BadByte,
    Sent::BadSum,
    Sent::WrongLen,
    Sent::Refuses,
    Sent::NoChecksum,
    Sent::UnknownChecksum,
    Sent::WrongStart,
    Sent::Silent,
    Sent::Trickles,
    Sent::Busy,
    Sent::Leaves,
    Sent::Garbage,
];

pub(super) async fn sent(stage: Rc<Stage>) -> Told {
    let way = stage.chance(SENT);
    stage.sim.say(|| format!("the source: {way:?}"));
    let (block, tag) = stage.next_block();
    let len = 3 * CHUNK + stage.sim.below(12 * CHUNK);
    let verdict = Rc::new(Cell::new(false));
    let shared = Rc::clone(&verdict);
    stage.stand_in(SCRIPTED, move |line| source(line, way, (tag, len), Rc::clone(&shared)));
    let extent = stage.chance(&[Extent::Exact, Extent::WholeChunks]);
    let from = if extent == Extent::Exact { stage.sim.below(len - 2 * CHUNK) } else { 0 };
    let end = from + 2 * CHUNK + stage.sim.below(len - from - 2 * CHUNK + 1);
    let ask = Ask { block, generation: GENERATION, from: from as u64, end: end as u64, extent };
    let began = stage.sim.now();
    let read = stage.world.read_replica(host(), SCRIPTED, ask, TokenProto::none(), (SOON, SILENT)).await;
    let took = stage.sim.now() - began;
    must(took <= SILENT + SOON, || format!("{way:?}: the read takes {took:?}"))?;
    if matches!(way, Sent::Well | Sent::LateEnd) {
        let bytes = read.map_err(|fault| format!("a good read fails: {fault}"))?;
        let wanted = from..if extent == Extent::Exact { end } else { end.next_multiple_of(CHUNK).min(len) };
        let is_right = bytes.iter().copied().eq(wanted.clone().map(|at| content(tag, at)));
        must(is_right, || format!("{} bytes are not those of {wanted:?}", bytes.len()))?;
        stage.sim.sleep(Duration::from_secs(1)).await;
        return must(verdict.get(), || "the source heard no verdict".to_owned());
    }
    match (way, read) {
        (_, Ok(bytes)) => Err(format!("{way:?}: the reader takes {} bytes", bytes.len())),
        (Sent::BadByte | Sent::BadSum, Err(Fault::Corrupt { .. })) => Ok(()),
        (Sent::BadByte | Sent::BadSum, Err(other)) => Err(format!("bad bytes are called {other}")),
        _ => Ok(()),
    }
}

async fn source(mut line: Line, way: Sent, (tag, len): (u64, usize), verdict: Rc<Cell<bool>>) -> Told {
    let op: proto::OpReadBlockProto = line.hear_op().await?;
    let (asked_from, asked_end) = (op.offset as usize, (op.offset + op.len) as usize);
    let start = asked_from - asked_from % CHUNK;
    let end = asked_end.next_multiple_of(CHUNK).min(len);
    let chunk_offset = if way == Sent::WrongStart { (start + CHUNK) as u64 } else { start as u64 };
    let mut checksum: proto::ChecksumProto = SPEC.into();
    if way == Sent::UnknownChecksum {
        checksum.bytes_per_checksum = 0;
    }
    let info = proto::ReadOpChecksumInfoProto { checksum, chunk_offset };
    let info = (way != Sent::NoChecksum).then_some(info);
    if way == Sent::Busy {
        for _ in 0..20 {
            line.say_message(&answer(Status::IN_PROGRESS)).await;
            line.sim.sleep(SILENT / 4).await;
        }
        return Ok(());
    }
    let status = if way == Sent::Refuses { Status::ERROR } else { Status::SUCCESS };
    line.say_message(&proto::BlockOpResponseProto { read_op_checksum_info: info, ..answer(status) }).await;
    if matches!(way, Sent::Refuses | Sent::NoChecksum | Sent::UnknownChecksum | Sent::WrongStart) {
        line.drop_all(SOON).await;
        return Ok(());
    }
    let (mut at, mut seqno) = (start, 0);
    // The first packet is a whole chunk, so that all that is wrong comes behind some that is right.
    while at < end {
        let most = if at == start { CHUNK } else { CHUNK * (1 + line.sim.below(4)) };
        let data_len = most.min(end - at);
        let mut header =
            PacketHeader { offset: at as i64, seqno, data_len: data_len as i32, ..PacketHeader::default() };
        let is_wrong = at > start;
        if is_wrong && way == Sent::Misplaced {
            header.offset += CHUNK as i64;
        }
        if is_wrong && way == Sent::WrongSeqno {
            header.seqno += 1;
        }
        let mut bytes = packet(header, tag);
        let data_at = bytes.len() - data_len;
        match way {
            Sent::BadByte if is_wrong => bytes[data_at + line.sim.below(data_len)] ^= 1 << line.sim.below(8),
            Sent::BadSum if is_wrong => bytes[data_at - 1 - line.sim.below(4)] ^= 1 << line.sim.below(8),
            Sent::WrongLen if is_wrong => {
                let len = u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]) + 1;
                bytes[..4].copy_from_slice(&len.to_be_bytes());
            }
            Sent::Short if is_wrong => break,
            Sent::Leaves if is_wrong => bytes.truncate(line.sim.below(bytes.len())),
            Sent::Garbage if is_wrong => bytes = (0..64).map(|_| line.sim.below(256) as u8).collect(),
            _ => {}
        }
        if is_wrong && way == Sent::Silent {
            line.drop_all(Duration::from_secs(100)).await;
            return Ok(());
        }
        if is_wrong && way == Sent::Trickles {
            for byte in bytes.chunks(1).take(20) {
                line.say(byte).await;
                line.sim.sleep(SILENT / 4).await;
            }
            return Ok(());
        }
        if !line.say(&bytes).await || is_wrong && way == Sent::Leaves {
            return Ok(());
        }
        (at, seqno) = (at + data_len, seqno + 1);
    }
    if way == Sent::LateEnd {
        let early: Result<ClientReadStatusProto, Missing> = line.hear_message(Duration::from_secs(2)).await;
        must(matches!(early, Err(Missing::Late)), || format!("before the end of the read came {early:?}"))?;
    }
    line.say(&packet(PacketHeader { offset: at as i64, seqno, last: true, ..PacketHeader::default() }, tag)).await;
    if let Ok(told) = line.hear_message::<ClientReadStatusProto>(SOON).await {
        let is_good = told.status == i32::from(Status::CHECKSUM_OK.0);
        must(is_good && matches!(way, Sent::Well | Sent::LateEnd), || format!("{way:?}: the verdict is {told:?}"))?;
        verdict.set(true);
    }
    Ok(())
}

// ── a node that gets a copy ──

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Says {
    /// It has put its copy, at once or after some time.
    Put,
    Refuses,
    /// Nothing: it closes the connection, or stays.
    Leaves,
    Silent,
    Garbage,
}

const SAYS: &[Says] = &[Says::Put, Says::Refuses, Says::Leaves, Says::Silent, Says::Garbage];

pub(super) async fn copied(stage: Rc<Stage>) -> Told {
    let way = stage.chance(SAYS);
    stage.sim.say(|| format!("the node that gets a copy: {way:?}"));
    let (block, tag, len) = put(&stage, 0).await?;
    let said = Rc::new(Cell::new(false));
    let shared = Rc::clone(&said);
    stage.stand_in(SCRIPTED, move |line| target(line, way, (tag, len), Rc::clone(&shared)));
    let outcome = stage.node(0).copy_to(block, SCRIPTED).await;
    match (way, outcome) {
        (Says::Put, Some(Outcome::Copied)) => must(said.get(), || "copied before the node has said so".to_owned()),
        (Says::Put, other) => Err(format!("the copy was put, and is {other:?}")),
        (_, Some(Outcome::Copied)) => Err(format!("{way:?}: it counts as copied")),
        (Says::Refuses, Some(Outcome::Refused(_))) => Ok(()),
        (Says::Refuses, other) => Err(format!("a refusal is {other:?}")),
        _ => Ok(()),
    }
}

async fn target(mut line: Line, way: Says, (tag, len): (u64, usize), said: Rc<Cell<bool>>) -> Told {
    let op: proto::OpWriteBlockProto = line.hear_op().await?;
    let is_copy = op.stage == i32::from(BlockConstructionStage::TransferFinalized) && op.targets.is_empty();
    must(is_copy && op.requested_checksum.spec() == Some(SPEC), || format!("no copy of the replica: {op:?}"))?;
    let mut end = 0;
    loop {
        let heard = line.hear_packet(SOON).await?;
        must(heard.header.offset as usize == end, || format!("a packet at {}, awaited at {end}", heard.header.offset))?;
        heard.verify(tag)?;
        end += heard.data.len();
        if heard.header.last {
            break;
        }
    }
    must(end == len, || format!("{end} bytes of {len} were copied"))?;
    line.sim.sleep(line.sim.between(Duration::ZERO, Duration::from_secs(5))).await;
    match way {
        Says::Put => {
            said.set(true);
            line.say_message(&answer(Status::SUCCESS)).await;
        }
        Says::Refuses => _ = line.say_message(&answer(Status::ERROR)).await,
        Says::Leaves => {}
        Says::Silent => line.drop_all(Duration::from_secs(100)).await,
        Says::Garbage => _ = line.say(&[0xff; 9]).await,
    }
    Ok(())
}
