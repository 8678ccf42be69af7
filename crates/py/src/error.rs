//! Errors of the client as exceptions of Python.

use ::client::{Error, ErrorKind};
use pyo3::exceptions::{PyConnectionError, PyOSError, PyRuntimeError, PyValueError};
use pyo3::prelude::*;

/// The exception for an error of a call about `subject`.
pub(crate) fn raised(py: Python<'_>, error: &Error, subject: &str) -> PyErr {
    let message = error.to_string();
    match family(error) {
        // `OSError` makes the subclass of the number itself: FileNotFoundError, PermissionError, TimeoutError and so
        // on.
        Family::Os(number) => made(py.get_type::<PyOSError>().call1((number, message, subject))),
        Family::Connection(number) => made(py.get_type::<PyConnectionError>().call1((number, message, subject))),
        Family::Value => PyValueError::new_err(with_subject(&message, subject)),
        Family::Runtime => PyRuntimeError::new_err(with_subject(&message, subject)),
    }
}

fn made(exception: PyResult<Bound<'_, PyAny>>) -> PyErr {
    exception.map_or_else(|error| error, PyErr::from_value)
}

fn with_subject(message: &str, subject: &str) -> String {
    if subject.is_empty() { message.to_owned() } else { format!("{message}: {subject}") }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Family {
    /// An `OSError` with this number.
    Os(i32),
    /// A `ConnectionError`, whichever number it has.
    Connection(i32),
    Value,
    Runtime,
}

fn family(error: &Error) -> Family {
    let number = match error.kind() {
        ErrorKind::NotFound => libc::ENOENT,
        ErrorKind::Exists => libc::EEXIST,
        ErrorKind::IsADirectory => libc::EISDIR,
        ErrorKind::NotADirectory => libc::ENOTDIR,
        ErrorKind::NotEmpty => libc::ENOTEMPTY,
        ErrorKind::Denied => libc::EACCES,
        // Not EAGAIN: Python's readers take a BlockingIOError for a pipe that has nothing yet.
        ErrorKind::Busy | ErrorKind::TryAgain => libc::EBUSY,
        ErrorKind::LeaseLost => libc::ESTALE,
        ErrorKind::SafeMode => libc::EROFS,
        ErrorKind::QuotaExceeded => libc::EDQUOT,
        ErrorKind::NoSpace => libc::ENOSPC,
        ErrorKind::Unsupported => libc::ENOTSUP,
        ErrorKind::TimedOut => libc::ETIMEDOUT,
        ErrorKind::Unreachable => return Family::Connection(unreachable_number(error)),
        ErrorKind::Broken => return Family::Connection(libc::ECONNRESET),
        ErrorKind::NotAMetadataServer | ErrorKind::Protocol => return Family::Connection(libc::EPROTO),
        ErrorKind::Invalid | ErrorKind::Closed => return Family::Value,
        ErrorKind::Forked | ErrorKind::Internal => return Family::Runtime,
        // Conflict, Refused, no replica, and kinds that are newer than this table.
        _ => libc::EIO,
    };
    Family::Os(number)
}

/// The system's own number where it has told one: a host without an address has none.
fn unreachable_number(error: &Error) -> i32 {
    match error {
        Error::Unreachable { source, .. } => source.raw_os_error().unwrap_or(libc::EHOSTUNREACH),
        _ => libc::EHOSTUNREACH,
    }
}
