//! The Python module `levada._levada`: the client of the store, call by call.
//!
//! ```text
//!   Client, Reader, Writer ──▶ Call ──┬── call.wait()     in the thread that waits, without the GIL
//!      what Python calls              └── await call      on the runtime's threads; what it ended with is put into the
//!                                                         `mailbox` of the event loop
//! ```
//!
//! Promise: nothing waits for a server while it holds the GIL; no thread of the client runs Python; bytes go from a
//! socket's buffer into the `bytes` object or the buffer that the caller gets, with no copy between; an error is one of
//! Python's own. In a process that was forked, what its parent made is refused (`RuntimeError`), and what is made anew
//! works.
//!
//! This crate decides nothing about files: that is in `client`, and what fsspec asks for in the package's Python.
//! Start reading at [`call::Call`].

mod buffer;
mod call;
mod client;
mod error;
mod mailbox;
mod memory;
mod reader;
mod runtime;
mod staged;
mod status;
mod waiting;
mod writer;

use pyo3::prelude::*;

/// The client of a Levada store. Use the package `levada`, not this module.
#[pymodule]
mod _levada {
    use super::*;
    #[pymodule_export]
    use crate::call::Call;
    #[pymodule_export]
    use crate::client::{Client, acting_user, default_url};
    #[pymodule_export]
    use crate::mailbox::{Begun, Mailbox};
    #[pymodule_export]
    use crate::reader::Reader;
    #[pymodule_export]
    use crate::staged::Staged;
    #[pymodule_export]
    use crate::waiting::waits;
    #[pymodule_export]
    use crate::writer::Writer;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
