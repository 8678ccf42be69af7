//! What rows hold, as a function of bytes, for fuzz targets. Whatever the bytes are, none panics, and what is read is
//! written again as the same.

use crate::delegation_token::DelegationToken;
use crate::record::{BlockRow, Counters, DoomedRow, Inode, decode, encode};
use crate::retry::RetryRow;
use crate::safe_mode::SafeMode;
use crate::usage::DirectoryUsage;
use std::fmt::Debug;
use types::encoding::Encoded;

/// The value of a row: which kind, and its bytes.
pub fn row(bytes: &[u8]) {
    let Some((kind, value)) = bytes.split_first() else { return };
    match kind % 8 {
        0 => again::<Inode>(value),
        1 => again::<BlockRow>(value),
        2 => again::<DoomedRow>(value),
        3 => again::<Counters>(value),
        4 => again::<RetryRow>(value),
        5 => again::<DirectoryUsage>(value),
        6 => again::<DelegationToken>(value),
        _ => again::<SafeMode>(value),
    }
}

fn again<T: Encoded + PartialEq + Debug>(value: &[u8]) {
    if let Ok(record) = decode::<T>("fuzzing", value) {
        assert_eq!(decode::<T>("fuzzing", &encode(&record)).ok(), Some(record));
    }
}
