//! Certificates of the store's nodes, and TLS between them.
//!
//! ```text
//! Authority  ca.crt, ca.key ──signs──▶ node.crt ──┐
//!                                      node.key ──┼─▶ Credentials ─▶ accept a Hello, connect ─▶ Stream, and whose
//! ca.crt: whom this node believes ────────────────┘        ▲ reload
//! Newcomer   node.key ──asks──▶ Signed ──▶ node.crt, ca.crt: for who has a token in place of a certificate
//! a certificate and a key ─▶ Site ─▶ accept: for clients of HTTP, who know a server by its address
//! ```
//!
//! Promise: who is at the other end is decided by its certificate alone, in the handshake, before a byte of either side
//! is sent: it is signed by an authority of this store, valid now, and names the node that is expected. TLS is 1.3, and
//! no session is resumed, so that each connection is decided by the files as they are then. Keys are written for their
//! owner alone, and none is read that others could read.

mod authority;
mod credentials;
mod ending;
mod error;
mod files;
mod follow;
mod hosts;
mod newcomer;
mod opening;
mod pem;
mod site;
mod verify;

pub use authority::{Authority, CLOCK_BEHIND_MAX, LIFETIME, Signed};
pub use credentials::{Credentials, Shown, Stream, introduce};
pub use ending::Date;
pub use error::TlsError;
pub use hosts::Host;
pub use newcomer::Newcomer;
pub use opening::{Hello, IsLong, Socket};
pub use site::{Site, SiteStream};
