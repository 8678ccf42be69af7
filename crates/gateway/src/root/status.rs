//! A status in the words of the protocol.

use client::{Kind, Status};
use xroot::Info;

pub(super) fn info(status: &Status) -> Info {
    Info {
        id: status.id,
        len: status.len,
        is_dir: status.is_dir(),
        is_other: status.kind == Kind::Symlink,
        mode: status.mode,
        modified_s: status.modified.0 / 1000,
        accessed_s: status.accessed.0 / 1000,
        owner: status.owner.clone(),
        group: status.group.clone(),
    }
}
