//! The end of the node, for threads that wait in poll(2) and for tasks.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::{Mutex, PoisonError};
use tokio::sync::watch;

#[derive(Debug)]
pub(crate) struct Stop {
    /// For threads: readable, at its end, as soon as the other half is dropped.
    watched: UnixStream,
    held: Mutex<Option<UnixStream>>,
    /// For tasks.
    told: watch::Sender<bool>,
}

impl Stop {
    pub(crate) fn new() -> io::Result<Self> {
        let (watched, held) = UnixStream::pair()?;
        Ok(Self { watched, held: Mutex::new(Some(held)), told: watch::Sender::new(false) })
    }

    pub(crate) fn now(&self) {
        self.held.lock().unwrap_or_else(PoisonError::into_inner).take();
        self.told.send_replace(true);
    }

    pub(crate) fn is_set(&self) -> bool {
        *self.told.borrow()
    }

    /// Returns at the end of the node.
    pub(crate) async fn wait(&self) {
        let mut told = self.told.subscribe();
        let _never_closed = told.wait_for(|stopped| *stopped).await;
    }
}

impl AsFd for Stop {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.watched.as_fd()
    }
}
