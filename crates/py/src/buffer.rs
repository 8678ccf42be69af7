//! Python's buffer protocol, in one piece.
//!
//! The stable ABI has it since 3.11, and CPython 3.10 has the same functions with the same struct: what became stable
//! was what there was. PyO3 leaves it out where 3.10 is to be served, so the three names stand here.

use pyo3::exceptions::PyBufferError;
use pyo3::ffi::PyObject;
use pyo3::prelude::*;
use std::ffi::{c_char, c_int, c_void};
use std::ptr::{NonNull, null_mut};
use std::sync::{Mutex, PoisonError};

/// `Py_buffer`.
#[repr(C)]
struct RawBuffer {
    buf: *mut c_void,
    obj: *mut PyObject,
    len: isize,
    itemsize: isize,
    readonly: c_int,
    ndim: c_int,
    format: *mut c_char,
    shape: *mut isize,
    strides: *mut isize,
    suboffsets: *mut isize,
    internal: *mut c_void,
}

/// `PyBUF_SIMPLE`: bytes without form, in one piece. An object that does not lie in one piece refuses.
const SIMPLE: c_int = 0;
/// `PyBUF_WRITABLE`
const WRITABLE: c_int = 1;

#[expect(unsafe_code, reason = "functions of C")]
unsafe extern "C" {
    fn PyObject_GetBuffer(object: *mut PyObject, view: *mut RawBuffer, flags: c_int) -> c_int;
    fn PyBuffer_Release(view: *mut RawBuffer);
}

/// A buffer that was got and is not released. The struct is in a box, as its `shape` may point at its `len`.
struct Held(Box<RawBuffer>);

// SAFETY: nothing of it changes until it is released, and that is done with the GIL.
#[expect(unsafe_code, reason = "its pointers are of an object that is held")]
unsafe impl Send for Held {}
#[expect(unsafe_code, reason = "its pointers are of an object that is held")]
// SAFETY: as above.
unsafe impl Sync for Held {}

/// Buffers that nobody uses any more, until a thread has the GIL anyway: those that use them have not, and those of the
/// client never take it (`mailbox`).
#[derive(Default)]
pub(crate) struct GivenUp(Mutex<Vec<Held>>);

impl std::fmt::Debug for GivenUp {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("GivenUp").finish_non_exhaustive()
    }
}

impl GivenUp {
    pub(crate) fn release(&self, _py: Python<'_>) {
        let all = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        for mut held in all {
            #[expect(unsafe_code, reason = "a function of C")]
            // SAFETY: it was got once, is released once, and this thread has the GIL.
            unsafe {
                PyBuffer_Release(&raw mut *held.0);
            }
        }
    }
}

/// The memory of an object, which stays where it is until this is dropped and `given_up` is released.
pub(crate) struct Buffer {
    /// Empty while it is dropped.
    held: Option<Held>,
    start: Option<NonNull<u8>>,
    len: usize,
    given_up: &'static GivenUp,
}

// SAFETY: the memory is the object's, which is held; who reads or writes it is said in `memory`.
#[expect(unsafe_code, reason = "its pointer is into an object that is held")]
unsafe impl Send for Buffer {}
#[expect(unsafe_code, reason = "its pointer is into an object that is held")]
// SAFETY: as above.
unsafe impl Sync for Buffer {}

impl std::fmt::Debug for Buffer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Buffer").field("len", &self.len).finish_non_exhaustive()
    }
}

impl Buffer {
    pub(crate) fn get(object: &Bound<'_, PyAny>, writable: bool, given_up: &'static GivenUp) -> PyResult<Self> {
        let mut raw = Box::new(RawBuffer {
            buf: null_mut(),
            obj: null_mut(),
            len: 0,
            itemsize: 0,
            readonly: 0,
            ndim: 0,
            format: null_mut(),
            shape: null_mut(),
            strides: null_mut(),
            suboffsets: null_mut(),
            internal: null_mut(),
        });
        let flags = if writable { WRITABLE } else { SIMPLE };
        #[expect(unsafe_code, reason = "a function of C")]
        // SAFETY: the object is alive, and the struct stays where it is, as it is in a box of its own.
        let result = unsafe { PyObject_GetBuffer(object.as_ptr(), &raw mut *raw, flags) };
        if result != 0 {
            return Err(PyErr::fetch(object.py()));
        }
        let (start, len) = (NonNull::new(raw.buf.cast::<u8>()).filter(|_| raw.len > 0), usize::try_from(raw.len));
        let mut buffer = Self { held: Some(Held(raw)), start, len: 0, given_up };
        buffer.len = len.map_err(|_| PyBufferError::new_err("a buffer of negative length"))?;
        Ok(buffer)
    }

    /// Bytes.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// `None`: there is no byte.
    pub(crate) fn start(&self) -> Option<NonNull<u8>> {
        self.start
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        self.given_up.0.lock().unwrap_or_else(PoisonError::into_inner).extend(self.held.take());
    }
}
