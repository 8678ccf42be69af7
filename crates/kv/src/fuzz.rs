//! What this crate reads from its file and from other stores, as functions of bytes, for fuzz targets.

use crate::chunk::{SUM_LEN, rows_of};
use types::ChecksumKind;

/// A chunk of another store's rows, as it is and with a checksum that fits. Whatever the bytes are, nothing panics.
pub fn chunk(bytes: &[u8]) {
    let _ = rows_of(bytes);
    let mut sealed = bytes.to_vec();
    let Some((sum, rest)) = sealed.split_first_chunk_mut::<SUM_LEN>() else { return };
    *sum = ChecksumKind::Crc32c.of(rest).to_be_bytes();
    let rest_len = rest.len();
    if let Ok(rows) = rows_of(&sealed) {
        let len: usize = rows.iter().map(|(key, value)| key.len() + value.len() + 6).sum();
        assert_eq!(len, rest_len);
    }
}
