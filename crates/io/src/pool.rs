//! Buffers of one size with a budget, so that under load a session waits for memory instead of taking more.

use bytes::Bytes;
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Hands out buffers of `buffer_len` bytes, never more than `count_max` at a time.
#[derive(Clone)]
pub struct BufferPool {
    shared: Arc<Shared>,
    budget: Arc<Semaphore>,
}

struct Shared {
    buffer_len: usize,
    count_max: usize,
    /// Returned buffers that are kept for the next taker; what is above goes back to the system.
    idle_max: usize,
    idle: Mutex<Vec<Box<[u8]>>>,
}

/// One buffer of a pool. It goes back when dropped. Its bytes are whatever the last owner left.
pub struct Buffer {
    bytes: Box<[u8]>,
    pool: Arc<Shared>,
    _permit: OwnedSemaphorePermit,
}

impl BufferPool {
    pub fn new(buffer_len: usize, count_max: usize, idle_max: usize) -> Self {
        assert!(buffer_len > 0 && (1..=Semaphore::MAX_PERMITS).contains(&count_max), "an empty pool serves nobody");
        let shared = Shared { buffer_len, count_max, idle_max: idle_max.min(count_max), idle: Mutex::default() };
        Self { shared: Arc::new(shared), budget: Arc::new(Semaphore::new(count_max)) }
    }

    pub fn buffer_len(&self) -> usize {
        self.shared.buffer_len
    }

    /// Bytes in the hands of takers now.
    pub fn taken_len(&self) -> usize {
        (self.shared.count_max - self.budget.available_permits()) * self.shared.buffer_len
    }

    /// Waits, first come first served, until the budget has room.
    pub async fn take(&self) -> Buffer {
        let permit = Arc::clone(&self.budget).acquire_owned().await;
        self.fill(permit.unwrap_or_else(|_| unreachable!("nobody closes the budget")))
    }

    /// `None` if all buffers are in use.
    pub fn try_take(&self) -> Option<Buffer> {
        Some(self.fill(Arc::clone(&self.budget).try_acquire_owned().ok()?))
    }

    fn fill(&self, permit: OwnedSemaphorePermit) -> Buffer {
        let idle = self.shared.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let bytes = idle.unwrap_or_else(|| vec![0; self.shared.buffer_len].into_boxed_slice());
        Buffer { bytes, pool: Arc::clone(&self.shared), _permit: permit }
    }
}

impl fmt::Debug for BufferPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BufferPool")
            .field("buffer_len", &self.shared.buffer_len)
            .field("count_max", &self.shared.count_max)
            .field("taken_len", &self.taken_len())
            .finish()
    }
}

impl Buffer {
    /// The first `len` bytes, shared from now on; the buffer goes back with the last of the shares.
    pub fn freeze(self, len: usize) -> Bytes {
        Bytes::from_owner(self).slice(..len)
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        let mut idle = self.pool.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if idle.len() < self.pool.idle_max {
            idle.push(std::mem::take(&mut self.bytes));
        }
    }
}

impl Deref for Buffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.bytes
    }
}

impl AsRef<[u8]> for Buffer {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Buffer of {} bytes", self.bytes.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn at_the_budget_a_taker_waits_for_a_return() {
        let pool = BufferPool::new(1024, 2, 1);
        let first = pool.take().await;
        let shared = pool.take().await.freeze(10);
        assert!(pool.try_take().is_none());
        assert_eq!(pool.taken_len(), 2048);
        let (waited, ()) = tokio::join!(pool.take(), async { drop(first) });
        let copy = shared.clone();
        drop((waited, shared));
        assert_eq!(pool.taken_len(), 1024, "the copy still holds the frozen buffer");
        drop(copy);
        assert_eq!(pool.taken_len(), 0);
        assert_eq!(pool.shared.idle.lock().unwrap().len(), 1, "the second went back to the system");
    }
}
