//! The datanode's end: which reads of the disk serve a request, in which order, and what goes out for each.
//!
//! ```text
//! offsets of a block ──▶   ▪  ▪▪   ▪          ▪▪▪▪▪▪▪▪▪▪▪▪▪▪▪▪▪▪▪▪▪▪        asked for
//!                         ╰───read───╯       ╰──piece──╯╰──piece──╯         short ones together, a long one in pieces
//! ```

use super::chunks::{Chunks, Sound, Unsound};
use crate::read::{Stored, Unserved};
use std::ops::Range;
use std::sync::Arc;
use types::checksum::Appender;
use types::{ChecksumKind, ChecksumSpec};
use wire::Status;
use wire::ranges::{Asked, PART_LEN_MAX, PartHead, TEXT_LEN_MAX};

/// Bytes between two short ranges that are read rather than passed over. A guess: a system call costs as much as it
/// costs to copy them from the page cache, and a disk brings them along.
const GAP_LEN_MAX: u64 = 16 << 10;
/// Most bytes of one read.
const READ_LEN_MAX: u64 = 256 << 10;
/// A range that is longer goes from the file to the socket. A guess: two system calls against a copy.
const COPIED_LEN_MAX: u64 = 32 << 10;
/// Of a long range, what one checksum covers.
const PIECE_LEN: u64 = PART_LEN_MAX as u64;
/// A batch that has made as much is full: a hop to a thread that may wait for the disk serves so many bytes.
const BATCH_LEN_MAX: u64 = 512 << 10;
/// Stored checksums that are read at a time: of a whole piece, where chunks have their usual length.
const SUMS_COUNT_MAX: u64 = 16 << 10;
/// Most reads at a time, however short they are.
const BATCH_COUNT_MAX: usize = 256;

/// Whence a batch gets bytes. It may wait.
pub trait Source {
    type Error;

    /// Appends bytes of the replica.
    fn data(&mut self, range: Range<u64>, into: &mut Vec<u8>) -> Result<(), Self::Error>;

    /// Appends the stored checksums of the chunks that make up `range`.
    fn sums(&mut self, range: Range<u64>, into: &mut Vec<u8>) -> Result<(), Self::Error>;
}

/// What a batch takes at most while it is made and sent, of such ranges of replicas with such chunks: what is made, and
/// its list, one read and its checksums, all in memory that grows by doubling. Many readers far away ask for some
/// kilobytes each at the same moment, and are not to hold what a long read takes.
pub fn memory_len(chunk_len: u32, asked: impl IntoIterator<Item = Asked>) -> u64 {
    let chunk_len = u64::from(chunk_len);
    let piece_len = PIECE_LEN.min(SUMS_COUNT_MAX * chunk_len);
    let (mut made_len, mut read_len, mut sums_count, mut piece_count) = (0_u64, 0_u64, 0_u64, 1_u64);
    for range in asked {
        let len = u64::from(range.len);
        let part_count = 2 * len / piece_len + 2;
        // A long range goes from the file, and costs its edges' chunks alone. But if it is more than one piece, which
        // end where chunks do, its last bytes may be few, and are copied as short ones are.
        let is_sent = len > COPIED_LEN_MAX && len <= piece_len.saturating_sub(chunk_len);
        if is_sent {
            read_len = read_len.max(2 * chunk_len);
        } else {
            let copied_len = len.min(COPIED_LEN_MAX);
            made_len = made_len.saturating_add(copied_len);
            read_len = read_len.saturating_add(copied_len + GAP_LEN_MAX + 2 * chunk_len);
        }
        made_len = made_len.saturating_add(part_count * PartHead::LEN as u64);
        piece_count = piece_count.saturating_add(part_count);
        sums_count = sums_count.saturating_add((len + GAP_LEN_MAX) / chunk_len + 2);
    }
    let pieces_len = piece_count.min(BATCH_COUNT_MAX as u64 + 1) * size_of::<Piece>() as u64;
    let made_len = made_len.min(BATCH_LEN_MAX + READ_LEN_MAX) + pieces_len;
    // The first range of a read is read with all of its sums, however short the chunks are.
    let sums_count = sums_count.min(SUMS_COUNT_MAX.max(COPIED_LEN_MAX / chunk_len) + 2);
    let sums_len = sums_count * ChecksumSpec::SUM_LEN as u64;
    2 * (made_len + sums_len + read_len.min(READ_LEN_MAX + 2 * chunk_len)) + Appender::MEMORY_LEN
}

/// Why a batch could not be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unread<E> {
    /// What is stored does not match its checksum there.
    Unsound {
        offset: u64,
    },
    Source(E),
}

/// Goes out as a whole: bytes from memory, then some of the replica's file, if any.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Piece {
    pub bytes: Vec<u8>,
    pub file: Range<u64>,
}

pub type Made = Vec<Piece>;

/// What is left to be sent of one block.
#[derive(Debug)]
pub struct Plan {
    chunks: Chunks,
    appender: Arc<Appender>,
    /// What has not been batched, the next one last.
    parts: Vec<Part>,
}

/// What composes the checksums of the last block: the next one is most likely covered in the same way.
#[derive(Debug, Default)]
pub struct Composer(Option<(ChecksumSpec, Arc<Appender>)>);

impl Composer {
    fn of(&mut self, spec: ChecksumSpec) -> Arc<Appender> {
        match &self.0 {
            Some((known, appender)) if *known == spec => Arc::clone(appender),
            _ => {
                let appender = Arc::new(Appender::new(spec.kind, spec.chunk_len.into()));
                self.0 = Some((spec, Arc::clone(&appender)));
                appender
            }
        }
    }
}

/// Bytes of a range.
#[derive(Clone, Copy, Debug)]
struct Part {
    range: u32,
    from: u64,
    end: u64,
}

/// Some of the reads for one block.
#[derive(Debug)]
pub struct Batch {
    chunks: Chunks,
    appender: Arc<Appender>,
    items: Vec<Item>,
}

#[derive(Debug)]
enum Item {
    Copied { read: Range<u64>, parts: Vec<Part> },
    Sent(Part),
}

/// Whether a replica has all that is asked for.
pub fn has_all(stored: Stored, asked: &[Asked]) -> Result<(), Unserved> {
    if asked.iter().all(|range| range.end() <= stored.len) {
        Ok(())
    } else {
        Err(Unserved::Short { len: stored.len, state: stored.state })
    }
}

impl Plan {
    /// For ranges of a block that are numbered from `first`.
    pub fn new(stored: Stored, first: u32, asked: &[Asked], composer: &mut Composer) -> Result<Self, Unserved> {
        has_all(stored, asked)?;
        let numbered = (first..).zip(asked).filter(|(_, range)| range.len > 0);
        let mut parts = Vec::with_capacity(asked.len());
        parts.extend(numbered.map(|(range, asked)| Part { range, from: asked.from, end: asked.end() }));
        parts.sort_unstable_by_key(|part| std::cmp::Reverse((part.from, part.end, part.range)));
        let chunks = Chunks { spec: stored.checksum, len: stored.len };
        Ok(Self { chunks, appender: composer.of(stored.checksum), parts })
    }

    /// What is to be made and sent next. `None`: that was all.
    pub fn next_batch(&mut self) -> Option<Batch> {
        let (mut items, mut len) = (Vec::new(), 0);
        while items.len() < BATCH_COUNT_MAX
            && len < BATCH_LEN_MAX
            && let Some(item) = self.take()
        {
            len += item.made_len();
            items.push(item);
        }
        let (chunks, appender) = (self.chunks, Arc::clone(&self.appender));
        (!items.is_empty()).then_some(Batch { chunks, appender, items })
    }

    /// No more than so many bytes are covered by as many stored checksums as are read at a time.
    fn within_sums(&self, len: u64) -> u64 {
        len.min(SUMS_COUNT_MAX * chunk_len(self.chunks))
    }

    /// The next read, and what is made of it.
    fn take(&mut self) -> Option<Item> {
        let first = self.parts.pop()?;
        if first.is_long() {
            // Pieces end where chunks do, so that nothing must be read between them.
            let len = self.within_sums(PIECE_LEN);
            let aligned = (first.from + len) / chunk_len(self.chunks) * chunk_len(self.chunks);
            let end = if aligned > first.from { aligned } else { first.from + len }.min(first.end);
            if end < first.end {
                self.parts.push(Part { from: end, ..first });
            }
            return Some(Item::Sent(Part { end, ..first }));
        }
        let mut read = self.chunks.around(&(first.from..first.end));
        let (mut parts, mut made_len) = (vec![first], first.made_len());
        // What is left of a long range comes before others that begin before it.
        while let Some(next) = self.parts.last()
            && !next.is_long()
            && next.from >= read.start
            && next.from <= read.end + GAP_LEN_MAX
            && made_len + next.made_len() <= READ_LEN_MAX
        {
            let end = self.chunks.around(&(next.from..next.end)).end.max(read.end);
            if end > read.end && end - read.start > self.within_sums(READ_LEN_MAX) {
                break;
            }
            made_len += next.made_len();
            read.end = end;
            parts.extend(self.parts.pop());
        }
        Some(Item::Copied { read, parts })
    }
}

/// What says that a range is not served, nor what has not come of its block's others.
pub fn refusal(range: u32, status: Status, text: &str) -> Vec<u8> {
    let mut len = text.len().min(TEXT_LEN_MAX as usize);
    while !text.is_char_boundary(len) {
        len -= 1;
    }
    let mut bytes = PartHead::Refused { range, text_len: len as u32, status }.encode().to_vec();
    bytes.extend_from_slice(&text.as_bytes()[..len]);
    bytes
}

fn chunk_len(chunks: Chunks) -> u64 {
    chunks.spec.chunk_len.into()
}

impl Part {
    /// It goes from the file to the socket.
    fn is_long(self) -> bool {
        self.end - self.from > COPIED_LEN_MAX
    }

    /// Bytes that are made for it, if it is copied.
    fn made_len(self) -> u64 {
        PartHead::LEN as u64 + self.end - self.from
    }
}

impl Item {
    fn made_len(&self) -> u64 {
        match self {
            Self::Copied { parts, .. } => parts.iter().map(|part| part.made_len()).sum(),
            Self::Sent(_) => PartHead::LEN as u64,
        }
    }
}

impl Batch {
    /// The number of a range in it: if it cannot be made, this one is refused.
    pub fn first(&self) -> u32 {
        match &self.items[0] {
            Item::Copied { parts, .. } => parts[0].range,
            Item::Sent(part) => part.range,
        }
    }

    /// Reads, and makes what goes out. The thread may wait.
    pub fn make<S: Source>(&self, source: &mut S) -> Result<Made, Unread<S::Error>> {
        let mut made = vec![Piece::default()];
        let (mut data, mut sums) = (Vec::new(), Vec::new());
        for item in &self.items {
            data.clear();
            sums.clear();
            let last = made.last_mut().expect("one at least");
            match item {
                Item::Copied { read, parts } => {
                    source.data(read.clone(), &mut data).map_err(Unread::Source)?;
                    self.sums(source, read, &mut sums)?;
                    let mut sound = Sound::default();
                    for part in parts {
                        self.copy(part, read, (&data, &sums), &mut sound, &mut last.bytes)?;
                    }
                }
                Item::Sent(part) => {
                    let bytes = part.from..part.end;
                    let edges: Vec<_> = match self.chunks.spec.kind {
                        ChecksumKind::Null => Vec::new(),
                        _ => self.chunks.edges(&bytes).collect(),
                    };
                    for edge in &edges {
                        source.data(edge.clone(), &mut data).map_err(Unread::Source)?;
                    }
                    self.sums(source, &self.chunks.around(&bytes), &mut sums)?;
                    let mut rest = &data[..];
                    let len = |edge: &Range<u64>| (edge.end - edge.start) as usize;
                    let edges = edges.iter().map(|edge| rest.split_off(..len(edge)).unwrap_or_default());
                    last.bytes.extend_from_slice(&self.head(part, edges, &sums, &mut Sound::default())?.encode());
                    last.file = bytes;
                    made.push(Piece::default());
                }
            }
        }
        made.pop_if(|last| last.bytes.is_empty());
        Ok(made)
    }

    fn sums<S: Source>(&self, source: &mut S, chunks: &Range<u64>, sums: &mut Vec<u8>) -> Result<(), Unread<S::Error>> {
        if self.chunks.spec.kind == ChecksumKind::Null {
            return Ok(());
        }
        source.sums(chunks.clone(), sums).map_err(Unread::Source)
    }

    /// Appends a part of what was read, behind its head.
    fn copy<E>(
        &self,
        part: &Part,
        read: &Range<u64>,
        (data, sums): (&[u8], &[u8]),
        sound: &mut Sound,
        out: &mut Vec<u8>,
    ) -> Result<(), Unread<E>> {
        let bytes = part.from..part.end;
        let around = self.chunks.around(&bytes);
        let place = |range: &Range<u64>| (range.start - read.start) as usize..(range.end - read.start) as usize;
        let sums = match self.chunks.spec.kind {
            ChecksumKind::Null => &[],
            _ => {
                let [from, to] =
                    [around.start, around.end].map(|end| self.chunks.spec.sums_len(end - read.start) as usize);
                &sums[from..to]
            }
        };
        let edges = self.chunks.edges(&bytes).map(|edge| &data[place(&edge)]);
        out.extend_from_slice(&self.head(part, edges, sums, sound)?.encode());
        out.extend_from_slice(&data[place(&bytes)]);
        Ok(())
    }

    fn head<'a, E>(
        &self,
        part: &Part,
        edges: impl IntoIterator<Item = &'a [u8]>,
        sums: &[u8],
        sound: &mut Sound,
    ) -> Result<PartHead, Unread<E>> {
        let sum = self.chunks.sum(&(part.from..part.end), edges, sums, &self.appender, sound);
        let sum = sum.map_err(|Unsound(offset)| Unread::Unsound { offset })?;
        Ok(PartHead::Bytes { range: part.range, len: (part.end - part.from) as u32, kind: self.chunks.spec.kind, sum })
    }
}
