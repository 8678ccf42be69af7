//! Names as the library has them.

use super::library::Library;
use super::output::Output;
use super::status::Status;
use super::types::{BufferDesc, NT_HOSTBASED_SERVICE, NT_PRINCIPAL, OidDesc, RawName};
use std::fmt;
use std::ptr;

/// How a name is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NameKind {
    /// `nn/host@REALM`, taken as it is.
    Principal,
    /// `nn@host`: the library looks up realm, and the host's name where krb5.conf says so.
    HostBased,
}

pub(crate) struct Name {
    library: &'static Library,
    raw: RawName,
}

// SAFETY: the library keeps nothing of a name with a thread, and one thread has it at a time, as it is not `Sync`.
#[expect(unsafe_code, reason = "a handle moves between threads")]
unsafe impl Send for Name {}

impl Name {
    #[expect(unsafe_code, reason = "a call of the library")]
    pub(crate) fn import(library: &'static Library, text: &str, kind: NameKind) -> Result<Self, Status> {
        let mut oid = OidDesc::of(match kind {
            NameKind::Principal => &NT_PRINCIPAL,
            NameKind::HostBased => &NT_HOSTBASED_SERVICE,
        });
        let (mut minor, mut name) = (0, Self::none(library));
        let mut buffer = BufferDesc::of(text.as_bytes());
        // SAFETY: text and kind are only read, and copied; the handle is a local that is empty before.
        let major = unsafe {
            (library.calling().gss_import_name)(&raw mut minor, &raw mut buffer, &raw mut oid, &raw mut name.raw)
        };
        library.check(major, minor)?;
        Ok(name)
    }

    /// For the library to fill.
    pub(super) fn none(library: &'static Library) -> Self {
        Self { library, raw: ptr::null_mut() }
    }

    pub(super) fn raw(&self) -> RawName {
        self.raw
    }

    pub(super) fn fill(&mut self) -> *mut RawName {
        &raw mut self.raw
    }

    /// With its realm, in Kerberos' form.
    #[expect(unsafe_code, reason = "a call of the library")]
    pub(crate) fn display(&self) -> Result<Vec<u8>, Status> {
        let (mut minor, mut output) = (0, Output::new(self.library));
        let buffer = output.fill();
        // SAFETY: the handle is one of the library's or null, which it refuses; no kind is asked for.
        let major =
            unsafe { (self.library.calling().gss_display_name)(&raw mut minor, self.raw, buffer, ptr::null_mut()) };
        self.library.check(major, minor)?;
        Ok(output.bytes().to_vec())
    }
}

impl Drop for Name {
    #[expect(unsafe_code, reason = "a call of the library")]
    fn drop(&mut self) {
        if !self.raw.is_null() {
            let mut minor = 0;
            // SAFETY: the library made this handle, and nobody else has it.
            unsafe { (self.library.calling().gss_release_name)(&raw mut minor, &raw mut self.raw) };
        }
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Name({})", String::from_utf8_lossy(&self.display().unwrap_or_default()))
    }
}
