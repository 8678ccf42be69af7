//! Files that could not be asked in the time there is: for a while nobody asks them again, so that a few of them do not
//! hold all places for it.

use super::entry;
use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use types::FileId;

/// How long. A guess: many times what one attempt takes, and a slow disk or node may be well by then.
const REST: Duration = Duration::from_secs(300);
/// Each takes a place for as long as an attempt: no more come together in the time of their rest.
const COUNT_MAX: usize = 256;

/// A file as it is asked for: with another file's token nobody makes it rest for those who may read it.
pub(super) type Key = (entry::Key, Option<FileId>);

#[derive(Debug, Default)]
pub(super) struct TimedOut {
    /// Those of which it was found last come last.
    found: Mutex<VecDeque<(Key, Duration)>>,
}

impl TimedOut {
    pub(super) fn put(&self, key: Key, now: Duration) {
        let mut found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        found.retain(|(known, at)| *known != key && now < *at + REST);
        if found.len() == COUNT_MAX {
            found.pop_front();
        }
        found.push_back((key, now));
    }

    pub(super) fn has(&self, key: Key, now: Duration) -> bool {
        let found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        found.iter().any(|(known, at)| *known == key && now < *at + REST)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use types::InodeId;

    fn key(block: u64) -> Key {
        (entry::tests::key(block), Some(InodeId(16_400)))
    }

    #[test]
    fn a_file_rests_for_a_while() {
        let (files, now) = (TimedOut::default(), Duration::from_secs(1000));
        files.put(key(1), now);
        assert!(files.has(key(1), now) && files.has(key(1), now + REST - Duration::from_millis(1)));
        assert!(!files.has(key(1), now + REST) && !files.has(key(2), now));
        assert!(!files.has((key(1).0, None), now), "it was asked for with a token");
        files.put(key(1), now + REST);
        assert!(files.has(key(1), now + REST));
        (2..1000).for_each(|block| files.put(key(block), now + REST));
        assert_eq!(files.found.lock().unwrap().len(), COUNT_MAX);
        assert!(!files.has(key(1), now + REST) && files.has(key(999), now + REST));
    }
}
