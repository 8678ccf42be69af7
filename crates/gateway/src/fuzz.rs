//! What this crate reads of strangers, as functions of bytes, for fuzz targets. Whatever the bytes are, none panics.

use crate::files::ranges::{Wanted, wanted};
use futures_util::FutureExt;
use io::dial::Preface;

/// How a connection through the gateway begins. What is read is written again as the same.
pub fn preface(bytes: &[u8]) {
    let mut rest = bytes;
    let read = Preface::read(&mut rest).now_or_never().expect("bytes in memory do not wait");
    if let Ok(preface) = read {
        let written = preface.encode().expect("it was read");
        assert_eq!([&written, rest].concat(), bytes);
    }
}

/// `Range` of a request, and files of several lengths: an answer is of bytes that are there, and no longer than all.
pub fn ranges(bytes: &[u8]) {
    let Ok(header) = std::str::from_utf8(bytes) else { return };
    for len in [0, 1, 100, u64::MAX] {
        if let Wanted::Ranges(ranges) = wanted(Some(header), len) {
            assert!(ranges.iter().all(|range| range.start < range.end && range.end <= len), "{ranges:?} of {len}");
            let sum: u128 = ranges.iter().map(|range| u128::from(range.end - range.start)).sum();
            assert!(!ranges.is_empty() && sum <= u128::from(len), "{ranges:?} of {len}");
        }
    }
}
