//! Both ends against each other, with a replica in memory.

use super::*;
use crate::answer::{self, success};
use crate::ranges::{Composer, Piece, Plan, Source, Unread, memory_len, refusal};
use crate::read::Stored;
use proptest::prelude::*;
use std::convert::Infallible;
use std::ops::Range;
use types::{ChecksumSpec, Generation, ReplicaState};
use wire::ranges::Asked;

const STALL: Duration = Duration::from_secs(2);

/// A block, with the checksums that were stored when it was written.
struct Replica {
    data: Vec<u8>,
    spec: ChecksumSpec,
    sums: Vec<u8>,
    read_len: u64,
    /// Most memory of one read, and of its checksums.
    memory_lens: [usize; 2],
}

impl Replica {
    fn new(len: usize, kind: ChecksumKind, chunk_len: u32) -> Self {
        let data: Vec<u8> = (0..len as u32).map(|i| (i ^ i >> 7).wrapping_mul(31) as u8).collect();
        let (spec, mut sums) = (ChecksumSpec { kind, chunk_len }, Vec::new());
        spec.compute(&data, &mut sums);
        Self { data, spec, sums, read_len: 0, memory_lens: [0; 2] }
    }

    fn stored(&self) -> Stored {
        let (len, checksum) = (self.data.len() as u64, self.spec);
        Stored { generation: Generation(1), len, checksum, state: ReplicaState::Finalized }
    }

    fn bytes(&self, range: &Range<u64>) -> &[u8] {
        &self.data[range.start as usize..range.end as usize]
    }
}

impl Source for Replica {
    type Error = Infallible;

    fn data(&mut self, range: Range<u64>, into: &mut Vec<u8>) -> Result<(), Infallible> {
        self.read_len += range.end - range.start;
        into.extend_from_slice(self.bytes(&range));
        self.memory_lens[0] = self.memory_lens[0].max(into.capacity());
        Ok(())
    }

    fn sums(&mut self, range: Range<u64>, into: &mut Vec<u8>) -> Result<(), Infallible> {
        assert_eq!(range.start % u64::from(self.spec.chunk_len), 0);
        let [from, to] = [range.start, range.end].map(|end| self.spec.sums_len(end) as usize);
        into.extend_from_slice(&self.sums[from..to]);
        self.memory_lens[1] = self.memory_lens[1].max(into.capacity());
        Ok(())
    }
}

/// What the node sends, and the batches that it was made in.
fn served(replicas: &mut [Replica], asked: &[Vec<Asked>]) -> (Vec<u8>, usize) {
    let (mut composer, mut sent, mut first, mut count) = (Composer::default(), Vec::new(), 0, 0);
    for (replica, asked) in replicas.iter_mut().zip(asked) {
        let mut plan = Plan::new(replica.stored(), first, asked, &mut composer).unwrap();
        first += asked.len() as u32;
        while let Some(batch) = plan.next_batch() {
            count += 1;
            match batch.make(replica) {
                Ok(made) => {
                    let of_piece = |piece: &Piece| piece.bytes.capacity() + size_of::<Piece>();
                    let len = made.iter().map(of_piece).sum::<usize>() + replica.memory_lens.iter().sum::<usize>();
                    let expected = memory_len(replica.spec.chunk_len, asked.iter().copied());
                    assert!(len as u64 <= expected, "{len} bytes at a time, not {expected}");
                    made.iter().for_each(|piece| {
                        sent.extend_from_slice(&piece.bytes);
                        sent.extend_from_slice(replica.bytes(&piece.file));
                    });
                }
                Err(Unread::Unsound { .. }) => {
                    sent.extend(refusal(batch.first(), Status(4), "unsound"));
                    break;
                }
            }
        }
    }
    sent.extend_from_slice(&PartHead::End.encode());
    (sent, count)
}

struct Places(Vec<Vec<u8>>);

impl Dests for Places {
    fn dest(&mut self, range: u32) -> &mut [u8] {
        &mut self.0[range as usize]
    }
}

/// Gives a receiver the answer and what came behind it, in cuts of such lengths.
fn received(asked: &[Vec<Asked>], parts: &[u8], cuts: &[usize]) -> Result<(Places, Vec<Event>, Receiver), Fault> {
    let all = [&answer::encode(success()), parts].concat();
    let mut sent = &all[..];
    let lens: Vec<u32> = asked.iter().flatten().map(|range| range.len).collect();
    let mut places = Places(lens.iter().map(|len| vec![0; *len as usize]).collect());
    let mut receiver = Receiver::new(lens, STALL, Front::default());
    let (mut events, mut cuts) = (Vec::new(), cuts.iter().cycle());
    loop {
        match receiver.poll(&mut places)? {
            Event::End => return Ok((places, events, receiver)),
            Event::Nothing => {
                let room = receiver.room(&mut places);
                let len = (*cuts.next().unwrap()).min(sent.len()).min(room.dest.len() + room.ahead.len());
                let direct_len = len.min(room.dest.len());
                room.dest[..direct_len].copy_from_slice(&sent[..direct_len]);
                room.ahead[..len - direct_len].copy_from_slice(&sent[direct_len..len]);
                receiver.on_received(Duration::ZERO, len)?;
                sent = &sent[len..];
            }
            event => events.push(event),
        }
    }
}

fn asked(len: u64, ranges: &[(u64, u64)]) -> Vec<Asked> {
    let range = |(a, b): &(u64, u64)| {
        let from = a % (len + 1);
        Asked { from, len: (b % (len + 1 - from)) as u32 }
    };
    ranges.iter().map(range).collect()
}

proptest! {
    #[test]
    fn all_that_is_asked_for_comes_and_is_right(
        blocks in proptest::collection::vec(
            (0usize..200_000, 0u8..3, 1u32..2000, proptest::collection::vec((any::<u64>(), any::<u64>()), 0..12)), 1..4),
        cuts in proptest::collection::vec(1usize..100_000, 1..8),
    ) {
        let mut replicas: Vec<_> = blocks.iter().map(|(len, kind, chunk_len, _)| {
            Replica::new(*len, ChecksumKind::from_number((*kind).into()).unwrap(), *chunk_len)
        }).collect();
        let wanted: Vec<_> = blocks.iter().map(|(len, _, _, ranges)| asked(*len as u64, ranges)).collect();
        let (sent, _) = served(&mut replicas, &wanted);
        let (places, events, receiver) = received(&wanted, &sent, &cuts).unwrap();
        let numbered = wanted.iter().zip(&replicas).flat_map(|(asked, replica)| asked.iter().map(move |range| (range, replica)));
        for ((range, replica), place) in numbered.zip(&places.0) {
            prop_assert_eq!(replica.bytes(&(range.from..range.end())), &place[..]);
        }
        let long = wanted.iter().flatten().filter(|range| range.len > 0).count();
        prop_assert_eq!(events.len(), long);
        prop_assert_eq!(receiver.missing().count(), 0);
    }

    #[test]
    fn no_bytes_panic(sent in proptest::collection::vec(any::<u8>(), 0..80), kind in 0u8..18) {
        let wanted = [vec![Asked { from: 0, len: 20 }, Asked { from: 5, len: 3 }]];
        let _ = received(&wanted, &sent, &[7]);
        let framed = [&[kind, 0, 0, 0, 1, 0, 0, 0, 3, 0, 0, 0, 0][..], &sent].concat();
        let _ = received(&wanted, &framed, &[7]);
    }
}

/// As the columns of a table lie: what is near is read at once, and hardly more is sent than was asked for.
#[test]
fn thousands_of_short_ranges_take_few_reads_and_few_bytes_more() {
    let mut replicas = [Replica::new(8 << 20, ChecksumKind::Crc32c, 512)];
    let wanted = [(0..2000_u64).map(|i| Asked { from: i * 4000 + 100, len: 1436 }).collect::<Vec<_>>()];
    let (sent, batches) = served(&mut replicas, &wanted);
    assert!(sent.len() as f64 <= 2000.0 * 1436.0 * 1.01, "{} bytes", sent.len());
    assert!(batches <= 20, "{batches} batches");
    let sparse = [(0..20_u64).map(|i| Asked { from: i * 400_000, len: 1436 }).collect::<Vec<_>>()];
    replicas[0].read_len = 0;
    served(&mut replicas, &sparse);
    assert!(replicas[0].read_len <= 20 * (1436 + 2 * 512), "{} bytes read", replicas[0].read_len);
}

/// Of a long range the ends are read, and the rest goes from the file to the socket.
#[test]
fn long_ranges_are_not_read() {
    let mut replicas = [Replica::new(3 << 20, ChecksumKind::Crc32c, 512)];
    let wanted = [vec![Asked { from: 100, len: (3 << 20) - 200 }]];
    let (sent, _) = served(&mut replicas, &wanted);
    assert!(replicas[0].read_len <= 2 * 512, "{} bytes read", replicas[0].read_len);
    assert_eq!(sent.len(), (3 << 20) - 200 + 4 * PartHead::LEN);
}

#[test]
fn what_rotted_is_refused_or_found_by_the_reader() {
    let wanted = [vec![Asked { from: 1000, len: 10 }, Asked { from: 100, len: 100_000 }]];
    // In an edge of the long range, in its middle, and in the short one.
    for (at, is_refused) in [(150, true), (50_000, false), (1005, true)] {
        let mut replicas = [Replica::new(200_000, ChecksumKind::Crc32c, 512)];
        replicas[0].data[at] ^= 1;
        let (sent, _) = served(&mut replicas, &wanted);
        let (_, events, receiver) = received(&wanted, &sent, &[4096]).unwrap();
        let is_it = |event: &Event| match event {
            Event::Refused { status: Status(4), .. } => is_refused,
            Event::Corrupt { range: 1, offset: 0 } => !is_refused,
            _ => false,
        };
        assert_eq!(events.iter().filter(|event| is_it(event)).count(), 1, "{at}: {events:?}");
        assert_eq!(
            events.contains(&Event::Whole(0)),
            !is_refused,
            "the other range is whole, unless its block is refused"
        );
        assert!(receiver.missing().count() > 0);
    }
}

#[test]
fn a_node_that_sends_what_was_not_asked_for_is_not_believed() {
    let wanted = [vec![Asked { from: 0, len: 20 }]];
    let part = |range, len| PartHead::Bytes { range, len, kind: ChecksumKind::Null, sum: 0 }.encode().to_vec();
    for sent in [part(1, 5), part(0, 21), part(0, 0), [part(0, 15), vec![0; 15], part(0, 6)].concat()] {
        assert!(matches!(received(&wanted, &sent, &[100]), Err(Fault::Protocol(_))));
    }
    let refused = refusal(0, Status(6), &"ä".repeat(5000));
    let (_, events, receiver) =
        received(&wanted, &[refused, PartHead::End.encode().to_vec()].concat(), &[100]).unwrap();
    assert!(matches!(&events[..], [Event::Refused { range: 0, message, .. }] if message.len() == 4096));
    assert_eq!(receiver.missing().collect::<Vec<_>>(), [0]);
    assert!(matches!(received(&wanted, &part(0, 5)[..7], &[100]), Err(Fault::Broken(_))), "closed");
}

/// What is left of a long range is short, and other ranges begin before it.
#[test]
fn ranges_that_overlap_come_all() {
    let mut replicas = [Replica::new(3 << 20, ChecksumKind::Crc32c, 512)];
    let long = Asked { from: 700, len: (1 << 20) + 5000 };
    let mut wanted = vec![vec![long, Asked { from: 800, len: 100 }, long, Asked { from: (1 << 20) - 10, len: 20 }]];
    wanted[0].extend((0..3000).map(|i| Asked { from: 5000 + i % 7, len: 30_000 }));
    let (sent, _) = served(&mut replicas, &wanted);
    let (places, _, receiver) = received(&wanted, &sent, &[60_000]).unwrap();
    assert_eq!(receiver.missing().count(), 0);
    for (range, place) in wanted[0].iter().zip(&places.0) {
        assert!(replicas[0].bytes(&(range.from..range.end())) == &place[..], "{range:?}");
    }
}

/// Of chunks of one byte the checksums are longer than the data.
#[test]
fn short_chunks_take_no_more_memory() {
    let mut replicas = [Replica::new(300_000, ChecksumKind::Crc32c, 1)];
    let wanted = [vec![Asked { from: 3, len: 299_000 }, Asked { from: 100, len: 20_000 }]];
    let (sent, _) = served(&mut replicas, &wanted);
    assert!(sent.len() >= 319_000 + 19 * PartHead::LEN, "a part for 16 KiB");
    assert_eq!(received(&wanted, &sent, &[4000]).unwrap().2.missing().count(), 0);
}

/// Hundreds of connections from far away bring three baskets each.
#[test]
fn a_short_request_takes_little_memory() {
    let asked = |len, count| (0..count).map(move |place| Asked { from: place * 60_000, len });
    assert!(memory_len(512, asked(4 << 10, 3)) < 160 << 10);
    assert!(memory_len(512, asked(u32::MAX, 1000)) < 5 << 19);
}

/// They go from the file: of hundreds of requests none is refused because another has its memory.
#[test]
fn a_request_of_long_ranges_takes_no_memory_for_their_bytes() {
    const PIECE_LEN: u32 = 1 << 20;
    let asked = |len, count: u64| (0..count).map(move |place| Asked { from: 100 + place * 70_001, len }).collect();
    let wanted: Vec<Asked> = asked(64 << 10, 20);
    assert!(memory_len(512, wanted.iter().copied()) < 64 << 10);
    // In one piece, or just not, and with what is copied before and behind.
    for len in [(32 << 10) + 1, 64 << 10, PIECE_LEN - 512, PIECE_LEN - 511, PIECE_LEN] {
        for chunk_len in [1, 512, 100_000] {
            let mut wanted: Vec<Asked> = asked(len, 20);
            wanted.extend([Asked { from: 3, len: 20_000 }, Asked { from: 1_300_000, len: 32 << 10 }]);
            let mut replicas = [Replica::new(3 << 20, ChecksumKind::Crc32c, chunk_len)];
            let wanted = [wanted];
            let (sent, _) = served(&mut replicas, &wanted);
            assert_eq!(received(&wanted, &sent, &[60_000]).unwrap().2.missing().count(), 0);
        }
    }
}

/// What is left of a long range is copied, and the first range of a read has all of its sums.
#[test]
fn what_is_made_of_long_ranges_and_short_chunks_is_within_the_bound() {
    let long = |from| Asked { from, len: (1 << 20) + (32 << 10) };
    served(
        &mut [Replica::new(2 << 20, ChecksumKind::Crc32c, 512)],
        &[(0..17).map(|place| long(place * 50_000)).collect()],
    );
    let short = [Asked { from: 0, len: 32_767 }, Asked { from: 100_000, len: 32_768 }];
    served(&mut [Replica::new(200_000, ChecksumKind::Crc32c, 1)], &[short.to_vec()]);
}

#[test]
fn a_node_that_refuses_for_ever_is_not_listened_to() {
    let wanted = [vec![Asked { from: 0, len: 20 }, Asked { from: 0, len: 3 }]];
    let again = [refusal(0, Status(6), "no"), refusal(1, Status(6), "no"), refusal(0, Status(6), "no")].concat();
    assert!(matches!(received(&wanted, &again, &[100]), Err(Fault::Protocol(_))));
    let part = |range, len| PartHead::Bytes { range, len, kind: ChecksumKind::Null, sum: 0 }.encode().to_vec();
    let behind = [refusal(0, Status(6), "no"), part(0, 20), vec![0; 20]].concat();
    assert!(matches!(received(&wanted, &behind, &[100]), Err(Fault::Protocol(_))), "bytes of a refused range");
    let whole = [part(1, 3), vec![0; 3], refusal(1, Status(6), "no")].concat();
    assert!(matches!(received(&wanted, &whole, &[100]), Err(Fault::Protocol(_))), "the refusal of a whole range");
}

/// Of ranges that lie in one long chunk, that is read once.
#[test]
fn a_long_chunk_is_read_once() {
    let mut replicas = [Replica::new(5 << 20, ChecksumKind::Crc32c, 4 << 20)];
    let wanted = [(0..100).map(|i| Asked { from: i * 40_000, len: 10 }).collect::<Vec<_>>()];
    let (sent, _) = served(&mut replicas, &wanted);
    assert_eq!(replicas[0].read_len, 4 << 20);
    assert_eq!(received(&wanted, &sent, &[4000]).unwrap().2.missing().count(), 0);
}

#[test]
fn a_block_that_is_shorter_is_not_served() {
    let replica = Replica::new(100, ChecksumKind::Crc32c, 512);
    let plan = |from, len| Plan::new(replica.stored(), 0, &[Asked { from, len }], &mut Composer::default());
    assert!(plan(90, 11).is_err());
    assert!(plan(90, 0).unwrap().next_batch().is_none() && plan(90, 10).unwrap().next_batch().is_some());
}
