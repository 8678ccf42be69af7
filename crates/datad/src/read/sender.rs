//! What a sender says is to be done, done on a connection: heads and checksums from memory, data from its file.

use crate::admission::Transfer;
use crate::connection::Connection;
use crate::read_buffer::ReadError;
use container::{Reader, ReplicaError};
use io::ThreadQuota;
use metrics::Counter;
use std::io::{Error, ErrorKind, Result};
use std::ops::Range;
use std::time::Duration;
use xfer::read::{Late, Next, Sender, Stored};

/// A replica that is read, and what the driver needs for it.
pub(crate) struct Source<'a> {
    pub(crate) reader: &'a Reader,
    /// Of its disk: what is not in memory waits in it.
    pub(crate) quota: &'a ThreadQuota,
    /// Counts bytes of data.
    pub(crate) bytes: &'a Counter,
    /// Of the operation.
    pub(crate) place: &'a Transfer,
    pub(crate) now: &'a (dyn Fn() -> Duration + Sync),
}

pub(crate) fn stored(reader: &Reader) -> Stored {
    let identity = reader.identity();
    Stored { generation: identity.generation, len: reader.len(), checksum: identity.checksum, state: reader.state() }
}

/// The stored checksums of some bytes. Blocks.
pub(crate) fn sums(reader: &Reader, window: Range<u64>) -> std::result::Result<Vec<u8>, ReplicaError> {
    let mut sums = Vec::new();
    if !window.is_empty() {
        reader.sums(window.start, window.end - window.start, &mut sums)?;
    }
    Ok(sums)
}

/// Sends all packets.
pub(crate) async fn send_packets(connection: &mut Connection, sender: &mut Sender, source: &Source<'_>) -> Result<()> {
    loop {
        let now = (source.now)();
        match sender.next(now) {
            Next::Sums(window) => {
                let reader = source.reader.clone();
                let read = source.quota.run(move || sums(&reader, window)).await.map_err(Error::other)?;
                sender.on_sums(read.map_err(Error::other)?);
            }
            Next::Packet(data) => {
                let sending = source.place.wait_for_peer(send_packet(connection, sender.head(), &data, source));
                let limit = sender.poll_timeout().unwrap_or(Duration::MAX);
                match tokio::time::timeout(limit.saturating_sub(now), sending).await {
                    Ok(sent) => sent?,
                    Err(_) => {
                        sender.handle_timeout(limit).map_err(late)?;
                        unreachable!("half a packet was sent, and its time is not over");
                    }
                }
                source.reader.count_sent(data.end - data.start);
                source.bytes.inc_by(data.end - data.start);
                sender.on_sent((source.now)());
            }
            Next::Receive | Next::Done(_) => return Ok(()),
        }
    }
}

async fn send_packet(connection: &mut Connection, head: &[u8], data: &Range<u64>, source: &Source<'_>) -> Result<()> {
    connection.send_all(head, !data.is_empty()).await?;
    let (reader, len) = (source.reader, data.end - data.start);
    connection.sendfile_all(reader.data(), source.quota, reader.data_offset() + data.start, len).await
}

/// Awaits what the peer says to all of it.
pub(crate) async fn receive_word(
    connection: &mut Connection,
    sender: &mut Sender,
    source: &Source<'_>,
) -> std::result::Result<(), ReadError> {
    let now = (source.now)();
    let limit = sender.poll_timeout().unwrap_or(Duration::MAX);
    match tokio::time::timeout(limit.saturating_sub(now), source.place.wait_for_peer(connection.last_word(sender)))
        .await
    {
        Ok(received) => received,
        Err(_) => Ok(sender.handle_timeout(limit).map_err(late)?),
    }
}

fn late(late: Late) -> Error {
    Error::new(ErrorKind::TimedOut, late)
}
