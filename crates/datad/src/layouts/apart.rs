//! What takes processor time or waits, beside the tasks: the parsers of one file that is asked.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use tokio::sync::OwnedSemaphorePermit;

pub(super) struct Apart {
    /// One of the places for those. It is held until a thread has ended, also if nobody waits for it any more.
    place: Arc<OwnedSemaphorePermit>,
    /// By which the log names the file.
    last_block: u64,
}

impl Apart {
    pub(super) fn new(place: OwnedSemaphorePermit, last_block: u64) -> Self {
        Self { place: Arc::new(place), last_block }
    }

    /// `None`: it panicked.
    pub(super) async fn run<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
        let place = Arc::clone(&self.place);
        let done = io::task::blocking(move || {
            let _place = place;
            catch_unwind(AssertUnwindSafe(work))
        });
        match done.await {
            Ok(done) => Some(done),
            Err(panic) => {
                let (block, reason) = (self.last_block, io::task::panic_text(&*panic));
                tracing::error!(block, reason, "the layout of a file made its parser panic; the node goes on");
                None
            }
        }
    }
}
