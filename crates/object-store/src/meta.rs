//! What is told of an object.

use chrono::{DateTime, Utc};
use client::{FileVersion, Status};
use object_store::ObjectMeta;
use object_store::path::Path;
use types::Millis;

/// Names the bytes of an object: a file that replaces it has another id, one that was appended to or cut has another
/// length or time. Written as HTTP has it. `None`: a server that has no ids.
pub(crate) fn e_tag(status: &Status) -> Option<String> {
    let Status { id, modified, len, .. } = status;
    (*id != 0).then(|| format!("\"{id:x}-{:x}-{len:x}\"", modified.0))
}

/// What an [`e_tag`] says; `None`: it is none of ours.
pub(crate) fn version(e_tag: &str) -> Option<FileVersion> {
    let mut parts = e_tag.strip_prefix('"')?.strip_suffix('"')?.split('-');
    let mut number = || u64::from_str_radix(parts.next()?, 16).ok();
    let version = FileVersion { id: number()?, modified: Millis(number()?), len: number()? };
    parts.next().is_none().then_some(version)
}

pub(crate) fn of(location: Path, status: &Status) -> ObjectMeta {
    let modified = i64::try_from(status.modified.0).ok().and_then(DateTime::<Utc>::from_timestamp_millis);
    ObjectMeta {
        location,
        last_modified: modified.unwrap_or_default(),
        size: status.len,
        e_tag: e_tag(status),
        version: None,
    }
}
