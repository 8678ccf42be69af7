//! Numbers that a backup of the rows does not know: those that were given out after it was made.
//!
//! Promise: no inode, generation stamp or token number that the lost store may have given out since is given out again.

use crate::delegation_token;
use crate::error::corrupt;
use crate::inode::{read_counters, write_counters};
use types::rows::{RowsError, RowsMut};
use types::{Generation, InodeId};

/// A guess, above what a store gives out in years: a million files a second for an hour.
const GIVEN_OUT_MAX: u64 = 1 << 32;

/// Readies rows of a backup for a store that goes on with them.
pub fn restore(rows: &mut dyn RowsMut) -> Result<(), RowsError> {
    let mut counters = read_counters(rows)?.ok_or_else(|| corrupt("restore a backup", "it has no namespace in it"))?;
    counters.inode = InodeId(counters.inode.0.saturating_add(GIVEN_OUT_MAX));
    counters.generation = Generation(counters.generation.0.saturating_add(GIVEN_OUT_MAX));
    write_counters(rows, counters);
    delegation_token::skip(rows)
}
