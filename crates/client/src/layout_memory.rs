//! Memory for the layouts of a store's files: what parsers make of bytes that strangers wrote, and what is kept of it.
//!
//! Promise: all files together have no more than [`Options::layout_memory`](crate::Options::layout_memory). A file for
//! which too little is left is read without its layout: slower, and with the same bytes.

use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// What a permit stands for: a semaphore of bytes would count no more than 512 MB where words have 32 bits.
const UNIT: u64 = 1 << 10;

/// Of one store, in units.
#[derive(Debug)]
pub(crate) struct LayoutMemory {
    free: Arc<Semaphore>,
}

impl LayoutMemory {
    pub(crate) fn new(len: u64) -> Self {
        let units = usize::try_from(len / UNIT).unwrap_or(usize::MAX);
        Self { free: Arc::new(Semaphore::new(units.min(Semaphore::MAX_PERMITS))) }
    }

    /// For one file, of which nothing is taken yet.
    pub(crate) fn room(&self) -> LayoutRoom {
        LayoutRoom(Arc::new(Mutex::new(Taken { free: Arc::clone(&self.free), len: 0, permits: None })))
    }
}

/// What one file has of it. It goes back when the last clone is dropped.
#[derive(Clone, Debug)]
pub(crate) struct LayoutRoom(Arc<Mutex<Taken>>);

#[derive(Debug)]
struct Taken {
    free: Arc<Semaphore>,
    /// Bytes; the permits are for as many or a few more.
    len: u64,
    permits: Option<OwnedSemaphorePermit>,
}

impl LayoutRoom {
    /// From now on so many bytes are needed. False: there are not so many, and what was taken stays.
    pub(crate) fn set(&self, len: u64) -> bool {
        // Nothing is left half done while it is held.
        self.0.lock().unwrap_or_else(PoisonError::into_inner).set(len)
    }
}

impl layout::Room for LayoutRoom {
    fn take(&mut self, len: u64) -> bool {
        let mut taken = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let all = taken.len.saturating_add(len);
        taken.set(all)
    }
}

impl Taken {
    fn set(&mut self, len: u64) -> bool {
        let has = self.permits.as_ref().map_or(0, OwnedSemaphorePermit::num_permits);
        let Ok(wanted) = usize::try_from(len.div_ceil(UNIT)) else { return false };
        if let Some(more) = wanted.checked_sub(has).filter(|more| *more > 0) {
            let more =
                u32::try_from(more).ok().and_then(|more| Arc::clone(&self.free).try_acquire_many_owned(more).ok());
            let Some(more) = more else { return false };
            match &mut self.permits {
                Some(permits) => permits.merge(more),
                None => self.permits = Some(more),
            }
        }
        // Dropped, they are free.
        let _surplus = self.permits.as_mut().and_then(|permits| permits.split(has.saturating_sub(wanted)));
        self.len = len;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use layout::Room;

    #[test]
    fn files_share_what_there_is() {
        let memory = LayoutMemory::new(100 << 10);
        let (mut one, mut other) = (memory.room(), memory.room());
        assert!(one.take(60 << 10) && other.take(30 << 10));
        assert!(!other.take(20 << 10), "90 of 100 KiB are taken");
        assert!(other.take(10 << 10), "a refusal takes nothing");
        assert!(one.set(10 << 10), "the parser is done");
        assert_eq!(memory.free.available_permits(), 50);
        assert!(other.take(50 << 10) && !one.set(11 << 10));
        drop((one, other));
        assert_eq!(memory.free.available_permits(), 100);
        assert!(!memory.room().set(u64::MAX) && memory.room().set(0));
    }
}
