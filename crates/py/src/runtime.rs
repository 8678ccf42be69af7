//! The threads on which the clients of this process work: made when they are first needed, and kept to its end.

use crate::buffer::GivenUp;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use std::sync::{Mutex, PoisonError};

/// Readers and writers of several files at a time keep no more than this many processors busy with checksums. A guess;
/// who waits in a thread of its own (`Call.wait`) works in that thread.
const THREAD_COUNT_MAX: usize = 4;

#[derive(Debug)]
pub(crate) struct Runtime {
    pub(crate) tokio: tokio::runtime::Runtime,
    pub(crate) given_up: GivenUp,
}

/// Which process made it.
struct Current {
    process: u32,
    runtime: &'static Runtime,
}

static CURRENT: Mutex<Option<Current>> = Mutex::new(None);

/// This process' runtime. A fork leaves none of its threads, so a process that was forked makes its own.
///
/// It is never dropped: Python ends while threads may still run, and nothing waits for them. The lock is taken with the
/// GIL only, as `os.fork` is called with it: so no child finds it locked.
pub(crate) fn of_process(_py: Python<'_>) -> PyResult<&'static Runtime> {
    let mut current = CURRENT.lock().unwrap_or_else(PoisonError::into_inner);
    let process = std::process::id();
    if let Some(current) = current.as_ref().filter(|current| current.process == process) {
        return Ok(current.runtime);
    }
    let runtime = Box::leak(Box::new(Runtime::new().map_err(|error| {
        PyRuntimeError::new_err(format!("the threads of the client could not be started: {error}"))
    })?));
    *current = Some(Current { process, runtime });
    Ok(runtime)
}

impl Runtime {
    fn new() -> std::io::Result<Self> {
        let processor_count = std::thread::available_parallelism().map_or(1, |count| count.get());
        let tokio = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(processor_count.min(THREAD_COUNT_MAX))
            .thread_name("levada")
            .enable_all()
            .build()?;
        Ok(Self { tokio, given_up: GivenUp::default() })
    }
}
