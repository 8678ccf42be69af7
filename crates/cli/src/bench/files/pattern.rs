//! Bytes that cost almost nothing to make, and that no other place of any file has.
//!
//! ```text
//! one page of a file, 4096 bytes
//! ┌──────────┬──────────┬─────────────────────────────────────────────┐
//! │ file u64 │ page u64 │ a stretch of a pool of pseudo-random bytes; │
//! │          │          │ seed, file and page say where it begins     │
//! └──────────┴──────────┴─────────────────────────────────────────────┘
//! ```
//!
//! So a page that went to the wrong place is found like one that was damaged, and making the bytes is a copy from
//! the processor's cache: the client's time goes into the writing.

use types::Random;
use types::random::Seeded;

const PAGE_LEN: usize = 4096;
const STAMP_LEN: usize = 16;
/// Stays in a processor's cache; no two neighbouring pages look alike.
const POOL_LEN: usize = 512 << 10;

#[derive(Debug)]
pub(super) struct Pattern {
    seed: u64,
    pool: Vec<u8>,
}

impl Pattern {
    pub(super) fn new(seed: u64) -> Self {
        let mut random = Seeded(seed);
        let pool = (0..(POOL_LEN + PAGE_LEN) / 8).flat_map(|_| random.next_u64().to_le_bytes()).collect();
        Self { seed, pool }
    }

    /// The bytes of `file` from `offset`.
    pub(super) fn fill(&self, file: u64, mut offset: u64, mut dest: &mut [u8]) {
        while !dest.is_empty() {
            let (page, within) = (offset / PAGE_LEN as u64, (offset % PAGE_LEN as u64) as usize);
            let len = dest.len().min(PAGE_LEN - within);
            let (now, rest) = dest.split_at_mut(len);
            let start = Seeded(self.seed ^ file.rotate_left(32) ^ page).below(POOL_LEN);
            now.copy_from_slice(&self.pool[start + within..start + within + len]);
            if within < STAMP_LEN {
                let mut stamp = [0; STAMP_LEN];
                stamp[..8].copy_from_slice(&file.to_le_bytes());
                stamp[8..].copy_from_slice(&page.to_le_bytes());
                let end = len.min(STAMP_LEN - within);
                now[..end].copy_from_slice(&stamp[within..within + end]);
            }
            dest = rest;
            offset += len as u64;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(seed: u64, file: u64, offset: u64, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        Pattern::new(seed).fill(file, offset, &mut bytes);
        bytes
    }

    /// However it is cut, it is the same file.
    #[test]
    fn a_file_is_the_same_in_pieces() {
        let whole = bytes(1, 7, 0, 20_000);
        for (offset, len) in [(0, 1), (3, 10), (10, 8000), (4095, 2), (4096, 16), (8200, 11_800)] {
            assert_eq!(bytes(1, 7, offset as u64, len), whole[offset..offset + len], "{len} from {offset}");
        }
    }

    #[test]
    fn no_other_place_has_the_same_bytes() {
        let page = |seed, file, number: u64| bytes(seed, file, number * PAGE_LEN as u64, PAGE_LEN);
        let pages = [page(1, 7, 0), page(1, 7, 1), page(1, 8, 0), page(1, 8, 1), page(2, 7, 0)];
        for (number, one) in pages.iter().enumerate() {
            assert!(pages[..number].iter().all(|other| other != one), "page {number}");
        }
    }
}
