//! Fetches that travel together, and who waits for them.

use super::chunk::{Chunk, copy_from};
use prefetch::{Fetch, FetchId};
use std::sync::Arc;
use tokio::sync::watch;

/// Fetches of one call that have no more bytes together are one request. Apart they share out the connections whose
/// windows have grown, and what is left over opens new ones, each of which begins with ten segments. Measured at 240
/// ms: a chunk of 137 kB and the 3 MB behind it, apart, took longer than both together. A guess how far that is so.
pub(super) const TOGETHER_LEN_MAX: u64 = 4 << 20;

/// What became of a fetch.
#[derive(Clone, Debug)]
enum Landing {
    Flying,
    Landed(Arc<[Chunk]>),
    Failed,
}

/// One fetch on its way, as those who wait see it.
#[derive(Clone, Debug)]
pub(super) struct Flight(watch::Receiver<Landing>);

/// The same, for the task that brings it. Dropped before it landed, it has failed.
#[derive(Debug)]
pub(super) struct Pilot {
    pub(super) fetch: Fetch,
    sender: watch::Sender<Landing>,
}

impl Pilot {
    pub(super) fn new(fetch: Fetch) -> (Self, Flight) {
        let (sender, receiver) = watch::channel(Landing::Flying);
        (Self { fetch, sender }, Flight(receiver))
    }

    pub(super) fn id(&self) -> FetchId {
        self.fetch.id
    }

    pub(super) fn land(&self, chunks: Arc<[Chunk]>) {
        self.sender.send_replace(Landing::Landed(chunks));
    }

    pub(super) fn fail(&self) {
        self.sender.send_replace(Landing::Failed);
    }
}

impl Flight {
    /// Fills `dest` when it is there. False: it will not come.
    pub(super) async fn fill(mut self, offset: u64, dest: &mut [u8]) -> bool {
        // An error says that its task is gone.
        let Ok(landing) = self.0.wait_for(|landing| !matches!(landing, Landing::Flying)).await else { return false };
        match &*landing {
            Landing::Landed(chunks) => {
                assert!(copy_from(chunks, offset, dest), "a fetch brings what waits for it");
                true
            }
            Landing::Flying | Landing::Failed => false,
        }
    }
}

/// In flights: those of one call that are short go together.
pub(super) fn grouped(fetches: Vec<Fetch>) -> Vec<Vec<Fetch>> {
    let len = fetches.iter().fold(0u64, |len, fetch| len.saturating_add(fetch.len));
    match len <= TOGETHER_LEN_MAX && !fetches.is_empty() {
        true => vec![fetches],
        false => fetches.into_iter().map(|fetch| vec![fetch]).collect(),
    }
}
