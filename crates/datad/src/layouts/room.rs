//! The memory of a file that is asked for its layout: of the node's, and its parser takes more as it goes.

use crate::budget::Reservation;
use std::sync::{Arc, Mutex, PoisonError};
use xfer::memory::Held;

/// It goes back when the last of these is dropped.
#[derive(Clone, Debug)]
pub(super) struct Room(Arc<Mutex<Reservation>>);

impl Room {
    pub(super) fn new(nothing: Reservation) -> Self {
        Self(Arc::new(Mutex::new(nothing)))
    }
}

impl layout::Room for Room {
    fn take(&mut self, len: u64) -> bool {
        let mut held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let all = held.held_len().saturating_add(len);
        held.grow_to(all)
    }
}
