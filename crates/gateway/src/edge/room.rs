//! How much is on its way from the store at a time, and how much may wait for that.
//!
//! Promise: what is fetched has no more bytes than there is room for, whoever asks; who waits is served in the order in
//! which they came, and those for whom there is no room to wait are told so.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// What a range takes while it waits: an entry of what is on its way, and its place in lists. Reckoned, and rounded up.
const RANGE_COST: u64 = 256;
/// Room is counted by so many bytes.
const UNIT_LEN: u64 = 1 << 10;

#[derive(Debug)]
pub(super) struct FetchRoom {
    free: Arc<Semaphore>,
    unit_count: u32,
    waiting_len_max: u64,
    /// Bytes that those take who wait.
    waiting_len: AtomicU64,
    waiting_count: AtomicU64,
    running_count: AtomicU64,
}

/// Of a fetch that runs.
#[derive(Debug)]
pub(super) struct Place {
    room: Arc<FetchRoom>,
    _permit: OwnedSemaphorePermit,
}

impl Drop for Place {
    fn drop(&mut self) {
        self.room.running_count.fetch_sub(1, Ordering::Relaxed);
    }
}

struct Waiting<'a> {
    room: &'a FetchRoom,
    len: u64,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.room.waiting_len.fetch_sub(self.len, Ordering::Relaxed);
        self.room.waiting_count.fetch_sub(1, Ordering::Relaxed);
    }
}

/// How full it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct FetchUsage {
    pub(crate) running_count: u64,
    pub(crate) running_len: u64,
    pub(crate) running_len_max: u64,
    pub(crate) waiting_count: u64,
    pub(crate) waiting_len: u64,
    pub(crate) waiting_len_max: u64,
}

impl FetchRoom {
    /// For so many bytes on their way, and for those who wait.
    pub(super) fn new(running_len_max: u64, waiting_len_max: u64) -> Arc<Self> {
        let units = (running_len_max / UNIT_LEN).clamp(1, (Semaphore::MAX_PERMITS as u64).min(u32::MAX.into()));
        let (free, unit_count) = (Arc::new(Semaphore::new(units as usize)), units as u32);
        let [waiting_len, waiting_count, running_count] = [(); 3].map(|()| AtomicU64::new(0));
        Arc::new(Self { free, unit_count, waiting_len_max, waiting_len, waiting_count, running_count })
    }

    /// A place for a fetch of these, once there is room. One that is longer than all of it goes alone. `None`: as much
    /// waits as may.
    pub(super) async fn enter(self: &Arc<Self>, ranges: &[Range<u64>]) -> Option<Place> {
        let bytes: u64 = ranges.iter().map(|range| range.end - range.start).sum();
        let units = u32::try_from(bytes.div_ceil(UNIT_LEN)).unwrap_or(u32::MAX).min(self.unit_count);
        let permit = match Arc::clone(&self.free).try_acquire_many_owned(units) {
            Ok(permit) => permit,
            Err(_full) => {
                let waiting = self.wait(ranges.len() as u64 * RANGE_COST)?;
                let permit = Arc::clone(&self.free).acquire_many_owned(units).await.ok()?;
                drop(waiting);
                permit
            }
        };
        self.running_count.fetch_add(1, Ordering::Relaxed);
        Some(Place { room: Arc::clone(self), _permit: permit })
    }

    fn wait(&self, len: u64) -> Option<Waiting<'_>> {
        let waiting = Waiting { room: self, len };
        self.waiting_count.fetch_add(1, Ordering::Relaxed);
        let before = self.waiting_len.fetch_add(len, Ordering::Relaxed);
        // Given back as it is dropped.
        (before + len <= self.waiting_len_max).then_some(waiting)
    }

    pub(super) fn usage(&self) -> FetchUsage {
        let free = self.free.available_permits() as u64;
        FetchUsage {
            running_count: self.running_count.load(Ordering::Relaxed),
            running_len: u64::from(self.unit_count).saturating_sub(free) * UNIT_LEN,
            running_len_max: u64::from(self.unit_count) * UNIT_LEN,
            waiting_count: self.waiting_count.load(Ordering::Relaxed),
            waiting_len: self.waiting_len.load(Ordering::Relaxed),
            waiting_len_max: self.waiting_len_max,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;

    #[tokio::test]
    async fn who_finds_no_room_waits_and_where_too_many_wait_he_is_told_so() {
        let room = FetchRoom::new(4 << 10, 2 * RANGE_COST);
        let first = room.enter(&[0..1000, 5000..6000]).await.unwrap();
        assert_eq!((room.usage().running_count, room.usage().running_len), (1, 2 << 10));
        let long = 0..1 << 20;
        let mut waiting = Box::pin(room.enter(std::slice::from_ref(&long)));
        assert!(waiting.as_mut().now_or_never().is_none());
        // Nobody passes him, and there is room for one more to wait.
        let mut second = Box::pin(room.enter(&[0..1, 2..3]));
        assert!(matches!(second.as_mut().now_or_never(), Some(None)), "two ranges are too many");
        let mut third = Box::pin(room.enter(std::slice::from_ref(&(0..1))));
        assert!(third.as_mut().now_or_never().is_none());
        assert_eq!((room.usage().waiting_count, room.usage().waiting_len), (2, 2 * RANGE_COST));
        drop(first);
        let long = waiting.await.unwrap();
        assert!(third.as_mut().now_or_never().is_none());
        drop(third);
        assert_eq!((room.usage().waiting_count, room.usage().running_len), (0, 4 << 10));
        drop(long);
        assert_eq!(room.usage(), FetchUsage { running_len_max: 4 << 10, waiting_len_max: 512, ..Default::default() });
    }
}
