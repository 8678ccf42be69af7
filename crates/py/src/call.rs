//! One call of the store, not begun yet: Python waits for it in a thread, or awaits it in an event loop.

use crate::error::raised;
use crate::runtime;
use crate::waiting::Waiting;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use std::pin::Pin;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// What the call ended with, made an object of Python's by whoever has the GIL.
pub(crate) type Answer = Box<dyn FnOnce(Python<'_>) -> PyResult<Py<PyAny>> + Send>;
pub(crate) type Work = Pin<Box<dyn Future<Output = Answer> + Send>>;

/// How often a thread that waits looks for Ctrl-C: soon enough for whoever pressed it.
const SIGNALS_EVERY: Duration = Duration::from_millis(200);

/// A call that was not begun yet: `call.wait()` in a thread, `await call` in an event loop; once. `await` is Python's
/// (`levada/loops.py`): it makes a future, which only code that is not below a frame of ours may do.
#[pyclass(module = "levada._levada", frozen)]
pub(crate) struct Call {
    /// Empty once it was begun.
    work: Mutex<Option<Work>>,
}

impl Call {
    /// `subject`: the path that an error names. `convert` makes an object of the outcome.
    pub(crate) fn new<T: Send + 'static>(
        subject: &str,
        work: impl Future<Output = ::client::Result<T>> + Send + 'static,
        convert: impl FnOnce(Python<'_>, T) -> PyResult<Py<PyAny>> + Send + 'static,
    ) -> Self {
        let subject = subject.to_owned();
        let work = async move {
            let outcome = work.await;
            let answer: Answer = Box::new(move |py| match outcome {
                Ok(value) => convert(py, value),
                Err(error) => Err(raised(py, &error, &subject)),
            });
            answer
        };
        Self { work: Mutex::new(Some(Box::pin(work))) }
    }

    /// A call with nothing to tell but that it was done.
    pub(crate) fn done(subject: &str, work: impl Future<Output = ::client::Result<()>> + Send + 'static) -> Self {
        Self::new(subject, work, |py, ()| Ok(py.None()))
    }

    pub(crate) fn take(&self) -> PyResult<Work> {
        let work = self.work.lock().unwrap_or_else(PoisonError::into_inner).take();
        work.ok_or_else(|| PyRuntimeError::new_err("this call was begun before; make another"))
    }
}

#[pymethods]
impl Call {
    /// Begins it on the threads of the client: `wait` or `await` tells later what became of it, and nobody has to.
    fn start(&self, py: Python<'_>) -> PyResult<()> {
        let runtime = runtime::of_process(py)?;
        let work = self.take()?;
        let _entered = runtime.tokio.enter();
        let task = io::task::spawn("a call from Python", work);
        let outcome = async move {
            task.await.unwrap_or_else(|ended| {
                Box::new(move |_| Err(PyRuntimeError::new_err(format!("the call ended without an answer: {ended}"))))
            })
        };
        *self.work.lock().unwrap_or_else(PoisonError::into_inner) = Some(Box::pin(outcome));
        Ok(())
    }

    /// Does it, and returns when it is done. The GIL is released meanwhile; Ctrl-C ends the call.
    fn wait(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let mut work = self.take()?;
        let runtime = runtime::of_process(py)?;
        let _waiting = Waiting::begin();
        loop {
            let some_time = async { tokio::time::timeout(SIGNALS_EVERY, &mut work).await };
            match py.detach(|| runtime.tokio.block_on(some_time)) {
                Ok(answer) => {
                    let outcome = answer(py);
                    runtime.given_up.release(py);
                    return outcome;
                }
                Err(_elapsed) => {
                    if let Err(interrupted) = py.check_signals() {
                        drop(work);
                        runtime.given_up.release(py);
                        return Err(interrupted);
                    }
                }
            }
        }
    }
}
