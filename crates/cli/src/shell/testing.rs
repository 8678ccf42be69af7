//! Things that are there, for tests of what is printed of them.

use super::browse::Found;
use super::session::{Common, Session};
use client::{Kind, Status};
use types::Millis;

/// A file or directory of ann's, 1536 bytes long.
pub(crate) fn found(path: &str, is_dir: bool) -> Found {
    let target = Session::new("test", &Common::of("hdfs://h:1", "ann")).unwrap().target(path).unwrap();
    let status = Status {
        kind: if is_dir { Kind::Directory } else { Kind::File },
        name: String::new(),
        len: 1536,
        mode: 0o640,
        owner: "ann".into(),
        group: "staff".into(),
        modified: Millis(1000),
        accessed: Millis(2000),
        replication: 3,
        block_len: 1 << 20,
        id: 16386,
        child_count: 0,
        unusable: None,
    };
    Found { target, status }
}
