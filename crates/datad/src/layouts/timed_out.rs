//! Files that could not be asked in the time there is: for a while nobody asks them again, so that a few of them do not
//! hold all places for it.
//!
//! Who asks chooses what it says of the blocks before the last one. So a file rests for those alone who name the same
//! blocks, of those that it was begun to read: whoever names others than the file has keeps nobody out of it.

use super::entry;
use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use types::FileId;
use wire::layouts::LayoutBlock;

/// How long. A guess: many times what one attempt takes, and a slow disk or node may be well by then.
const REST: Duration = Duration::from_secs(300);
/// Each takes a place for as long as an attempt: no more come together in the time of their rest.
const COUNT_MAX: usize = 256;
/// Of all together: 3 MB. Of most files a few blocks are read.
const BLOCK_COUNT_MAX: usize = 64 << 10;

/// A file as it is asked for: with another file's token nobody makes it rest for those who may read it.
pub(super) type Key = (entry::Key, Option<FileId>);

#[derive(Debug, Default)]
pub(super) struct TimedOut {
    /// Those of which it was found last come last.
    found: Mutex<VecDeque<Found>>,
}

#[derive(Debug)]
struct Found {
    key: Key,
    at: Duration,
    begun: Vec<LayoutBlock>,
}

impl Found {
    fn is_of(&self, key: Key, blocks: &[LayoutBlock]) -> bool {
        self.key == key && self.begun.iter().all(|begun| names(blocks, begun))
    }
}

/// Whether a request, whose blocks are in their order, names this one; by whichever token.
fn names(blocks: &[LayoutBlock], block: &LayoutBlock) -> bool {
    let place = blocks.binary_search_by_key(&block.offset, |other| other.offset);
    let named = place.ok().and_then(|place| blocks.get(place));
    named.is_some_and(|named| LayoutBlock { token: block.token, ..*named } == *block)
}

impl TimedOut {
    /// `begun`: what it was begun to read.
    pub(super) fn put(&self, key: Key, begun: Vec<LayoutBlock>, now: Duration) {
        let mut found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        found.retain(|other| !(other.key == key && other.begun == begun) && now < other.at + REST);
        found.push_back(Found { key, at: now, begun });
        while found.len() > COUNT_MAX || found.iter().map(|found| found.begun.len()).sum::<usize>() > BLOCK_COUNT_MAX {
            found.pop_front();
        }
    }

    /// `blocks`: those of the request, in their order.
    pub(super) fn has(&self, key: Key, blocks: &[LayoutBlock], now: Duration) -> bool {
        let found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        found.iter().any(|found| now < found.at + REST && found.is_of(key, blocks))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use types::InodeId;

    fn key(block: u64) -> Key {
        (entry::tests::key(block), Some(InodeId(16_400)))
    }

    /// A file of these blocks, each of a thousand bytes.
    fn blocks(ids: &[u64]) -> Vec<LayoutBlock> {
        let block =
            |(offset, id): (u64, &u64)| LayoutBlock { offset, block: *id, generation: 1001, len: 1000, token: 0 };
        (0..).step_by(1000).zip(ids).map(block).collect()
    }

    #[test]
    fn a_file_rests_for_a_while() {
        let (files, now) = (TimedOut::default(), Duration::from_secs(1000));
        let has = |key, at| files.has(key, &blocks(&[1, 2, 3]), at);
        files.put(key(1), blocks(&[1]), now);
        assert!(has(key(1), now) && has(key(1), now + REST - Duration::from_millis(1)));
        assert!(!has(key(1), now + REST) && !has(key(2), now));
        assert!(!has((key(1).0, None), now), "it was asked for with a token");
        files.put(key(1), blocks(&[1]), now + REST);
        assert!(has(key(1), now + REST));
        (2..1000).for_each(|block| files.put(key(block), blocks(&[1]), now + REST));
        assert_eq!(files.found.lock().unwrap().len(), COUNT_MAX);
        assert!(!has(key(1), now + REST) && has(key(999), now + REST));
        (1..20).for_each(|block| files.put(key(block), blocks(&vec![1; BLOCK_COUNT_MAX / 10]), now + REST));
        assert!(files.found.lock().unwrap().len() <= 10);
    }

    /// Who may read the file names its last block as it is, and before that one some that are slow to read.
    #[test]
    fn who_names_other_blocks_than_the_file_has_makes_nobody_wait() {
        let (files, now) = (TimedOut::default(), Duration::from_secs(1000));
        let [honest, lying] = [[1, 2, 3], [1, 9, 3]].map(|ids| blocks(&ids));
        files.put(key(3), vec![lying[2], lying[1]], now);
        assert!(files.has(key(3), &lying, now) && !files.has(key(3), &honest, now));
        let short = LayoutBlock { len: 999, ..honest[1] };
        files.put(key(3), vec![honest[2], short], now);
        assert!(!files.has(key(3), &honest, now), "of another length");
        files.put(key(3), vec![honest[2], LayoutBlock { token: 7, ..honest[0] }], now);
        assert!(files.has(key(3), &honest, now) && !files.has(key(3), &honest[1..], now));
        assert!(files.has(key(3), &lying, now), "these blocks are the file's");
    }
}
