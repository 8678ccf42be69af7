//! The tasks of one file: they end with it, or with the store.

use crate::client::Client;
use crate::scope::Task;
use std::sync::{Mutex, MutexGuard, PoisonError};

#[derive(Debug, Default)]
pub(super) struct Tasks(Mutex<Running>);

#[derive(Debug, Default)]
struct Running {
    tasks: Vec<Task<()>>,
    is_closed: bool,
}

impl Tasks {
    pub(super) fn begin(&self, client: &Client, name: &'static str, work: impl Future<Output = ()> + Send + 'static) {
        if self.lock().is_closed {
            return;
        }
        let task = client.spawn(name, work);
        let mut running = self.lock();
        let done = match running.is_closed {
            true => vec![task],
            false => {
                let done = running.tasks.extract_if(.., |task| task.is_finished()).collect();
                running.tasks.push(task);
                done
            }
        };
        // One that is dropped may lock what it belongs to.
        drop((running, done));
    }

    /// None runs from now on.
    pub(super) fn close(&self) {
        let ended = {
            let mut running = self.lock();
            running.is_closed = true;
            std::mem::take(&mut running.tasks)
        };
        drop(ended);
    }

    fn lock(&self) -> MutexGuard<'_, Running> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
