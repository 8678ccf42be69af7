//! What the library answers with.

use super::library::Library;
use super::types::{BufferDesc, RawBuffer};
use std::fmt;
use std::ptr::NonNull;

/// A buffer for the library to fill. Its bytes are the library's, and go back when this is dropped.
pub(super) struct Output {
    library: &'static Library,
    buffer: BufferDesc,
}

impl Output {
    pub(super) fn new(library: &'static Library) -> Self {
        Self { library, buffer: BufferDesc::EMPTY }
    }

    /// For one call. What it may hold of a call before is given back.
    pub(super) fn fill(&mut self) -> RawBuffer {
        self.release();
        &raw mut self.buffer
    }

    #[expect(unsafe_code, reason = "a pointer and a length of C's become a slice")]
    pub(super) fn bytes(&self) -> &[u8] {
        match NonNull::new(self.buffer.value.cast::<u8>()) {
            // SAFETY: the library allocated `length` bytes there and wrote them; nobody writes to them until they are
            // released, which takes `&mut self`.
            Some(value) => unsafe { std::slice::from_raw_parts(value.as_ptr(), self.buffer.length) },
            None => &[],
        }
    }

    #[expect(unsafe_code, reason = "a call of the library")]
    fn release(&mut self) {
        if !self.buffer.value.is_null() {
            let mut minor = 0;
            // SAFETY: the library allocated it, and it was not released, as that clears the pointer.
            unsafe { (self.library.calling().gss_release_buffer)(&raw mut minor, &raw mut self.buffer) };
        }
        self.buffer = BufferDesc::EMPTY;
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        self.release();
    }
}

/// It may hold secrets.
impl fmt::Debug for Output {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Output({} bytes)", self.buffer.length)
    }
}
