//! Random readers, fetches that come or do not, a writer, a disk that loses bytes, and restarts, against a model.

use super::*;
use proptest::prelude::*;
use record::Owner;
use std::collections::BTreeMap;
use types::{BlockId, Generation};

const FILE_LEN: u64 = 40_000;

fn content(number: u64) -> Content {
    Content { store: 1, block: BlockId(number), generation: Generation(1), len: FILE_LEN }
}

/// Of two contents no byte in the same place is the same.
fn bytes_of(content: Content, range: Range<u64>) -> Bytes {
    range.map(|at| (at % 61 + content.block.0 * 67) as u8).collect()
}

#[derive(Clone, Debug)]
enum Step {
    Read {
        content: u64,
        ranges: Vec<(u64, u64)>,
    },
    /// The flight that is on its way for longest.
    Land,
    Fail,
    /// What was fetched first, and is not written yet.
    Write,
    /// A segment by its number from the oldest, and a byte of it.
    Damage {
        segment: usize,
        at: usize,
    },
    Restart,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let range = (0..FILE_LEN, 1..6000u64).prop_map(|(begin, len)| (begin, len.min(FILE_LEN - begin)));
    let step = prop_oneof![
        6 => (0..3u64, prop::collection::vec(range, 1..5)).prop_map(|(content, ranges)| Step::Read { content, ranges }),
        6 => Just(Step::Land),
        1 => Just(Step::Fail),
        6 => Just(Step::Write),
        1 => (0..5usize, any::<usize>()).prop_map(|(segment, at)| Step::Damage { segment, at }),
        1 => Just(Step::Restart),
    ];
    prop::collection::vec(step, 1..80)
}

/// The disk as it is, and who works with the shelf.
struct Model {
    shelf: Shelf<u32>,
    flights: VecDeque<(FlightId, Content, Vec<Range<u64>>)>,
    unwritten: VecDeque<(Content, u64, Bytes)>,
    /// By number: bytes and heads.
    disk: BTreeMap<u64, (Vec<u8>, Vec<Head>)>,
    next_handle: u32,
    /// That was written to last.
    segment: u64,
}

impl Model {
    fn new(limits: Limits) -> Self {
        let (flights, unwritten, disk) = (VecDeque::new(), VecDeque::new(), BTreeMap::new());
        Self { shelf: Shelf::new(limits), flights, unwritten, disk, next_handle: 0, segment: 0 }
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Read { content: number, ranges } => {
                let ranges: Vec<Range<u64>> = ranges.into_iter().map(|(begin, len)| begin..begin + len).collect();
                self.read(content(number), &ranges);
            }
            Step::Land => {
                let Some((flight, content, ranges)) = self.flights.pop_front() else { return };
                let pieces = ranges.into_iter().map(|range| (range.start, bytes_of(content, range)));
                let pieces: Vec<(u64, Bytes)> = pieces.collect();
                self.shelf.land(flight, pieces.clone());
                self.unwritten.extend(pieces.into_iter().map(|(offset, bytes)| (content, offset, bytes)));
            }
            Step::Fail => {
                if let Some((flight, ..)) = self.flights.pop_front() {
                    self.shelf.fail(flight);
                }
            }
            Step::Write => {
                if let Some((content, offset, bytes)) = self.unwritten.pop_front() {
                    self.write(content, offset, &bytes);
                }
            }
            Step::Damage { segment, at } => {
                if let Some((bytes, _)) = self.disk.values_mut().nth(segment)
                    && !bytes.is_empty()
                {
                    let at = at % bytes.len();
                    bytes[at] ^= 0x80;
                }
            }
            Step::Restart => {
                self.shelf = Shelf::new(self.shelf.limits());
                (self.flights, self.unwritten, self.segment) = (VecDeque::new(), VecDeque::new(), 0);
                for (number, (bytes, heads)) in self.disk.iter().rev() {
                    self.shelf.restore(*number, bytes.len() as u64, heads);
                }
                assert_eq!(self.shelf.excess(), None);
            }
        }
    }

    /// Every byte comes once, from where the right one is.
    fn read(&mut self, content: Content, ranges: &[Range<u64>]) {
        self.next_handle += 1;
        let plan = self.shelf.plan(content, ranges, self.next_handle);
        let mut parts = plan.parts.into_iter();
        for range in ranges {
            let mut at = range.start;
            while at < range.end {
                let part = parts.next().expect("all is covered");
                assert!(part.range.start == at && part.range.end <= range.end && !part.range.is_empty());
                at = part.range.end;
                match part.source {
                    Source::Memory(bytes) => assert_eq!(bytes, bytes_of(content, part.range)),
                    Source::Disk(disk) => self.read_disk(content, &disk, part.range),
                    Source::Flight(handle) => assert!(handle <= self.next_handle),
                }
            }
        }
        assert_eq!(parts.next(), None);
        if let Some((flight, ranges)) = plan.fetch {
            assert!(ranges.windows(2).all(|two| two[0].end <= two[1].start));
            self.flights.push_back((flight, content, ranges));
        }
    }

    fn read_disk(&mut self, content: Content, part: &DiskPart, range: Range<u64>) {
        let (bytes, _) = &self.disk[&part.place.segment];
        assert_eq!(part.begin + u64::from(part.skip), range.start);
        let reads = record::reads(part.extent_len, part.skip, (range.end - range.start) as u32);
        let at = |from: &Range<u64>| {
            let from = part.place.at + from.start..part.place.at + from.end;
            &bytes[from.start as usize..from.end as usize]
        };
        let owner = Owner { content, offset: part.begin };
        match record::is_whole(owner, at(&reads.data), &mut at(&reads.sums).to_vec()) {
            true => assert_eq!(at(&reads.data)[reads.part], bytes_of(content, range)),
            false => self.shelf.damaged(content, part),
        }
    }

    fn write(&mut self, content: Content, offset: u64, bytes: &[u8]) {
        let mut left = VecDeque::from([(content, offset, bytes.to_vec())]);
        while let Some((content, offset, bytes)) = left.pop_front() {
            let len = bytes.len() as u32;
            let place = loop {
                match self.shelf.reserve(len) {
                    Room::Here(place) => break place,
                    Room::Never => return,
                    Room::After(Eviction { segment, worth }) => {
                        let (old, _) = self.disk.remove(&segment).expect("a segment that goes is there");
                        for (content, part) in worth {
                            let begin = part.place.at as usize;
                            let record = &old[begin..begin + record::len_of(part.extent_len) as usize];
                            let (sums, data) = record.split_at(record.len() - part.extent_len as usize);
                            let owner = Owner { content, offset: part.begin };
                            if record::is_whole(owner, data, &mut sums.to_vec()) {
                                left.push_back((content, part.begin, data.to_vec()));
                            }
                        }
                    }
                }
            };
            assert!(place.segment >= self.segment, "no number comes again");
            self.segment = place.segment;
            let (file, heads) = self.disk.entry(place.segment).or_default();
            assert_eq!(file.len() as u64, place.at, "records follow each other");
            record::encode(Owner { content, offset }, &bytes, file);
            heads.push(Head { content, offset, at: place.at, len });
            self.shelf.written(content, offset, len, place);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn whatever_happens_the_bytes_are_right_and_the_limits_hold(
        steps in steps(),
        memory_len in 0..60_000u64,
        disk_len in 0..60_000u64,
        disk_extent_count in 0..12usize,
    ) {
        let limits = Limits { memory_len, disk_len, segment_len: disk_len / 4, disk_extent_count };
        let mut model = Model::new(limits);
        for step in steps {
            model.step(step);
            model.shelf.check();
            let on_disk: u64 = model.disk.values().map(|(bytes, heads)| {
                (bytes.len() + crate::head::SEGMENT_BEGIN.len() + heads.len() * Head::LEN) as u64
            }).sum();
            assert_eq!(on_disk, model.shelf.usage().disk_len);
        }
    }
}

fn one(range: Range<u64>) -> [Range<u64>; 1] {
    [range]
}

fn roomy() -> Limits {
    Limits { memory_len: 1 << 20, disk_len: 1 << 20, segment_len: 1 << 18, disk_extent_count: 1000 }
}

/// A reader of columns asks for thousands of short pieces: what touches is fetched as one, and nothing beside it.
#[test]
fn what_is_fetched_is_what_is_missing() {
    let mut shelf = Shelf::new(Limits { memory_len: 8 << 20, ..roomy() });
    let content = Content { len: 4 << 20, ..content(1) };
    let plan = shelf.plan(content, &[0..100, 100..200, 5000..5010, 50..150, 7..7], 1);
    assert_eq!(plan.parts.len(), 4);
    let (flight, ranges) = plan.fetch.unwrap();
    assert_eq!(ranges, [0..200, 5000..5010]);
    // Another one waits for what is on its way, and fetches the rest.
    let plan = shelf.plan(content, &one(150..250), 2);
    assert_eq!(
        plan.parts.iter().map(|part| &part.source).collect::<Vec<_>>(),
        [&Source::Flight(1), &Source::Flight(2)]
    );
    let (other, rest) = plan.fetch.unwrap();
    assert_eq!(rest, one(200..250));
    shelf.land(flight, [(0, bytes_of(content, 0..200)), (5000, bytes_of(content, 5000..5010))]);
    shelf.fail(other);
    let plan = shelf.plan(content, &one(0..300), 3);
    assert_eq!(plan.fetch.map(|(_, ranges)| ranges), Some(one(200..300).to_vec()));
    // A long one comes in extents.
    let plan = shelf.plan(content, &one(1 << 20..3 << 20), 4);
    assert_eq!(plan.fetch.map(|(_, ranges)| ranges), Some(vec![1 << 20..2 << 20, 2 << 20..3 << 20]));
    shelf.check();
}

/// Who reads a whole disk once does not drive out what others read again and again.
#[test]
fn what_is_read_again_outlives_what_is_read_once() {
    let limits = Limits { memory_len: 0, disk_len: 100_000, segment_len: 25_000, disk_extent_count: 1000 };
    let (mut model, hot) = (Model::new(limits), content(0));
    let mut read = |content, range: Range<u64>| {
        model.read(content, &[range]);
        let fetched = model.flights.len();
        [Step::Land, Step::Write].into_iter().for_each(|step| model.step(step));
        fetched
    };
    assert_eq!(read(hot, 0..5000), 1);
    for number in 1..100 {
        read(Content { block: BlockId(number), ..hot }, 0..10_000);
        assert_eq!(read(hot, 0..5000), 0, "after {number} others");
    }
}

/// Of short records a segment has so few that there are always others that can go.
#[test]
fn a_segment_has_a_part_of_all_records() {
    let limits = Limits { disk_extent_count: 32, ..roomy() };
    let mut model = Model::new(limits);
    for offset in 0..100 {
        model.write(content(0), offset, &[1]);
        model.shelf.check();
    }
    let usage = model.shelf.usage();
    assert!(usage.segment_count >= 15 && usage.extent_count >= 30, "{usage:?}");
}
