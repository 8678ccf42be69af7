//! A replica's writer, counted at its disk for as long as it is there.

use super::place::Replaced;
use container::ReplicaError;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// How many replicas are being written on a disk.
#[derive(Clone, Debug, Default)]
pub(super) struct Load(Arc<AtomicU64>);

/// One of them, until this is dropped.
#[derive(Debug)]
pub(crate) struct Stream(Arc<AtomicU64>);

impl Load {
    pub(super) fn begin(&self) -> Stream {
        self.0.fetch_add(1, Ordering::Relaxed);
        Stream(Arc::clone(&self.0))
    }

    pub(super) fn count(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// See [`container::Writer`].
#[derive(Debug)]
pub(crate) struct Writer {
    writer: container::Writer,
    at: usize,
    replaced: Option<Replaced>,
    _stream: Stream,
}

impl Writer {
    pub(super) fn new(writer: container::Writer, at: usize, stream: Stream) -> Self {
        Self { writer, at, replaced: None, _stream: stream }
    }

    /// What it writes takes the place of a replica on another disk when it is put.
    pub(super) fn in_place_of(self, replaced: Replaced) -> Self {
        Self { replaced: Some(replaced), ..self }
    }

    /// The disk it writes to.
    pub(crate) fn disk(&self) -> usize {
        self.at
    }

    pub(crate) fn put(self, len: u64) -> Result<(), ReplicaError> {
        assert!(self.replaced.is_none(), "what replaces another is synced");
        self.writer.put(len)
    }

    pub(crate) fn put_synced(self, len: u64) -> Result<(), ReplicaError> {
        let Some(Replaced { disks, from, info }) = self.replaced else { return self.writer.put_synced(len) };
        self.writer.put_synced(len)?;
        let (block, have) = (info.identity.block, info.identity.generation);
        if disks.change_over(from, self.at, &info)? { Ok(()) } else { Err(ReplicaError::Exists { block, have }) }
    }

    pub(crate) fn keep(self) -> Result<(), ReplicaError> {
        self.writer.keep()
    }
}

impl Deref for Writer {
    type Target = container::Writer;

    fn deref(&self) -> &container::Writer {
        &self.writer
    }
}

impl DerefMut for Writer {
    fn deref_mut(&mut self) -> &mut container::Writer {
        &mut self.writer
    }
}
