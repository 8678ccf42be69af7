//! Credentials: keys of a keytab, tickets of a cache.

use super::library::Library;
use super::name::Name;
use super::status::Status;
use super::types::{
    GSS_C_ACCEPT, GSS_C_INDEFINITE, GSS_C_INITIATE, KRB5, KeyValueDesc, KeyValueSetDesc, OidDesc, OidSetDesc,
    RawCredential,
};
use std::ffi::CString;
use std::fmt;
use std::ptr;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Usage {
    Accept,
    Initiate,
}

pub(crate) struct Credential {
    library: &'static Library,
    raw: RawCredential,
}

// SAFETY: MIT's library keeps nothing of a credential with a thread, and takes the lock inside of it in each call that
// is given one (`kg_cred_resolve`), so threads may use one together.
#[expect(unsafe_code, reason = "a handle is shared between threads")]
unsafe impl Send for Credential {}
#[expect(unsafe_code, reason = "a handle is shared between threads")]
unsafe impl Sync for Credential {}

impl Credential {
    /// Of Kerberos alone. `store` says where from, in the words of the library, so that no environment needs to.
    /// Without a name it is whoever the tickets are for.
    #[expect(unsafe_code, reason = "a call of the library")]
    pub(crate) fn acquire(
        library: &'static Library,
        name: Option<&Name>,
        usage: Usage,
        store: &[(CString, CString)],
    ) -> Result<Self, Status> {
        let mut elements: Vec<KeyValueDesc> =
            store.iter().map(|(key, value)| KeyValueDesc { key: key.as_ptr(), value: value.as_ptr() }).collect();
        let count = u32::try_from(elements.len()).expect("a few settings");
        let store = KeyValueSetDesc { count, elements: elements.as_mut_ptr() };
        let store_or_none = if count == 0 { ptr::null() } else { &raw const store };
        let mut oid = OidDesc::of(&KRB5);
        let mut mechanisms = OidSetDesc { count: 1, elements: &raw mut oid };
        let usage = match usage {
            Usage::Accept => GSS_C_ACCEPT,
            Usage::Initiate => GSS_C_INITIATE,
        };
        let (mut minor, mut credential) = (0, Self { library, raw: ptr::null_mut() });
        // SAFETY: the name is the library's or null, which it takes for none; store and mechanisms are only read, and
        // copied; the handle is a local that is empty before. What is null at the end is not asked for.
        let major = unsafe {
            (library.calling().gss_acquire_cred_from)(
                &raw mut minor,
                name.map_or(ptr::null_mut(), Name::raw),
                GSS_C_INDEFINITE,
                &raw mut mechanisms,
                usage,
                store_or_none,
                &raw mut credential.raw,
                ptr::null_mut(),
                ptr::null_mut(),
            )
        };
        library.check(major, minor)?;
        Ok(credential)
    }

    pub(super) fn raw(&self) -> RawCredential {
        self.raw
    }

    /// Whose it is, and for how many seconds from now on. For tickets, the library opens the cache here.
    #[expect(unsafe_code, reason = "a call of the library")]
    pub(crate) fn inquire(&self) -> Result<(Name, u32), Status> {
        let (mut minor, mut name, mut seconds) = (0, Name::none(self.library), 0);
        // SAFETY: the handle is the library's; the others are locals, empty before. What is null is not asked for.
        let major = unsafe {
            (self.library.calling().gss_inquire_cred)(
                &raw mut minor,
                self.raw,
                name.fill(),
                &raw mut seconds,
                ptr::null_mut(),
                ptr::null_mut(),
            )
        };
        self.library.check(major, minor)?;
        Ok((name, seconds))
    }
}

impl Drop for Credential {
    #[expect(unsafe_code, reason = "a call of the library")]
    fn drop(&mut self) {
        if !self.raw.is_null() {
            let mut minor = 0;
            // SAFETY: the library made this handle, and nobody else has it.
            unsafe { (self.library.calling().gss_release_cred)(&raw mut minor, &raw mut self.raw) };
        }
    }
}

impl fmt::Debug for Credential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Credential")
    }
}
