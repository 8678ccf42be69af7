//! A file that a session has open.

use super::refusals::of_read;
use super::room::Share;
use super::status::info;
use crate::opened::Opened;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::sync::{Mutex, watch};
use xroot::{ErrorCode, Info, Refusal};

/// A file that is being opened. Requests may name it before it is.
pub(super) type Opening = watch::Receiver<Option<Arc<OpenFile>>>;

/// The file, once it is open.
pub(super) async fn opened(mut opening: Opening) -> Result<Arc<OpenFile>, Refusal> {
    let not_open = || Refusal::new(ErrorCode::FileNotOpen, "the file was not opened");
    let file = opening.wait_for(Option::is_some).await.map_err(|_dropped| not_open())?;
    file.clone().ok_or_else(not_open)
}

#[derive(Debug)]
pub(super) struct OpenFile {
    pub(super) opened: Opened,
    pub(super) info: Info,
    /// Looks at the file that were begun; and the last that ended, with what it saw.
    look_count: AtomicU64,
    last_look: Mutex<Look>,
    _place: Share,
}

#[derive(Clone, Copy, Debug, Default)]
struct Look {
    number: u64,
    is_changed: bool,
}

impl OpenFile {
    pub(super) fn new(opened: Opened, place: Share) -> Self {
        let info = info(&opened.status);
        Self { opened, info, look_count: AtomicU64::new(0), last_look: Mutex::default(), _place: place }
    }

    pub(super) fn len(&self) -> u64 {
        self.info.len
    }

    /// Fails if the file is another version by now: then what was read may be of both. Reads that end together share
    /// one look, as long as it begins after all of them.
    pub(super) async fn must_be_the_same(&self) -> Result<(), Refusal> {
        let next = self.look_count.load(Ordering::SeqCst) + 1;
        let mut last = self.last_look.lock().await;
        if last.number < next && !last.is_changed {
            let number = self.look_count.fetch_add(1, Ordering::SeqCst) + 1;
            let is_changed = !self.opened.is_the_same().await.map_err(|error| of_read(&error))?;
            *last = Look { number, is_changed };
        }
        if last.is_changed {
            return Err(Refusal::new(ErrorCode::IoError, "the file was changed since it was opened; open it again"));
        }
        Ok(())
    }

    /// Of the bytes of an answer that is not at its end.
    pub(super) async fn may_go_on(&self) -> Result<(), Refusal> {
        self.opened.may_go_on().await.map_err(|error| of_read(&error))
    }
}
