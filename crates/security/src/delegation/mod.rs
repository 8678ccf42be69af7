//! Delegation tokens: what lets a job act for the user who started it, without that user's Kerberos ticket.
//!
//! ```text
//! user ── get(renewer) ──▶ metadata server      identifier, and the password that proves it
//! job  ── SASL DIGEST-MD5 with both ──▶          acts as the owner, through the real user if there is one
//! renewer ── renew ──▶                           valid for another interval, at most until its last day
//! owner or renewer ── cancel ──▶
//! ```
//!
//! A client never looks at the password, so it is an HMAC-SHA-256 where Hadoop's is one of SHA-1. Clients do read the
//! identifier, which has Hadoop's form to the byte ([`Identifier`]). Which tokens exist, and until when, is replicated
//! by whoever uses this crate; the rules of that are [`Rules`].

mod identifier;
mod rules;
pub mod token_file;
mod writable;

pub use identifier::{Identifier, IdentifierError, NAME_LEN_MAX};
pub use rules::{
    Caller, Claim, IdentifierHash, Issued, Kept, Proven, Refusal, Request, Rules, authenticate, cancel, check,
};

/// The kind of every delegation token of HDFS.
pub const KIND: &str = "HDFS_DELEGATION_TOKEN";
