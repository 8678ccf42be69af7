//! Whether members have different rows and no majority has the same, so that nobody knows who is right.
//!
//! ```text
//! comparison without a majority ──▶ in doubt ──▶ a majority has the same: over        and over restarts of the leader
//!                                      │
//!                                      └─ a leader confirms nothing, takes no proposals, sends no copy of its rows, cuts no log
//! ```
//!
//! Promise: rows that may be wrong decide nothing and are copied to nobody from the first such comparison on. Raft runs
//! on, so a third member that comes back applies the log and makes a majority.

use crate::disk::Disk;
use crate::mark;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

/// The file that keeps a doubt while the member is down.
const MARK: &str = "doubt";
const ADVICE: &str = "Start the members that are down: a majority decides. If they are lost, stop the members, keep a \
                      copy of each directory, and join the others to one of them anew (docs/cli.md, \"Members that \
                      differ\")";

/// A cheap handle; all clones know the same.
#[derive(Clone, Debug)]
pub(crate) struct Doubt {
    disk: Arc<dyn Disk>,
    reason: Arc<Mutex<Option<String>>>,
}

impl Doubt {
    /// As the process before left it.
    pub(crate) fn open(disk: Arc<dyn Disk>) -> io::Result<Self> {
        let reason = mark::read(&*disk, MARK)?;
        Ok(Self { disk, reason: Arc::new(Mutex::new(reason)) })
    }

    /// Why nothing may be decided, if that is so.
    pub(crate) fn reason(&self) -> Option<String> {
        self.reason.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn is_set(&self) -> bool {
        self.reason.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    /// Members differ after this entry. Waits for a disk.
    pub(crate) fn begin(&self, index: u64) {
        let reason = format!("after entry {index} members have different rows, and no majority has the same. {ADVICE}");
        {
            let mut known = self.reason.lock().unwrap_or_else(PoisonError::into_inner);
            if known.is_some() {
                return;
            }
            *known = Some(reason.clone());
        }
        tracing::error!(reason, "this member decides nothing until a majority has the same rows");
        if let Err(error) = mark::write(&*self.disk, MARK, &reason) {
            tracing::error!(
                %error,
                "the doubt was not written down; after a restart it begins with the next comparison"
            );
        }
    }

    /// A majority has the same. Waits for a disk.
    pub(crate) fn end(&self) {
        if !self.is_set() {
            return;
        }
        if let Err(error) = mark::remove(&*self.disk, MARK) {
            tracing::warn!(
                %error,
                "the mark of a doubt that is over was not removed; after a restart it lasts until the next comparison"
            );
        }
        *self.reason.lock().unwrap_or_else(PoisonError::into_inner) = None;
        tracing::warn!("a majority has the same rows again");
    }
}
