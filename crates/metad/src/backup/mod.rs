//! Backups of a metadata server's rows: made while it serves, and put back into the directory of a new one.
//!
//! ```text
//! leader: flush ─▶ the rows as of one entry of the log ──piece by piece──▶ file ([`Writer`]), read back
//!                                                                            │
//! new server's directory ◀── numbers skipped, open containers sealed ◀───────┘ [`restore`]
//! ```
//!
//! Promise: a backup is the state after one entry of the log, whatever is changed while it is taken. A store that goes
//! on with one gives nothing out again that the lost store may have given out since, and has none of the blocks
//! deleted that the backup does not know; and nobody joins it by an invitation of then (docs/adr/0036).

mod file;
mod recovering;
mod restoring;
mod stopped;
mod taking;
mod whose;

pub use file::{BackupError, Header, Verified, Writer, verify};
pub(crate) use recovering::recover_found;
pub use restoring::{Restored, restore};
pub use stopped::take_stopped;
pub(crate) use taking::{begin, drop_idle, found, piece, release_found};
