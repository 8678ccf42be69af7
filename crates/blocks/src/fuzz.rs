//! What rows of the block side hold, as a function of bytes, for fuzz targets. Whatever the bytes are, none panics.

use crate::node::Node;
use crate::tables::{ContainerRow, Counters, JobRow, Leave, PipelineRow, RepairHold, Service, decode, encode};
use types::encoding::Encoded;

/// The value of a row: which kind, and its bytes.
pub fn row(bytes: &[u8]) {
    let Some((kind, value)) = bytes.split_first() else { return };
    match kind % 8 {
        0 => again::<Node>(value),
        1 => again::<ContainerRow>(value),
        2 => again::<Counters>(value),
        3 => again::<PipelineRow>(value),
        4 => again::<JobRow>(value),
        5 => again::<Service>(value),
        6 => again::<Leave>(value),
        _ => again::<RepairHold>(value),
    }
}

fn again<T: Encoded>(value: &[u8]) {
    if let Ok(record) = decode::<T>(value) {
        let bytes = encode(&record);
        assert!(decode::<T>(&bytes).is_ok_and(|again| encode(&again) == bytes));
    }
}
