//! A volume's own thread, which flushes the index and gives space back, and how it ends: with a last flush, for which
//! whoever closes the volume waits for some seconds only.

use crate::error::Result;
use crate::inner::{Inner, lock};
use kv::KvError;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use types::rows::RowsError;

/// Ends the thread of a volume, at the latest when it is dropped.
#[derive(Debug)]
pub(crate) struct Closer {
    inner: Arc<Inner>,
    thread: Mutex<Option<std::thread::JoinHandle<()>>>,
}

/// A volume that is closed waits for its disk so long: what is written then are some seconds' changes of the index.
/// What is not is looked up by the next start.
const CLOSE_WAIT: Duration = Duration::from_secs(5);
/// The thread of a volume that failed has nothing to write any more.
const CLOSE_WAIT_OF_FAILED: Duration = Duration::from_millis(200);

impl Inner {
    pub(crate) fn flush_index(&self) -> Result<()> {
        let superfluous = self.ahead.before_flush();
        self.note_dead()?;
        self.index.flush().map_err(|error| {
            if let KvError::Full { .. } = error {
                self.health.fail(format!("its index takes no more: {error}"), false);
            }
            RowsError { op: "flush the index", reason: error.to_string() }
        })?;
        self.ahead.after_flush(superfluous, |container| self.clear_away(container));
        Ok(())
    }

    /// Rests for so long, or until the volume is closed. Nothing is held afterwards: who closes it must not wait for
    /// the disk.
    fn is_closing_within(&self, rest: Duration) -> bool {
        let closing = lock(&self.wake.closing);
        if *closing {
            return true;
        }
        *self.wake.told.wait_timeout(closing, rest).unwrap_or_else(PoisonError::into_inner).0
    }

    /// What the volume's thread does. The last flush is its own, too: who closes the volume must not hang with the
    /// disk.
    fn flush_until_closed(&self) {
        if let Err(error) = self.clear_away_all() {
            tracing::warn!(dir = %self.layout.dir.display(), %error, "empty containers were not looked for");
        }
        while !self.is_closing_within(self.options.flush_interval) {
            if self.health.failure().is_some() {
                continue; // nothing more comes to its disk
            }
            if (self.index.is_dirty() || self.ahead.any())
                && let Err(error) = self.flush_index()
            {
                tracing::error!(dir = %self.layout.dir.display(), %error, "the index was not flushed; trying again");
            }
            if !*lock(&self.wake.closing) {
                self.compact();
            }
        }
        if self.health.failure().is_some() {
            return; // what is there is looked through when the disk is back
        }
        match self.flush_index() {
            Ok(()) => self.ahead.close(),
            Err(error) => tracing::error!(%error, "the index was not flushed; the next start looks through containers"),
        }
    }
}

impl Closer {
    pub(crate) fn start(inner: &Arc<Inner>) -> std::io::Result<Self> {
        let flusher = Arc::clone(inner);
        let thread = io::task::thread("volume index flush", move || flusher.flush_until_closed())?;
        Ok(Self { inner: Arc::clone(inner), thread: Mutex::new(Some(thread)) })
    }

    pub(crate) fn close(&self) {
        *lock(&self.inner.wake.closing) = true;
        self.inner.wake.told.notify_all();
        let Some(thread) = lock(&self.thread).take() else { return };
        let wait = if self.inner.health.failure().is_some() { CLOSE_WAIT_OF_FAILED } else { CLOSE_WAIT };
        if !io::task::join_within(thread, wait) {
            let dir = self.inner.layout.dir.display();
            tracing::error!(
                %dir,
                "the disk does not answer; it is left as it is, and the next start looks through containers"
            );
        }
    }
}

impl Drop for Closer {
    fn drop(&mut self) {
        self.close();
    }
}
