//! Many ranges of many blocks by one request, as a reader far away asks for them.

use crate::support::{Cluster, Connection, GENERATION, POOL, pattern};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;
use wire::ranges::{Asked, PartHead, RangesBlock, RangesToken, ReadRanges, put_ranges};
use wire::{Op, Status};
use xfer::fault::Fault;
use xfer::front::Front;
use xfer::ranges::{Dests, Event, Receiver};

/// A request for ranges of some blocks, and what comes of it.
struct Reading {
    request: ReadRanges,
    asked: Vec<Asked>,
}

struct Places(Vec<Vec<u8>>);

/// The bytes of each range, and what was said of those that did not come.
type Outcome = (Places, Vec<(u32, Status)>);

impl Dests for Places {
    fn dest(&mut self, range: u32) -> &mut [u8] {
        &mut self.0[range as usize]
    }
}

impl Reading {
    fn of(blocks: &[(u64, &[Asked])]) -> Self {
        let mut request = ReadRanges { pool: POOL.into(), client: "reader".into(), ..Default::default() };
        request.tokens.push(RangesToken::default());
        let (mut ranges, mut all) = (Vec::new(), Vec::new());
        for (block, asked) in blocks {
            let range_count = asked.len() as u32;
            request.blocks.push(RangesBlock { block: *block, generation: GENERATION, token: 0, range_count });
            put_ranges(asked, &mut ranges);
            all.extend_from_slice(asked);
        }
        request.ranges = ranges.into();
        Self { request, asked: all }
    }

    fn send(&self, connection: &mut Connection) {
        connection.send_op(Op::ReadRanges, &self.request);
    }

    /// What was read, and what came behind the end.
    fn receive(&self, connection: &mut Connection, front: Front) -> Result<(Outcome, Front), Fault> {
        let lens = self.asked.iter().map(|range| range.len);
        let mut places = Places(lens.clone().map(|len| vec![0; len as usize]).collect());
        let (mut receiver, mut refused) = (Receiver::new(lens, Duration::from_secs(20), front), Vec::new());
        loop {
            match receiver.poll(&mut places)? {
                Event::Nothing => {
                    let room = receiver.room(&mut places);
                    let into = if room.dest.is_empty() { room.ahead } else { room.dest };
                    let len = connection.socket.read(into).unwrap();
                    receiver.on_received(Duration::ZERO, len)?;
                }
                Event::Whole(_) => {}
                Event::Corrupt { range, .. } => refused.push((range, Status::ERROR_CHECKSUM)),
                Event::Refused { range, status, .. } => refused.push((range, status)),
                Event::End => return Ok(((places, refused), receiver.into_front())),
            }
        }
    }

    fn run(&self, cluster: &Cluster) -> Result<Outcome, Fault> {
        let mut connection = cluster.connect(0);
        self.send(&mut connection);
        self.receive(&mut connection, Front::default()).map(|(outcome, _)| outcome)
    }
}

fn asked(from: u64, len: u32) -> Asked {
    Asked { from, len }
}

#[test]
fn ranges_of_several_blocks_come_by_one_request() {
    let cluster = Cluster::new(1);
    let data: Vec<_> = [(1, 3 << 20), (2, 700_001), (3, 1000)].map(|(block, len)| pattern(block, len)).into();
    (1..).zip(&data).for_each(|(block, data)| cluster.write(&[0], block, data));
    let scattered: Vec<_> = (0..500).map(|i| asked(i * 6000 + 77, 1436)).collect();
    let long = [asked(100, 699_000), asked(0, 0), asked(700_000, 1), asked(5, 40_000)];
    let reading = Reading::of(&[(1, &scattered), (3, &[asked(0, 1000)]), (2, &long)]);
    let (places, refused) = reading.run(&cluster).unwrap();
    assert_eq!(refused, []);
    let of = |block: usize, range: &Asked| &data[block - 1][range.from as usize..range.end() as usize];
    let blocks = [vec![1; 500], vec![3], vec![2; 4]].concat();
    for ((place, range), block) in places.0.iter().zip(&reading.asked).zip(blocks) {
        assert!(place == of(block, range), "{range:?} of {block}");
    }
}

/// What comes behind one answer is the next one's, and the other operations can follow on the connection.
#[test]
fn requests_may_be_sent_before_the_answers_have_come() {
    let cluster = Cluster::new(1);
    let data = pattern(1, 200_000);
    cluster.write(&[0], 1, &data);
    let readings = [0, 50_000, 199_000].map(|from| Reading::of(&[(1, &[asked(from, 1000)])]));
    let mut connection = cluster.connect(0);
    readings.iter().for_each(|reading| reading.send(&mut connection));
    let mut front = Front::default();
    for reading in &readings {
        let ((places, _), rest) = reading.receive(&mut connection, front).unwrap();
        assert!(places.0[0] == data[reading.asked[0].from as usize..][..1000]);
        front = rest;
    }
    assert!(front.is_empty());
    assert_eq!(connection.read(1, 5, 10).unwrap(), data[5..15]);
}

#[test]
fn a_block_that_cannot_be_read_leaves_the_others_alone() {
    let cluster = Cluster::new(1);
    let data = pattern(1, 100_000);
    cluster.write(&[0], 1, &data);
    cluster.write(&[0], 2, &data);
    let two = [asked(0, 10), asked(99_000, 1001)];
    let reading =
        Reading::of(&[(1, &[asked(7, 9)]), (5, &[asked(0, 1), asked(3, 1)]), (2, &two), (1, &[asked(20, 5)])]);
    let (places, refused) = reading.run(&cluster).unwrap();
    assert_eq!(refused, [(3, Status::ERROR), (1, Status::ERROR)], "of the second block more is asked for than it has");
    assert_eq!((&places.0[0][..], &places.0[5][..]), (&data[7..16], &data[20..25]));
}

#[test]
fn a_request_that_is_not_understood_gets_an_answer() {
    let cluster = Cluster::new(1);
    let mut reading = Reading::of(&[(1, &[asked(0, 1)])]);
    reading.request.blocks[0].range_count = 1 << 20;
    let fault = reading.run(&cluster).err().unwrap();
    assert!(
        matches!(&fault, Fault::Refused { status: Status::ERROR_INVALID, message } if message.contains("ranges")),
        "{fault}"
    );
    reading.request.blocks[0] = RangesBlock { token: 3, range_count: 1, ..Default::default() };
    assert!(reading.run(&cluster).err().unwrap().to_string().contains("token"));
}

fn files_under(dir: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { files_under(&path) } else { vec![path] }).collect()
}

/// The node finds what rotted at the ends of a range, and the reader the rest: no wrong byte is believed.
#[test]
fn bytes_that_rotted_are_not_believed() {
    let cluster = Cluster::new(1);
    let data = pattern(1, 2 << 20);
    cluster.write(&[0], 1, &data);
    let files = files_under(&cluster.configs[0].dir);
    for (at, ranges) in [(5000, asked(4990, 20)), (1_000_000, asked(10, 2_000_000))] {
        for path in &files {
            let mut file = std::fs::OpenOptions::new().read(true).write(true).open(path).unwrap();
            let mut bytes = Vec::new();
            file.read_to_end(&mut bytes).unwrap();
            if let Some(start) = bytes.windows(64).position(|window| window == &data[..64]) {
                std::io::Seek::seek(&mut file, std::io::SeekFrom::Start((start + at) as u64)).unwrap();
                file.write_all(&[!data[at]]).unwrap();
            }
        }
        let (_, refused) = Reading::of(&[(1, &[ranges])]).run(&cluster).unwrap();
        assert_eq!(refused, [(0, Status::ERROR_CHECKSUM)]);
    }
}

/// A reader that takes nothing is cut off, and one that leaves is no matter.
#[test]
fn readers_that_do_not_take_their_answer_hold_nothing() {
    let cluster = Cluster::with(1, |config| config.limits.reader_stalled_ms = 200);
    cluster.write(&[0], 1, &pattern(1, 30 << 20));
    let reading = Reading::of(&[(1, &[asked(0, 30 << 20)])]);
    let (mut slow, mut gone) = (cluster.connect(0), cluster.connect(0));
    reading.send(&mut slow);
    reading.send(&mut gone);
    drop(gone);
    crate::support::eventually("both end", || cluster.node(0).transfer_count() == 0);
    let (_places, refused) = Reading::of(&[(1, &[asked(1, 1)])]).run(&cluster).unwrap();
    assert!(refused.is_empty() && PartHead::LEN == 13);
}
