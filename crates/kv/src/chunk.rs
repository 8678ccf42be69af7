//! Rows of one store on their way to another.
//!
//! ```text
//! a chunk                                     a row in it
//! 0          4                                0           2               6
//! ┌──────────┬─────┬─────┬───┬─────┐          ┌───────────┬───────────────┬──────────────┬───────┐
//! │ sum u32  │ row │ row │ … │ row │          │ key_len   │ value_len u32 │ full key     │ value │
//! └──────────┴─────┴─────┴───┴─────┘          │ u16       │               │ (table, key) │       │
//!                                             └───────────┴───────────────┴──────────────┴───────┘
//! ```
//!
//! `sum` is the CRC-32C of all that follows; numbers are big-endian.

use crate::disk::Row;
use crate::layer::FULL_KEY_LEN_MAX;
use types::ChecksumKind;

pub(crate) const SUM_LEN: usize = 4;
const ROW_HEAD_LEN: usize = 6;

/// Sets the sum in front of all rows.
pub(crate) fn seal(chunk: &mut [u8]) {
    let sum = ChecksumKind::Crc32c.of(&chunk[SUM_LEN..]);
    chunk[..SUM_LEN].copy_from_slice(&sum.to_be_bytes());
}

pub(crate) fn put_row(full: &[u8], value: &[u8], bytes: &mut Vec<u8>) {
    bytes.extend_from_slice(&(full.len() as u16).to_be_bytes()); // LMDB's keys are shorter
    bytes.extend_from_slice(&(value.len() as u32).to_be_bytes()); // and its values below 4 GB
    bytes.extend_from_slice(full);
    bytes.extend_from_slice(value);
}

/// The rows of a chunk, or what is wrong with it. A stranger sent it.
pub(crate) fn rows_of(chunk: &[u8]) -> Result<Vec<Row<'_>>, &'static str> {
    let (sum, mut rest) = chunk.split_first_chunk::<SUM_LEN>().ok_or("a chunk without a sum")?;
    if u32::from_be_bytes(*sum) != ChecksumKind::Crc32c.of(rest) {
        return Err("a chunk does not match its sum");
    }
    let mut rows = Vec::new();
    while !rest.is_empty() {
        let (head, tail) = rest.split_first_chunk::<ROW_HEAD_LEN>().ok_or("a chunk ends within a row")?;
        let [k0, k1, v0, v1, v2, v3] = *head;
        let (key_len, value_len) = (u16::from_be_bytes([k0, k1]), u32::from_be_bytes([v0, v1, v2, v3]));
        let (full, tail) = tail.split_at_checked(key_len.into()).ok_or("a chunk ends within a key")?;
        let (value, tail) = tail.split_at_checked(value_len as usize).ok_or("a chunk ends within a value")?;
        // Table 0 is each store's own.
        if full.len() > FULL_KEY_LEN_MAX || full.first().is_none_or(|table| *table == 0) {
            return Err("a row with a key that no store has");
        }
        rows.push((full, value));
        rest = tail;
    }
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strange_chunks_are_refused() {
        let chunk = |rest: &[u8]| {
            let mut bytes = ChecksumKind::Crc32c.of(rest).to_be_bytes().to_vec();
            bytes.extend_from_slice(rest);
            bytes
        };
        assert_eq!(rows_of(&chunk(&[0, 2, 0, 0, 0, 1, 7, 8, 9])), Ok(vec![(&[7u8, 8][..], &[9u8][..])]));
        assert_eq!(rows_of(&chunk(&[0, 1, 0, 0, 0, 0, 32])), Ok(vec![(&[32u8][..], &[][..])]), "an empty key");
        assert_eq!(rows_of(&chunk(&[])), Ok(vec![]));
        for bad in [
            &[0u8, 2, 0, 0, 0, 1, 7, 8][..],
            &[0, 2, 255, 255, 255, 255, 7, 8, 9],
            &[0, 0, 0, 0, 0, 0],
            &[0, 1, 0, 0, 0, 0, 0],
            &[255, 255, 0, 0, 0, 0],
            &[0, 1],
        ] {
            assert!(rows_of(&chunk(bad)).is_err(), "{bad:?}");
        }
        let mut flipped = chunk(&[0, 1, 0, 0, 0, 0, 32]);
        flipped[6] ^= 1;
        assert!(rows_of(&flipped).is_err());
        assert!(rows_of(&[1, 2]).is_err());
    }
}
