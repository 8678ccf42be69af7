//! Who is calling and what is allowed, as far as that is decided by bytes: keys, tokens, SASL, names and rules.
//!
//! Promise: pure. Time, chance and secrets are arguments; bytes come in, bytes and decisions go out. No length that a
//! stranger chose is believed before it was bounded, and no bytes make any of it panic.
//!
//! ```text
//! secret ◀─ keys ◀─ block_token          one signature a file, checked by datanodes
//! ```

pub mod auth_to_local;
pub mod block_token;
pub mod delegation;
pub mod encryption_key;
#[cfg(test)]
mod golden;
pub mod keys;
pub mod principal;
pub mod proxy;
pub mod sasl;
pub mod secret;
