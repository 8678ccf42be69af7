//! A file open for reading.

use crate::call::Call;
use crate::memory::{NewBytes, WritableView};
use crate::status::to_dict;
use ::client::{AheadOptions, DataSet, RangeRead, Status};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::sync::RwLock;

/// A file open for reading, with the length that it had then. May be used by many threads and tasks at once.
#[pyclass(module = "levada._levada", frozen)]
pub(crate) struct Reader {
    path: String,
    len: u64,
    status: Option<Status>,
    source: Source,
}

/// How its bytes come.
#[derive(Clone)]
enum Source {
    /// As they are asked for.
    Plain(Arc<Shared>),
    /// By what is fetched ahead.
    Ahead(::client::Ahead),
}

/// Reads at any place need it for reading, and run beside each other; a stream has it alone.
struct Shared {
    reader: RwLock<::client::Reader>,
    /// Where the last read ended. What begins there is taken for a part of a stream: then the datanode sends on without
    /// being asked for each piece.
    last_end: AtomicU64,
}

/// No read has ended yet.
const NOWHERE: u64 = u64::MAX;

impl Reader {
    pub(crate) fn new(reader: ::client::Reader, path: String, status: Option<Status>) -> Self {
        let len = reader.len();
        let shared = Shared { reader: RwLock::new(reader), last_end: AtomicU64::new(NOWHERE) };
        Self { path, len, status, source: Source::Plain(Arc::new(shared)) }
    }

    /// How many of `len` bytes the file has from `offset` on.
    fn there(&self, offset: u64, len: u64) -> usize {
        usize::try_from(len.min(self.len.saturating_sub(offset))).unwrap_or(usize::MAX)
    }
}

impl Source {
    async fn read(&self, offset: u64, dest: &mut [u8]) -> ::client::Result<usize> {
        match self {
            Self::Plain(shared) => shared.read(offset, dest).await,
            Self::Ahead(ahead) => ahead.read_at(offset, dest).await,
        }
    }

    async fn read_ranges(&self, reads: &mut [RangeRead<'_>]) -> ::client::Result<()> {
        match self {
            Self::Plain(shared) => shared.reader.read().await.read_ranges(reads).await,
            Self::Ahead(ahead) => ahead.read_ranges(reads).await,
        }
    }
}

impl Shared {
    async fn read(&self, offset: u64, dest: &mut [u8]) -> ::client::Result<usize> {
        let goes_on = self.last_end.swap(offset + dest.len() as u64, Ordering::Relaxed) == offset;
        if goes_on && let Ok(mut reader) = self.reader.try_write() {
            reader.seek(offset);
            return reader.read(dest).await;
        }
        self.reader.read().await.read_at(offset, dest).await
    }
}

#[pymethods]
impl Reader {
    #[getter]
    fn path(&self) -> &str {
        &self.path
    }

    /// Bytes of the file, as of its opening.
    #[getter]
    fn size(&self) -> u64 {
        self.len
    }

    /// What was known of the file when it was opened, if `open` was to ask for it.
    #[getter]
    fn status<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyDict>>> {
        let Some(status) = &self.status else { return Ok(None) };
        let dict = to_dict(py, &self.path, status)?;
        // Of a file that is being written the metadata server does not know how far.
        dict.set_item("size", self.len)?;
        Ok(Some(dict))
    }

    /// The same file, whose next reads are fetched while the program works on the last ones. `profile`: what earlier
    /// runs read of the data set of this name is fetched at once, and what this one reads is kept; `auto`: of the files
    /// of its directory; `None`: neither.
    #[pyo3(signature = (profile))]
    fn ahead(&self, profile: Option<String>) -> Call {
        let options = ahead_options(profile);
        let (source, path, len, status) = (self.source.clone(), self.path.clone(), self.len, self.status.clone());
        let work = async move {
            match source {
                Source::Plain(shared) => shared.reader.read().await.ahead(&options).await,
                Source::Ahead(ahead) => Ok(ahead),
            }
        };
        Call::new(&self.path, work, move |py, ahead| {
            Ok(Py::new(py, Self { path, len, status, source: Source::Ahead(ahead) })?.into_any())
        })
    }

    /// Keeps what was learned of this file so far.
    fn save(&self) -> Call {
        let source = self.source.clone();
        Call::done(&self.path, async move {
            if let Source::Ahead(ahead) = source {
                ahead.save().await;
            }
            Ok(())
        })
    }

    /// Tells the store.
    fn share(&self) -> Call {
        let source = self.source.clone();
        Call::done(&self.path, async move {
            if let Source::Ahead(ahead) = source {
                ahead.share().await;
            }
            Ok(())
        })
    }

    /// How well reading ahead goes: a dictionary of numbers. `None`: nothing is read ahead.
    #[getter]
    fn statistics<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyDict>>> {
        let Source::Ahead(ahead) = &self.source else { return Ok(None) };
        let found = py.detach(|| ahead.statistics());
        let dict = PyDict::new(py);
        let numbers = [
            ("reads", found.read_count),
            ("read_bytes", found.read_len),
            ("hits", found.hit_count),
            ("waits", found.wait_count()),
            ("asked_bytes", found.asked_len),
            ("used_bytes", found.used_len),
            ("wasted_bytes", found.wasted_len),
            ("turn_arounds", found.turn_around_count),
            ("fetches", found.fetch_count),
            ("ranges", found.range_count),
            ("failures", found.failure_count),
            ("memory_bytes", found.memory_len),
            ("memory_bytes_max", found.memory_len_max),
        ];
        numbers.into_iter().try_for_each(|(name, number)| dict.set_item(name, number))?;
        dict.set_item("has_layout", found.has_layout)?;
        dict.set_item("has_profile", found.has_profile)?;
        Ok(Some(dict))
    }

    /// `bytes` from `offset` on; fewer than `length` only at the end of the file.
    fn read_at(&self, py: Python<'_>, offset: u64, length: u64) -> PyResult<Call> {
        let mut bytes = NewBytes::new(py, self.there(offset, length))?;
        let source = self.source.clone();
        let work = async move {
            let wanted = bytes.as_mut().len();
            if wanted > 0 {
                let got = source.read(offset, bytes.as_mut()).await?;
                assert_eq!(got, wanted, "a read inside of a file was short");
            }
            Ok(bytes)
        };
        Ok(Call::new(&self.path, work, |_, bytes| Ok(bytes.into_object())))
    }

    /// Fills a buffer with what is at `offset`, and tells how many bytes that were; fewer only at the end of the file.
    fn readinto_at(&self, offset: u64, buffer: &Bound<'_, PyAny>) -> PyResult<Call> {
        let mut view = WritableView::new(buffer)?;
        let len = self.there(offset, view.len() as u64);
        let source = self.source.clone();
        let work = async move {
            let got = if len > 0 { source.read(offset, &mut view.as_mut()[..len]).await? } else { 0 };
            Ok((got, view))
        };
        Ok(Call::new(&self.path, work, |py, (got, _view)| Ok(got.into_pyobject(py)?.into_any().unbind())))
    }

    /// A list of `bytes` for a list of `(offset, length)`: one request to each datanode. A range that reaches beyond
    /// the end of the file is cut there.
    fn read_ranges(&self, py: Python<'_>, ranges: Vec<(u64, u64)>) -> PyResult<Call> {
        let all = ranges.iter().map(|(offset, len)| Ok((*offset, NewBytes::new(py, self.there(*offset, *len))?)));
        let mut all = all.collect::<PyResult<Vec<_>>>()?;
        let source = self.source.clone();
        let work = async move {
            let filled = all.iter_mut().map(|(offset, bytes)| RangeRead { offset: *offset, dest: bytes.as_mut() });
            let mut reads: Vec<_> = filled.filter(|read| !read.dest.is_empty()).collect();
            source.read_ranges(&mut reads).await?;
            Ok(all)
        };
        Ok(Call::new(&self.path, work, |py, all| {
            let all = all.into_iter().map(|(_, bytes)| bytes.into_object());
            Ok(PyList::new(py, all.collect::<Vec<_>>())?.into_any().unbind())
        }))
    }

    /// As `read_ranges`, into buffers of the caller's: a list of `(offset, buffer)`. All must lie in the file.
    fn readinto_ranges(&self, ranges: Vec<(u64, Bound<'_, PyAny>)>) -> PyResult<Call> {
        let all = ranges.iter().map(|(offset, buffer)| Ok((*offset, WritableView::new(buffer)?)));
        let mut all = all.collect::<PyResult<Vec<(u64, WritableView)>>>()?;
        let is_within = |(offset, view): &(u64, WritableView)| self.there(*offset, view.len() as u64) == view.len();
        if !all.iter().all(is_within) {
            return Err(PyValueError::new_err("a range reaches beyond the end of the file"));
        }
        let source = self.source.clone();
        let work = async move {
            let filled = all.iter_mut().map(|(offset, view)| RangeRead { offset: *offset, dest: view.as_mut() });
            let mut reads: Vec<_> = filled.filter(|read| !read.dest.is_empty()).collect();
            source.read_ranges(&mut reads).await?;
            Ok(all)
        };
        Ok(Call::new(&self.path, work, |py, _all| Ok(py.None())))
    }
}

/// As programs name profiles.
pub(crate) fn ahead_options(profile: Option<String>) -> AheadOptions {
    let data_set = match profile {
        None => DataSet::Unknown,
        Some(name) if name == "auto" => DataSet::OfPath,
        Some(name) => DataSet::Named(name),
    };
    AheadOptions { data_set, ..AheadOptions::default() }
}
