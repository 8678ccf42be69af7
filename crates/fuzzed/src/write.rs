//! The datanode's side of a write: any bytes from above and below, in any cuts, at any times.
//!
//! ```text
//!  first byte: how many below, and which mode     then: what to do │ argument │ bytes …
//! ```

use std::time::Duration;
use types::{ChecksumKind, ChecksumSpec};
use wire::PacketHeader;
use xfer::memory::Held;
use xfer::write::{Above, Begin, Failure, Joined, Limits, Mode, Relay, Step, buffer_len};

const SPEC: ChecksumSpec = ChecksumSpec { kind: ChecksumKind::Crc32c, chunk_len: 4 };
const MEMORY_MAX: u64 = 1 << 20;
/// A packet, the longest run of acks, and what is behind them.
const OUT_LEN_MAX: usize = Above::ACKS_LEN_MAX + (64 << 10);
const STEP_COUNT_MAX: usize = 10_000;

#[derive(Debug)]
struct Bounded(u64);

impl Held for Bounded {
    fn held_len(&self) -> u64 {
        self.0
    }

    fn grow_to(&mut self, len: u64) -> bool {
        let fits = len <= MEMORY_MAX;
        if fits {
            self.0 = self.0.max(len);
        }
        fits
    }

    fn grow_to_if_plenty(&mut self, len: u64) -> bool {
        len <= MEMORY_MAX / 2 && self.grow_to(len)
    }
}

struct Driver {
    relay: Relay<Bounded>,
    above: Above,
    now: Duration,
    below_count: usize,
    fails: bool,
}

impl Driver {
    /// Each node below takes `takes` bytes now.
    fn send(&mut self, takes: usize) {
        for place in 0..self.below_count {
            let len = self.relay.below_out(place).len().min(takes);
            if len > 0 {
                self.relay.on_below_sent(place, self.now, len);
            }
        }
    }

    fn act(&mut self, takes: usize) {
        for _ in 0..STEP_COUNT_MAX {
            match self.relay.step(self.now, &mut self.above) {
                None => return assert!(self.above.out().len() <= OUT_LEN_MAX, "acks without end"),
                Some(Step::Forward) => self.send(takes),
                Some(Step::Store(store)) => {
                    assert!(
                        store
                            .pieces()
                            .all(|piece| SPEC.verify(piece.data, piece.sums).is_ok() || piece.sums.is_empty())
                    );
                    let result = if self.fails { Err(Failure::Disk) } else { Ok(()) };
                    self.relay.on_stored(result);
                }
                Some(Step::Show(_) | Step::BelowLost { .. } | Step::Unsound { .. } | Step::Refused(_)) => {}
            }
        }
        panic!("a step follows the other without end");
    }

    fn receive(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() && self.relay.wants_packets(&self.above) {
            let room = self.relay.room();
            let len = room.len().min(bytes.len());
            assert!(len > 0 && room.len() as u64 <= MEMORY_MAX, "no room for what is wanted");
            room[..len].copy_from_slice(&bytes[..len]);
            self.relay.on_received(self.now, len);
            bytes = &bytes[len..];
            self.act(usize::MAX);
        }
    }
}

/// A packet as an honest writer has it, so that fuzzing comes further than its first six bytes.
fn packet(seqno: i64, offset: i64, data: &[u8], flags: u8) -> Vec<u8> {
    let (mut sums, mut bytes) = (Vec::new(), Vec::new());
    SPEC.compute(data, &mut sums);
    let (sync, last) = (flags & 1 != 0, flags & 2 != 0);
    PacketHeader { offset, seqno, last, data_len: data.len() as i32, sync }.put(sums.len() as u32, &mut bytes);
    bytes.extend_from_slice(&sums);
    bytes.extend_from_slice(data);
    bytes
}

pub(crate) fn write_streams(bytes: &[u8]) {
    let Some((first, mut rest)) = bytes.split_first() else { return };
    let below_count = usize::from(first & 3);
    let mode = [Mode::Chain, Mode::Chain, Mode::CopyOpen, Mode::CopyWhole][usize::from(first >> 2 & 3)];
    let below =
        (0..below_count).map(|place| Joined { sends_keepalives: place != 1, behind_count: place, came: Vec::new() });
    let begin = Begin {
        mode,
        spec: SPEC,
        limits: Limits::DEFAULT,
        received: u64::from(first >> 5),
        below: below.collect(),
        came: &[],
        memory: Bounded(buffer_len(&[], None)),
    };
    let above = Above::new(first & 16 != 0, Duration::ZERO);
    let now = Duration::ZERO;
    let mut driver = Driver { relay: Relay::new(begin, now), above, now, below_count, fails: false };
    let (mut seqno, mut offset) = (0, i64::from(first >> 5));
    driver.act(usize::MAX);
    while let [what, argument, more @ ..] = rest {
        let (piece, behind) = more.split_at(usize::from(*argument % 32).min(more.len()));
        rest = more;
        match what % 8 {
            0 => {
                rest = behind;
                driver.receive(piece);
            }
            1 => {
                rest = behind;
                driver.receive(&packet(seqno, offset, piece, argument >> 6));
                (seqno, offset) = (seqno + 1, offset + piece.len() as i64);
            }
            2 if below_count > 0 => {
                rest = behind;
                driver.relay.on_below_received(usize::from(*what) % below_count, driver.now, piece);
            }
            3 if below_count > 0 => driver.relay.on_below_closed(usize::from(*what) % below_count),
            4 => {
                driver.now += Duration::from_millis(u64::from(*argument) * 100);
                driver.relay.handle_timeout(driver.now, &mut driver.above);
            }
            5 => driver.send(usize::from(*argument)),
            6 => {
                let len = driver.above.out().len().min(usize::from(*argument));
                driver.above.on_sent(driver.now, len);
            }
            _ => driver.fails ^= *argument == 0,
        }
        driver.act(usize::from(*argument));
    }
    // It ends once nobody says anything any more.
    for _ in 0..1000 {
        if driver.relay.ending().is_some() {
            return;
        }
        let until = driver.relay.poll_timeout(&driver.above).expect("nobody waits for ever");
        driver.now = driver.now.max(until);
        driver.relay.handle_timeout(driver.now, &mut driver.above);
        let len = driver.above.out().len();
        driver.above.on_sent(driver.now, len);
        driver.act(0);
    }
    panic!("it waits for ever");
}
