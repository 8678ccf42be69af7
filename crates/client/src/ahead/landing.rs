//! What is on its way, up to where it is kept: in the hands of all who wait for it before the machine hears of it.

use super::chunk::{Chunk, Room, copy_from};
use super::flight::Pilot;
use super::origin::Origin;
use super::state::Shared;
use crate::error::Result;
use crate::read::{ComingOpening, Pieces, RangeRead};
use std::sync::Arc;

/// A flight whose task has ended without an outcome has failed.
pub(super) struct Flying<O: Origin> {
    pub(super) origin: Arc<O>,
    pub(super) state: Arc<Shared>,
    pub(super) pilots: Vec<Pilot>,
}

impl<O: Origin> Drop for Flying<O> {
    fn drop(&mut self) {
        for pilot in self.pilots.drain(..) {
            let mut state = self.state.lock();
            state.failed(pilot.id());
            pilot.fail();
        }
    }
}

impl<O: Origin> Flying<O> {
    pub(super) async fn land(self) {
        self.land_beside(&[]).await;
    }

    /// What came of it over the connections of a window, and what did not by itself.
    pub(super) async fn land_opening(self, coming: ComingOpening) {
        let state = Arc::clone(&self.state);
        let Some(came) = coming.all().await else { return self.land().await };
        if !self.land_beside(&chunks(came)).await {
            state.lock().failure_count += 1;
        }
    }

    /// `came`: in the order of the file. True: it is all.
    async fn land_beside(self, came: &[Chunk]) -> bool {
        let mut rooms = self.rooms();
        let missing =
            rooms.iter_mut().flatten().filter_map(|room| match copy_from(came, room.offset, &mut room.bytes) {
                true => None,
                false => Some(RangeRead { offset: room.offset, dest: &mut room.bytes }),
            });
        let mut missing: Vec<RangeRead<'_>> = missing.collect();
        let is_all = missing.is_empty();
        let filled = if is_all { Ok(()) } else { self.origin.fill(&mut missing).await };
        match filled {
            Ok(()) => self.landed(rooms),
            Err(error) => tracing::debug!(%error, "what was fetched ahead did not come"),
        }
        is_all
    }

    /// What comes by itself is copied to where it is kept; there may be more of it than is wanted.
    pub(super) async fn land_with(self, coming: impl Future<Output = Result<Pieces>>) {
        let pieces = match coming.await {
            Ok(pieces) => pieces,
            Err(error) => {
                tracing::debug!(%error, "a part of a window did not come");
                return;
            }
        };
        let chunks = chunks(pieces);
        let mut rooms = self.rooms();
        if rooms.iter_mut().flatten().all(|room| copy_from(&chunks, room.offset, &mut room.bytes)) {
            self.landed(rooms);
        }
    }

    /// Offset and length of all of it, in the order of the file.
    pub(super) fn spans(&self) -> Vec<(u64, u64)> {
        let ranges = self.pilots.iter().flat_map(|pilot| &pilot.fetch.ranges);
        let mut spans: Vec<(u64, u64)> = ranges.map(|span| (span.offset, span.len)).collect();
        spans.sort_unstable();
        spans
    }

    fn rooms(&self) -> Vec<Vec<Room>> {
        self.pilots.iter().map(|pilot| Room::of(&pilot.fetch.ranges)).collect()
    }

    fn landed(mut self, rooms: Vec<Vec<Room>>) {
        let shared = Arc::clone(&self.state);
        let mut state = shared.lock();
        for (pilot, rooms) in self.pilots.drain(..).zip(rooms) {
            let chunks: Arc<[Chunk]> = rooms.into_iter().map(Room::filled).collect();
            chunks.iter().for_each(|chunk| state.kept.put(chunk.clone()));
            pilot.land(chunks);
            state.flights.remove(&pilot.id());
            state.machine.arrived(pilot.id());
        }
    }
}

fn chunks(pieces: Pieces) -> Vec<Chunk> {
    pieces.into_iter().map(|(offset, bytes)| Chunk { offset, bytes: bytes.into() }).collect()
}
