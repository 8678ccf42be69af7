//! The library's functions, found at run time.

use super::types::{RawBindings, RawBuffer, RawContext, RawCredential, RawName, RawOid, RawOidSet, RawStore};
use std::ffi::{CStr, c_int, c_void};
use std::fmt;
use std::ptr::NonNull;

/// MIT's. Heimdal's `libgssapi.so.3` has no `gss_acquire_cred_from` up to its last release, 7.8: a keytab could be
/// named to it in the process' environment alone.
pub(super) const LIBRARY: &CStr = c"libgssapi_krb5.so.2";

/// Why there is no library.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LoadError {
    #[error(
        "Kerberos needs {library}, which cannot be loaded ({reason}): install libgssapi-krb5-2 (Debian, Ubuntu), \
         krb5-libs (Fedora, RHEL, Alpine), or MIT Kerberos otherwise"
    )]
    Library { library: String, reason: String },
    #[error("{library} has no {function}: MIT Kerberos 1.11 or newer is needed")]
    Function { library: String, function: &'static str },
}

/// A library that stays loaded until the process ends.
pub(super) struct Loaded<'a> {
    handle: NonNull<c_void>,
    name: &'a CStr,
}

impl<'a> Loaded<'a> {
    #[expect(unsafe_code, reason = "calls of the C library")]
    pub(super) fn open(name: &'a CStr) -> Result<Self, LoadError> {
        // SAFETY: `name` ends with NUL. What the library runs as it is loaded is the trust one has in a system's
        // library.
        let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        NonNull::new(handle).map(|handle| Self { handle, name }).ok_or_else(|| {
            // SAFETY: it gives the reason of this thread's last failure, if there is one, which stays until the next
            // call.
            let reason = unsafe { libc::dlerror().as_ref().map(|text| CStr::from_ptr(text)) };
            let reason = reason.map_or("no reason given".into(), CStr::to_string_lossy).into_owned();
            LoadError::Library { library: name.to_string_lossy().into_owned(), reason }
        })
    }

    #[expect(unsafe_code, reason = "a call of the C library")]
    fn find(&self, function: &'static CStr) -> Result<NonNull<c_void>, LoadError> {
        // SAFETY: the handle is never closed, and `function` ends with NUL.
        let address = unsafe { libc::dlsym(self.handle.as_ptr(), function.as_ptr()) };
        NonNull::new(address).ok_or_else(|| LoadError::Function {
            library: self.name.to_string_lossy().into_owned(),
            function: function.to_str().expect("a name of ASCII"),
        })
    }
}

macro_rules! functions {
    ($($name:ident: $($type:ty),*;)*) => {
        /// Each gives its major status, and its minor one by the first pointer.
        pub(super) struct Functions {
            $(pub(super) $name: unsafe extern "C" fn($($type),*) -> u32,)*
        }

        impl Functions {
            #[expect(unsafe_code, reason = "an address becomes a function")]
            pub(super) fn find(library: &Loaded<'_>) -> Result<Self, LoadError> {
                $(
                    let name = CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes());
                    let address = library.find(name.expect("one NUL"))?;
                    // SAFETY: it is the address of a function of this name, whose C prototype is that of the table
                    // below: a test compares them with the header. The library stays loaded.
                    let $name = unsafe {
                        std::mem::transmute::<NonNull<c_void>, unsafe extern "C" fn($($type),*) -> u32>(address)
                    };
                )*
                Ok(Self { $($name),* })
            }
        }

        #[cfg(test)]
        pub(super) const PROTOTYPES: &[(&str, &[&str])] =
            &[$((stringify!($name), &[$(stringify!($type)),*])),*];
    };
}

functions! {
    // Names: minor, text, kind, name.
    gss_import_name: *mut u32, RawBuffer, RawOid, *mut RawName;
    // minor, name, text, kind.
    gss_display_name: *mut u32, RawName, RawBuffer, *mut RawOid;
    gss_release_name: *mut u32, *mut RawName;
    // Credentials: minor, name, seconds wanted, mechanisms, usage, store, credential, mechanisms, seconds.
    gss_acquire_cred_from:
        *mut u32, RawName, u32, RawOidSet, c_int, RawStore, *mut RawCredential, *mut RawOidSet, *mut u32;
    // minor, credential, name, seconds, usage, mechanisms.
    gss_inquire_cred: *mut u32, RawCredential, *mut RawName, *mut u32, *mut c_int, *mut RawOidSet;
    gss_release_cred: *mut u32, *mut RawCredential;
    // Contexts: minor, credential, context, peer, mechanism, flags, seconds wanted, bindings, token, mechanism, answer,
    // flags, seconds.
    gss_init_sec_context:
        *mut u32, RawCredential, *mut RawContext, RawName, RawOid, u32, u32, RawBindings, RawBuffer, *mut RawOid,
        RawBuffer, *mut u32, *mut u32;
    // minor, context, credential, token, bindings, peer, mechanism, answer, flags, seconds, delegated credential.
    gss_accept_sec_context:
        *mut u32, *mut RawContext, RawCredential, RawBuffer, RawBindings, *mut RawName, *mut RawOid, RawBuffer,
        *mut u32, *mut u32, *mut RawCredential;
    // minor, context, seconds.
    gss_context_time: *mut u32, RawContext, *mut u32;
    // minor, context, token.
    gss_delete_sec_context: *mut u32, *mut RawContext, RawBuffer;
    // Messages: minor, context, whether to encrypt, quality, message, whether it was encrypted, sealed message.
    gss_wrap: *mut u32, RawContext, c_int, u32, RawBuffer, *mut c_int, RawBuffer;
    // minor, context, sealed message, message, whether it was encrypted, quality.
    gss_unwrap: *mut u32, RawContext, RawBuffer, RawBuffer, *mut c_int, *mut u32;
    // minor, context, whether to encrypt, quality, bytes sealed, bytes that fit.
    gss_wrap_size_limit: *mut u32, RawContext, c_int, u32, u32, *mut u32;
    // Texts: minor, status, of which kind, mechanism, where to go on, text.
    gss_display_status: *mut u32, u32, c_int, RawOid, *mut u32, RawBuffer;
    gss_release_buffer: *mut u32, RawBuffer;
}

impl fmt::Debug for Functions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", LIBRARY.to_string_lossy())
    }
}
