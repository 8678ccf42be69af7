//! Which chunks of a replica were found good: a bit for each, set by whoever verified it, from any thread.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

const WORD_LEN: u64 = u64::BITS as u64;

#[derive(Debug)]
pub(crate) struct VerifiedChunks(Vec<AtomicU64>);

impl VerifiedChunks {
    pub(crate) fn new(count: u64) -> Self {
        Self((0..count.div_ceil(WORD_LEN)).map(|_| AtomicU64::new(0)).collect())
    }

    pub(crate) fn has_all(&self, chunks: Range<u64>) -> bool {
        self.words(chunks).all(|(word, mask)| word.load(Ordering::Relaxed) & mask == mask)
    }

    pub(crate) fn set(&self, chunks: Range<u64>) {
        self.words(chunks).for_each(|(word, mask)| _ = word.fetch_or(mask, Ordering::Relaxed));
    }

    /// The words that have these bits, and which of each: a locked instruction for each bit takes as long as the sum of
    /// its chunk.
    fn words(&self, chunks: Range<u64>) -> impl Iterator<Item = (&AtomicU64, u64)> {
        let first = chunks.start / WORD_LEN;
        let behind = if chunks.is_empty() { first } else { chunks.end.div_ceil(WORD_LEN) };
        (first..behind).map(move |at| {
            let from = chunks.start.saturating_sub(at * WORD_LEN);
            let len = (chunks.end - at * WORD_LEN).min(WORD_LEN) - from;
            (&self.0[at as usize], (u64::MAX >> (WORD_LEN - len)) << from)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_set_bit_by_bit() {
        const COUNT: u64 = 200;
        let ends = [0, 1, 5, 63, 64, 65, 127, 128, 129, 191, 192, 199, 200];
        for start in ends {
            for end in ends.into_iter().filter(|end| *end > start) {
                let chunks = VerifiedChunks::new(COUNT);
                assert!(!chunks.has_all(start..end) && chunks.has_all(start..start));
                chunks.set(start..end);
                for chunk in 0..COUNT {
                    assert_eq!(chunks.has_all(chunk..chunk + 1), (start..end).contains(&chunk), "{start}..{end}");
                }
                assert!(chunks.has_all(start..end));
                assert!(end == COUNT || !chunks.has_all(start..end + 1));
            }
        }
    }
}
