//! Kerberos' library as both ends use it: one exchange a connection, which then protects what follows.
//!
//! ```text
//! Acceptor  ── begin ──▶ Accepting  ── step: GssOutcome ──▶ Done ──▶ Protector      a server
//! Initiator ── begin ──▶ Initiating ── step: ClientGss ───▶ Complete ──▶ Protector   a client
//! ```
//!
//! A step may wait for a disk (keytab, replay cache) or for a network (the KDC): it is not to be called on a thread
//! that others wait for. Sealing and opening wait for nothing. Errors are texts for people, without secrets.

use super::client::ClientGss;
use super::offers::KerberosOffer;
use super::server::GssOutcome;
use super::wrap::Protector;
use crate::sasl::digest::Qop;
use std::fmt;

/// A server's keys. One for a process.
pub trait Acceptor: fmt::Debug + Send + Sync {
    /// The exchange of one connection, in which the server is and accepts what `offer` says.
    fn begin(&self, offer: &KerberosOffer) -> Result<Box<dyn Accepting>, String>;
}

/// A server's end of one exchange. It protects what follows once a step was [`GssOutcome::Done`] with integrity or
/// privacy.
pub trait Accepting: Protector + Send {
    /// Takes what the client said.
    fn step(&mut self, token: &[u8]) -> Result<GssOutcome, String>;
}

/// A client's tickets. One for a process.
pub trait Initiator: fmt::Debug + Send + Sync {
    /// The exchange of one connection with the server that has this service and host, protected in one of these ways,
    /// the best first.
    fn begin(&self, server: &(String, String), qops: &[Qop]) -> Result<Box<dyn Initiating>, String>;
}

/// A client's end of one exchange. It protects what follows once a step was [`ClientGss::Complete`] with integrity or
/// privacy.
pub trait Initiating: Protector + Send {
    /// Takes what the server said; nothing at the beginning.
    fn step(&mut self, token: Option<&[u8]>) -> Result<ClientGss, String>;
}
