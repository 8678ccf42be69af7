//! A file whose bytes come when they are let go.

use crate::Client;
use crate::ahead::origin::Origin;
use crate::error::{Error, Result};
use crate::read::{ComingPart, FirstWindow, Opening, RangeRead};
use layout::{Limits, Wanted};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock};
use tokio::sync::watch;

pub(super) const FAULT: &str = "a fault was asked for";

#[derive(Debug)]
pub(super) struct Place {
    pub(super) bytes: Vec<u8>,
    pub(super) path: &'static str,
    fills: AtomicUsize,
    under_way: AtomicUsize,
    faults_left: AtomicUsize,
    fault_every: AtomicUsize,
    is_held: watch::Sender<bool>,
    /// Who asks a store that knows where columns lie; none: it does not.
    pub(super) store: OnceLock<Client>,
    windows: AtomicUsize,
    /// Whether all of an opening comes before its window, or but the first half.
    pub(super) has_opening: AtomicBool,
    /// What has come before windows.
    openings: Mutex<Vec<(u64, u64)>>,
}

/// Parts of a window.
const PART_COUNT: usize = 3;

impl Place {
    pub(super) fn new(bytes: Vec<u8>) -> Self {
        Self {
            bytes,
            path: "/file",
            fills: AtomicUsize::new(0),
            under_way: AtomicUsize::new(0),
            faults_left: AtomicUsize::new(0),
            fault_every: AtomicUsize::new(usize::MAX),
            is_held: watch::Sender::new(false),
            store: OnceLock::new(),
            windows: AtomicUsize::new(0),
            has_opening: AtomicBool::new(true),
            openings: Mutex::default(),
        }
    }

    pub(super) fn fills(&self) -> usize {
        self.fills.load(Ordering::SeqCst)
    }

    /// Times at which columns were asked for by their names.
    pub(super) fn windows(&self) -> usize {
        self.windows.load(Ordering::SeqCst)
    }

    /// Offset and length of what was asked for ahead of columns.
    pub(super) fn openings(&self) -> Vec<(u64, u64)> {
        self.openings.lock().unwrap().clone()
    }

    pub(super) fn under_way(&self) -> usize {
        self.under_way.load(Ordering::SeqCst)
    }

    pub(super) fn fail_next(&self, count: usize) {
        self.faults_left.store(count, Ordering::SeqCst);
    }

    pub(super) fn fail_every(&self, count: usize) {
        self.fault_every.store(count, Ordering::SeqCst);
    }

    pub(super) fn hold(&self) {
        self.is_held.send_replace(true);
    }

    pub(super) fn release(&self) {
        self.is_held.send_replace(false);
    }

    /// Until nothing is under way, and what was there has been taken.
    pub(super) async fn settle(&self) {
        let mut idle = 0;
        while idle < 20 {
            tokio::task::yield_now().await;
            idle = if self.under_way() == 0 { idle + 1 } else { 0 };
        }
    }
}

/// One request, until it ends or is dropped.
struct UnderWay<'a>(&'a AtomicUsize);

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Origin for Place {
    fn len(&self) -> u64 {
        self.bytes.len() as u64
    }

    fn path(&self) -> &str {
        self.path
    }

    async fn fill<'a>(&'a self, reads: &'a mut [RangeRead<'_>]) -> Result<()> {
        let number = self.fills.fetch_add(1, Ordering::SeqCst) + 1;
        self.under_way.fetch_add(1, Ordering::SeqCst);
        let _under_way = UnderWay(&self.under_way);
        // As a link does: nothing is there at once.
        tokio::task::yield_now().await;
        let mut is_held = self.is_held.subscribe();
        is_held.wait_for(|is_held| !is_held).await.unwrap();
        let take = |left: usize| left.checked_sub(1);
        let is_fault = self.faults_left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, take).is_ok();
        if is_fault || number.is_multiple_of(self.fault_every.load(Ordering::SeqCst)) {
            return Err(Error::NotDone(FAULT));
        }
        for read in reads {
            read.dest.copy_from_slice(&self.bytes[read.offset as usize..][..read.dest.len()]);
        }
        Ok(())
    }

    async fn first_window(&self, columns: Vec<(u32, u32)>, len: u64, opening: Opening) -> Result<Option<FirstWindow>> {
        self.openings.lock().unwrap().extend(opening.spans());
        self.windows.fetch_add(1, Ordering::SeqCst);
        let Some(client) = self.store.get() else { return Ok(None) };
        tokio::task::yield_now().await;
        let mut is_held = self.is_held.subscribe();
        is_held.wait_for(|is_held| !is_held).await.unwrap();
        for (offset, len) in opening.spans() {
            let there = if self.has_opening.load(Ordering::SeqCst) { *len } else { *len / 2 };
            opening.give(vec![(*offset, self.bytes[*offset as usize..][..there as usize].to_vec())]);
        }
        drop(opening);
        let Ok(layout) = layout::of_bytes_within(&self.bytes, Limits::default()) else { return Ok(None) };
        let layout = layout.with_pieces_of(&Wanted::Columns(columns));
        let pieces = layout.window(0, len, usize::MAX);
        let take = |left: usize| left.checked_sub(1);
        let parts = pieces.chunks(pieces.len().div_ceil(PART_COUNT).max(1)).map(|pieces| {
            let is_fault = self.faults_left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, take).is_ok();
            let spans: Vec<(u64, u64)> = pieces.iter().map(|piece| (piece.offset, piece.len.into())).collect();
            let found =
                spans.iter().map(|(offset, len)| (*offset, self.bytes[*offset as usize..][..*len as usize].to_vec()));
            let found = if is_fault { Err(Error::NotDone(FAULT)) } else { Ok(found.collect()) };
            ComingPart { spans, bytes: client.spawn("part", async { found }) }
        });
        let parts = parts.collect();
        Ok(Some(FirstWindow { layout, room: client.store().layout_room(), parts }))
    }
}
