//! Where the work of a store runs, and until when: in one process, on one runtime, and until it is closed.
//!
//! Promise: whatever waits, waits in [`Scope::run`] or in a task of [`Scope::tasks`]. So once a scope is closed nothing
//! goes on, a caller is told so instead of waiting, and in a process that was forked nothing is begun.

use crate::error::{Error, Result};
use io::TaskGroup;
use std::pin::{Pin, pin};
use std::task::{Context, Poll};
use tokio::runtime::Handle;

#[derive(Debug)]
pub(crate) struct Scope {
    /// The one that made it.
    process: u32,
    /// `None`: whichever a caller runs on.
    runtime: Option<Handle>,
    /// Connections are among them.
    tasks: TaskGroup,
}

impl Scope {
    pub(crate) fn new(runtime: Option<Handle>) -> Self {
        Self::of_process(std::process::id(), runtime)
    }

    pub(crate) fn of_process(process: u32, runtime: Option<Handle>) -> Self {
        Self { process, runtime, tasks: TaskGroup::default() }
    }

    /// Whether something may be begun.
    pub(crate) fn check(&self) -> Result<()> {
        if self.is_forked() {
            return Err(Error::Forked);
        }
        if self.tasks.is_closed() { Err(Error::Closed) } else { Ok(()) }
    }

    /// Whether this process was forked from the one that made it.
    pub(crate) fn is_forked(&self) -> bool {
        self.process != std::process::id()
    }

    /// Whether a task could be begun here and now.
    pub(crate) fn has_runtime(&self) -> bool {
        self.runtime.is_some() || Handle::try_current().is_ok()
    }

    /// Does this on the scope's runtime, whoever polls it, until the scope is closed: from then on it is not polled.
    pub(crate) fn run<T>(&self, work: impl Future<Output = Result<T>>) -> impl Future<Output = Result<T>> {
        // Boxed, as one runs within another, and each would hold the one inside of it twice.
        let mut work = Box::pin(work);
        async move {
            let mut closed = pin!(self.tasks.closed());
            std::future::poll_fn(|context| {
                if let Err(refused) = self.check() {
                    return Poll::Ready(Err(refused));
                }
                let _entered = self.runtime.as_ref().map(Handle::enter);
                if let Poll::Ready(done) = work.as_mut().poll(context) {
                    return Poll::Ready(done);
                }
                closed.as_mut().poll(context).map(|()| Err(Error::Closed))
            })
            .await
        }
    }

    /// A task that ends with the scope, or with what is returned.
    pub(crate) fn spawn<T: Send + 'static>(
        &self,
        name: &'static str,
        work: impl Future<Output = T> + Send + 'static,
    ) -> Task<T> {
        let _entered = self.runtime.as_ref().map(Handle::enter);
        Task(self.tasks.spawn(name, work))
    }

    /// A task that ends with the scope.
    pub(crate) fn spawn_detached(&self, name: &'static str, work: impl Future<Output = ()> + Send + 'static) {
        let _entered = self.runtime.as_ref().map(Handle::enter);
        self.tasks.spawn_detached(name, work);
    }

    /// For what begins tasks of its own, such as connections.
    pub(crate) fn tasks(&self) -> &TaskGroup {
        &self.tasks
    }

    /// Returns when all tasks have ended. Nothing can be begun from now on.
    pub(crate) async fn close(&self) {
        self.tasks.close().await;
    }
}

/// A task that is ended when this is dropped. Await it for its output.
#[derive(Debug)]
pub(crate) struct Task<T>(io::task::Owned<Option<T>>);

impl<T> Task<T> {
    pub(crate) fn is_finished(&self) -> bool {
        self.0.is_finished()
    }
}

impl<T> Future for Task<T> {
    type Output = Result<T>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.0).poll(context).map(|ended| match ended {
            Ok(done) => done.ok_or(Error::Closed),
            Err(ended) => Err(Error::Internal(ended.to_string())),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    fn kind<T: std::fmt::Debug>(done: Result<T>) -> ErrorKind {
        done.expect_err("it was refused").kind()
    }

    #[tokio::test]
    async fn what_waits_ends_when_the_scope_is_closed() {
        let scope = Arc::new(Scope::new(None));
        assert_eq!(scope.run(async { Ok(1) }).await.unwrap(), 1);
        let task = scope.spawn("waits", std::future::pending::<()>());
        scope.spawn_detached("waits", std::future::pending::<()>());
        let waiting = scope.run(std::future::pending::<Result<()>>());
        let closing = async {
            tokio::task::yield_now().await;
            scope.close().await;
        };
        let (waited, ()) = tokio::join!(waiting, closing);
        assert_eq!(kind(waited), ErrorKind::Closed);
        assert_eq!(kind(task.await), ErrorKind::Closed);
        assert_eq!(kind(scope.run(async { Ok(()) }).await), ErrorKind::Closed);
        let begun = Arc::new(AtomicBool::new(false));
        let late = Arc::clone(&begun);
        let task = scope.spawn("late", async move { late.store(true, Ordering::Relaxed) });
        assert_eq!(kind(task.await), ErrorKind::Closed);
        assert!(!begun.load(Ordering::Relaxed), "a task was begun in a scope that is closed");
        scope.close().await;
    }

    #[tokio::test]
    async fn another_process_begins_nothing() {
        let scope = Scope::of_process(std::process::id() + 1, None);
        assert_eq!(kind(scope.run(async { Ok(()) }).await), ErrorKind::Forked);
        scope.close().await;
        assert_eq!(kind(scope.check()), ErrorKind::Forked, "what is told first does not change");
    }
}
