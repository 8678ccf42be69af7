//! The types and numbers of RFC 2744 and of MIT's `gssapi_ext.h`, as C has them. `header.rs` beside this holds them to
//! the header.

use std::ffi::{c_char, c_int, c_void};
use std::marker::{PhantomData, PhantomPinned};
use std::ptr;

/// What is behind a handle is the library's business.
macro_rules! opaque {
    ($($name:ident),*) => {$(
        #[repr(C)]
        pub(super) struct $name {
            _private: [u8; 0],
            _not_ours: PhantomData<(*mut u8, PhantomPinned)>,
        }
    )*};
}

opaque!(NameStruct, CredentialStruct, ContextStruct, BindingsStruct);

pub(super) type RawName = *mut NameStruct;
pub(super) type RawCredential = *mut CredentialStruct;
pub(super) type RawContext = *mut ContextStruct;
/// Channel bindings. Hadoop has none.
pub(super) type RawBindings = *mut BindingsStruct;
pub(super) type RawOid = *mut OidDesc;
pub(super) type RawOidSet = *mut OidSetDesc;
pub(super) type RawBuffer = *mut BufferDesc;
pub(super) type RawStore = *const KeyValueSetDesc;

/// A number of ISO's tree, in DER without its head.
#[repr(C)]
pub(super) struct OidDesc {
    pub(super) length: u32,
    pub(super) elements: *mut c_void,
}

#[repr(C)]
pub(super) struct OidSetDesc {
    pub(super) count: usize,
    pub(super) elements: RawOid,
}

#[repr(C)]
pub(super) struct BufferDesc {
    pub(super) length: usize,
    pub(super) value: *mut c_void,
}

#[repr(C)]
pub(super) struct KeyValueDesc {
    pub(super) key: *const c_char,
    pub(super) value: *const c_char,
}

#[repr(C)]
pub(super) struct KeyValueSetDesc {
    pub(super) count: u32,
    pub(super) elements: *mut KeyValueDesc,
}

impl OidDesc {
    /// Elements of a `static`: the library may keep the pointer, and never writes through it.
    pub(super) fn of(elements: &'static [u8]) -> Self {
        let length = u32::try_from(elements.len()).expect("some bytes");
        Self { length, elements: elements.as_ptr().cast_mut().cast() }
    }
}

impl BufferDesc {
    pub(super) const EMPTY: Self = Self { length: 0, value: ptr::null_mut() };

    /// For the library to read, for as long as `bytes` are borrowed. It does not write through an input buffer, except
    /// for `gss_unwrap`.
    pub(super) fn of(bytes: &[u8]) -> Self {
        Self { length: bytes.len(), value: bytes.as_ptr().cast_mut().cast() }
    }

    /// For the library to read and to write.
    pub(super) fn scratch(bytes: &mut [u8]) -> Self {
        Self { length: bytes.len(), value: bytes.as_mut_ptr().cast() }
    }
}

/// Kerberos version 5: 1.2.840.113554.1.2.2.
pub(super) static KRB5: [u8; 9] = [0x2a, 0x86, 0x48, 0x86, 0xf7, 0x12, 1, 2, 2];
/// A principal as Kerberos writes it: 1.2.840.113554.1.2.2.1.
pub(super) static NT_PRINCIPAL: [u8; 10] = [0x2a, 0x86, 0x48, 0x86, 0xf7, 0x12, 1, 2, 2, 1];
/// `service@host`: 1.2.840.113554.1.2.1.4.
pub(super) static NT_HOSTBASED_SERVICE: [u8; 10] = [0x2a, 0x86, 0x48, 0x86, 0xf7, 0x12, 1, 2, 1, 4];

macro_rules! numbers {
    ($($(#[$about:meta])* $name:ident: $type:ty = $value:expr;)*) => {
        $($(#[$about])* pub(super) const $name: $type = $value;)*

        #[cfg(test)]
        pub(super) const NUMBERS: &[(&str, i64)] = &[$((stringify!($name), $value as i64)),*];
    };
}

numbers! {
    GSS_C_MUTUAL_FLAG: u32 = 2;
    GSS_C_REPLAY_FLAG: u32 = 4;
    GSS_C_SEQUENCE_FLAG: u32 = 8;
    GSS_C_CONF_FLAG: u32 = 16;
    GSS_C_INTEG_FLAG: u32 = 32;
    GSS_C_INITIATE: c_int = 1;
    GSS_C_ACCEPT: c_int = 2;
    GSS_C_GSS_CODE: c_int = 1;
    GSS_C_MECH_CODE: c_int = 2;
    GSS_C_QOP_DEFAULT: u32 = 0;
    /// As a time: no end.
    GSS_C_INDEFINITE: u32 = u32::MAX;
    GSS_S_CONTINUE_NEEDED: u32 = 1;
    GSS_S_BAD_MECH: u32 = 1 << 16;
}
