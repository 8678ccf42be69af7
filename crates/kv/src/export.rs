//! All rows of one moment, in chunks: how a store is copied to another machine while it is in use.
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
//! `sum` is the CRC-32C of all that follows; numbers are big-endian; keys ascend over all chunks. What is copied is
//! what the last flush brought to disk: LMDB keeps that moment for as long as the export lives, and the file grows by
//! what is changed meanwhile.

use crate::KvError;
use crate::disk::{FORMAT_KEY, Row};
use crate::layer::{FULL_KEY_LEN_MAX, full_key};
use crate::store::Store;
use heed::{RoTxn, WithoutTls};
use std::fmt;
use std::ops::Bound;
use types::ChecksumKind;
use types::rows::Table;

pub(crate) const SUM_LEN: usize = 4;
const ROW_HEAD_LEN: usize = 6;

/// The rows as of the last flush. It holds nobody up.
pub struct Export {
    // Dropped in this order: the transaction ends before the store may close.
    read: RoTxn<'static, WithoutTls>,
    /// The last row given out.
    after: Option<Vec<u8>>,
    store: Store,
}

impl fmt::Debug for Export {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Export").field("after", &self.after).finish_non_exhaustive()
    }
}

impl Export {
    pub(crate) fn begin(store: &Store) -> Result<Self, KvError> {
        Ok(Self { read: store.disk().read_static()?, after: None, store: store.clone() })
    }

    /// A row of that moment.
    pub fn get(&self, table: Table, key: &[u8]) -> Result<Option<Vec<u8>>, KvError> {
        let value = self.store.disk().get(&self.read, &full_key(table, key))?;
        Ok(value.map(<[u8]>::to_vec))
    }

    /// The next rows: about `len_max` bytes, one row at least. `None` when all were given out.
    pub fn chunk(&mut self, len_max: usize) -> Result<Option<Vec<u8>>, KvError> {
        let mut bytes = vec![0; SUM_LEN];
        let mut last: Option<Vec<u8>> = None;
        let from = self.after.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
        for row in self.store.disk().range(&self.read, (from, Bound::Unbounded))? {
            let (full, value) = row?;
            if full == FORMAT_KEY {
                continue; // each store has its own
            }
            put_row(full, value, &mut bytes);
            if bytes.len() >= len_max {
                last = Some(full.to_vec());
                break;
            }
            // Copied only at the end of a chunk, but the end of the rows is not known before.
            last.get_or_insert_default().clear();
            last.get_or_insert_default().extend_from_slice(full);
        }
        let Some(last) = last else { return Ok(None) };
        self.after = Some(last);
        let sum = ChecksumKind::Crc32c.of(&bytes[SUM_LEN..]);
        bytes[..SUM_LEN].copy_from_slice(&sum.to_be_bytes());
        Ok(Some(bytes))
    }
}

fn put_row(full: &[u8], value: &[u8], bytes: &mut Vec<u8>) {
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
