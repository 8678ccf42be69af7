//! Who is calling over an RPC connection: what client and server say before the connection's context.
//!
//! ```text
//! client                                                 server
//!   ── NEGOTIATE ──────────────────────────────────────▶
//!   ◀── NEGOTIATE: what may be chosen, the best first ──   or SUCCESS: go on as SIMPLE
//!   ── INITIATE: the chosen one, its first token ──────▶   for SIMPLE that is all
//!   ◀── CHALLENGE ──┐
//!   ── RESPONSE ────┴ as often as Kerberos needs ──────▶
//!   ◀── SUCCESS, the last token ────────────────────────
//!   ══ WRAP both ways, if integrity or privacy was agreed on ══
//! ```
//!
//! Both machines end with the exchange: what is wrapped from then on goes through [`wrap`] and [`unwrap`]. Kerberos'
//! own tokens are made by a library outside ([`Acceptor`], [`Initiator`]); a machine hands them over and takes them
//! back.

mod client;
#[cfg(test)]
mod golden;
mod gss;
mod kerberos;
mod message;
mod offers;
mod refused;
mod sealing;
mod server;
mod wrap;

pub use client::{Asking, Client, ClientError, ClientGss, Credentials, KerberosCredentials, TokenCredentials};
pub use gss::{GssLayerChoice, GssLayerError, GssLayerOffer};
pub use kerberos::{Accepting, Acceptor, Initiating, Initiator};
pub use offers::{KerberosOffer, Offers};
pub use refused::{ClaimError, Refused};
pub use sealing::Sealing;
pub use server::{Caller, GssOutcome, Server, Step};
pub use wrap::{Protector, WrapError, unwrap, wrap};
