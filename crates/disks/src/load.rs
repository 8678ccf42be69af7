//! How many replicas are being written on a disk.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

#[derive(Clone, Debug, Default)]
pub(crate) struct Load(Arc<AtomicU64>);

/// One of them, until this is dropped.
#[derive(Debug)]
pub struct Stream(Arc<AtomicU64>);

impl Load {
    pub(crate) fn begin(&self) -> Stream {
        self.0.fetch_add(1, Ordering::Relaxed);
        Stream(Arc::clone(&self.0))
    }

    pub(crate) fn count(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        let before = self.0.fetch_sub(1, Ordering::Relaxed);
        assert!(before > 0, "a stream ends once");
    }
}
