//! Python's buffer protocol, in one piece.
//!
//! The stable ABI has it since 3.11, and CPython 3.10 has the same functions with the same struct: what became stable
//! was what there was. PyO3 leaves it out where 3.10 is to be served, so the three names stand here.

use pyo3::exceptions::PyBufferError;
use pyo3::ffi::PyObject;
use pyo3::prelude::*;
use std::ffi::{c_char, c_int, c_void};
use std::ptr::{NonNull, null_mut};

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

/// The memory of an object, which stays where it is until this is dropped. The struct is in a box, as its `shape` may
/// point at its `len`.
pub(crate) struct Buffer(Box<RawBuffer>);

// SAFETY: nothing of it changes until it is dropped, and that is done with the GIL.
#[expect(unsafe_code, reason = "its pointers are of an object that is held")]
unsafe impl Send for Buffer {}
#[expect(unsafe_code, reason = "its pointers are of an object that is held")]
// SAFETY: as above.
unsafe impl Sync for Buffer {}

impl std::fmt::Debug for Buffer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Buffer").field("len", &self.len()).finish_non_exhaustive()
    }
}

impl Buffer {
    pub(crate) fn get(object: &Bound<'_, PyAny>, writable: bool) -> PyResult<Self> {
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
        let buffer = Self(raw);
        if buffer.0.len < 0 {
            return Err(PyBufferError::new_err("a buffer of negative length"));
        }
        Ok(buffer)
    }

    /// Bytes.
    pub(crate) fn len(&self) -> usize {
        self.0.len.unsigned_abs()
    }

    /// `None`: there is no byte.
    pub(crate) fn start(&self) -> Option<NonNull<u8>> {
        NonNull::new(self.0.buf.cast()).filter(|_| self.0.len > 0)
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // `None`: Python is ending, and its memory is not given back any more.
        Python::try_attach(|_| {
            #[expect(unsafe_code, reason = "a function of C")]
            // SAFETY: it was got once, is released once, and this thread has the GIL.
            unsafe {
                PyBuffer_Release(&raw mut *self.0);
            }
        });
    }
}
