//! Kerberos: the system's GSSAPI library, loaded when it is first needed, and SASL's GSSAPI mechanism (RFC 4752) by it.
//!
//! ```text
//! Acceptor  ── begin ──▶ Accepting  ── step: token in, GssOutcome out ──▶ wrap, unwrap
//! (a keytab)
//! Initiator ── begin ──▶ Initiating ── step: token in, ClientGss out  ──▶ wrap, unwrap
//! (tickets)
//! Negotiator ── accept: token in, name and token out                     one request over HTTP
//! (a keytab)
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
mod boundary;
mod c;
mod error;
mod initiator;
mod key;
mod negotiator;
mod sealer;
/// The KDC of the stories.
#[cfg(test)]
#[path = "../tests/kerberos/support.rs"]
#[expect(dead_code, reason = "one test in here needs a KDC")]
mod support;
mod trouble;

pub use acceptor::{Accepting, Acceptor};
pub use boundary::TOKEN_LEN_MAX;
pub use c::{LoadError, Status};
pub use error::{Error, Reason};
pub use initiator::{Initiating, Initiator, Login, Tickets};
pub use key::AcceptorSettings;
pub use negotiator::{Negotiated, Negotiator};
pub use trouble::Trouble;
