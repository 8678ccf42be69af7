//! The datanode's end: which reads of the disk serve a request, in which order, and what goes out for each.
//!
//! ```text
//! offsets of a block ──▶   ▪  ▪▪   ▪          ▪▪▪▪▪▪▪▪▪▪▪▪▪▪▪▪▪▪▪▪▪▪        asked for
//!                         ╰───read───╯       ╰──piece──╯╰──piece──╯         short ones together, a long one in pieces
//! ```

use super::chunks::{Chunks, Unsound};
use crate::read::{Stored, Unserved};
use std::ops::Range;
use std::sync::Arc;
use types::ChecksumKind;
use types::checksum::Appender;
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
/// What is copied at a time: a hop to a thread that may wait for the disk serves as much.
pub const BATCH_LEN_MAX: u64 = 512 << 10;
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

/// What is left to be done for a request.
#[derive(Debug, Default)]
pub struct Plan {
    blocks: Vec<Block>,
    at: usize,
}

#[derive(Debug)]
struct Block {
    chunks: Chunks,
    appender: Arc<Appender>,
    /// What has not been batched, the last one first.
    parts: Vec<Part>,
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
    block: usize,
    chunks: Chunks,
    appender: Arc<Appender>,
    items: Vec<Item>,
}

#[derive(Debug)]
enum Item {
    Copied { read: Range<u64>, parts: Vec<Part> },
    Sent(Part),
}

impl Plan {
    /// Adds what is asked for of a block, as ranges that are numbered from `first`. To be called in the order in which
    /// the blocks are to be read; answers the block's place.
    pub fn add(&mut self, stored: Stored, first: u32, asked: &[Asked]) -> Result<usize, Unserved> {
        if asked.iter().any(|range| range.end() > stored.len) {
            return Err(Unserved::Short { len: stored.len, state: stored.state });
        }
        let numbered = (first..).zip(asked).filter(|(_, range)| range.len > 0);
        let mut parts: Vec<_> =
            numbered.map(|(range, asked)| Part { range, from: asked.from, end: asked.end() }).collect();
        parts.sort_by_key(|part| std::cmp::Reverse((part.from, part.end, part.range)));
        let chunks = Chunks { spec: stored.checksum, len: stored.len };
        let shared = self.blocks.iter().find(|block| block.chunks.spec == stored.checksum);
        let appender = shared.map(|block| Arc::clone(&block.appender));
        let appender = appender.unwrap_or_else(|| Arc::new(Appender::new(stored.checksum.kind, chunk_len(chunks))));
        self.blocks.push(Block { chunks, appender, parts });
        Ok(self.blocks.len() - 1)
    }

    /// What is to be made and sent next. `None`: that was all.
    pub fn next_batch(&mut self) -> Option<Batch> {
        while self.blocks.get(self.at)?.parts.is_empty() {
            self.at += 1;
        }
        let block = &mut self.blocks[self.at];
        let (mut items, mut len) = (Vec::new(), 0);
        while items.len() < BATCH_COUNT_MAX
            && let Some(part) = block.parts.last()
            && (items.is_empty() || len + part.copied_len() <= BATCH_LEN_MAX)
        {
            let item = block.take();
            len += match &item {
                Item::Copied { read, .. } => read.end - read.start,
                Item::Sent(_) => 0,
            };
            items.push(item);
        }
        Some(Batch { block: self.at, chunks: block.chunks, appender: Arc::clone(&block.appender), items })
    }

    /// Nothing more is sent of the block of `batch`. Answers what says so.
    pub fn refuse(&mut self, batch: &Batch, status: Status, text: &str) -> Vec<u8> {
        self.blocks[batch.block].parts.clear();
        refusal(batch.first(), status, text)
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

impl Block {
    /// The next read, and what is made of it. There is a part.
    fn take(&mut self) -> Item {
        let first = self.parts.pop().expect("a part");
        if first.copied_len() == 0 {
            // Pieces end where chunks do, so that nothing must be read between them.
            let end = (first.from + PIECE_LEN) / chunk_len(self.chunks) * chunk_len(self.chunks);
            let end = if end > first.from { end.min(first.end) } else { (first.from + PIECE_LEN).min(first.end) };
            if end < first.end {
                self.parts.push(Part { from: end, ..first });
            }
            return Item::Sent(Part { end, ..first });
        }
        let mut read = self.chunks.around(&(first.from..first.end));
        let mut parts = vec![first];
        while let Some(next) = self.parts.last()
            && next.copied_len() > 0
            && next.from <= read.end + GAP_LEN_MAX
        {
            let end = self.chunks.around(&(next.from..next.end)).end.max(read.end);
            if end - read.start > READ_LEN_MAX {
                break;
            }
            read.end = end;
            parts.extend(self.parts.pop());
        }
        Item::Copied { read, parts }
    }
}

impl Part {
    /// Bytes that are copied for it; none, if it goes from the file to the socket.
    fn copied_len(self) -> u64 {
        if self.end - self.from > COPIED_LEN_MAX { 0 } else { self.end - self.from }
    }
}

impl Batch {
    /// The block's place in the plan.
    pub fn block(&self) -> usize {
        self.block
    }

    /// The first of its ranges.
    fn first(&self) -> u32 {
        match &self.items[0] {
            Item::Copied { parts, .. } => parts[0].range,
            Item::Sent(part) => part.range,
        }
    }

    /// The bytes of the replica that will be needed, for whoever can have the disk bring them.
    pub fn reads(&self) -> impl Iterator<Item = Range<u64>> {
        self.items.iter().map(|item| match item {
            Item::Copied { read, .. } => read.clone(),
            Item::Sent(part) => part.from..part.end,
        })
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
                    for part in parts {
                        self.copy(part, read, &data, &sums, &mut last.bytes)?;
                    }
                }
                Item::Sent(part) => {
                    let bytes = part.from..part.end;
                    if self.chunks.spec.kind != ChecksumKind::Null {
                        for edge in self.chunks.edges(&bytes) {
                            source.data(edge, &mut data).map_err(Unread::Source)?;
                        }
                    }
                    self.sums(source, &self.chunks.around(&bytes), &mut sums)?;
                    last.bytes.extend_from_slice(&self.head(part, &data, &sums)?.encode());
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
        data: &[u8],
        sums: &[u8],
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
        let edges: Vec<u8> = self.chunks.edges(&bytes).flat_map(|edge| &data[place(&edge)]).copied().collect();
        out.extend_from_slice(&self.head(part, &edges, sums)?.encode());
        out.extend_from_slice(&data[place(&bytes)]);
        Ok(())
    }

    fn head<E>(&self, part: &Part, edges: &[u8], sums: &[u8]) -> Result<PartHead, Unread<E>> {
        let sum = self.chunks.sum(&(part.from..part.end), edges, sums, &self.appender);
        let sum = sum.map_err(|Unsound(offset)| Unread::Unsound { offset })?;
        Ok(PartHead::Bytes { range: part.range, len: (part.end - part.from) as u32, kind: self.chunks.spec.kind, sum })
    }
}
