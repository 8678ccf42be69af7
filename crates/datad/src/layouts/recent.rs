//! The layouts that were asked for last, in memory.

use super::entry::{Entry, Key};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

/// Bytes of all. The table of the measurements takes 225 KB. A guess.
const LEN_MAX: usize = 16 << 20;
/// Of one: a longer one would push out many.
const ONE_LEN_MAX: usize = 4 << 20;
/// One after the other is looked at, so there are few.
const COUNT_MAX: usize = 256;

#[derive(Debug, Default)]
pub(super) struct Recent {
    /// Those asked for last come last.
    kept: Mutex<VecDeque<(Key, Arc<Entry>)>>,
}

impl Recent {
    pub(super) fn get(&self, key: Key) -> Option<Arc<Entry>> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let place = kept.iter().position(|(known, _)| *known == key)?;
        let found = kept.remove(place)?;
        let entry = Arc::clone(&found.1);
        kept.push_back(found);
        Some(entry)
    }

    pub(super) fn put(&self, key: Key, entry: Arc<Entry>) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.retain(|(known, _)| *known != key);
        if entry.len() > ONE_LEN_MAX {
            return;
        }
        kept.push_back((key, entry));
        while kept.len() > COUNT_MAX || kept.iter().map(|(_, entry)| entry.len()).sum::<usize>() > LEN_MAX {
            kept.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::entry::tests::{entry, key};
    use super::*;

    #[test]
    fn those_asked_for_last_stay() {
        let recent = Recent::default();
        for block in 0..5 {
            recent.put(key(block), Arc::new(entry(3 << 20)));
            assert!(recent.get(key(0)).is_some());
        }
        let known: Vec<u64> = (0..5).filter(|block| recent.get(key(*block)).is_some()).collect();
        assert_eq!(known, [0, 1, 2, 3, 4]);
        recent.put(key(9), Arc::new(entry(3 << 20)));
        assert!(recent.get(key(0)).is_none(), "fifteen and three are more than sixteen");
        recent.put(key(9), Arc::new(entry(5 << 20)));
        assert!(recent.get(key(9)).is_none(), "and too long ones are not kept");
    }
}
