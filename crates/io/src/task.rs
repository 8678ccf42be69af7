//! Who runs when: named tasks and threads whose panics are reported and end nothing but themselves.

use crate::simulated;
use std::any::Any;
use std::fmt;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// A task ended without an output: it panicked, or was aborted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended {
    pub panicked: bool,
}

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.panicked { "the task panicked" } else { "the task was aborted" })
    }
}

/// A task. Dropped, it lets the task run on; awaited, it gives its output.
#[derive(Debug)]
pub struct Task<T>(Handle<T>);

#[derive(Debug)]
enum Handle<T> {
    Tokio(JoinHandle<T>),
    Simulated { task: u64, output: oneshot::Receiver<T> },
}

/// Starts a task on the current tokio runtime, or on the [`Simulator`](simulated::Simulator) of this thread. A panic in
/// it is logged with `name` and shows up in the handle, and the node goes on; in a simulation it goes to the simulator.
/// Dropping the handle lets the task run on.
pub fn spawn<F>(name: &'static str, future: F) -> Task<F::Output>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    spawn_boxed(name, Box::pin(future))
}

/// Once for each kind of output, and not for each future: tokio's code for a task takes kilobytes of the program.
#[expect(clippy::disallowed_methods, reason = "the one place that starts tasks")]
fn spawn_boxed<T: Send + 'static>(name: &'static str, future: Boxed<T>) -> Task<T> {
    let Some(simulator) = simulated::simulator() else {
        return Task(Handle::Tokio(tokio::spawn(Reporting { name, future })));
    };
    let (done, output) = oneshot::channel();
    let simulated = Box::pin(async move {
        let _nobody_may_wait = done.send(future.await);
    });
    Task(Handle::Simulated { task: simulator.spawn(simulated), output })
}

impl<T> Task<T> {
    pub fn is_finished(&self) -> bool {
        match &self.0 {
            Handle::Tokio(handle) => handle.is_finished(),
            Handle::Simulated { task, .. } => {
                simulated::simulator().is_none_or(|simulator| !simulator.is_running(*task))
            }
        }
    }

    pub fn abort(&self) {
        match &self.0 {
            Handle::Tokio(handle) => handle.abort(),
            Handle::Simulated { task, .. } => {
                if let Some(simulator) = simulated::simulator() {
                    simulator.abort(*task);
                }
            }
        }
    }
}

impl<T> Future for Task<T> {
    type Output = Result<T, Ended>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match &mut self.0 {
            Handle::Tokio(handle) => Pin::new(handle)
                .poll(context)
                .map(|output| output.map_err(|error| Ended { panicked: error.is_panic() })),
            Handle::Simulated { output, .. } => {
                Pin::new(output).poll(context).map(|output| output.map_err(|_| Ended { panicked: false }))
            }
        }
    }
}

/// As [`spawn`], for what often has nothing to wait for: it is begun here, at once, and only what waits becomes a task.
/// A task costs some microseconds, and often wakes another thread that finds nothing to do.
pub fn begin<F: Future<Output = ()> + Send + 'static>(name: &'static str, future: F) {
    begin_boxed(name, Box::pin(future));
}

#[expect(clippy::disallowed_methods, reason = "the one place that starts tasks")]
fn begin_boxed(name: &'static str, future: Boxed<()>) {
    if simulated::is_simulated() {
        drop(spawn_boxed(name, future));
        return;
    }
    let mut begun = Reporting { name, future };
    // Nobody need be woken: a task looks at what it is given at least once.
    let mut nobody = Context::from_waker(Waker::noop());
    if let Ok(Poll::Pending) = catch_unwind(AssertUnwindSafe(|| Pin::new(&mut begun).poll(&mut nobody))) {
        tokio::spawn(begun);
    }
}

/// As [`spawn`], but the task ends when the returned guard is dropped: for what must not outlive its owner.
pub fn spawn_owned<F>(name: &'static str, future: F) -> Owned<F::Output>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    Owned(spawn(name, future))
}

/// A task that is aborted when this is dropped. Await it for its output.
#[derive(Debug)]
pub struct Owned<T>(Task<T>);

impl<T> Owned<T> {
    pub fn is_finished(&self) -> bool {
        self.0.is_finished()
    }

    pub fn abort(&self) {
        self.0.abort();
    }
}

impl<T> Future for Owned<T> {
    type Output = Result<T, Ended>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.0).poll(context)
    }
}

impl<T> Drop for Owned<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Starts a thread. A panic in it is logged with `name` and shows up when the thread is joined; the node goes on.
/// `Err`: the machine has no thread left.
pub fn thread<T: Send + 'static>(
    name: &str,
    run: impl FnOnce() -> T + Send + 'static,
) -> std::io::Result<std::thread::JoinHandle<T>> {
    let owned = name.to_owned();
    std::thread::Builder::new().name(name.to_owned()).spawn(move || match catch_unwind(AssertUnwindSafe(run)) {
        Ok(output) => output,
        Err(panic) => {
            report(&owned, &*panic);
            resume_unwind(panic)
        }
    })
}

/// Waits for the end of a thread, as long as it may take at most. False if it goes on: then it is left to itself.
pub fn join_within(thread: std::thread::JoinHandle<()>, limit: std::time::Duration) -> bool {
    let (mut waited, mut pause) = (std::time::Duration::ZERO, std::time::Duration::from_micros(100));
    while !thread.is_finished() {
        if waited >= limit {
            return false;
        }
        sleep(pause);
        waited += pause;
        pause = (pause * 2).min(std::time::Duration::from_millis(10));
    }
    let _its_panic_was_reported = thread.join();
    true
}

/// Rests on a thread of one's own. Tasks use the runtime's sleep.
#[expect(clippy::disallowed_methods, reason = "the one place where a thread rests")]
pub fn sleep(pause: std::time::Duration) {
    std::thread::sleep(pause);
}

/// Runs what may wait for a disk on the runtime's blocking threads. A panic in it goes on in the caller, as if it had
/// been called in place. Once the runtime shuts down this never returns, as the caller is about to be dropped.
/// In a simulation it is done in place.
pub async fn blocking<T: Send + 'static>(run: impl FnOnce() -> T + Send + 'static) -> T {
    if simulated::is_simulated() {
        return run();
    }
    let output = blocking_boxed(Box::new(|| Box::new(run()))).await;
    *output.downcast().expect("what `run` returned")
}

/// Once for all: as with [`spawn_boxed`], and the two boxes cost nothing beside another thread.
#[expect(clippy::disallowed_methods, reason = "the one place that starts blocking work")]
async fn blocking_boxed(run: Box<dyn FnOnce() -> Box<dyn Any + Send> + Send>) -> Box<dyn Any + Send> {
    match tokio::task::spawn_blocking(run).await {
        Ok(output) => output,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => resume_unwind(panic),
            Err(_cancelled) => std::future::pending().await,
        },
    }
}

type Boxed<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// A future whose panic is logged before tokio keeps it in the handle.
struct Reporting<T> {
    name: &'static str,
    future: Boxed<T>,
}

impl<T> Future for Reporting<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let future = &mut self.future;
        match catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(context))) {
            Ok(poll) => poll,
            Err(panic) => {
                report(self.name, &*panic);
                resume_unwind(panic)
            }
        }
    }
}

/// Runs `job` here. A panic in it is logged with `name` and ends nothing else.
pub(crate) fn reported(name: &str, job: impl FnOnce()) {
    if let Err(panic) = catch_unwind(AssertUnwindSafe(job)) {
        report(name, &*panic);
    }
}

fn report(name: &str, panic: &(dyn Any + Send)) {
    tracing::error!(task = name, reason = panic_text(panic), "a task panicked; the node goes on without it");
}

/// What a panic said.
pub fn panic_text(panic: &(dyn Any + Send)) -> &str {
    panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("(no text)")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_panic_ends_its_task_and_nothing_else() {
        let bad = spawn("bad", async { panic!("on purpose") });
        let good = spawn("good", async { 7 });
        assert_eq!(bad.await, Err::<(), _>(Ended { panicked: true }));
        assert_eq!(good.await, Ok(7));
        let task = spawn("waits", std::future::pending::<()>());
        assert!(!task.is_finished());
        task.abort();
        assert_eq!(task.await, Err(Ended { panicked: false }));
        let thread = thread("bad thread", || panic!("on purpose {}", 1)).unwrap();
        assert_eq!(panic_text(&*thread.join().unwrap_err()), "on purpose 1");
    }

    #[tokio::test]
    async fn blocking_work_panics_in_its_caller() {
        assert_eq!(blocking(|| 3).await, 3);
        let outer = spawn("caller", async { blocking(|| panic!("on purpose")).await });
        assert_eq!(outer.await, Err::<(), _>(Ended { panicked: true }));
    }

    #[tokio::test]
    async fn an_owned_task_ends_with_its_owner() {
        let (sender, mut receiver) = tokio::sync::mpsc::channel::<()>(1);
        let task = spawn_owned("waits for ever", async move {
            let _held = sender;
            std::future::pending::<()>().await;
        });
        drop(task);
        assert_eq!(receiver.recv().await, None);
    }
}
