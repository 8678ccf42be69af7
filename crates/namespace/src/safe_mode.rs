//! Safe mode: the namespace as it is, and nothing else. A superuser enters it, for a backup or while something is
//! looked into.
//!
//! Promise: between entering and leaving no operation changes a file, a directory, a lease or a block, whoever asks, a
//! client or the server by itself. What the rows say of that is one row, so every member knows it, and a new leader
//! begins with it. Renewals of leases are no rows: writers keep their files, and go on when it is over.

use crate::record::{decode, encode};
use crate::tables::{SAFE_MODE, SAFE_MODE_KEY};
use types::Millis;
use types::rows::{Rows, RowsError, RowsMut};

/// Since when, and by whom.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SafeMode {
    pub since: Millis,
    pub user: String,
}
types::record!(SafeMode { 0: since, 1: user });

/// `None`: it is off.
pub(crate) fn get(rows: &dyn Rows) -> Result<Option<SafeMode>, RowsError> {
    rows.get(SAFE_MODE, SAFE_MODE_KEY)?.map(|bytes| decode("reading whether safe mode is on", &bytes)).transpose()
}

pub(crate) fn set(rows: &mut dyn RowsMut, mode: &SafeMode) {
    rows.put(SAFE_MODE, SAFE_MODE_KEY, encode(mode));
}

pub(crate) fn clear(rows: &mut dyn RowsMut) {
    rows.delete(SAFE_MODE, SAFE_MODE_KEY);
}
