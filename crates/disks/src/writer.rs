//! A replica's writer, counted at its disk for as long as it is there.

use crate::disks::Disks;
use crate::load::Stream;
use container::{ReplicaError, ReplicaInfo};
use std::ops::{Deref, DerefMut};

/// A replica that goes once another one has its place.
#[derive(Debug)]
pub(crate) struct Replaced {
    pub(crate) disks: Disks,
    pub(crate) from: usize,
    pub(crate) info: ReplicaInfo,
}

/// See [`container::Writer`].
#[derive(Debug)]
pub struct Writer {
    writer: container::Writer,
    at: usize,
    replaced: Option<Replaced>,
    _stream: Stream,
}

impl Writer {
    pub(crate) fn new(writer: container::Writer, at: usize, stream: Stream) -> Self {
        Self { writer, at, replaced: None, _stream: stream }
    }

    /// What it writes takes the place of a replica on another disk when it is put.
    pub(crate) fn in_place_of(self, replaced: Replaced) -> Self {
        assert_ne!(self.at, replaced.from, "a replacement is written to another disk");
        Self { replaced: Some(replaced), ..self }
    }

    /// The disk it writes to.
    pub fn disk(&self) -> usize {
        self.at
    }

    pub fn put(self, len: u64) -> Result<(), ReplicaError> {
        assert!(self.replaced.is_none(), "what replaces another is synced");
        self.writer.put(len)
    }

    pub fn put_synced(self, len: u64) -> Result<(), ReplicaError> {
        let Some(Replaced { disks, from, info }) = self.replaced else { return self.writer.put_synced(len) };
        self.writer.put_synced(len)?;
        let (block, have) = (info.identity.block, info.identity.generation);
        if disks.change_over(from, self.at, &info)? { Ok(()) } else { Err(ReplicaError::Exists { block, have }) }
    }

    pub fn keep(self) -> Result<(), ReplicaError> {
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
