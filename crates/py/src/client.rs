//! One user of one store.

use crate::call::Call;
use crate::error::raised;
use crate::reader::{Reader, ahead_options};
use crate::runtime;
use crate::staged::Staged;
use crate::status::{entry_path, millis, to_dict};
use crate::writer::Writer;
use ::client::{Acting, Create, Options, Store, Url};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList};
use std::time::Duration;

/// A store as one user sees it. Paths are absolute. No connection is made before the first call.
#[pyclass(module = "levada._levada", frozen)]
pub(crate) struct Client {
    client: ::client::Client,
}

#[pymethods]
impl Client {
    /// `url`: `hdfs://host:port`, several `host:port` with commas, or the name of a nameservice. `gateway`: the
    /// `host:port` through which its servers are reached. `round_trip`: how far away they are in seconds, in place of
    /// what is measured. `local_reads`: by descriptors, where a datanode is on this machine.
    #[new]
    #[pyo3(signature = (url, user, *, gateway = None, round_trip = None, local_reads = true))]
    fn new(
        py: Python<'_>,
        url: &str,
        user: &str,
        gateway: Option<String>,
        round_trip: Option<f64>,
        local_reads: bool,
    ) -> PyResult<Self> {
        let round_trip = round_trip.map(Duration::try_from_secs_f64).transpose();
        let round_trip = round_trip.map_err(|error| PyValueError::new_err(error.to_string()))?;
        let url = Url::parse(url).map_err(|error| raised(py, &error, url))?;
        let runtime = Some(runtime::of_process(py)?.tokio.handle().clone());
        // Looks for tickets and tokens on the disk.
        let options = Options { runtime, gateway, round_trip, local_reads, ..Options::default() };
        let store = py.detach(|| Store::new(&url, options));
        Ok(Self { client: store.client(user) })
    }

    /// `host:port`, or several.
    #[getter]
    fn authority(&self) -> &str {
        &self.client.url().authority
    }

    #[getter]
    fn user(&self) -> &str {
        self.client.user()
    }

    /// How long a round trip to the nearest of its servers takes, in seconds. 0.0: none was reached yet.
    #[getter]
    fn round_trip(&self) -> f64 {
        self.client.store().round_trip().as_secs_f64()
    }

    /// Ends all connections and calls. What is still open for writing stays so until its lease runs out.
    fn close(&self) -> Call {
        let store = self.client.store().clone();
        Call::done("", async move {
            store.close().await;
            Ok(())
        })
    }

    // ── names ──

    /// What is known of a path: a dictionary.
    fn status(&self, path: String) -> Call {
        let (client, subject) = (self.client.clone(), path.clone());
        Call::new(&path, async move { client.existing(&subject).await }, {
            let path = path.clone();
            move |py, status| Ok(to_dict(py, &path, &status)?.into_any().unbind())
        })
    }

    /// What a directory holds: a list of dictionaries. A file lists itself.
    fn list(&self, path: String) -> Call {
        let (client, subject) = (self.client.clone(), path.clone());
        let work = async move { client.list(&subject).await?.collect().await };
        Call::new(&path.clone(), work, move |py, entries| {
            let entries = entries.iter().map(|entry| to_dict(py, &entry_path(&path, &entry.name), entry));
            let entries = entries.collect::<PyResult<Vec<Bound<'_, PyDict>>>>()?;
            Ok(PyList::new(py, entries)?.into_any().unbind())
        })
    }

    /// Makes a directory. With `parents`, missing ones are made too, and one that is there is no error.
    #[pyo3(signature = (path, *, parents = false, mode = 0o755))]
    fn mkdir(&self, path: String, parents: bool, mode: u16) -> Call {
        let client = self.client.clone();
        Call::done(&path.clone(), async move { client.mkdirs(&path, mode, parents).await })
    }

    /// False if there was nothing to delete.
    #[pyo3(signature = (path, *, recursive = false))]
    fn delete(&self, path: String, recursive: bool) -> Call {
        let (client, subject) = (self.client.clone(), path.clone());
        Call::new(&subject, async move { client.delete(&path, recursive).await }, |py, deleted| {
            Ok(deleted.into_pyobject(py)?.to_owned().into_any().unbind())
        })
    }

    /// `to` is the new path itself. With `overwrite` a file there is replaced, for readers at once.
    #[pyo3(signature = (path, to, *, overwrite = false))]
    fn rename(&self, path: String, to: String, overwrite: bool) -> Call {
        let client = self.client.clone();
        Call::done(&path.clone(), async move { client.rename(&path, &to, overwrite).await })
    }

    /// Seconds since 1970; `None` leaves a time as it is.
    #[pyo3(signature = (path, *, modified = None, accessed = None))]
    fn set_times(&self, path: String, modified: Option<f64>, accessed: Option<f64>) -> Call {
        let client = self.client.clone();
        Call::done(
            &path.clone(),
            async move { client.set_times(&path, modified.map(millis), accessed.map(millis)).await },
        )
    }

    fn set_permission(&self, path: String, mode: u16) -> Call {
        let client = self.client.clone();
        Call::done(&path.clone(), async move { client.set_permission(&path, mode).await })
    }

    #[pyo3(signature = (path, *, owner = None, group = None))]
    fn set_owner(&self, path: String, owner: Option<String>, group: Option<String>) -> Call {
        let client = self.client.clone();
        Call::done(&path.clone(), async move { client.set_owner(&path, owner.as_deref(), group.as_deref()).await })
    }

    /// The checksum of a whole file as its datanodes have it stored: its algorithm, and its bytes.
    fn checksum(&self, path: String) -> Call {
        let (client, subject) = (self.client.clone(), path.clone());
        Call::new(&subject, async move { client.checksum(&path).await }, |py, checksum| {
            let bytes = PyBytes::new(py, &checksum.bytes);
            Ok((checksum.algorithm, bytes).into_pyobject(py)?.into_any().unbind())
        })
    }

    // ── files ──

    /// Opens a file for reading: one call of the metadata server, and with `status` a second one at the same time.
    #[pyo3(signature = (path, *, status = false))]
    fn open(&self, path: String, status: bool) -> Call {
        let (client, subject) = (self.client.clone(), path.clone());
        let work = async move {
            let asked = async { if status { client.existing(&subject).await.map(Some) } else { Ok(None) } };
            let (reader, status) = tokio::join!(client.open(&subject), asked);
            // If both fail, what became of the opening.
            Ok((reader?, status?))
        };
        Call::new(&path.clone(), work, move |py, (reader, status)| {
            Ok(Py::new(py, Reader::new(reader, path, status))?.into_any())
        })
    }

    /// Says that a file will be opened and read ahead with this profile: connections that earlier runs used are opened
    /// meanwhile. Waits for nothing.
    #[pyo3(signature = (path, profile))]
    fn prepare(&self, py: Python<'_>, path: &str, profile: Option<String>) {
        py.detach(|| self.client.prepare(path, &ahead_options(profile)));
    }

    /// Makes a file. Whatever is in the way of a small one is told when it is closed.
    #[pyo3(signature = (path, *, overwrite = false, replication = None, block_size = None, size = None))]
    fn create(
        &self,
        path: String,
        overwrite: bool,
        replication: Option<u16>,
        block_size: Option<u64>,
        size: Option<u64>,
    ) -> Call {
        let (client, subject) = (self.client.clone(), path.clone());
        let create = Create { overwrite, replication, block_len: block_size, len: size, ..Create::default() };
        Call::new(&path.clone(), async move { client.create(&subject, &create).await }, move |py, writer| {
            Ok(Py::new(py, Writer::new(writer, path))?.into_any())
        })
    }

    /// Makes a file that gets its name when it is committed.
    #[pyo3(signature = (path, *, replication = None, block_size = None, size = None))]
    fn stage(&self, path: String, replication: Option<u16>, block_size: Option<u64>, size: Option<u64>) -> Call {
        let (client, subject) = (self.client.clone(), path.clone());
        let create = Create { replication, block_len: block_size, len: size, ..Create::default() };
        Call::new(&path.clone(), async move { client.stage(&subject, &create).await }, move |py, staged| {
            Ok(Py::new(py, Staged::new(staged, path))?.into_any())
        })
    }

    /// Opens a file to write on at its end.
    fn append(&self, path: String) -> Call {
        let (client, subject) = (self.client.clone(), path.clone());
        Call::new(&path.clone(), async move { client.append(&subject).await }, move |py, writer| {
            Ok(Py::new(py, Writer::new(writer, path))?.into_any())
        })
    }
}

/// The store that Hadoop's configuration names, if it is one of HDFS.
#[pyfunction]
pub(crate) fn default_url() -> Option<String> {
    ::client::default_fs()
}

/// Who acts where nobody says so: whom `HADOOP_PROXY_USER` names, or `HADOOP_USER_NAME` where nobody proves who he is,
/// or whose Kerberos ticket or delegation token this process has.
#[pyfunction]
pub(crate) fn acting_user(py: Python<'_>) -> Option<String> {
    py.detach(|| Acting::of_environment(None, || None)).map(|acting| acting.user)
}
