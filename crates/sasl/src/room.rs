//! Memory of a protected connection: what its two directions hold at this moment, as one figure.

use std::sync::{Mutex, MutexGuard, PoisonError};
use xfer::memory::Held;

#[derive(Clone, Copy, Debug)]
pub(crate) enum Direction {
    Opening,
    Sealing,
}

pub(crate) struct Room<H>(Mutex<Holding<H>>);

struct Holding<H> {
    held: H,
    opening: u64,
    sealing: u64,
}

impl<H: Held> Room<H> {
    /// `None`: there is not so much.
    pub(crate) fn new(mut held: H, opening: usize, sealing: usize) -> Option<Self> {
        let (opening, sealing) = (opening as u64, sealing as u64);
        held.grow_to(opening + sealing).then_some(Self(Mutex::new(Holding { held, opening, sealing })))
    }

    fn lock(&self) -> MutexGuard<'_, Holding<H>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From now on a direction holds so much. False: there is not so much, and it is to hold what it held.
    pub(crate) fn set(&self, direction: Direction, len: usize) -> bool {
        let mut guard = self.lock();
        let Holding { held, opening, sealing } = &mut *guard;
        let (own, other) = match direction {
            Direction::Opening => (opening, *sealing),
            Direction::Sealing => (sealing, *opening),
        };
        let len = len as u64;
        if len > *own && !held.grow_to(len + other) {
            return false;
        }
        *own = len;
        held.shrink_to(len + other);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug)]
    struct Counted(u64);

    impl Held for Counted {
        fn held_len(&self) -> u64 {
            self.0
        }

        fn grow_to(&mut self, len: u64) -> bool {
            let fits = len <= 100;
            self.0 = if fits { self.0.max(len) } else { self.0 };
            fits
        }

        fn shrink_to(&mut self, len: u64) {
            self.0 = self.0.min(len);
        }
    }

    #[test]
    fn both_directions_share_what_there_is() {
        assert!(Room::new(Counted(0), 60, 41).is_none());
        let room = Room::new(Counted(0), 10, 10).unwrap();
        let held = || room.lock().held.held_len();
        assert!(room.set(Direction::Opening, 80));
        assert_eq!(held(), 90);
        assert!(!room.set(Direction::Sealing, 21) && held() == 90);
        assert!(room.set(Direction::Opening, 10) && held() == 20);
        assert!(room.set(Direction::Sealing, 21) && held() == 31);
    }
}
