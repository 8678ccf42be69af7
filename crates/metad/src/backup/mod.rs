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
//! deleted that the backup does not know (docs/adr/0036).

mod file;
mod restoring;
mod taking;

pub use file::{BackupError, Header, Verified, Writer, verify};
pub use restoring::restore;
pub(crate) use taking::{begin, drop_idle, found, piece};
