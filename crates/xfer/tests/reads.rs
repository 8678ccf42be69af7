//! A replica goes out by one machine and comes in by the other, over every cut of the bytes.

use hdfs::proto::{BlockOpResponseProto, ClientReadStatusProto, ExtendedBlockProto, OpReadBlockProto, TokenProto};
use proptest::prelude::*;
use std::path::PathBuf;
use std::time::Duration;
use types::{BlockId, ChecksumKind, ChecksumSpec, Generation, ReplicaState};
use wire::{OpHeader, PacketHeader, Status, delimited};
use xfer::fault::Fault;
use xfer::front::Front;
use xfer::read::{
    CopyTarget, Extent, Given, Late, Limits, Next, Outcome, Plan, Range, Receiver, Sender, Stored, Wanted,
    copy_request, request,
};

const LIMITS: Limits = Limits { packet: Duration::from_millis(100), word: Duration::from_millis(500) };
const STALL: Duration = Duration::from_millis(60);

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// What the recordings carried too.
fn content(from: usize, len: usize) -> Vec<u8> {
    (from..from + len).map(|at| (7 * at + at / 251) as u8).collect()
}

struct Replica {
    data: Vec<u8>,
    stored: Stored,
}

fn replica(len: usize, kind: ChecksumKind, chunk_len: u32) -> Replica {
    let checksum = ChecksumSpec { kind, chunk_len };
    Replica {
        data: content(0, len),
        stored: Stored { generation: Generation(7), len: len as u64, checksum, state: ReplicaState::Finalized },
    }
}

impl Replica {
    fn plan(&self, range: Range, with_sums: bool) -> Plan {
        let (offset, len) = (range.from, range.end - range.from);
        Plan::new(self.stored, Wanted { generation: Generation(7), offset, len, with_sums }).unwrap()
    }

    /// The stored checksums of some bytes, of whole chunks also where the bytes end in one.
    fn sums(&self, window: std::ops::Range<u64>) -> Vec<u8> {
        let mut sums = Vec::new();
        let chunk_len = u64::from(self.stored.checksum.chunk_len);
        let end = window.end.next_multiple_of(chunk_len).min(self.stored.len);
        if !window.is_empty() {
            self.stored.checksum.compute(&self.data[window.start as usize..end as usize], &mut sums);
        }
        sums
    }

    /// All that a sender sends before it waits for the peer.
    fn sent(&self, sender: &mut Sender) -> Vec<u8> {
        let mut bytes = Vec::new();
        loop {
            match sender.next(Duration::ZERO) {
                Next::Sums(window) => {
                    let sums = self.sums(window);
                    sender.on_sums(sums);
                }
                Next::Packet(data) => {
                    bytes.extend_from_slice(sender.head());
                    bytes.extend_from_slice(&self.data[data.start as usize..data.end as usize]);
                    sender.on_sent(Duration::ZERO);
                }
                Next::Receive | Next::Done(_) => return bytes,
            }
        }
    }

    fn to_reader(&self, range: Range, with_sums: bool) -> Sender {
        let plan = self.plan(range, with_sums);
        Sender::to_reader(plan, self.sums(plan.sums_window(plan.start)), LIMITS)
    }

    fn served(&self, range: Range) -> Vec<u8> {
        self.sent(&mut self.to_reader(range, true))
    }
}

/// What comes on a connection, in pieces of these lengths, over and over.
struct Wire<'a> {
    bytes: &'a [u8],
    pieces: &'a [usize],
    reads: usize,
    now: Duration,
}

impl Wire<'_> {
    fn bring(&mut self, receiver: &mut Receiver, dest: &mut [u8]) -> Result<(), Fault> {
        let room = receiver.room(dest);
        assert!(!room.dest.is_empty() || !room.ahead.is_empty(), "it wants bytes and has no room");
        let piece = self.pieces[self.reads % self.pieces.len()];
        self.reads += 1;
        let came = piece.min(self.bytes.len()).min(room.dest.len() + room.ahead.len());
        let (bytes, rest) = self.bytes.split_at(came);
        let direct = came.min(room.dest.len());
        room.dest[..direct].copy_from_slice(&bytes[..direct]);
        room.ahead[..came - direct].copy_from_slice(&bytes[direct..]);
        self.bytes = rest;
        receiver.on_received(self.now, came)
    }
}

/// A whole read.
#[derive(Debug, Default, PartialEq, Eq)]
struct Read {
    bytes: Vec<u8>,
    verdict: Vec<u8>,
    rest: Vec<u8>,
}

/// Reads a range with buffers of these lengths, over and over. The bytes that were given count also beside a fault.
fn read(bytes: &[u8], range: Range, pieces: &[usize], dests: &[usize]) -> (Read, Option<Fault>) {
    let mut wire = Wire { bytes, pieces, reads: 0, now: Duration::ZERO };
    let mut read = Read::default();
    let fault = read_into(&mut wire, range, dests, &mut read).err();
    (read, fault)
}

fn read_into(wire: &mut Wire<'_>, range: Range, dests: &[usize], read: &mut Read) -> Result<(), Fault> {
    let mut receiver = Receiver::new(range, Extent::Exact, STALL, Front::default());
    while receiver.poll_answer()?.is_none() {
        wire.bring(&mut receiver, &mut [])?;
    }
    let mut dests = dests.iter().cycle();
    'all: loop {
        let mut dest = vec![0; *dests.next().unwrap()];
        let mut done = 0;
        while done < dest.len() {
            match receiver.poll(&mut dest[done..])? {
                Given::Bytes(len) => {
                    read.bytes.extend_from_slice(&dest[done..done + len]);
                    done += len;
                }
                Given::Nothing => wire.bring(&mut receiver, &mut dest[done..])?,
                Given::All => break 'all,
            }
        }
    }
    assert_eq!(receiver.position(), range.end);
    read.verdict = loop {
        match receiver.poll_end()? {
            Some(verdict) => break verdict,
            None => wire.bring(&mut receiver, &mut [])?,
        }
    };
    read.rest = [receiver.into_front().into_rest(), wire.bytes.to_vec()].concat();
    Ok(())
}

fn verdict(status: Status) -> Vec<u8> {
    let mut bytes = Vec::new();
    delimited::put(&ClientReadStatusProto { status: status.0.into() }, &mut bytes);
    bytes
}

// ── golden bytes ──

fn recorded(name: &str) -> Vec<u8> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../wire/tests/golden").join(name);
    std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn behind_answer(bytes: &[u8]) -> &[u8] {
    let (_, len) = delimited::split(bytes, "answer", 1000).unwrap().unwrap();
    &bytes[len..]
}

/// What real datanodes sent is read, with the verdict that the Java client had; and a sender sends what they sent.
#[test]
fn recorded_reads_are_read_and_sent_again() {
    let crc32 = ChecksumSpec { kind: ChecksumKind::Crc32, chunk_len: 1024 };
    let null = ChecksumSpec { kind: ChecksumKind::Null, chunk_len: 512 };
    for (name, checksum, len) in [
        ("read", ChecksumSpec::DEFAULT, 20_000),
        ("read_crc32", crc32, 3000),
        ("read_null", null, 3000),
        ("read_unverified", ChecksumSpec::DEFAULT, 20_000),
        ("read_tail", ChecksumSpec::DEFAULT, 20_000),
    ] {
        let (client, server) = (recorded(&format!("{name}.client.bin")), recorded(&format!("{name}.server.bin")));
        let (message, asked_len) = delimited::split(&client[OpHeader::LEN..], "op", 1 << 20).unwrap().unwrap();
        let op: OpReadBlockProto = delimited::decode(message, "op").unwrap();
        let range = Range { from: op.offset, end: op.offset + op.len };
        let said = &client[OpHeader::LEN + asked_len..];
        for pieces in [&[1][..], &[7, 600], &[usize::MAX]] {
            for dests in [&[1][..], &[100], &[512], &[70_000]] {
                let (read, fault) = read(&server, range, pieces, dests);
                assert_eq!(fault, None, "{name}");
                assert!(read.bytes == content(range.from as usize, op.len as usize), "{name}");
                assert!(read.rest.is_empty(), "{name}");
                // Java calls checksums good also where there are none.
                let verdict = if name == "read_null" { verdict(Status::SUCCESS) } else { said.to_vec() };
                assert_eq!(read.verdict, verdict, "{name}");
            }
        }
        let replica = Replica { data: content(0, len), stored: Stored { len: len as u64, checksum, ..SMALL } };
        let mut sender = replica.to_reader(range, op.send_checksums.unwrap_or(true));
        // Their answer has no empty text where ours has one.
        let sent = replica.sent(&mut sender);
        assert!(behind_answer(&sent) == behind_answer(&server), "{name}");
        assert_eq!(sender.on_bytes(&said[..1]), Ok(0));
        assert_eq!(sender.on_bytes(said), Ok(said.len()));
        assert!(matches!(sender.next(ms(0)), Next::Done(Outcome::Verdict(_))), "{name}");
        if name == "read" {
            let block = op.header.base_header.block;
            let token = op.header.base_header.token.unwrap();
            let again = request(block, token, op.header.client_name, range).unwrap();
            let (message, _) = delimited::split(&again[OpHeader::LEN..], "op", 1 << 20).unwrap().unwrap();
            let again: OpReadBlockProto = delimited::decode(message, "op").unwrap();
            assert_eq!((again.offset, again.len, again.send_checksums), (op.offset, op.len, Some(true)));
        }
    }
}

const SMALL: Stored =
    Stored { generation: Generation(7), len: 0, checksum: ChecksumSpec::DEFAULT, state: ReplicaState::Finalized };

// ── stories ──

/// What a reader of the bytes 0..2000 of a block makes of an answer and packets: how many bytes, and why not more.
#[track_caller]
fn check(told: &str, bytes: &[u8]) {
    let (read, fault) = read(bytes, Range { from: 0, end: 2000 }, &[usize::MAX], &[3000]);
    let fault = fault.map_or_else(|| "whole".to_owned(), |fault| fault.to_string());
    assert_eq!(format!("{}: {fault}", read.bytes.len()), told);
}

fn answer(status: Status, message: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    let message = Some(message.to_owned());
    delimited::put(&BlockOpResponseProto { status: status.0.into(), message, ..Default::default() }, &mut bytes);
    bytes
}

/// Two packets, of a thousand bytes each, and the last one.
fn two_packets() -> [Vec<u8>; 4] {
    let replica = replica(2000, ChecksumKind::Crc32c, 500);
    let whole = replica.served(Range { from: 0, end: 2000 });
    let (_, answer_len) = delimited::split(&whole, "answer", 1000).unwrap().unwrap();
    let packet = |offset: usize, seqno, len: usize| {
        let mut bytes = Vec::new();
        let header = PacketHeader { offset: offset as i64, seqno, last: len == 0, data_len: len as i32, sync: false };
        let data = &replica.data[offset..offset + len];
        let mut sums = Vec::new();
        replica.stored.checksum.compute(data, &mut sums);
        header.put(sums.len() as u32, &mut bytes);
        [bytes, sums, data.to_vec()].concat()
    };
    [whole[..answer_len].to_vec(), packet(0, 0, 1000), packet(1000, 1, 1000), packet(2000, 2, 0)]
}

#[test]
fn what_a_reader_makes_of_what_comes() {
    let [begin, first, second, last] = two_packets();
    check("2000: whole", &[&begin[..], &first, &second, &last].concat());
    check("0: not understood: a keepalive, which no read is answered with", &answer(Status::IN_PROGRESS, ""));
    check("0: it answered: no such block", &answer(Status::ERROR, "no such block"));
    check("0: it answered: the block's token is not valid", &answer(Status::ERROR_ACCESS_TOKEN, ""));
    check("0: not understood: no checksum in its answer", &answer(Status::SUCCESS, ""));
    check("1000: the connection broke: it was closed", &[&begin[..], &first, &second[..99]].concat());
    check("2000: the connection broke: it was closed", &[&begin[..], &first, &second].concat());
    check("1000: not understood: it ends at 1000, asked for 2000", &{
        let mut early = Vec::new();
        PacketHeader { offset: 1000, seqno: 1, last: true, data_len: 0, sync: false }.put(0, &mut early);
        [&begin[..], &first, &early].concat()
    });
    let gap = "0: not understood: packet 1 at 1000 with 1000 bytes, awaited 0 at 0";
    check(gap, &[&begin[..], &second, &last].concat());
    let twice = "1000: not understood: packet 0 at 0 with 1000 bytes, awaited 1 at 1000";
    check(twice, &[&begin[..], &first, &first].concat());
    let mut bad = second.clone();
    *bad.last_mut().unwrap() ^= 1;
    check("1000: checksum error at offset 1500 of the block", &[&begin[..], &first, &bad, &last].concat());
    // More than was asked for: another packet where the last one should be.
    let mut more = Vec::new();
    PacketHeader { offset: 2000, seqno: 2, last: false, data_len: 1, sync: false }.put(4, &mut more);
    check("2000: not understood: more than was asked for", &[&begin[..], &first, &second, &more, &[0; 5]].concat());
}

#[test]
fn an_answer_that_no_checksum_fits_is_refused() {
    let checksum_type = |kind, chunk_len, start| {
        let checksum = hdfs::proto::ChecksumProto { r#type: kind, bytes_per_checksum: chunk_len };
        let info = hdfs::proto::ReadOpChecksumInfoProto { checksum, chunk_offset: start };
        let mut bytes = Vec::new();
        delimited::put(
            &BlockOpResponseProto { read_op_checksum_info: Some(info), ..xfer::answer::success() },
            &mut bytes,
        );
        bytes
    };
    check("0: not understood: checksum type 2 over 0 bytes, which nobody knows", &checksum_type(2, 0, 0));
    check("0: not understood: checksum type 9 over 512 bytes, which nobody knows", &checksum_type(9, 512, 0));
    check(
        "0: not understood: checksum type 2 over 4294967295 bytes, which nobody knows",
        &checksum_type(2, u32::MAX, 0),
    );
    check("0: not understood: it begins at 1, asked for 0", &checksum_type(2, 512, 1));
    check("0: the connection broke: it was closed", &checksum_type(2, 512, 0));
}

#[test]
fn a_node_that_brings_nothing_is_given_up() {
    let mut receiver = Receiver::new(Range { from: 0, end: 10 }, Extent::Exact, STALL, Front::default());
    assert_eq!(receiver.poll_timeout(), None, "nobody waits yet");
    receiver.on_blocked(ms(1000));
    receiver.on_blocked(ms(1030));
    assert_eq!(receiver.poll_timeout(), Some(ms(1060)));
    receiver.handle_timeout(ms(1059)).unwrap();
    receiver.room(&mut []).ahead[0] = 5;
    receiver.on_received(ms(1059), 1).unwrap();
    assert_eq!(receiver.poll_timeout(), None, "a byte came, and whoever reads may take his time");
    receiver.on_blocked(ms(9000));
    receiver.handle_timeout(ms(9000)).unwrap();
    assert_eq!(receiver.handle_timeout(ms(9001)), Err(Fault::Silent), "one byte is not enough for another while");
}

/// Time and length of what comes, again and again. When the reader gives up, or how many bytes it has.
fn trickle(stall: Duration, every: Duration, step: usize) -> Result<usize, Duration> {
    let replica = replica(1 << 20, ChecksumKind::Crc32c, 512);
    let range = Range { from: 0, end: 1 << 20 };
    let bytes = replica.served(range);
    let mut wire = Wire { bytes: &bytes, pieces: &[step], reads: 0, now: Duration::ZERO };
    let mut receiver = Receiver::new(range, Extent::Exact, stall, Front::default());
    let (mut dest, mut done) = (vec![0; 1 << 20], 0);
    loop {
        let given = match receiver.poll_answer().unwrap() {
            Some(_) => receiver.poll(&mut dest[done..]).unwrap(),
            None => Given::Nothing,
        };
        match given {
            Given::Bytes(len) => done += len,
            Given::All => return Ok(done),
            Given::Nothing => {
                receiver.on_blocked(wire.now);
                wire.now += every;
                if receiver.handle_timeout(wire.now).is_err() {
                    return Err(wire.now);
                }
                wire.bring(&mut receiver, &mut dest[done..]).unwrap();
            }
        }
        if done == dest.len() {
            return Ok(done);
        }
    }
}

/// A node could hold whoever reads, or copies, with a byte now and then.
#[test]
fn a_node_that_brings_next_to_nothing_is_given_up() {
    assert_eq!(trickle(ms(30_000), ms(10_000), 1), Err(ms(30_000)), "in the middle of the answer");
    assert!(trickle(ms(30_000), ms(10_000), 5_000).is_err_and(|at| at <= ms(60_000)));
    // 1 Mbit/s, segment by segment, for all stalls that our readers have.
    for stall in [60, 250, 2000, 30_000, 60_000] {
        assert_eq!(trickle(ms(stall), ms(10), 1250), Ok(1 << 20), "a stall of {stall} ms");
    }
}

#[test]
fn a_reader_has_a_time_for_each_packet_and_one_for_its_verdict() {
    let replica = replica(300_000, ChecksumKind::Crc32c, 512);
    let mut sender = replica.to_reader(Range { from: 0, end: 300_000 }, true);
    assert_eq!(sender.poll_timeout(), None);
    assert!(matches!(sender.next(ms(50)), Next::Packet(data) if data == (0..256 << 10)));
    assert!(matches!(sender.next(ms(90)), Next::Packet(_)), "asked again, it is the same");
    assert_eq!(sender.poll_timeout(), Some(ms(150)));
    assert_eq!(sender.on_bytes(&verdict(Status::CHECKSUM_OK)), Ok(0), "too early: it stays where it is");
    sender.on_sent(ms(149));
    assert!(matches!(sender.next(ms(149)), Next::Packet(data) if data == (256 << 10..300_000)));
    assert_eq!(sender.handle_timeout(ms(249)), Err(Late::TakesNothing));
    sender.on_sent(ms(240));
    assert!(matches!(sender.next(ms(240)), Next::Packet(data) if data.is_empty()));
    sender.on_sent(ms(241));
    assert_eq!(sender.next(ms(241)), Next::Receive);
    assert_eq!(sender.poll_timeout(), Some(ms(741)));
    sender.handle_timeout(ms(740)).unwrap();
    assert_eq!(sender.next(ms(740)), Next::Receive);
    sender.handle_timeout(ms(741)).unwrap();
    assert_eq!(sender.next(ms(741)), Next::Done(Outcome::NoVerdict));
    assert_eq!(sender.poll_timeout(), None);
}

/// The front of a copy is a write of the replica as it is; then the same packets; it is done when the node says so.
#[test]
fn a_copy_ends_with_the_answer_of_the_other_node() {
    let mut replica = replica(1000, ChecksumKind::Crc32, 512);
    replica.stored.state = ReplicaState::Open;
    let block = ExtendedBlockProto::of("pool", BlockId(5), Generation(3), 77);
    let base_header = hdfs::proto::BaseHeaderProto { block, token: Some(TokenProto::none()), trace_info: None };
    let header = hdfs::proto::ClientOperationHeaderProto { base_header, client_name: "me".to_owned() };
    let front = copy_request(&header, replica.stored, CopyTarget::default()).unwrap();
    let (message, len) = delimited::split(&front[OpHeader::LEN..], "op", 1000).unwrap().unwrap();
    let write: hdfs::proto::OpWriteBlockProto = delimited::decode(message, "op").unwrap();
    assert_eq!(front.len(), OpHeader::LEN + len);
    assert_eq!(write.stage(), hdfs::proto::BlockConstructionStage::TransferRbw);
    let named = write.header.base_header.block;
    assert_eq!((named.generation_stamp, named.num_bytes), (7, Some(1000)), "what is here, not what was named");

    let plan = Plan::whole(replica.stored);
    let copy = || Sender::to_node(plan, replica.sums(plan.sums_window(0)), LIMITS, front.clone());
    let sent = replica.sent(&mut copy());
    let read = replica.served(Range { from: 0, end: 1000 });
    assert_eq!(sent, [&front[..], behind_answer(&read)].concat());

    let mut good = copy();
    replica.sent(&mut good);
    let signs = [answer(Status::IN_PROGRESS, ""), answer(Status::IN_PROGRESS, "")].concat();
    assert_eq!(good.on_bytes(&signs[..signs.len() - 1]), Ok(signs.len() / 2));
    assert_eq!(good.next(ms(0)), Next::Receive);
    let bytes = [&signs[..], &answer(Status::SUCCESS, ""), &[9]].concat();
    assert_eq!(good.on_bytes(&bytes), Ok(bytes.len() - 1));
    assert_eq!(good.next(ms(0)), Next::Done(Outcome::Copied));
    let mut bad = copy();
    replica.sent(&mut bad);
    bad.on_bytes(&answer(Status::ERROR, "the disk is full")).unwrap();
    assert!(matches!(bad.next(ms(0)), Next::Done(Outcome::Refused(refused)) if refused.message == "the disk is full"));
    let mut mute = copy();
    replica.sent(&mut mute);
    mute.handle_timeout(ms(499)).unwrap();
    assert_eq!(mute.handle_timeout(ms(500)), Err(Late::Unanswered));
}

/// Bytes that are skipped are verified all the same, and what was brought with them is not lost.
#[test]
fn a_reader_may_skip() {
    let replica = replica(3000, ChecksumKind::Crc32c, 500);
    let range = Range { from: 100, end: 2900 };
    let served = replica.served(range);
    let mut wire = Wire { bytes: &served, pieces: &[333], reads: 0, now: Duration::ZERO };
    let mut receiver = Receiver::new(range, Extent::Exact, STALL, Front::default());
    while receiver.poll_answer().unwrap().is_none() {
        wire.bring(&mut receiver, &mut []).unwrap();
    }
    let mut read = |receiver: &mut Receiver, len: usize| {
        let mut dest = vec![0; len];
        let mut done = 0;
        while done < len {
            match receiver.poll(&mut dest[done..]).unwrap() {
                Given::Bytes(len) => done += len,
                Given::Nothing => wire.bring(receiver, &mut dest[done..]).unwrap(),
                Given::All => break,
            }
        }
        dest
    };
    assert_eq!(read(&mut receiver, 50), content(100, 50));
    receiver.skip_to(499);
    assert_eq!(read(&mut receiver, 2), content(499, 2));
    receiver.skip_to(2100);
    assert_eq!(read(&mut receiver, 800), content(2100, 800));
    assert_eq!(receiver.poll(&mut [0]), Ok(Given::All));
}

// ── properties ──

fn kinds() -> impl Strategy<Value = ChecksumKind> {
    prop_oneof![Just(ChecksumKind::Crc32c), Just(ChecksumKind::Crc32), Just(ChecksumKind::Null)]
}

fn some(max: usize) -> impl Strategy<Value = Vec<usize>> {
    prop::collection::vec(prop_oneof![1usize..4, 1..max], 1..6)
}

/// A replica's length, and two places in it.
fn places() -> impl Strategy<Value = (usize, usize, usize)> {
    prop_oneof![0usize..3000, 250_000usize..700_000]
        .prop_flat_map(|len| (Just(len), 0..=len, 0..=len))
        .prop_map(|(len, one, other)| (len, one.min(other), one.max(other)))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn any_cut_and_any_buffers_give_the_same_bytes(
        (len, from, end) in places(), kind in kinds(), with_sums: bool,
        chunk_len in prop_oneof![1u32..5, 100u32..1100, 60_000u32..300_000],
        pieces in some(300_000), dests in some(400_000),
    ) {
        let chunk_len = if len > 3000 { chunk_len.max(50) } else { chunk_len };
        let replica = replica(len, kind, chunk_len);
        let range = Range { from: from as u64, end: end as u64 };
        let mut sender = replica.to_reader(range, with_sums);
        let mut sent = replica.sent(&mut sender);
        sent.extend_from_slice(b"next");
        let pieces = if len > 3000 { pieces.iter().map(|len| len * 50).collect() } else { pieces };
        let dests = if len > 3000 { dests.iter().map(|len| len * 50).collect() } else { dests };
        let (read, fault) = read(&sent, range, &pieces, &dests);
        prop_assert_eq!(fault, None);
        prop_assert!(read.bytes == replica.data[from..end]);
        let without = kind == ChecksumKind::Null || !with_sums;
        let good = if without { Status::SUCCESS } else { Status::CHECKSUM_OK };
        prop_assert_eq!(&read.verdict, &verdict(good));
        prop_assert_eq!(read.rest, b"next", "what stands behind belongs to the next operation");
        prop_assert_eq!(sender.on_bytes(&read.verdict), Ok(read.verdict.len()));
        prop_assert_eq!(sender.next(ms(0)), Next::Done(Outcome::Verdict(good.0.into())));
    }

    /// Whoever stores what he reads gets the checksums beside it, and the last chunk whole.
    #[test]
    fn a_copy_gets_whole_chunks_and_their_checksums(
        (len, _, end) in places(), chunk_len in prop_oneof![100u32..1100, 60_000u32..300_000],
        pieces in some(300_000), more in 0usize..300_000,
    ) {
        let replica = replica(len, ChecksumKind::Crc32c, chunk_len);
        let range = Range { from: 0, end: end as u64 };
        let sent = replica.served(range);
        let pieces: Vec<usize> = pieces.iter().map(|len| len * 50).collect();
        let mut wire = Wire { bytes: &sent, pieces: &pieces, reads: 0, now: Duration::ZERO };
        let mut receiver = Receiver::new(range, Extent::WholeChunks, STALL, Front::default());
        while receiver.poll_answer().unwrap().is_none() {
            wire.bring(&mut receiver, &mut []).unwrap();
        }
        let mut dest = vec![0; chunk_len as usize + more];
        let (mut data, mut sums) = (Vec::new(), Vec::new());
        loop {
            match receiver.poll(&mut dest).unwrap() {
                Given::Bytes(len) => {
                    data.extend_from_slice(&dest[..len]);
                    sums.extend_from_slice(receiver.sums());
                }
                Given::Nothing => wire.bring(&mut receiver, &mut dest).unwrap(),
                Given::All => break,
            }
        }
        while receiver.poll_end().unwrap().is_none() {
            wire.bring(&mut receiver, &mut []).unwrap();
        }
        let whole = end.next_multiple_of(chunk_len as usize).min(len);
        prop_assert!(data == replica.data[..whole]);
        prop_assert_eq!(sums, replica.sums(0..whole as u64));
    }

    /// A flipped bit is found, or it is one that says nothing. What was given before is good in any case.
    #[test]
    fn a_flipped_bit_gives_no_wrong_byte(
        (len, from, end) in (1usize..3000).prop_flat_map(|len| (Just(len), 0..len, 0..=len))
            .prop_map(|(len, from, end)| (len, from, end.max(from))),
        chunk_len in 1u32..1100, at: prop::sample::Index, bit in 0u8..8, pieces in some(2000), dests in some(2000),
    ) {
        let replica = replica(len, ChecksumKind::Crc32c, chunk_len);
        let range = Range { from: from as u64, end: end as u64 };
        let mut sent = replica.served(range);
        let at = at.index(sent.len());
        sent[at] ^= 1 << bit;
        let (read, fault) = read(&sent, range, &pieces, &dests);
        prop_assert!(replica.data[from..end].starts_with(&read.bytes), "{fault:?}");
        prop_assert!(fault.is_some() || read.bytes.len() == end - from);
    }

    #[test]
    fn no_bytes_panic(
        bytes in prop::collection::vec(any::<u8>(), 0..400), pieces in some(100), dests in some(1000), end in 0u64..3000,
    ) {
        let _ = read(&bytes, Range { from: 0, end }, &pieces, &dests);
        let [begin, ..] = two_packets();
        let _ = read(&[begin, bytes].concat(), Range { from: 0, end }, &pieces, &dests);
    }
}
