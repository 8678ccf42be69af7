//! Tells event loops of Python what calls ended with.
//!
//! One thread of its own does it, so that the threads which drive sockets never wait for the GIL: a program that keeps
//! it for milliseconds would otherwise hold up all transfers.

use crate::call::Answer;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::PyCFunction;
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, Sender, channel};

/// How to reach the thread.
#[derive(Clone, Debug)]
pub(crate) struct Completions(Sender<Completion>);

/// Where an answer goes.
struct Target {
    event_loop: Py<PyAny>,
    future: Py<PyAny>,
}

struct Completion {
    target: Target,
    answer: Answer,
}

/// A future of an event loop that will get an answer, even if the work for it is given up.
pub(crate) struct Promise {
    completions: Completions,
    /// Empty once it was kept.
    target: Option<Target>,
}

impl Promise {
    pub(crate) fn new(completions: &Completions, event_loop: Py<PyAny>, future: Py<PyAny>) -> Self {
        Self { completions: completions.clone(), target: Some(Target { event_loop, future }) }
    }

    pub(crate) fn keep(mut self, answer: Answer) {
        self.send(answer);
    }

    fn send(&mut self, answer: Answer) {
        if let Some(target) = self.target.take() {
            // The thread lasts as long as the process.
            let _sent = self.completions.0.send(Completion { target, answer });
        }
    }
}

/// After a panic, or when the future was cancelled: that one takes no answer any more.
impl Drop for Promise {
    fn drop(&mut self) {
        self.send(Box::new(|_| Err(PyRuntimeError::new_err("the call ended without an answer; see the log"))));
    }
}

pub(crate) fn start() -> std::io::Result<Completions> {
    let (sender, receiver) = channel();
    io::task::thread("levada completions", move || run(&receiver))?;
    Ok(Completions(sender))
}

/// All that came together is told at once: an event loop is woken once for each such group.
fn run(receiver: &Receiver<Completion>) {
    while let Ok(first) = receiver.recv() {
        let mut group = vec![first];
        group.extend(receiver.try_iter());
        // `None`: Python is ending, and nobody waits any more.
        Python::try_attach(|py| tell(py, group));
    }
}

fn tell(py: Python<'_>, mut group: Vec<Completion>) {
    while let Some(last) = group.last() {
        let event_loop = last.target.event_loop.clone_ref(py);
        let (of_loop, others) = group.into_iter().partition(|one| one.target.event_loop.is(&event_loop));
        group = others;
        if let Err(error) = tell_loop(py, &event_loop, of_loop) {
            // It was closed, and with it those who waited are gone.
            let _ignored = error;
        }
    }
}

fn tell_loop(py: Python<'_>, event_loop: &Py<PyAny>, completions: Vec<Completion>) -> PyResult<()> {
    let completions = Mutex::new(completions);
    let settle = PyCFunction::new_closure(py, None, None, move |args, _| -> PyResult<()> {
        let py = args.py();
        let completions = completions.lock().map(|mut all| std::mem::take(&mut *all)).unwrap_or_default();
        completions.into_iter().try_for_each(|completion| settle(py, completion))
    })?;
    event_loop.call_method1(py, "call_soon_threadsafe", (settle,))?;
    Ok(())
}

/// In the thread of the event loop.
fn settle(py: Python<'_>, Completion { target, answer }: Completion) -> PyResult<()> {
    let future = target.future.bind(py);
    // Cancelled: what came of the call is dropped.
    if future.call_method0("done")?.is_truthy()? {
        return Ok(());
    }
    match answer(py) {
        Ok(value) => future.call_method1("set_result", (value,))?,
        Err(error) => future.call_method1("set_exception", (error.into_value(py),))?,
    };
    Ok(())
}
