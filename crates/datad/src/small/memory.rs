//! The node's budget, as the machine of small writes sees it.

use crate::budget::{Budget, Reservation};
use xfer::small::{Held, Memory};

impl Memory for Budget {
    type Held = Reservation;

    fn take(&self, len: u64) -> Option<Reservation> {
        self.take(len)
    }
}

impl Held for Reservation {
    fn grow_to(&mut self, len: u64) -> bool {
        self.grow_to(len)
    }
}
