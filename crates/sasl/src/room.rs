//! Memory of one direction of a connection, counted before it is taken.

use crate::uncounted::Uncounted;
use xfer::memory::Held;

#[derive(Debug)]
pub(crate) struct Room {
    held: Box<dyn Held + Send>,
    /// What the direction's own buffers take.
    own: usize,
    /// What its user's buffers take.
    beside: usize,
}

impl Room {
    pub(crate) fn new(held: impl Held + Send + 'static) -> Self {
        Self { held: Box::new(held), own: 0, beside: 0 }
    }

    /// For what takes none.
    pub(crate) fn none() -> Self {
        Self::new(Uncounted::default())
    }

    pub(crate) fn own(&self) -> usize {
        self.own
    }

    /// From now on the direction holds so much. False: there is not so much, and it is to hold what it held.
    pub(crate) fn set_own(&mut self, len: usize) -> bool {
        let done = self.set(self.own, len, self.beside);
        self.own = if done { len } else { self.own };
        done
    }

    /// The same of its user.
    pub(crate) fn set_beside(&mut self, len: usize) -> bool {
        let done = self.set(self.beside, len, self.own);
        self.beside = if done { len } else { self.beside };
        done
    }

    fn set(&mut self, before: usize, after: usize, other: usize) -> bool {
        let all = (after + other) as u64;
        if after > before {
            return self.held.grow_to(all);
        }
        self.held.shrink_to(all);
        true
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    /// Some memory; what is held of it can be looked at.
    #[derive(Clone, Debug)]
    pub(crate) struct Counted {
        held: Arc<AtomicU64>,
        max: u64,
    }

    impl Counted {
        pub(crate) fn new(max: usize) -> Self {
            Self { held: Arc::default(), max: max as u64 }
        }

        pub(crate) fn len(&self) -> usize {
            self.held_len() as usize
        }
    }

    impl Held for Counted {
        fn held_len(&self) -> u64 {
            self.held.load(Ordering::Relaxed)
        }

        fn grow_to(&mut self, len: u64) -> bool {
            let fits = len <= self.max;
            if fits {
                self.held.fetch_max(len, Ordering::Relaxed);
            }
            fits
        }

        fn shrink_to(&mut self, len: u64) {
            self.held.fetch_min(len, Ordering::Relaxed);
        }
    }

    #[test]
    fn both_parts_share_what_there_is() {
        let counted = Counted::new(100);
        let mut room = Room::new(counted.clone());
        assert!(room.set_own(80) && room.set_beside(10));
        assert_eq!(counted.len(), 90);
        assert!(!room.set_beside(21) && counted.len() == 90);
        assert!(room.set_own(10) && counted.len() == 20);
        assert!(room.set_beside(21) && counted.len() == 31 && room.own() == 10);
    }
}
