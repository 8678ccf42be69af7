//! The key rings of a store: rows that every metadata server has, and the changes of them that the log has.
//!
//! ```text
//! clock, chance ──▶ the leader (`lead::KeyRings`) ── Command ──▶ Raft ──▶ apply ──▶ one row for each kind of ring
//! ```
//!
//! Promise: [`apply`] is a function of rows and command; time and secrets are in the command, drawn by whoever proposes
//! it. A command names the revision that it was made for, so of two who propose a roll, one rolls. The same function
//! ([`Command::change`]) keeps the leader's copy of a ring. Secrets lie in rows and log as they are: whoever can read a
//! metadata server's directory can make tokens.

mod command;
#[cfg(test)]
mod golden;
mod row;

pub use command::{Command, RingError, apply};
pub(crate) use row::put_ring;
pub use row::{KEY_RING, RingKind, ring};

/// What a row holds, as a function of bytes, for fuzz targets. Whatever the bytes are, it does not panic.
#[doc(hidden)]
pub fn row_of(bytes: &[u8]) {
    if let Ok(ring) = row::decode(bytes) {
        let again = row::encode(&ring);
        assert!(row::decode(&again).is_ok_and(|read| read == ring));
    }
}
