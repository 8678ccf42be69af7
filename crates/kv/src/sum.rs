//! The checksum of a stored row, which LMDB itself has none of.

use crate::error::KvError;
use types::ChecksumKind;

pub(crate) const SUM_LEN: usize = 4;

/// The key is covered too, so that a row found under a wrong key is noticed.
pub(crate) fn of(full: &[u8], value: &[u8]) -> u32 {
    // Two sums joined by a rotation cost no copy; any single flipped bit changes one of them.
    ChecksumKind::Crc32c.of(value) ^ ChecksumKind::Crc32c.of(full).rotate_left(1)
}

pub(crate) fn checked<'t>(full: &[u8], stored: &'t [u8]) -> Result<&'t [u8], KvError> {
    match stored.split_first_chunk::<SUM_LEN>() {
        Some((have, value)) if u32::from_be_bytes(*have) == of(full, value) => Ok(value),
        _ => Err(KvError::Damaged { table: full.first().copied().unwrap_or(0) }),
    }
}
