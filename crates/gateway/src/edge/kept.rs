//! What is kept, for readers: from memory, from the disk, from what others fetch, and else from upstream.
//!
//! Promise: a byte comes from upstream, where it was held against the replica's checksum, or from a record that was
//! held against its own a moment ago. What nobody asked for is not fetched here; what several ask for at the same time
//! is fetched once. Who fetches waits for no other reader before that, so nobody waits in a circle; and it is fetched
//! beside him, so that a client who takes nothing holds up nobody. What is on its way, and what waits for the disk, is
//! bounded.

use super::disk::{Disk, Found, Gone};
use super::flight::{Flight, Pieces, Pilot, flight};
use super::room::{FetchRoom, FetchUsage};
use super::tally::Tally;
use crate::try_again::try_again;
use bytes::Bytes;
use client::{Error, RangeRead, Result};
use edge::{Content, DiskPart, FlightId, Limits, Room, Shelf, Source};
use futures_util::future::join;
use io::LogLimit;
use std::collections::VecDeque;
use std::ops::Range;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// Times that somebody's fetch fails, or a piece on the disk, before a reader does without what is kept. A guess.
const ROUND_COUNT_MAX: usize = 4;
/// More need not wait to be written: half a second of a slow disk. A guess.
pub(super) const UNWRITTEN_LEN_MAX: u64 = 64 << 20;

static NOT_WRITTEN: LogLimit = LogLimit::new(Duration::from_secs(60));

#[derive(Debug)]
pub(super) struct Kept {
    shared: Arc<Shared>,
    queue: Arc<Queue>,
    /// Of what is on its way.
    room: Arc<FetchRoom>,
}

/// What is to be written.
#[derive(Debug)]
struct Queue {
    /// `None`: there is no disk, or no more.
    writer: Mutex<Option<(Sender<Piece>, JoinHandle<()>)>>,
    len_max: u64,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    shelf: Mutex<Shelf<Flight>>,
    disk: Option<Disk>,
    queued_len: AtomicU64,
    tally: Arc<Tally>,
}

/// How much may be under way beside what is kept, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct QueueLimits {
    /// From the store.
    pub(super) fetching_len: u64,
    /// What those take who wait for that.
    pub(super) waiting_len: u64,
    /// To the disk. What comes beside them stays in memory alone.
    pub(super) unwritten_len: u64,
}

/// How full the queues are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct QueueUsage {
    pub(crate) fetches: FetchUsage,
    pub(crate) unwritten_len: u64,
    pub(crate) unwritten_len_max: u64,
}

/// Where bytes come from that are not kept. Clones are the same.
pub(super) trait Origin: Clone + Send + Sync + 'static {
    /// Fills all of `reads`, with bytes of one content.
    fn fetch(&self, reads: &mut [RangeRead<'_>]) -> impl Future<Output = Result<()>> + Send;
}

/// To be written.
type Piece = (Content, u64, Bytes);

/// What the writer has yet to write. That which is worth it is read when its turn comes: it may be half a segment.
enum Unwritten {
    Here(Piece),
    Worth { gone: Gone, content: Content, part: DiskPart },
}

impl Unwritten {
    fn bytes(self) -> Option<Piece> {
        match self {
            Self::Here(piece) => Some(piece),
            Self::Worth { gone, content, part } => Some((content, part.begin, gone.read(content, &part)?.into())),
        }
    }
}

/// A part of a read: where it begins in the file, and where it goes.
type Dest<'a> = (u64, &'a mut [u8]);

impl Kept {
    /// With what an earlier process left in `dir`. May wait for the disk.
    pub(super) fn open(
        dir: Option<&Path>,
        limits: Limits,
        queues: QueueLimits,
        tally: Arc<Tally>,
    ) -> std::io::Result<Self> {
        let mut shelf = Shelf::new(limits);
        let disk = match dir.map(Disk::open).transpose()? {
            Some((disk, found)) => {
                for Found { number, bytes_len, heads } in found {
                    shelf.restore(number, bytes_len, &heads);
                }
                while let Some(eviction) = shelf.excess() {
                    drop(disk.evict(eviction.segment));
                }
                Some(disk)
            }
            None => None,
        };
        let has_disk = disk.is_some();
        let shared = Shared { shelf: Mutex::new(shelf), disk, queued_len: AtomicU64::new(0), tally };
        let shared = Arc::new(shared);
        let writer = if has_disk {
            let (sender, receiver) = channel();
            let writer = Arc::clone(&shared);
            Some((sender, io::task::thread("edge writer", move || writer.write_each(&receiver))?))
        } else {
            None
        };
        let queue = Queue { writer: Mutex::new(writer), len_max: queues.unwritten_len, shared: Arc::clone(&shared) };
        let room = FetchRoom::new(queues.fetching_len, queues.waiting_len);
        Ok(Self { shared, queue: Arc::new(queue), room })
    }

    pub(super) fn queues(&self) -> QueueUsage {
        QueueUsage {
            fetches: self.room.usage(),
            unwritten_len: self.shared.queued_len.load(Ordering::Relaxed),
            unwritten_len_max: self.queue.len_max,
        }
    }

    pub(super) fn usage(&self) -> edge::Usage {
        self.shared.shelf().usage()
    }

    /// Nothing is kept any more, nor later.
    #[cfg(test)]
    pub(super) fn forget_all(&self) {
        *self.shared.shelf() = Shelf::new(Limits { memory_len: 0, disk_len: 0, segment_len: 0, disk_extent_count: 0 });
    }

    /// Fills all of `reads`, which lie in the file. `upstream` brings what is not kept.
    pub(super) async fn read(
        &self,
        content: Content,
        reads: &mut [RangeRead<'_>],
        upstream: &impl Origin,
    ) -> Result<()> {
        let mut left: Vec<Dest<'_>> = reads.iter_mut().map(|read| (read.offset, &mut *read.dest)).collect();
        for _ in 0..ROUND_COUNT_MAX {
            left = self.round(content, left, upstream).await?;
            if left.is_empty() {
                return Ok(());
            }
        }
        let mut reads: Vec<_> = left.into_iter().map(|(offset, dest)| RangeRead { offset, dest }).collect();
        upstream.fetch(&mut reads).await
    }

    /// What did not come.
    async fn round<'a>(&self, content: Content, dests: Vec<Dest<'a>>, upstream: &impl Origin) -> Result<Vec<Dest<'a>>> {
        let ranges: Vec<Range<u64>> = dests.iter().map(|(offset, dest)| *offset..offset + dest.len() as u64).collect();
        let (pilot, handle) = flight();
        let plan = self.shared.shelf().plan(content, &ranges, handle);
        let fetching = plan.fetch.map(|(id, ranges)| {
            let (shared, queue, room) = (Arc::clone(&self.shared), Arc::clone(&self.queue), Arc::clone(&self.room));
            let fetching = Fetching { shared, queue, content, id, pilot: Some(pilot), ranges };
            io::task::spawn_owned("edge fetch", fetching.fetch(upstream.clone(), room))
        });
        let (mut from_disk, mut from_flights) = (Vec::new(), Vec::new());
        let (mut dests, mut dest) = (dests.into_iter(), (0, &mut [][..]));
        for part in plan.parts {
            // Parts come in the order of the ranges, of which the empty ones have none.
            while dest.1.is_empty() {
                let Some(next) = dests.next() else { return Err(Error::Internal("parts of nothing".into())) };
                dest = next;
            }
            let len = (part.range.end - part.range.start) as usize;
            let (own, rest) = std::mem::take(&mut dest.1).split_at_mut(len);
            dest = (part.range.end, rest);
            match part.source {
                Source::Memory(bytes) => {
                    own.copy_from_slice(&bytes);
                    self.shared.tally.memory_len.add(len as u64);
                }
                Source::Disk(disk) => from_disk.push((disk, (part.range.start, own))),
                Source::Flight(flight) => from_flights.push((flight, (part.range.start, own))),
            }
        }
        let reading = self.read_disk(content, from_disk);
        let fetching = async {
            match fetching {
                Some(fetching) => fetching.await.unwrap_or(Err(Error::Closed)),
                None => Ok(()),
            }
        };
        let (mut left, fetched) = join(reading, fetching).await;
        fetched?;
        for (flight, (offset, dest)) in from_flights {
            match flight.fill(offset, dest).await {
                true => self.shared.tally.store_len.add(dest.len() as u64),
                false => left.push((offset, dest)),
            }
        }
        Ok(left)
    }

    /// What is not whole any more comes back.
    async fn read_disk<'a>(&self, content: Content, parts: Vec<(DiskPart, Dest<'a>)>) -> Vec<Dest<'a>> {
        if parts.is_empty() {
            return Vec::new();
        }
        let wanted: Vec<_> = parts.iter().map(|(part, (_, dest))| (*part, dest.len() as u32)).collect();
        let shared = Arc::clone(&self.shared);
        let read = io::task::blocking(move || {
            let read =
                |(part, len): &(DiskPart, u32)| shared.disk.as_ref().and_then(|disk| disk.read(content, part, *len));
            wanted.iter().map(read).collect::<Vec<_>>()
        });
        let mut left = Vec::new();
        for ((part, (offset, dest)), bytes) in parts.into_iter().zip(read.await) {
            match bytes.filter(|bytes| bytes.len() == dest.len()) {
                Some(bytes) => {
                    dest.copy_from_slice(&bytes);
                    self.shared.tally.disk_len.add(bytes.len() as u64);
                }
                None => {
                    tracing::debug!(block = content.block.0, offset, "a kept piece is not whole, and is dropped");
                    self.shared.tally.damaged_count.add(1);
                    self.shared.shelf().damaged(content, &part);
                    left.push((offset, dest));
                }
            }
        }
        left
    }

    /// Writes what waits for it, and ends the writer. May wait for the disk.
    pub(super) fn close(&self) {
        self.queue.close();
        if let Some(disk) = &self.shared.disk {
            disk.release();
        }
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        // Tasks that fetch have the queue, too; the writer ends when it is at its end.
        drop(self.queue.writer.lock().unwrap_or_else(PoisonError::into_inner).take());
    }
}

impl Queue {
    fn write(&self, piece: Piece) {
        let len = piece.2.len() as u64;
        let writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        let Some((sender, _)) = writer.as_ref() else { return };
        if self.shared.queued_len.load(Ordering::Relaxed) + len > self.len_max {
            self.shared.tally.unwritten_count.add(1);
            return;
        }
        self.shared.queued_len.fetch_add(len, Ordering::Relaxed);
        // An error says that the writer is gone: then nothing more is written.
        let _ = sender.send(piece);
    }

    fn close(&self) {
        let writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some((sender, writer)) = writer {
            drop(sender);
            let _its_panic_was_reported = writer.join();
        }
    }
}

impl Shared {
    /// Nothing is left half done while it is held.
    fn shelf(&self) -> MutexGuard<'_, Shelf<Flight>> {
        self.shelf.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn write_each(&self, pieces: &Receiver<Piece>) {
        while let Ok((content, offset, bytes)) = pieces.recv() {
            self.queued_len.fetch_sub(bytes.len() as u64, Ordering::Relaxed);
            let mut left = VecDeque::from([Unwritten::Here((content, offset, bytes))]);
            while let Some(next) = left.pop_front() {
                let Some((content, offset, bytes)) = next.bytes() else { continue };
                if let Err(error) = self.write_one(content, offset, &bytes, &mut left)
                    && let Some(passed_over) = NOT_WRITTEN.due()
                {
                    tracing::warn!(%error, passed_over, "a piece cannot be written to the cache directory");
                }
            }
        }
    }

    /// What has to go for it, and is worth it, is put behind it.
    fn write_one(
        &self,
        content: Content,
        offset: u64,
        bytes: &Bytes,
        left: &mut VecDeque<Unwritten>,
    ) -> std::io::Result<()> {
        let Some(disk) = &self.disk else { return Ok(()) };
        let len = bytes.len() as u32;
        loop {
            let room = self.shelf().reserve(len);
            match room {
                Room::Never => return Ok(()),
                Room::After(eviction) => {
                    self.tally.evicted_count.add(1);
                    let Some(gone) = disk.evict(eviction.segment) else { continue };
                    let worth = eviction.worth.into_iter();
                    left.extend(worth.map(|(content, part)| Unwritten::Worth { gone: gone.clone(), content, part }));
                }
                Room::Here(place) => {
                    disk.write(content, offset, bytes, place)?;
                    self.shelf().written(content, offset, len, place);
                    return Ok(());
                }
            }
        }
    }
}

/// Dropped before it landed, others fetch what they wait for.
struct Fetching {
    shared: Arc<Shared>,
    queue: Arc<Queue>,
    content: Content,
    id: FlightId,
    pilot: Option<Pilot>,
    ranges: Vec<Range<u64>>,
}

impl Fetching {
    async fn fetch(mut self, upstream: impl Origin, room: Arc<FetchRoom>) -> Result<()> {
        let Some(_place) = room.enter(&self.ranges).await else {
            self.shared.tally.turned_away_count.add(1);
            return Err(try_again("as many readers wait for the store as may; ask again later"));
        };
        let len_of = |range: &Range<u64>| (range.end - range.start) as usize;
        let mut buffers: Vec<Vec<u8>> = self.ranges.iter().map(|range| vec![0; len_of(range)]).collect();
        let reads = self.ranges.iter().zip(&mut buffers).map(|(range, dest)| RangeRead { offset: range.start, dest });
        let mut reads: Vec<RangeRead<'_>> = reads.collect();
        upstream.fetch(&mut reads).await?;
        let pieces = self.ranges.iter().map(|range| range.start).zip(buffers.into_iter().map(Bytes::from));
        let pieces: Pieces = pieces.collect();
        self.shared.shelf().land(self.id, pieces.iter().cloned());
        for (offset, bytes) in pieces.iter() {
            self.queue.write((self.content, *offset, bytes.clone()));
        }
        if let Some(pilot) = self.pilot.take() {
            pilot.land(pieces);
        }
        Ok(())
    }
}

impl Drop for Fetching {
    fn drop(&mut self) {
        // What has landed is no flight any more.
        self.shared.shelf().fail(self.id);
    }
}
