//! A file that gets its name when it is whole.

use crate::call::Call;
use crate::memory::View;
use ::client::{Error, Existing, Result};
use pyo3::prelude::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::sync::Mutex;

/// A file open for writing under a hidden name, until `commit`: who reads the path finds the old bytes or all of the
/// new ones. Dropped without `commit` it is deleted.
#[pyclass(module = "levada._levada", frozen)]
pub(crate) struct Staged {
    path: String,
    /// Empty once it was committed or discarded.
    staged: Arc<Mutex<Option<::client::Staged>>>,
    position: Arc<AtomicU64>,
}

impl Staged {
    pub(crate) fn new(staged: ::client::Staged, path: String) -> Self {
        let position = Arc::new(AtomicU64::new(staged.position()));
        Self { path, staged: Arc::new(Mutex::new(Some(staged))), position }
    }
}

fn closed() -> Error {
    Error::Invalid("the file was closed".into())
}

#[pymethods]
impl Staged {
    /// The name that it will have.
    #[getter]
    fn path(&self) -> &str {
        &self.path
    }

    /// Bytes of the file so far.
    #[getter]
    fn position(&self) -> u64 {
        self.position.load(Ordering::Relaxed)
    }

    /// The next bytes of the file; tells how many.
    fn write(&self, data: &Bound<'_, PyAny>) -> PyResult<Call> {
        let view = View::new(data)?;
        let (staged, position) = (Arc::clone(&self.staged), Arc::clone(&self.position));
        let work = async move {
            let mut staged = staged.lock().await;
            let staged = staged.as_mut().ok_or_else(closed)?;
            let written = staged.write(view.as_slice()).await;
            position.store(staged.position(), Ordering::Relaxed);
            written?;
            Ok(view)
        };
        Ok(Call::new(&self.path, work, |py, view| Ok(view.len().into_pyobject(py)?.into_any().unbind())))
    }

    /// Ends the file and gives it its name: with `overwrite` in the place of a file there, for readers at once.
    #[pyo3(signature = (*, overwrite = false))]
    fn commit(&self, overwrite: bool) -> Call {
        let staged = Arc::clone(&self.staged);
        let existing = if overwrite { Existing::Replaced } else { Existing::Stays };
        Call::done(&self.path, async move {
            let staged = staged.lock().await.take().ok_or_else(closed)?;
            staged.commit(existing).await?;
            Ok(())
        })
    }

    /// Deletes what there is of it. After `commit` or the second time it does nothing.
    fn discard(&self) -> Call {
        let staged = Arc::clone(&self.staged);
        Call::done(&self.path, async move {
            let staged = staged.lock().await.take();
            if let Some(staged) = staged {
                staged.discard().await;
            }
            Ok(()) as Result<()>
        })
    }
}
