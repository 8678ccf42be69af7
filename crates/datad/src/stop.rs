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
    stopping: watch::Sender<bool>,
}

impl Stop {
    pub(crate) fn new() -> io::Result<Self> {
        let (watched, held) = UnixStream::pair()?;
        Ok(Self { watched, held: Mutex::new(Some(held)), stopping: watch::Sender::new(false) })
    }

    pub(crate) fn now(&self) {
        self.held.lock().unwrap_or_else(PoisonError::into_inner).take();
        self.stopping.send_replace(true);
    }

    pub(crate) fn is_set(&self) -> bool {
        *self.stopping.borrow()
    }

    /// Returns at the end of the node.
    pub(crate) async fn wait(&self) {
        let mut stopping = self.stopping.subscribe();
        let _never_closed = stopping.wait_for(|stopped| *stopped).await;
    }
}

impl AsFd for Stop {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.watched.as_fd()
    }
}
