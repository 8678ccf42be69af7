//! All rows of one moment, in chunks: how a store is copied to another machine while it is in use.
//!
//! What is copied is what the last flush brought to disk: LMDB keeps that moment for as long as the export lives, and
//! the file grows by what is changed meanwhile. Keys ascend over all chunks.

use crate::chunk::{SUM_LEN, put_row, seal};
use crate::disk::FORMAT_KEY;
use crate::error::KvError;
use crate::layer::full_key;
use crate::store::Store;
use heed::{RoTxn, WithoutTls};
use std::fmt;
use std::ops::Bound;
use types::rows::Table;

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

impl Store {
    /// A copy of all rows as of the last flush, to be read bit by bit.
    pub fn export(&self) -> Result<Export, KvError> {
        Ok(Export { read: self.disk().read_static()?, after: None, store: self.clone() })
    }
}

impl Export {
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
        seal(&mut bytes);
        Ok(Some(bytes))
    }
}
