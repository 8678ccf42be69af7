//! How long an answer will be, learned method by method, so that its memory is counted before it is taken.
//!
//! A listing of a large directory takes half a megabyte, most answers some hundred bytes. Were an answer only counted
//! when it is there, a crowd of clients could have more of them made at the same moment than the server has memory for.

use std::collections::HashMap;
use std::sync::RwLock;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Of a method that has not been answered yet. Few answers are longer.
const UNKNOWN_LEN: usize = 64 << 10;
const LEN_MIN: usize = 1 << 10;
/// After an answer that is shorter, the expectation comes down by this part of itself: so it follows the longest of the
/// last ones.
const DECAY: usize = 8;

/// What each method's answers are expected to need, in bytes.
#[derive(Debug, Default)]
pub(crate) struct ExpectedLens {
    lens: RwLock<HashMap<String, AtomicUsize>>,
}

impl ExpectedLens {
    pub(crate) fn of(&self, method: &str) -> usize {
        let lens = self.lens.read().unwrap_or_else(|poisoned| poisoned.into_inner());
        lens.get(method).map_or(UNKNOWN_LEN, |len| len.load(Ordering::Relaxed))
    }

    /// Two that learn at once may forget one of them: it is an estimate.
    pub(crate) fn learn(&self, method: &str, len: usize) {
        let len = len.max(LEN_MIN);
        {
            let lens = self.lens.read().unwrap_or_else(|poisoned| poisoned.into_inner());
            if let Some(expected) = lens.get(method) {
                let before = expected.load(Ordering::Relaxed);
                let after = len.max(before - before / DECAY);
                if after != before {
                    expected.store(after, Ordering::Relaxed);
                }
                return;
            }
        }
        let mut lens = self.lens.write().unwrap_or_else(|poisoned| poisoned.into_inner());
        lens.insert(method.to_owned(), AtomicUsize::new(len));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_of_the_last_ones_is_expected() {
        let lens = ExpectedLens::default();
        assert_eq!(lens.of("getListing"), UNKNOWN_LEN);
        lens.learn("getListing", 300_000);
        lens.learn("getListing", 100);
        assert!((200_000..300_000).contains(&lens.of("getListing")), "one short one does not make the next one short");
        for _ in 0..100 {
            lens.learn("getListing", 100);
        }
        assert!(lens.of("getListing") < 2 * LEN_MIN);
        lens.learn("getListing", 500_000);
        assert_eq!(lens.of("getListing"), 500_000);
        assert_eq!(lens.of("invented"), UNKNOWN_LEN);
    }
}
