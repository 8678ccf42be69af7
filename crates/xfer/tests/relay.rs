//! Streams of bytes through one node: any cut of what comes gives the same bytes out, the same stores, the same acks;
//! and what is given up when.

use proptest::prelude::*;
use std::time::Duration;
use types::{ChecksumKind, ChecksumSpec};
use wire::{PacketHeader, PipelineAck, Status};
use xfer::memory::Held;
use xfer::write::{Above, Begin, Ending, Failure, Joined, Limits, Mode, Relay, Step, buffer_len};

const SPEC: ChecksumSpec = ChecksumSpec { kind: ChecksumKind::Crc32c, chunk_len: 16 };

#[derive(Debug)]
struct Plenty(u64);

impl Held for Plenty {
    fn held_len(&self) -> u64 {
        self.0
    }

    fn grow_to(&mut self, len: u64) -> bool {
        self.0 = self.0.max(len);
        true
    }
}

fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// A node with its disk, and what came out so far.
struct Tale {
    relay: Relay<Plenty>,
    above: Above,
    now: Duration,
    /// Bytes of the block, and those on disk.
    disk: Vec<u8>,
    synced: usize,
    told: Vec<String>,
    /// What each node below got, and how much more its socket takes.
    below: Vec<Vec<u8>>,
    takes: usize,
    fails: Option<Failure>,
}

impl Tale {
    fn new(below_count: usize) -> Self {
        let joined = || Joined { sends_keepalives: true, behind_count: 0, came: Vec::new() };
        Self::with((0..below_count).map(|_| joined()).collect())
    }

    fn with(joined: Vec<Joined>) -> Self {
        let below_count = joined.len();
        let begin = Begin {
            mode: Mode::Chain,
            spec: SPEC,
            limits: Limits::DEFAULT,
            received: 0,
            below: joined,
            came: &[],
            memory: Plenty(buffer_len(&[], None)),
        };
        let mut above = Above::new(true, secs(0));
        above.put_ready();
        above.on_sent(secs(0), above.out().len());
        Self {
            relay: Relay::new(begin, secs(0)),
            above,
            now: secs(0),
            disk: Vec::new(),
            synced: 0,
            told: Vec::new(),
            below: vec![Vec::new(); below_count],
            takes: usize::MAX,
            fails: None,
        }
    }

    fn send_below(&mut self) {
        for (place, got) in self.below.iter_mut().enumerate() {
            let out = self.relay.below_out(place);
            let len = out.len().min(self.takes);
            if len > 0 {
                got.extend_from_slice(&out[..len]);
                self.takes -= len;
                self.relay.on_below_sent(place, self.now, len);
            }
        }
    }

    /// As a driver, until something must happen first.
    fn act(&mut self) {
        self.send_below();
        while let Some(step) = self.relay.step(self.now, &mut self.above) {
            match step {
                Step::Forward => self.send_below(),
                Step::Store(store) => {
                    let result = self.fails.map_or(Ok(()), Err);
                    for piece in store.pieces().filter(|_| result.is_ok()) {
                        self.disk.truncate(piece.offset as usize);
                        self.disk.extend_from_slice(piece.data);
                    }
                    if store.sync {
                        self.synced = self.disk.len();
                    }
                    if let Some(len) = store.put {
                        self.told.push(format!("put{len}"));
                    }
                    self.relay.on_stored(result);
                }
                Step::Show(len) => self.told.push(format!("show{len}")),
                Step::BelowLost { place, why } => self.told.push(format!("lost {place}: {why}")),
                Step::Unsound { offset } => self.told.push(format!("unsound at {offset}")),
                Step::Refused(why) => self.told.push(format!("refused: {why}")),
            }
        }
        let mut out = self.above.out();
        let len = out.len();
        while let Ok(Some((ack, ack_len))) = PipelineAck::split(out) {
            let mark = |status: &Status| match *status {
                Status::SUCCESS => '+',
                Status::ERROR_CHECKSUM => 'c',
                _ => '-',
            };
            let replies: String = ack.replies.iter().map(mark).collect();
            self.told.push(if ack.is_keepalive() { "keepalive".into() } else { format!("{}{replies}", ack.seqno) });
            out = &out[ack_len..];
        }
        self.above.on_sent(self.now, len);
        if let Some(ending) = self.relay.ending() {
            self.told.push(format!("{ending:?}"));
        }
    }

    /// Bytes from above, if they are wanted. How many were taken.
    fn above(&mut self, bytes: &[u8]) -> usize {
        self.act();
        if !self.relay.wants_packets(&self.above) {
            return 0;
        }
        let room = self.relay.room();
        assert!(!room.is_empty(), "there is no room for what is wanted");
        let len = room.len().min(bytes.len());
        room[..len].copy_from_slice(&bytes[..len]);
        self.relay.on_received(self.now, len);
        self.act();
        len
    }

    fn ack(&mut self, place: usize, seqno: i64, replies: &[Status]) {
        let mut bytes = Vec::new();
        PipelineAck { seqno, replies: replies.to_vec() }.put(&mut bytes);
        self.relay.on_below_received(place, self.now, &bytes);
        self.act();
    }

    fn keepalive(&mut self, place: usize) {
        let mut bytes = Vec::new();
        PipelineAck::KEEPALIVE.put(&mut bytes);
        self.relay.on_below_received(place, self.now, &bytes);
        self.act();
    }

    /// Time passes, up to each moment for which the relay wants to be woken.
    fn until(&mut self, time: Duration) {
        while let Some(next) = self.relay.poll_timeout(&self.above).filter(|next| *next <= time) {
            assert!(self.relay.ending().is_none() && next >= self.now, "woken at {next:?} again and again");
            self.now = next;
            self.relay.handle_timeout(next, &mut self.above);
            self.act();
            if self.relay.ending().is_some() {
                return;
            }
        }
        self.now = time;
    }
}

fn content(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at * 7 % 251) as u8).collect()
}

fn packet(seqno: i64, offset: usize, data: &[u8], sync: bool, last: bool) -> Vec<u8> {
    let mut sums = Vec::new();
    SPEC.compute(data, &mut sums);
    let mut bytes = Vec::new();
    let header = PacketHeader { offset: offset as i64, seqno, last, data_len: data.len() as i32, sync };
    header.put(sums.len() as u32, &mut bytes);
    bytes.extend([&sums[..], data].concat());
    bytes
}

/// A block in packets of these lengths, each of whole chunks, and its end.
fn stream(lens: &[usize]) -> (Vec<u8>, usize) {
    let all = content(lens.iter().sum());
    let (mut bytes, mut offset) = (Vec::new(), 0);
    for (seqno, len) in (0..).zip(lens) {
        bytes.extend(packet(seqno, offset, &all[offset..offset + len], seqno % 3 == 2, false));
        offset += len;
    }
    bytes.extend(packet(lens.len() as i64, offset, &[], false, true));
    (bytes, offset)
}

#[test]
fn a_run_is_forwarded_verified_stored_and_acknowledged() {
    let mut node = Tale::new(1);
    let (bytes, len) = stream(&[32, 16]);
    assert_eq!(node.above(&bytes), bytes.len());
    assert_eq!((&node.below[0], &node.disk, node.told.join(" ")), (&bytes, &content(len), "put48".to_owned()));
    node.ack(0, 0, &[Status::SUCCESS]);
    node.ack(0, 1, &[Status::SUCCESS]);
    node.ack(0, 2, &[Status::SUCCESS]);
    assert_eq!(node.told.join(" "), "put48 show32 0++ show48 1++ 2++ Complete");
}

#[test]
fn nothing_is_stored_behind_a_packet_that_is_not_sound() {
    let mut node = Tale::new(0);
    let (mut bytes, _) = stream(&[16, 16, 16]);
    let second = packet(0, 0, &content(16), false, false).len() * 2 - 1;
    bytes[second] ^= 1;
    node.above(&bytes);
    assert_eq!(node.told.join(" "), "show16 unsound at 16 0+ 1c Failed { below: false }");
    assert_eq!(node.disk, content(16));
}

#[test]
fn nothing_is_taken_while_a_node_below_takes_nothing_and_acks_go_on() {
    let mut node = Tale::new(1);
    node.above(&packet(0, 0, &content(16), false, false));
    node.takes = 10;
    let next = packet(1, 16, &content(32)[16..], false, false);
    node.above(&next);
    assert!(!node.relay.wants_packets(&node.above) && node.disk.len() == 16, "it is stored when it has gone on");
    node.ack(0, 0, &[Status::SUCCESS]);
    assert_eq!(node.told.join(" "), "show16 0++");
    node.takes = usize::MAX;
    node.act();
    assert_eq!((node.disk.len(), node.relay.wants_packets(&node.above)), (32, true));
}

#[test]
fn a_node_that_sends_keepalives_and_stops_is_lost_after_two_seconds() {
    let mut node = Tale::new(1);
    node.until(secs(60)); // it owes nothing
    node.above(&packet(0, 0, &content(16), false, false));
    node.until(secs(61));
    node.keepalive(0);
    node.told.clear();
    node.until(secs(62));
    assert_eq!(node.told, ["keepalive", "keepalive"], "we wait, and say so");
    node.told.clear();
    node.until(secs(64));
    assert_eq!(node.told.join(" "), "keepalive lost 0: timed out 0+- Failed { below: true }");
}

#[test]
fn signs_without_progress_help_for_a_minute() {
    let mut node = Tale::new(1);
    node.above(&packet(0, 0, &content(16), false, false));
    for second in 1..60 {
        node.until(secs(second));
        node.keepalive(0);
    }
    assert!(node.relay.ending().is_none());
    node.until(secs(60));
    assert_eq!(node.relay.ending(), Some(Ending::Failed { below: true }));
}

#[test]
fn a_writer_that_says_nothing_is_gone() {
    let mut node = Tale::new(0);
    node.until(secs(119));
    assert!(node.relay.ending().is_none());
    node.until(secs(120));
    assert_eq!(node.relay.ending(), Some(Ending::AboveLost));
}

/// Those above send nothing while they wait for the node that is gone, far below in a long chain: it is found out below
/// and told above, and nobody is taken for gone who waits.
#[test]
fn a_node_far_below_is_given_up_before_those_above_who_wait_for_it() {
    for behind_count in [0, 12, 13, 40] {
        let mut node = Tale::with(vec![Joined { sends_keepalives: false, behind_count, came: Vec::new() }]);
        node.above(&packet(0, 0, &content(16), false, false));
        let silent = secs(60 + 5 * behind_count as u64);
        node.until(silent - secs(1));
        assert_eq!(node.relay.ending(), None, "{behind_count} behind it");
        node.until(silent);
        assert_eq!(node.relay.ending(), Some(Ending::Failed { below: true }), "{behind_count} behind it");
    }
}

/// Each byte is a sign of life; the packet that they make is never whole, and holds memory.
#[test]
fn a_packet_that_is_not_whole_in_time_ends_the_stream() {
    let mut node = Tale::new(0);
    let whole = packet(0, 0, &content(16), false, false);
    node.until(secs(100));
    node.above(&whole);
    for (step, byte) in whole[..2].iter().enumerate() {
        node.until(secs(160 + 60 * step as u64));
        node.above(&[*byte]);
    }
    node.until(secs(279));
    assert!(node.relay.ending().is_none());
    node.until(secs(280));
    assert_eq!(node.relay.ending(), Some(Ending::AboveLost));
}

#[test]
fn each_packet_has_its_own_time() {
    let mut node = Tale::new(0);
    let (bytes, len) = stream(&[16, 16, 16]);
    for (step, part) in bytes.chunks(packet(0, 0, &content(16), false, false).len() - 1).enumerate() {
        node.until(secs(100 * step as u64));
        node.above(part);
    }
    assert_eq!((node.relay.ending(), node.disk.len()), (Some(Ending::Complete), len));
}

#[test]
fn the_disk_that_fails_is_told_of() {
    let mut node = Tale::new(0);
    node.fails = Some(Failure::Disk);
    node.above(&packet(0, 0, &content(16), false, false));
    assert_eq!(node.told.join(" "), "0- Failed { below: false }");
}

#[test]
fn a_chain_that_breaks_while_the_end_is_forwarded_is_not_put() {
    let mut node = Tale::new(1);
    node.takes = 3;
    node.above(&packet(0, 0, &[], false, true));
    node.relay.on_below_closed(0);
    node.act();
    assert_eq!(node.told.join(" "), "lost 0: disconnected 0+- Failed { below: true }");
}

/// Of two below, the one that was faster has all and leaves, while the other still takes its bytes: nothing is broken,
/// and what is acknowledged is put here too.
#[test]
fn a_node_that_has_acknowledged_all_may_leave_before_this_one_puts() {
    let mut node = Tale::new(2);
    let last = packet(0, 0, &[], false, true);
    node.takes = last.len() + 3;
    node.above(&last);
    node.ack(0, 0, &[Status::SUCCESS]);
    node.relay.on_below_closed(0);
    node.takes = usize::MAX;
    node.act();
    node.ack(1, 0, &[Status::SUCCESS]);
    assert_eq!(node.told.join(" "), "lost 0: disconnected put0 0+++ Complete");
}

#[test]
fn nonsense_from_above_ends_the_stream() {
    let mut node = Tale::new(0);
    node.above(&[0, 0, 0, 1, 0, 25]);
    assert!(node.told[0].starts_with("refused: ") && node.told[1] == "AboveLost", "{:?}", node.told);
}

#[test]
fn nonsense_from_below_is_a_lost_node() {
    let mut node = Tale::new(1);
    node.above(&packet(0, 0, &content(16), false, false));
    node.relay.on_below_received(0, secs(0), &[255; 10]);
    node.act();
    assert_eq!(node.told.join(" "), "lost 0: protocol error 0+- Failed { below: true }");
}

proptest! {
    /// Wherever the bytes are cut, and however slowly the node below takes them.
    #[test]
    fn any_cut_gives_the_same(
        chunks in proptest::collection::vec(1usize..5, 1..8),
        cuts in proptest::collection::vec(1usize..200, 1..20),
        takes in 1usize..300,
    ) {
        let lens: Vec<usize> = chunks.iter().map(|count| count * 16).collect();
        let (bytes, len) = stream(&lens);
        let mut node = Tale::new(1);
        let (mut at, mut turn, mut acked) = (0, 0, 0);
        while node.relay.ending().is_none() {
            let cut = cuts[turn % cuts.len()].min(bytes.len() - at);
            node.takes = takes;
            at += if cut > 0 { node.above(&bytes[at..at + cut]) } else { node.act(); 0 };
            // The node below acknowledges what it has whole.
            let mut got = &node.below[0].clone()[..];
            let mut whole = 0;
            while let Ok(wire::packet::Parsed::Whole(frame)) = wire::PacketFrame::parse(got) {
                (whole, got) = (whole + 1, &got[frame.packet_len()..]);
            }
            while acked < whole {
                node.ack(0, acked, &[Status::SUCCESS]);
                acked += 1;
            }
            turn += 1;
            prop_assert!(turn < 10_000, "it goes round in a circle: {:?}", node.told);
        }
        prop_assert_eq!(node.relay.ending(), Some(Ending::Complete));
        prop_assert_eq!(&node.below[0], &bytes);
        prop_assert_eq!(&node.disk, &content(len));
        let acks: Vec<String> = (0..=lens.len()).map(|seqno| format!("{seqno}++")).collect();
        let told: Vec<&String> = node.told.iter().filter(|word| word.ends_with("++")).collect();
        prop_assert_eq!(told, acks.iter().collect::<Vec<_>>());
    }
}
