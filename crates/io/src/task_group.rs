//! Tasks that end together, whoever began them.
//!
//! Promise: once [`TaskGroup::close`] has returned, no task of the group is polled any more, and none begins.
//!
//! A `TaskTracker` and a `CancellationToken` of tokio-util, which nothing here links, promise less: a closed tracker
//! still takes tasks, and tasks end only where they look at the token. Each spawn would need the wrapper below all the
//! same, and the check that the group is open.

use crate::task::{self, Owned};
use std::sync::Arc;
use tokio::sync::watch;

/// Clones are the same group.
#[derive(Clone, Debug)]
pub struct TaskGroup {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    is_closed: watch::Sender<bool>,
    /// Each task has a receiver.
    tasks: watch::Sender<()>,
}

impl Default for TaskGroup {
    fn default() -> Self {
        Self { shared: Arc::new(Shared { is_closed: watch::Sender::new(false), tasks: watch::Sender::new(()) }) }
    }
}

impl TaskGroup {
    /// A task that ends with the group, or with what is returned. `None`: the group was closed before it was done.
    pub fn spawn<T: Send + 'static>(
        &self,
        name: &'static str,
        work: impl Future<Output = T> + Send + 'static,
    ) -> Owned<Option<T>> {
        task::spawn_owned(name, self.until_closed(work))
    }

    /// A task that ends with the group.
    pub fn spawn_detached(&self, name: &'static str, work: impl Future<Output = ()> + Send + 'static) {
        drop(task::spawn(name, self.until_closed(work)));
    }

    /// As [`TaskGroup::spawn`], for who may have a group.
    pub fn spawn_in<T: Send + 'static>(
        group: Option<&Self>,
        name: &'static str,
        work: impl Future<Output = T> + Send + 'static,
    ) -> Owned<Option<T>> {
        match group {
            Some(group) => group.spawn(name, work),
            None => task::spawn_owned(name, async move { Some(work.await) }),
        }
    }

    fn until_closed<F: Future>(&self, work: F) -> impl Future<Output = Option<F::Output>> + use<F> {
        let (closed, counted) = (self.closed(), self.shared.tasks.subscribe());
        async move {
            let done = tokio::select! {
                biased;
                () = closed => None,
                done = work => Some(done),
            };
            drop(counted);
            done
        }
    }

    pub fn is_closed(&self) -> bool {
        *self.shared.is_closed.borrow()
    }

    /// Returns when the group is being closed, or is gone.
    pub fn closed(&self) -> impl Future<Output = ()> + use<> {
        let mut is_closed = self.shared.is_closed.subscribe();
        async move { _ = is_closed.wait_for(|is_closed| *is_closed).await }
    }

    /// Returns when all tasks have ended. None can be begun from now on. One on a runtime that nobody runs is waited
    /// for until that runs again, or is gone.
    pub async fn close(&self) {
        self.shared.is_closed.send_replace(true);
        self.shared.tasks.closed().await;
    }
}
