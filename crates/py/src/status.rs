//! What the store tells of a file, as fsspec's dictionaries.

use ::client::{Kind, Status};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use types::Millis;

/// `path`: the whole of it, as the status holds at most the last name.
pub(crate) fn to_dict<'py>(py: Python<'py>, path: &str, status: &Status) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("name", path)?;
    dict.set_item("size", status.len)?;
    let kind = match status.kind {
        Kind::File => "file",
        Kind::Directory => "directory",
        Kind::Symlink => "other",
    };
    dict.set_item("type", kind)?;
    dict.set_item("mode", status.mode)?;
    dict.set_item("owner", &status.owner)?;
    dict.set_item("group", &status.group)?;
    dict.set_item("mtime", seconds(status.modified))?;
    dict.set_item("atime", seconds(status.accessed))?;
    dict.set_item("replication", status.replication)?;
    dict.set_item("block_size", status.block_len)?;
    dict.set_item("id", status.id)?;
    Ok(dict)
}

/// The store has milliseconds: a `float` holds them exactly enough for as long as anybody counts in years.
fn seconds(time: Millis) -> f64 {
    time.0 as f64 / 1e3
}

pub(crate) fn millis(seconds: f64) -> Millis {
    Millis((seconds * 1e3).round().max(0.0) as u64)
}

/// The path of an entry of a listing of `directory`. A file lists itself, with an empty name.
pub(crate) fn entry_path(directory: &str, name: &str) -> String {
    match name {
        "" => directory.to_owned(),
        name => format!("{}/{name}", directory.trim_end_matches('/')),
    }
}
