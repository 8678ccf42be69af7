//! Where the calls that an event loop began leave what they ended with.
//!
//! ```text
//!   a thread of the client ── push ──▶ [ ended, ended, … ] ── take ──▶ the thread of the event loop,
//!                                         │                            which has the GIL and settles futures
//!                                         └── eventfd: readable ──▶ the loop's selector
//! ```
//!
//! Promise: no thread of the client ever runs Python or waits for the GIL. Python kills a thread that wants the GIL
//! while Python ends, and with frames of Rust on its stack that is the end of the process (CPython up to 3.13). And a
//! program that keeps the GIL for milliseconds would hold up all transfers. All that ended meanwhile is taken at once.

use crate::call::{Answer, Call};
use crate::runtime;
use pyo3::exceptions::{PyOSError, PyRuntimeError};
use pyo3::prelude::*;
use rustix::event::{EventfdFlags, eventfd};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// The mailbox of one event loop. The loop has to watch its descriptor and call `take` when that is readable.
#[pyclass(module = "levada._levada", frozen)]
pub(crate) struct Mailbox {
    shared: Arc<Shared>,
    next_number: AtomicU64,
}

struct Shared {
    /// Not taken yet: no more than the loop has begun.
    ended: Mutex<Vec<Ended>>,
    /// Readable since `ended` got its first. Open as long as a call may still write to it.
    descriptor: OwnedFd,
}

struct Ended {
    number: u64,
    answer: Answer,
}

impl Shared {
    fn push(&self, number: u64, answer: Answer) {
        let mut ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        let is_first = ended.is_empty();
        ended.push(Ended { number, answer });
        drop(ended);
        if is_first {
            // Fails only if 2⁶⁴ were written before: then it is readable anyway.
            let _written = rustix::io::write(&self.descriptor, &1_u64.to_ne_bytes());
        }
    }

    fn take(&self) -> Vec<Ended> {
        // Before the list is taken: whoever finds it empty after that writes again.
        let _nothing_written = rustix::io::read(&self.descriptor, &mut [0; 8]);
        std::mem::take(&mut *self.ended.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// A place for one answer, which comes even if the work for it is given up.
struct Place {
    /// Empty once the answer is there.
    shared: Option<Arc<Shared>>,
    number: u64,
}

impl Place {
    fn put(mut self, answer: Answer) {
        self.fill(answer);
    }

    fn fill(&mut self, answer: Answer) {
        if let Some(shared) = self.shared.take() {
            shared.push(self.number, answer);
        }
    }
}

/// After a panic, or when the call was aborted: then nobody reads it.
impl Drop for Place {
    fn drop(&mut self) {
        self.fill(Box::new(|_| Err(PyRuntimeError::new_err("the call ended without an answer; see the log"))));
    }
}

/// A call that is going on, or has ended.
#[pyclass(module = "levada._levada", frozen)]
pub(crate) struct Begun {
    /// By which the mailbox names it, once.
    #[pyo3(get)]
    number: u64,
    task: io::task::Task<()>,
}

#[pymethods]
impl Begun {
    /// Nobody wants to know what it ends with any more. Does nothing if it has ended.
    fn abort(&self) {
        self.task.abort();
    }
}

/// The number of a call, what it gave, and the exception that it ended with: one of these two.
type Settled = (u64, Option<Py<PyAny>>, Option<Py<PyAny>>);

#[pymethods]
impl Mailbox {
    #[new]
    fn new() -> PyResult<Self> {
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        let descriptor =
            eventfd(0, flags).map_err(|error| PyOSError::new_err((error.raw_os_error(), error.to_string())))?;
        let shared = Arc::new(Shared { ended: Mutex::default(), descriptor });
        Ok(Self { shared, next_number: AtomicU64::new(0) })
    }

    fn fileno(&self) -> RawFd {
        self.shared.descriptor.as_raw_fd()
    }

    /// Begins a call on the threads of the client.
    fn begin(&self, py: Python<'_>, call: &Call) -> PyResult<Begun> {
        let runtime = runtime::of_process(py)?;
        let work = call.take()?;
        let number = self.next_number.fetch_add(1, Ordering::Relaxed);
        let place = Place { shared: Some(Arc::clone(&self.shared)), number };
        let _entered = runtime.tokio.enter();
        let task = io::task::spawn("a call from Python", async move { place.put(work.await) });
        Ok(Begun { number, task })
    }

    /// All that has ended since the last time. It settles nothing itself: that would run Python below this frame.
    fn take(&self, py: Python<'_>) -> PyResult<Vec<Settled>> {
        let ended = self.shared.take();
        let settled = ended.into_iter().map(|Ended { number, answer }| match answer(py) {
            Ok(value) => (number, Some(value), None),
            Err(error) => (number, None, Some(error.into_value(py).into_any())),
        });
        let settled = settled.collect();
        runtime::of_process(py)?.given_up.release(py);
        Ok(settled)
    }
}
