//! The memory that streams may take, all together. What does not fit is refused; nobody waits for memory.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

#[derive(Clone, Debug)]
pub(crate) struct Budget {
    free: Arc<AtomicU64>,
}

/// Bytes taken from a budget; they go back when this is dropped.
#[derive(Debug)]
pub(crate) struct Reservation {
    len: u64,
    free: Arc<AtomicU64>,
}

impl Budget {
    pub(crate) fn new(len: u64) -> Self {
        Self { free: Arc::new(AtomicU64::new(len)) }
    }

    pub(crate) fn take(&self, len: u64) -> Option<Reservation> {
        self.free
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |free| free.checked_sub(len))
            .ok()
            .map(|_| Reservation { len, free: Arc::clone(&self.free) })
    }
}

impl Reservation {
    /// Takes more, so that it has `len` bytes; says whether there was room.
    pub(crate) fn grow_to(&mut self, len: u64) -> bool {
        let more = len.saturating_sub(self.len);
        let taken = self.free.fetch_update(Ordering::AcqRel, Ordering::Acquire, |free| free.checked_sub(more)).is_ok();
        if taken {
            self.len += more;
        }
        taken
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.free.fetch_add(self.len, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_taken_comes_back() {
        let budget = Budget::new(100);
        let mut first = budget.take(60).unwrap();
        assert!(budget.take(41).is_none());
        let second = budget.take(30).unwrap();
        assert!(!first.grow_to(71) && first.grow_to(70));
        drop((first, second));
        assert!(budget.take(100).is_some());
    }
}
