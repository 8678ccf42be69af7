//! How far the background scrub of one disk has come, kept in a file on that disk.
//!
//! ```text
//! # Background scrub of this disk
//! format = 1
//! began = 1795390000000           this round; milliseconds since 1970
//! next = 7340055                  replicas below this block were read in it
//! done = 123456789                bytes of them, as many as would be left by what was deleted since
//! used = 987654321                bytes of the disk when it was looked at last
//! read = 7340032 1795390100000    from this block on, replicas were read at this time or later; in this round
//! before = 1048576 1793570000000  the same, in the round before
//! ```
//!
//! Promise: a round goes on where it was after a restart, and what is to be read by when follows from the time that it
//! began: who is started often, or was away, is late and reads faster. Nothing depends on the file; without it a round
//! begins.

use std::fmt::Write as _;
use std::fs::File;
use std::io::Write as _;
use std::path::Path;
use std::time::Duration;
use types::{BlockId, Millis};

/// One for each percent, until the next thinning.
const MARK_COUNT_MAX: usize = 200;
/// A round is to be over when so much of its period is left, in percent: disks grow, and nodes are away.
const SPARE_PERCENT: u128 = 10;
const FORMAT: &str = "1";

/// From `block` on replicas were read at `at` or later, up to the next mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Mark {
    block: BlockId,
    at: Millis,
}

/// One way through the replicas of a disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Round {
    began: Millis,
    next: BlockId,
    done_len: u64,
    used_len: u64,
    read: Vec<Mark>,
    before: Vec<Mark>,
}

impl Round {
    /// The first of a disk.
    pub(crate) fn new(now: Millis) -> Self {
        let start = Mark { block: BlockId(0), at: now };
        Self { began: now, next: BlockId(0), done_len: 0, used_len: 0, read: vec![start], before: Vec::new() }
    }

    /// Where it goes on.
    pub(crate) fn next(&self) -> BlockId {
        self.next
    }

    /// Whether the next replica is to be read now, so that all `used_len` bytes of the disk are read within the period.
    /// Call [`Self::keep_up`] before.
    pub(crate) fn is_due(&self, now: Millis, used_len: u64, period: Duration) -> bool {
        let Some(elapsed) = now.0.checked_sub(self.began.0) else { return false };
        let time = period.as_millis() * (100 - SPARE_PERCENT) / 100;
        // Whatever was counted: then the round is late.
        u128::from(elapsed) >= time || u128::from(self.done_len) * time <= u128::from(used_len) * u128::from(elapsed)
    }

    /// Counts anew what has changed beneath the round: deletions take their share of what was read, and a clock that
    /// was set back begins the time once more, from the same place.
    pub(crate) fn keep_up(&mut self, now: Millis, used_len: u64, period: Duration) {
        if used_len < self.used_len {
            let left = u128::from(self.done_len) * u128::from(used_len) / u128::from(self.used_len);
            self.done_len = u64::try_from(left).unwrap_or(u64::MAX);
        }
        self.used_len = used_len;
        let rests = self.next == BlockId(0);
        if !self.fits(now, if rests { period } else { Duration::ZERO }) {
            (self.began, self.done_len) = (now, 0);
        }
    }

    /// A replica was read, or is gone.
    pub(crate) fn pass(&mut self, block: BlockId, len: u64, now: Millis) {
        assert!(block >= self.next, "{block} was read, and {} is next", self.next);
        self.next = BlockId(block.0.saturating_add(1));
        self.done_len = self.done_len.saturating_add(len);
        if self.read.len() >= MARK_COUNT_MAX {
            let mut turn = 0;
            self.read.retain(|_| {
                turn += 1;
                turn % 2 == 1
            });
        }
        // Replicas in between count as read when the mark before was made: later than they were.
        if self.read.last().is_none_or(|last| last.at != now) {
            self.read.push(Mark { block: self.next, at: now });
        }
        assert!(self.read.len() <= MARK_COUNT_MAX, "{} marks", self.read.len());
    }

    /// All were read. The next round begins when this one's period is over.
    pub(crate) fn end(&mut self, now: Millis, period: Duration) {
        let began = Millis((self.began.0.saturating_add(period.as_millis() as u64)).max(now.0));
        let start = Mark { block: BlockId(0), at: began };
        let before = std::mem::replace(&mut self.read, vec![start]);
        let read = std::mem::take(&mut self.read);
        *self = Self { began, next: BlockId(0), done_len: 0, used_len: self.used_len, read, before };
    }

    /// When the replica that is next, which waits for longest, was read last; for one that never was, since when it
    /// waits at most.
    pub(crate) fn oldest_unread(&self) -> Millis {
        let last = self.before.iter().rev().find(|mark| mark.block <= self.next);
        last.map_or(self.began, |mark| mark.at)
    }

    /// A clock that was set back leaves a round that begins in some far time.
    fn fits(&self, now: Millis, rest: Duration) -> bool {
        self.began.0 <= now.0.saturating_add(rest.as_millis() as u64)
    }

    pub(crate) fn read(path: &Path, now: Millis, period: Duration) -> std::io::Result<Self> {
        let text = match std::fs::read_to_string(path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Self::new(now)),
            text => text?,
        };
        let known = Self::parse(&text).filter(|round| round.fits(now, period));
        Ok(known.unwrap_or_else(|| {
            tracing::warn!(path = %path.display(), "not a scrub's place; a round begins");
            Self::new(now)
        }))
    }

    fn parse(text: &str) -> Option<Self> {
        let lines = || text.lines().filter_map(|line| line.split_once(" = "));
        let value = |name: &str| lines().find(|(key, _)| *key == name).map(|(_, value)| value);
        let number = |name: &str| value(name)?.parse().ok();
        let marks = |name: &str| {
            let marks = lines().filter(|(key, _)| *key == name).map(|(_, value)| {
                let (block, at) = value.split_once(' ')?;
                Some(Mark { block: BlockId(block.parse().ok()?), at: Millis(at.parse().ok()?) })
            });
            marks.take(MARK_COUNT_MAX).collect::<Option<Vec<_>>>()
        };
        (value("format")? == FORMAT).then_some(())?;
        Some(Self {
            began: Millis(number("began")?),
            next: BlockId(number("next")?),
            done_len: number("done")?,
            used_len: number("used")?,
            read: marks("read")?,
            before: marks("before")?,
        })
    }

    /// Beside, synced and renamed: a crash leaves the old one or the new one.
    pub(crate) fn write(&self, path: &Path) -> std::io::Result<()> {
        let Self { began: Millis(began), next: BlockId(next), done_len, used_len, .. } = self;
        let mut text = format!(
            "# Background scrub of this disk\nformat = {FORMAT}\nbegan = {began}\nnext = {next}\ndone = {done_len}\n\
             used = {used_len}\n"
        );
        for (name, marks) in [("read", &self.read), ("before", &self.before)] {
            for Mark { block, at } in marks {
                let _infallible = writeln!(text, "{name} = {} {}", block.0, at.0);
            }
        }
        let beside = path.with_extension("new");
        let mut file = File::create(&beside)?;
        file.write_all(text.as_bytes())?;
        io::file::sync_all(&file)?;
        std::fs::rename(beside, path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: u64 = 86_400_000;
    const PERIOD: Duration = Duration::from_secs(21 * 86_400);

    /// Reads what is due each hour, for so many days, with a start of the node each hour.
    fn days(round: &mut Round, path: &Path, now: &mut u64, count: u64, blocks: u64, ended: &mut Vec<u64>) {
        for _ in 0..count * 24 {
            *now += DAY / 24;
            *round = Round::read(path, Millis(*now), PERIOD).unwrap();
            while round.is_due(Millis(*now), blocks * 100, PERIOD) {
                if round.next().0 == blocks {
                    round.end(Millis(*now), PERIOD);
                    ended.push(*now / DAY);
                    break;
                }
                round.pass(round.next(), 100, Millis(*now));
            }
            round.write(path).unwrap();
        }
    }

    #[test]
    fn all_is_read_within_the_period_however_often_the_node_is_started() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("scrub");
        let (mut round, mut now, mut ended) = (Round::new(Millis(0)), 0, Vec::new());
        round.write(&path).unwrap();
        days(&mut round, &path, &mut now, 63, 5000, &mut ended);
        assert_eq!(ended, [18, 39, 60], "with a tenth to spare, and then it rests");
        // A month away: what is late is read at once.
        now += 30 * DAY;
        let age = |round: &Round, now: u64| (now - round.oldest_unread().0) / DAY;
        assert!(age(&round, now) > 40);
        days(&mut round, &path, &mut now, 1, 5000, &mut ended);
        assert_eq!(ended.last(), Some(&93));
        assert!(age(&round, now) <= 2, "{}", age(&round, now));
    }

    /// Nine tenths were read, and all of them are deleted: the rest is read as if they had never been.
    #[test]
    fn a_deletion_of_much_that_was_read_does_not_hold_up_the_rest() {
        let mut round = Round::new(Millis(0));
        round.keep_up(Millis(0), 10_000, PERIOD);
        round.pass(BlockId(89), 9000, Millis(17 * DAY));
        assert!(round.is_due(Millis(21 * DAY), 1000, PERIOD), "whatever was counted, it is late");
        round.keep_up(Millis(17 * DAY), 1000, PERIOD);
        assert!(!round.is_due(Millis(17 * DAY), 1000, PERIOD) && round.is_due(Millis(18 * DAY), 1000, PERIOD));
    }

    /// The clock is wrong when a round ends, or within one, and is set right.
    #[test]
    fn a_clock_that_is_set_back_stops_no_round() {
        let mut ended = Round::new(Millis(0));
        ended.end(Millis(500 * DAY), PERIOD);
        let mut within = Round::new(Millis(400 * DAY));
        within.pass(BlockId(3), 100, Millis(401 * DAY));
        let mut resting = Round::new(Millis(0));
        resting.end(Millis(19 * DAY), PERIOD);
        let now = Millis(20 * DAY);
        for round in [&mut ended, &mut within, &mut resting] {
            round.keep_up(now, 1000, PERIOD);
        }
        assert!(ended.is_due(now, 1000, PERIOD) && within.is_due(now, 1000, PERIOD));
        assert_eq!(within.next(), BlockId(4), "it goes on where it was");
        assert!(!resting.is_due(now, 1000, PERIOD), "the next one begins when the period is over");
    }

    #[test]
    fn a_place_is_on_disk_before_it_has_its_name() {
        let dir = tempfile::tempdir().unwrap();
        let before = io::file::sync_count();
        Round::new(Millis(0)).write(&dir.path().join("scrub")).unwrap();
        assert!(io::file::sync_count() > before);
    }

    #[test]
    fn the_oldest_is_the_one_that_is_next() {
        let mut round = Round::new(Millis(1000));
        assert_eq!(round.oldest_unread(), Millis(1000));
        for block in 0..1000 {
            round.pass(BlockId(block), 1, Millis(2000 + block));
        }
        assert_eq!(round.oldest_unread(), Millis(1000), "those above were never read");
        assert!(round.read.len() <= MARK_COUNT_MAX);
        round.end(Millis(4000), Duration::from_millis(100));
        assert_eq!((round.began, round.oldest_unread()), (Millis(4000), Millis(1000)));
        round.pass(BlockId(499), 1, Millis(5000));
        let at = round.oldest_unread().0;
        assert!((2400..=2500).contains(&at), "{at}");
    }

    #[test]
    fn what_is_no_place_begins_a_round() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("scrub");
        let far = Round::new(Millis(90 * DAY));
        far.write(&path).unwrap();
        assert_eq!(Round::read(&path, Millis(80 * DAY), PERIOD).unwrap(), far);
        assert_eq!(Round::read(&path, Millis(DAY), PERIOD).unwrap(), Round::new(Millis(DAY)), "the clock was set back");
        for text in ["", "format = 2\n", "format = 1\nbegan = x\nnext = 1\ndone = 1\nused = 1\n", "\u{0}\u{0}"] {
            std::fs::write(&path, text).unwrap();
            assert_eq!(Round::read(&path, Millis(7), PERIOD).unwrap(), Round::new(Millis(7)));
        }
    }
}
