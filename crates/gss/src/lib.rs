//! Kerberos: the system's GSSAPI library, loaded when it is first needed, and SASL's GSSAPI mechanism (RFC 4752) by it.
//!
//! ```text
//! Acceptor  ── begin ──▶ Accepting  ── step: token in, GssOutcome out ──▶ wrap, unwrap
//! (a keytab)
//! Initiator ── begin ──▶ Initiating ── step: token in, ClientGss out  ──▶ wrap, unwrap
//! (tickets)
//! ```
//!
//! They are what [`security::sasl::rpc`] asks for under the same names; its machines know the messages around them.
//!
//! Promise: a program that does not use Kerberos needs no library; one that does and has none is told which package it
//! lacks. The process' environment is never changed: keytabs and caches are named in each call. A peer's bytes are
//! bounded, cause no panic, and are seen by nothing but the library until it has verified them. An error says what to
//! do about it. No channel bindings are used, and no credential is taken that a client hands over.
//!
//! All of it blocks: accepting reads the keytab and the replay cache, initiating may ask a KDC. So it is for threads
//! that may wait. Sealing takes processor time alone.

#[cfg(test)]
extern crate self as gss;

mod acceptor;
mod c;
mod error;
mod initiator;
mod sealer;
/// The KDC of the stories.
#[cfg(test)]
#[path = "../tests/kerberos/support.rs"]
#[expect(dead_code, reason = "one test in here needs a KDC")]
mod support;
mod trouble;

pub use acceptor::{Accepting, Acceptor, AcceptorSettings};
pub use c::{LoadError, Status};
pub use error::{Error, Reason};
pub use initiator::{Initiating, Initiator, Login, Tickets};
pub use trouble::Trouble;

use error::failed;
use security::kerberos_name::NAME_LEN_MAX;
use std::ffi::CString;
use std::path::Path;
use trouble::During;

/// Longest token of a peer. Active Directory puts a user's groups into tickets and ends them at 64 KiB; twice that.
pub const TOKEN_LEN_MAX: usize = 128 << 10;

/// Loads the library, for whoever wants to hear early that it is missing.
pub fn load() -> Result<(), LoadError> {
    c::Library::get().map(|_| ())
}

/// A setting of a credential store.
fn setting(doing: &str, key: &str, value: impl Into<Vec<u8>>) -> Result<(CString, CString), Error> {
    let key = CString::new(key).expect("a word of this crate");
    let value = CString::new(value).map_err(|_| Error::exchange(doing, Reason::Nul))?;
    Ok((key, value))
}

/// `FILE:` so that the path is taken as one, whatever is in it.
fn file(path: &Path) -> Vec<u8> {
    use std::os::unix::ffi::OsStrExt;
    [b"FILE:", path.as_os_str().as_bytes()].concat()
}

/// A name as text. Whoever makes a user of it parses it first.
fn text_of(doing: &str, name: &c::Name) -> Result<String, Error> {
    let bytes = name.display().map_err(failed(During::Exchange, doing))?;
    if bytes.len() > NAME_LEN_MAX {
        return Err(Error::exchange(doing, Reason::Name));
    }
    String::from_utf8(bytes).map_err(|_| Error::exchange(doing, Reason::Name))
}

fn bounded<'a>(doing: &str, token: &'a [u8]) -> Result<&'a [u8], Error> {
    if token.len() > TOKEN_LEN_MAX {
        return Err(Error::exchange(doing, Reason::Length { len: token.len(), max: TOKEN_LEN_MAX }));
    }
    Ok(token)
}
