//! Block tokens: what lets a client do something with the blocks of one file.
//!
//! A token names the *file*, not its blocks (docs/adr/0019). A file of ten thousand blocks has one signature, and a
//! datanode, whose replicas know their file, checks any of its blocks with it. Start reading at [`Identifier`], which
//! draws the bytes; [`Signer`] makes them and [`Admission::check`] judges them.

mod identifier;
mod modes;
mod signer;
mod verify;

pub use identifier::{Identifier, IdentifierError, USER_LEN_MAX};
pub use modes::{Mode, Modes};
pub use signer::{Grant, GrantError, SignedToken, Signer};
pub use verify::{Admission, Claim, Proven, ProvenToken, Refusal, authenticate};

/// All that a client hears of why its block token does not count. Reasons ([`Refusal`]) are for the log: they would
/// tell a forger what to change.
pub const REFUSED: &str = "the block token is not valid";

/// The kind of every block token. Java parses no identifier of another kind.
pub const KIND: &str = wire::token::KIND;
