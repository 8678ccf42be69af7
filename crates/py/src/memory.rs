//! Memory of Python's objects that is read and written without the GIL. All `unsafe` of this crate is here and in
//! `buffer`.

use crate::buffer::Buffer;
use crate::runtime;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::ptr::NonNull;

/// A `bytes` object that nobody has seen yet, to be filled in place. Its memory is not made zero before: that would
/// touch each page once more.
#[derive(Debug)]
pub(crate) struct NewBytes {
    object: Py<PyBytes>,
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: nobody else has the object before `into_object`, and its memory does not move as long as it is referenced.
#[expect(unsafe_code, reason = "a pointer into an object that only this one has")]
unsafe impl Send for NewBytes {}
#[expect(unsafe_code, reason = "by a shared reference nothing is read or written")]
// SAFETY: the memory is only to be had by `&mut self`.
unsafe impl Sync for NewBytes {}

impl NewBytes {
    #[expect(unsafe_code, reason = "Python gives memory for bytes that are not known yet through C alone")]
    pub(crate) fn new(py: Python<'_>, len: usize) -> PyResult<Self> {
        let wanted = isize::try_from(len).map_err(|_| PyValueError::new_err("more bytes than memory has"))?;
        // SAFETY: a null pointer asks for an object with its bytes not set. It is new, so it may be written, except for
        // the empty one and those of one byte, which all share: of the former nothing is written, the latter are shared
        // only if their byte is given here.
        let (object, start) = unsafe {
            let object = pyo3::ffi::PyBytes_FromStringAndSize(std::ptr::null(), wanted);
            let object: Bound<'_, PyBytes> = Bound::from_owned_ptr_or_err(py, object)?.cast_into_unchecked();
            let start = pyo3::ffi::PyBytes_AsString(object.as_ptr()).cast::<u8>();
            (object, start)
        };
        let start = NonNull::new(start).ok_or_else(|| PyErr::fetch(py))?;
        Ok(Self { object: object.unbind(), start, len })
    }

    #[expect(unsafe_code, reason = "see the comment")]
    pub(crate) fn as_mut(&mut self) -> &mut [u8] {
        // SAFETY: `len` bytes of an object that we hold and nobody else has. They came from C's allocator, so each has
        // some value, and none is looked at before it was written.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.len) }
    }

    /// All of it must have been written.
    pub(crate) fn into_object(self) -> Py<PyAny> {
        self.object.into_any()
    }
}

/// The bytes of an object of the caller's (`bytes`, NumPy array, `mmap`…), kept in place as long as this is.
#[derive(Debug)]
pub(crate) struct View(Buffer);

impl View {
    pub(crate) fn new(object: &Bound<'_, PyAny>) -> PyResult<Self> {
        Ok(Self(Buffer::get(object, false, &runtime::of_process(object.py())?.given_up)?))
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    #[expect(unsafe_code, reason = "see the comment")]
    pub(crate) fn as_slice(&self) -> &[u8] {
        let Some(start) = self.0.start() else { return &[] };
        // SAFETY: the object keeps its memory as it is until the buffer is released, which is when this is dropped. A
        // program that writes to it meanwhile from another thread gets some mixture of the bytes, as with `os.write`.
        unsafe { std::slice::from_raw_parts(start.as_ptr(), self.len()) }
    }
}

/// A [`View`] of what may be written.
#[derive(Debug)]
pub(crate) struct WritableView(Buffer);

impl WritableView {
    pub(crate) fn new(object: &Bound<'_, PyAny>) -> PyResult<Self> {
        Ok(Self(Buffer::get(object, true, &runtime::of_process(object.py())?.given_up)?))
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    #[expect(unsafe_code, reason = "see the comment")]
    pub(crate) fn as_mut(&mut self) -> &mut [u8] {
        let Some(start) = self.0.start() else { return &mut [] };
        // SAFETY: as in `View::as_slice`, and the object said that it may be written. As with `os.readv`, the caller
        // leaves it alone until the call has ended.
        unsafe { std::slice::from_raw_parts_mut(start.as_ptr(), self.len()) }
    }
}
