//! Tables whose first rows are taken again and again: a row beside each tells where its first row is at the earliest.
//!
//! Without it, each look for the first row would step over all that were taken since the store was last brought to
//! disk. When a large tree is freed those are tens of thousands, so the work would grow with their square.
//!
//! Promise: no row of such a table is before its front. All rows come and go through here, but for single ones that are
//! deleted from the middle.

use crate::damage;
use crate::tables::FRONT;
use std::ops::Bound;
use types::rows::{Rows, RowsError, RowsMut, Table, Visit};

/// No row is before this key, as far as it is known.
pub(crate) fn front(rows: &dyn Rows, table: Table) -> Result<Option<Vec<u8>>, RowsError> {
    rows.get(FRONT, &[table.0])
}

/// Shows the rows in order, from the first on.
pub(crate) fn scan(rows: &dyn Rows, table: Table, visit: &mut Visit<'_>) -> Result<(), RowsError> {
    scan_from(rows, table, front(rows, table)?.as_deref(), visit)
}

/// The same, for a caller that has read the front.
pub(crate) fn scan_from(
    rows: &dyn Rows,
    table: Table,
    front: Option<&[u8]>,
    visit: &mut Visit<'_>,
) -> Result<(), RowsError> {
    rows.scan(table, front.map_or(Bound::Unbounded, Bound::Included), visit)
}

pub(crate) fn add(rows: &mut dyn RowsMut, table: Table, key: &[u8], value: Vec<u8>) -> Result<(), RowsError> {
    if front(rows, table)?.is_some_and(|front| key < front.as_slice()) {
        rows.put(FRONT, &[table.0], key.to_vec());
    }
    rows.put(table, key, value);
    Ok(())
}

/// Deletes the row at `key`, which is the first.
pub(crate) fn take(rows: &mut dyn RowsMut, table: Table, key: &[u8]) {
    debug_assert!(
        damage::is_expected()
            || rows.get(FRONT, &[table.0]).is_ok_and(|front| front.is_none_or(|front| front.as_slice() <= key)),
        "{key:?} is before the front of {table:?}"
    );
    rows.delete(table, key);
    // The least key behind it.
    advance(rows, table, &[key, &[0]].concat());
}

/// No row is before `key`.
pub(crate) fn advance(rows: &mut dyn RowsMut, table: Table, key: &[u8]) {
    rows.put(FRONT, &[table.0], key.to_vec());
}
