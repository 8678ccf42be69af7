//! Reads of many ranges: what a node makes of any request, and a reader of any answer, in any cuts.

use std::convert::Infallible;
use std::ops::Range;
use std::time::Duration;
use types::limits::OP_MESSAGE_LEN_MAX;
use types::{ChecksumKind, ChecksumSpec, Generation, ReplicaState};
use wire::delimited;
use wire::ranges::{Asked, PartHead, RANGE_COUNT_MAX, ReadRanges};
use xfer::answer;
use xfer::front::Front;
use xfer::ranges::{Composer, Dests, Event, Plan, Receiver, Source, memory_len};
use xfer::read::Stored;

/// What is there is a pattern, so that a replica of any length takes no memory.
struct Replica {
    spec: ChecksumSpec,
}

const LEN: u64 = 300_000;
/// What one request may have made in all.
const SENT_LEN_MAX: usize = 8 << 20;

impl Source for Replica {
    type Error = Infallible;

    fn data(&mut self, range: Range<u64>, into: &mut Vec<u8>) -> Result<(), Infallible> {
        assert!(range.end <= LEN);
        into.extend(range.map(|at| ((at * 7) >> 3) as u8));
        Ok(())
    }

    fn sums(&mut self, range: Range<u64>, into: &mut Vec<u8>) -> Result<(), Infallible> {
        assert!(range.start.is_multiple_of(self.spec.chunk_len.into()) && range.end <= LEN);
        let mut data = Vec::new();
        self.data(range, &mut data)?;
        self.spec.compute(&data, into);
        Ok(())
    }
}

/// The first two bytes choose the replica's checksums; then comes the operation's message.
pub(crate) fn asked(bytes: &[u8]) {
    let [kind, chunk, rest @ ..] = bytes else { return };
    let Ok(Some((message, _))) = delimited::split(rest, "operation", OP_MESSAGE_LEN_MAX as usize) else { return };
    let Ok(request) = delimited::decode::<ReadRanges>(message, "operation") else { return };
    let Ok(asked) = request.asked() else { return };
    assert_eq!(asked.len(), request.blocks.len());
    assert!(asked.iter().map(Vec::len).sum::<usize>() <= RANGE_COUNT_MAX);
    let kind = ChecksumKind::from_number(i32::from(kind % 3)).expect("there are three");
    let mut replica = Replica { spec: ChecksumSpec { kind, chunk_len: 1 + u32::from(*chunk) * 40 } };
    let stored = Stored { generation: Generation(1), len: LEN, checksum: replica.spec, state: ReplicaState::Finalized };
    let total: usize = asked.iter().flatten().map(|range| range.len as usize).sum();
    if total > SENT_LEN_MAX {
        return;
    }
    let (mut composer, mut first, mut all) = (Composer::default(), 0, Vec::new());
    let mut sent = answer::encode(answer::success());
    for ranges in &asked {
        // Numbered also where the block is refused.
        if let Ok(mut plan) = Plan::new(stored, first, ranges, &mut composer) {
            all.extend((first..).zip(ranges.iter().copied()));
            while let Some(batch) = plan.next_batch() {
                for piece in batch.make(&mut replica).expect("all of it is sound") {
                    assert!(piece.bytes.len() as u64 <= memory_len(replica.spec.chunk_len, ranges.iter().copied()));
                    sent.extend_from_slice(&piece.bytes);
                    let _endless = replica.data(piece.file, &mut sent);
                }
            }
        }
        first += ranges.len() as u32;
    }
    sent.extend_from_slice(&PartHead::End.encode());
    let lens = asked.iter().flatten().map(|range| range.len).collect::<Vec<_>>();
    let wanted = |number: u32| all.iter().any(|(served, range)| *served == number && range.len > 0);
    let places = received(&lens, &sent, 40_000).expect("both ends are ours");
    for (number, range) in &all {
        let mut want = Vec::new();
        let _endless = replica.data(range.from..range.end(), &mut want);
        assert!(places.0[*number as usize] == want, "range {number}");
    }
    assert_eq!(places.1.iter().filter(|number| wanted(**number)).count(), places.1.len());
}

/// The first bytes say which ranges were asked for and how what follows is cut.
pub(crate) fn received_any(bytes: &[u8]) {
    let [count, len, cut, rest @ ..] = bytes else { return };
    let lens: Vec<u32> = (0..u32::from(*count % 8)).map(|i| i * u32::from(*len) * 40).collect();
    let sent = [&answer::encode(answer::success()), rest].concat();
    let _ = received(&lens, &sent, 1 + usize::from(*cut));
    let _ = received(&lens, rest, 1 + usize::from(*cut));
}

struct Places(Vec<Vec<u8>>, Vec<u32>);

impl Dests for Places {
    fn dest(&mut self, range: u32) -> &mut [u8] {
        &mut self.0[range as usize]
    }
}

/// What is in each place, and which ranges are whole. `None`: the answer is none, or has no end.
fn received(lens: &[u32], mut sent: &[u8], cut: usize) -> Option<Places> {
    let mut places = Places(lens.iter().map(|len| vec![0; *len as usize]).collect(), Vec::new());
    let mut receiver = Receiver::new(lens.iter().copied(), Duration::from_secs(1), Front::default());
    loop {
        match receiver.poll(&mut places).ok()? {
            Event::Nothing => {
                let room = receiver.room(&mut places);
                let len = cut.min(sent.len()).min(room.dest.len() + room.ahead.len());
                let direct_len = len.min(room.dest.len());
                room.dest[..direct_len].copy_from_slice(&sent[..direct_len]);
                room.ahead[..len - direct_len].copy_from_slice(&sent[direct_len..len]);
                receiver.on_received(Duration::ZERO, len).ok()?;
                sent = &sent[len..];
            }
            Event::Whole(range) => {
                assert!(!places.1.contains(&range), "range {range} twice");
                places.1.push(range);
            }
            Event::Refused { .. } | Event::Corrupt { .. } => {}
            Event::End => {
                let missing = receiver.missing().count();
                let empty = lens.iter().filter(|len| **len == 0).count();
                assert_eq!(missing + places.1.len() + empty, lens.len(), "each is whole, missing or empty");
                return Some(places);
            }
        }
    }
}

/// Ranges near each other, a long one and an empty one; the answer to two of them.
pub(crate) fn seeds(name: &str) -> Vec<Vec<u8>> {
    let asked = [(100, 50), (120, 9), (7000, 1436), (0, 200_000), (5, 0)].map(|(from, len)| Asked { from, len });
    let mut ranges = Vec::new();
    wire::ranges::put_ranges(&asked, &mut ranges);
    let block = wire::ranges::RangesBlock { block: 7, generation: 1, token: 0, range_count: asked.len() as u32 };
    let tokens = vec![wire::ranges::RangesToken::default()];
    let request = ReadRanges { tokens, blocks: vec![block], ranges: ranges.into(), ..ReadRanges::default() };
    let message = &request.encode_op()[wire::OpHeader::LEN..];
    let part = |range, len: u32| {
        let data = vec![7; len as usize];
        let kind = ChecksumKind::Crc32c;
        [&PartHead::Bytes { range, len, kind, sum: kind.of(&data) }.encode()[..], &data].concat()
    };
    match name {
        "ranges_asked" => [[0, 9], [1, 12], [2, 0]].map(|front| [&front[..], message].concat()).into(),
        _ => {
            let refused = xfer::ranges::refusal(2, wire::Status::ERROR, "no");
            let parts = [&part(3, 60)[..], &part(1, 40), &part(3, 60), &refused, &PartHead::End.encode()].concat();
            [1, 30, 255].map(|cut| [&[4, 1, cut][..], &parts].concat()).into()
        }
    }
}
