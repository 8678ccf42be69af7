//! Who is calling and what is allowed, as far as that is decided by bytes: keys, tokens, SASL, names and rules.
//!
//! ```text
//!              proves who calls                         decides what that means
//! secret ◀─ keys ◀─ block_token      one for a file      kerberos_name ◀─ auth_to_local   whole name → short name
//!                ◀─ rings            rows of a store
//!                ◀─ delegation       acts for a user     proxy                            who may act as whom
//!                ◀─ encryption_key   of the cluster
//!                ◀─ joining          rows of a store    node_name                        of a certificate: which node
//! sasl   digest ◀─ rpc               exchanges that carry the proofs, each end a machine,
//!               ◀─ transfer          and what protects the connection behind them
//! ```
//!
//! Promise: pure. Time, chance and secrets are arguments; bytes come in, bytes and decisions go out. No length that a
//! stranger chose is believed before it was bounded, and no bytes make any of it panic. Nothing is compared with a
//! secret but in constant time, and no secret is printed. What is not here: Kerberos' own tokens, which a library makes
//! that is loaded at run time; TLS; and where tokens are kept.

pub mod auth_to_local;
pub mod block_token;
pub mod delegation;
pub mod encryption_key;
#[cfg(test)]
mod golden;
pub mod joining;
pub mod kerberos_name;
pub mod keys;
pub mod method;
pub mod negotiation;
pub mod node_name;
pub mod proxy;
mod restored;
pub mod rings;
pub mod sasl;
pub mod secret;

pub use restored::restore;
