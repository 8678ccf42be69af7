//! The replica that a stream writes.

use super::above::Above;
use super::writes::Writes;
use crate::operations::Operation;
use crate::replicas::Replicas;
use container::ReplicaError;
use disks::Writer;
use std::sync::Arc;
use types::BlockId;
use xfer::write::{Failure, Mode, Store};

#[derive(Debug)]
pub(super) struct Disk {
    pub(super) block: BlockId,
    pub(super) mode: Mode,
    /// Gone once the block is put.
    pub(super) writer: Option<Writer>,
    /// The replica makes its own checksums, as those of the packets are of another kind: an append may come with others
    /// than the replica has.
    pub(super) own_sums: bool,
}

impl Disk {
    /// Writes packets, and does what the last of them asks for.
    pub(super) fn store(&mut self, writes: &Writes, above: &Arc<Above>, store: &Store) -> Result<(), Failure> {
        let Some(writer) = self.writer.as_mut() else { return Err(Failure::Fenced) };
        // The disk may take long now, and this thread cannot say meanwhile that it lives.
        let _busy = if store.is_long() { writes.keepalive.busy(above, writes.service.now()) } else { None };
        let packets: Vec<container::Packet> = store
            .pieces()
            .map(|piece| container::Packet {
                offset: piece.offset,
                data: piece.data,
                sums: if self.own_sums { &[] } else { piece.sums },
            })
            .collect();
        let operation = if self.mode == Mode::Chain { Operation::Write } else { Operation::CopyIn };
        let len = packets.iter().map(|packet| packet.data.len() as u64).sum();
        writes.service.operations.bytes(operation).inc_by(len);
        let done = writer.write_run(&packets).and_then(|()| match store.put {
            Some(len) => self.put(&writes.service.replicas, len, store.sync),
            None if store.sync => self.writer.as_mut().map_or(Ok(()), |writer| writer.sync()),
            None => Ok(()),
        });
        done.map_err(|error| self.failure(error))
    }

    /// Makes the replica whole, and tells metad. If that fails it stays open.
    fn put(&mut self, replicas: &Replicas, len: u64, synced: bool) -> Result<(), ReplicaError> {
        let Some(writer) = self.writer.take() else { return Ok(()) };
        let put = if synced { writer.put_synced(len) } else { writer.put(len) };
        put.inspect(|()| replicas.was_put(self.block))
    }

    pub(super) fn show(&self, len: u64) {
        if let Some(writer) = &self.writer {
            writer.set_visible(len);
        }
    }

    fn failure(&self, error: ReplicaError) -> Failure {
        if matches!(error.advice(), container::Advice::StopWriting) {
            tracing::debug!(block = %self.block, %error, "a writer was shut out");
            Failure::Fenced
        } else {
            tracing::error!(block = %self.block, %error, "a packet could not be stored");
            Failure::Disk
        }
    }
}
