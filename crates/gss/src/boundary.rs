//! What crosses the border to the library: settings, names and tokens, each checked.

use crate::c::Name;
use crate::error::{Error, Reason, failed};
use crate::trouble::During;
use security::kerberos_name::NAME_LEN_MAX;
use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Longest token of a peer. Active Directory puts a user's groups into tickets and ends them at 64 KiB; twice that.
pub const TOKEN_LEN_MAX: usize = 128 << 10;

/// A setting of a credential store.
pub(crate) fn setting(doing: &str, key: &str, value: impl Into<Vec<u8>>) -> Result<(CString, CString), Error> {
    let key = CString::new(key).expect("a word of this crate");
    let value = CString::new(value).map_err(|_| Error::exchange(doing, Reason::Nul))?;
    Ok((key, value))
}

/// `FILE:` so that the path is taken as one, whatever is in it.
pub(crate) fn file(path: &Path) -> Vec<u8> {
    [b"FILE:", path.as_os_str().as_bytes()].concat()
}

/// A name as text. Whoever makes a user of it parses it first.
pub(crate) fn text_of(doing: &str, name: &Name) -> Result<String, Error> {
    let bytes = name.display().map_err(failed(During::Exchange, doing))?;
    if bytes.len() > NAME_LEN_MAX {
        return Err(Error::exchange(doing, Reason::Name));
    }
    String::from_utf8(bytes).map_err(|_| Error::exchange(doing, Reason::Name))
}

pub(crate) fn bounded<'a>(doing: &str, token: &'a [u8]) -> Result<&'a [u8], Error> {
    if token.len() > TOKEN_LEN_MAX {
        return Err(Error::exchange(doing, Reason::Length { len: token.len(), max: TOKEN_LEN_MAX }));
    }
    Ok(token)
}
