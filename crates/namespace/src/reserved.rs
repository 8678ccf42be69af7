//! Names below `/.reserved`, where nothing is kept: other ways to what stands elsewhere.
//!
//! ```text
//! /.reserved                         a directory that lists the two below
//! /.reserved/.inodes/<id>[/rest]     the inode with that id, wherever it is
//! /.reserved/raw[/path]              /path, with the attributes raw.*; changes only for superusers
//! ```

use crate::inode::path_of;
use crate::view::{Kind, Status};
use types::rows::{Rows, RowsError};
use types::{FsPath, InodeId, Millis};

const RESERVED: &str = ".reserved";
const INODES: &str = ".inodes";
const RAW: &str = "raw";

/// What a path means.
pub(crate) enum Meaning {
    Ordinary,
    Other(FsPath),
    Nothing,
}

pub(crate) fn meaning(rows: &dyn Rows, path: &FsPath) -> Result<Meaning, RowsError> {
    let mut names = path.components();
    if names.next() != Some(RESERVED) {
        return Ok(Meaning::Ordinary);
    }
    let mut text = match names.next() {
        Some(RAW) => String::new(),
        Some(INODES) => {
            let Some(Ok(id)) = names.next().map(str::parse) else { return Ok(Meaning::Nothing) };
            let Some(text) = path_of(rows, InodeId(id))? else { return Ok(Meaning::Nothing) };
            text
        }
        _ => return Ok(Meaning::Nothing),
    };
    let mut names = names.peekable();
    // The root's own text is "/".
    if text.trim_end_matches('/').is_empty() && names.peek() == Some(&RESERVED) {
        return Ok(Meaning::Nothing); // no way leads through another one
    }
    for name in names {
        text.push('/');
        text.push_str(name);
    }
    if text.is_empty() {
        text.push('/');
    }
    Ok(FsPath::parse(&text).map_or(Meaning::Nothing, Meaning::Other))
}

/// `/.reserved` itself.
pub(crate) fn is_top(path: &FsPath) -> bool {
    path.as_str().strip_prefix('/') == Some(RESERVED)
}

/// Below `/.reserved/raw`, or that itself.
pub(crate) fn is_raw(path: &FsPath) -> bool {
    let mut names = path.components();
    (names.next(), names.next()) == (Some(RESERVED), Some(RAW))
}

/// It may name something new: it is none of `/.reserved` but a way to elsewhere.
pub(crate) fn may_be_made(path: &FsPath) -> bool {
    let mut names = path.components();
    names.next() != Some(RESERVED)
        || match names.next() {
            Some(RAW) => true,
            Some(INODES) => names.next().is_some(),
            _ => false,
        }
}

/// What `/.reserved` looks like. Nobody owns it, as in HDFS.
pub(crate) fn status() -> Status {
    directory("", 0o1770, "")
}

/// What it lists. `group`: of superusers.
pub(crate) fn entries(group: &str) -> [Status; 2] {
    [directory(INODES, 0o770, group), directory(RAW, 0o770, group)]
}

fn directory(name: &str, mode: u16, group: &str) -> Status {
    Status {
        kind: Kind::Directory,
        name: name.into(),
        len: 0,
        mode,
        owner: String::new(),
        group: group.into(),
        modified: Millis(0),
        accessed: Millis(0),
        replication: 0,
        block_len: 0,
        id: InodeId(0),
        child_count: 0,
        acl: false,
    }
}
