//! Files that are not what they will be called yet: taken away when a command is interrupted.

use super::Target;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// What HDFS's shell calls a file that it is still writing.
pub(crate) const SUFFIX: &str = "._COPYING_";

#[derive(Clone, Debug)]
pub(crate) enum Temp {
    Local(PathBuf),
    Remote(Target),
}

#[derive(Debug, Default)]
pub(crate) struct Temps {
    open: Mutex<Vec<(u64, Temp)>>,
}

/// Names an entry until it is settled.
#[derive(Debug)]
#[must_use = "a temporary file that nobody settles is taken away at an interrupt only"]
pub(crate) struct Ticket(u64);

impl Temps {
    /// Called before the file is made.
    pub(crate) fn open(&self, temp: Temp) -> Ticket {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let number = open.last().map_or(0, |(number, _)| number + 1);
        open.push((number, temp));
        Ticket(number)
    }

    /// The file has its real name now.
    pub(crate) fn keep(&self, ticket: Ticket) {
        drop(self.take(&ticket));
    }

    /// The file came to nothing.
    pub(crate) async fn discard(&self, ticket: Ticket) {
        if let Some(temp) = self.take(&ticket) {
            remove(&temp).await;
        }
    }

    fn take(&self, ticket: &Ticket) -> Option<Temp> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let place = open.iter().position(|(number, _)| *number == ticket.0)?;
        Some(open.remove(place).1)
    }

    /// All that is left, once nobody makes more of them. Gives up on a server that does not answer: a user who interrupts
    /// wants the prompt back.
    pub(crate) async fn discard_all(&self) {
        let open = std::mem::take(&mut *self.open.lock().unwrap_or_else(PoisonError::into_inner));
        let removing = async {
            for (_, temp) in &open {
                remove(temp).await;
            }
        };
        let _ = tokio::time::timeout(DISCARD_MAX, removing).await;
    }
}

const DISCARD_MAX: Duration = Duration::from_secs(5);

async fn remove(temp: &Temp) {
    match temp {
        Temp::Local(path) => drop(std::fs::remove_file(path)),
        Temp::Remote(target) => {
            // Its creation may be on the way still, ahead of us by a moment.
            if let Ok(false) = target.client.delete(&target.path, false).await {
                tokio::time::sleep(Duration::from_millis(100)).await;
                let _ = target.client.delete(&target.path, false).await;
            }
        }
    }
}
