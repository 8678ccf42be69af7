//! A file open for writing.

use crate::call::Call;
use crate::memory::View;
use ::client::{Error, Result};
use pyo3::prelude::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::sync::Mutex;

/// A file open for writing. Dropped without `close` it stays open at the server until its lease runs out.
#[pyclass(module = "levada._levada", frozen)]
pub(crate) struct Writer {
    path: String,
    /// Empty once it was closed.
    writer: Arc<Mutex<Option<::client::Writer>>>,
    position: Arc<AtomicU64>,
}

impl Writer {
    pub(crate) fn new(writer: ::client::Writer, path: String) -> Self {
        let position = Arc::new(AtomicU64::new(writer.position()));
        Self { path, writer: Arc::new(Mutex::new(Some(writer))), position }
    }
}

fn open(writer: &mut Option<::client::Writer>) -> Result<&mut ::client::Writer> {
    writer.as_mut().ok_or_else(|| Error::Invalid("the file was closed".into()))
}

#[pymethods]
impl Writer {
    #[getter]
    fn path(&self) -> &str {
        &self.path
    }

    /// Bytes of the file so far.
    #[getter]
    fn position(&self) -> u64 {
        self.position.load(Ordering::Relaxed)
    }

    /// The next bytes of the file; tells how many. They are sent when a packet is full.
    fn write(&self, data: &Bound<'_, PyAny>) -> PyResult<Call> {
        let view = View::new(data)?;
        let (writer, position) = (Arc::clone(&self.writer), Arc::clone(&self.position));
        let work = async move {
            let mut writer = writer.lock().await;
            let writer = open(&mut writer)?;
            let written = writer.write(view.as_slice()).await;
            position.store(writer.position(), Ordering::Relaxed);
            written?;
            Ok(view)
        };
        Ok(Call::new(&self.path, work, |py, view| Ok(view.len().into_pyobject(py)?.into_any().unbind())))
    }

    /// When it is done, new readers see all bytes so far.
    fn flush(&self) -> Call {
        let writer = Arc::clone(&self.writer);
        Call::done(&self.path, async move { open(&mut *writer.lock().await)?.flush().await })
    }

    /// As `flush`, and the bytes are on disk.
    fn sync(&self) -> Call {
        let writer = Arc::clone(&self.writer);
        Call::done(&self.path, async move { open(&mut *writer.lock().await)?.sync().await })
    }

    /// When it is done, the file is complete. The second time it does nothing.
    fn close(&self) -> Call {
        let writer = Arc::clone(&self.writer);
        Call::done(&self.path, async move {
            let taken = writer.lock().await.take();
            match taken {
                Some(writer) => writer.close().await,
                None => Ok(()),
            }
        })
    }

    /// Gives the file up: what was not flushed is lost, and it stays open at the server until its lease runs out, or
    /// until it is deleted.
    fn abandon(&self) -> Call {
        let writer = Arc::clone(&self.writer);
        Call::done(&self.path, async move {
            drop(writer.lock().await.take());
            Ok(())
        })
    }
}
