//! What is behind compression, as functions of bytes, for fuzz targets: few mutations get through a decoder.

use crate::error::Result;
use crate::inquiry::{Answer, begin};
use crate::limits::{Budget, Limits};
use crate::record::{self, RecordError};
use crate::root;
use crate::tables::{Layout, Table};
use crate::want::Want;

/// The body of a record.
pub fn body(bytes: &[u8]) -> std::result::Result<Layout, RecordError> {
    record::decode_body(bytes)
}

/// What [`body`] takes, of a record.
pub fn body_of(record: &[u8]) -> Option<Vec<u8>> {
    record::inflated(record).ok()
}

/// An object as ROOT stores it, if it has that many bytes.
pub fn unzipped_len(stored: &[u8], len: u64) -> Option<usize> {
    root::unzip(stored, len, &mut Budget::new(Limits::default())).ok().map(|object| object.len())
}

/// A tree of ROOT, with what describes its class.
pub fn tree(streamers: &[u8], object: &[u8]) -> Result<Table> {
    root::tree_of(streamers, object, Budget::new(Limits::default()))
}

/// What is in a file of ROOT: its streamers and its trees, decompressed.
pub fn objects_of(file: &[u8]) -> Vec<Vec<u8>> {
    let mut objects = Vec::new();
    let mut answer = begin(file.len() as u64).map(Answer::Ask);
    while let Ok(Answer::Ask(inquiry)) = answer {
        let Want { offset, len } = inquiry.want();
        let wanted = file.get(offset as usize..).and_then(|rest| rest.get(..len as usize)).unwrap_or_default();
        objects.extend(inquiry.object_of(wanted));
        answer = inquiry.give(wanted);
    }
    objects
}
