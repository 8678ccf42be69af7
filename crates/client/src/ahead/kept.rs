//! The bytes of the cache.
//!
//! Promise: what the machine calls held is here, and what it had dropped is not: of a chunk that was dropped in part
//! the rest is copied out once it is less than half. So no more memory is in use than twice what the machine counts.

use super::chunk::{Chunk, copy_of};
use bytes::Bytes;
use prefetch::Span;
use std::collections::BTreeMap;

#[derive(Debug, Default)]
pub(super) struct Kept {
    chunks: BTreeMap<u64, Part>,
}

/// A chunk, or what is left of one.
#[derive(Debug)]
struct Part {
    bytes: Bytes,
    /// Of the memory it lies in.
    whole_len: usize,
}

impl Kept {
    /// Of a range that was not here.
    pub(super) fn put(&mut self, chunk: Chunk) {
        let whole_len = chunk.bytes.len();
        let before = self.chunks.insert(chunk.offset, Part { bytes: chunk.bytes, whole_len });
        assert!(before.is_none(), "bytes are kept once");
    }

    /// Fills `dest` with what is held.
    pub(super) fn copy(&self, offset: u64, dest: &mut [u8]) {
        let first = self.chunks.range(..=offset).next_back().map_or(offset, |(start, _)| *start);
        let chunks = self.chunks.range(first..).map(|(start, part)| (*start, &part.bytes));
        assert!(copy_of(chunks, offset, dest), "what is held is kept");
    }

    pub(super) fn remove(&mut self, span: Span) {
        let first = self.chunks.range(..=span.offset).next_back().map_or(span.offset, |(start, _)| *start);
        let touched: Vec<u64> = self.chunks.range(first..span.end().max(first)).map(|(start, _)| *start).collect();
        for start in touched {
            let Some(part) = self.chunks.get(&start) else { continue };
            let end = start + part.bytes.len() as u64;
            if end <= span.offset {
                continue;
            }
            let Some(part) = self.chunks.remove(&start) else { continue };
            self.put_rest(&part, start, start, span.offset);
            self.put_rest(&part, start, span.end(), end);
        }
    }

    /// What a part that begins at `start` has between two offsets.
    fn put_rest(&mut self, part: &Part, start: u64, from: u64, to: u64) {
        if from >= to {
            return;
        }
        let rest = part.bytes.slice((from - start) as usize..(to - start) as usize);
        let rest = match 2 * rest.len() < part.whole_len {
            true => Part { whole_len: rest.len(), bytes: Bytes::copy_from_slice(&rest) },
            false => Part { bytes: rest, whole_len: part.whole_len },
        };
        self.chunks.insert(from, rest);
    }

    /// Memory in use.
    #[cfg(test)]
    pub(super) fn memory_len(&self) -> u64 {
        self.chunks.values().map(|part| part.whole_len as u64).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_dropped_leaves_the_memory() {
        let mut kept = Kept::default();
        let bytes: Vec<u8> = (0..100).collect();
        kept.put(Chunk { offset: 1000, bytes: bytes.clone().into() });
        kept.put(Chunk { offset: 1100, bytes: bytes.clone().into() });
        kept.remove(Span::between(1010, 1020));
        assert_eq!(kept.memory_len(), 100 + 100 + 10, "the longer part stays where it is");
        let mut dest = [0; 90];
        kept.copy(1020, &mut dest);
        assert_eq!(dest[..], [&bytes[20..], &bytes[..10]].concat()[..]);
        kept.remove(Span::between(1015, 1090));
        assert_eq!(kept.memory_len(), 10 + 100 + 10);
        kept.copy(1095, &mut dest[..9]);
        assert_eq!(dest[..9], [95, 96, 97, 98, 99, 0, 1, 2, 3]);
        kept.remove(Span::between(0, 5000));
        assert_eq!(kept.memory_len(), 0);
    }
}
