//! The backup that is being taken from this leader, if one is.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// A second one takes the place of the first.
#[derive(Debug, Default)]
pub(crate) struct BackupSession(Mutex<Option<Taken>>);

#[derive(Debug)]
pub(crate) struct Taken {
    pub(crate) id: u64,
    pub(crate) export: kv::Export,
    /// Of the piece that comes next.
    pub(crate) next: u64,
    /// The piece before, for a caller that did not hear the answer.
    pub(crate) last: Vec<u8>,
    pub(crate) touched: Duration,
}

impl BackupSession {
    /// Held while a piece is read from the disk: nobody else but another taker waits for it.
    pub(crate) fn lock(&self) -> MutexGuard<'_, Option<Taken>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
