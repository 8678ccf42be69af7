//! Making the names in a directory durable. The directory is opened first: a process without descriptors has not failed
//! to sync anything.

use crate::error::{DiskOp, ReplicaError, Result};
use crate::group_sync::GroupSync;
use std::fs::File;
use std::path::Path;
use types::ContainerId;

/// The syncs of `open/` and of `containers/`, which all replicas share.
#[derive(Debug, Default)]
pub(crate) struct Directories {
    pub open: GroupSync,
    pub containers: GroupSync,
}

pub(crate) fn open_dir(dir: &Path, container: ContainerId) -> Result<File> {
    let io = |source| ReplicaError::Io { op: DiskOp::Open("a directory to be synced"), container, source };
    File::open(dir).map_err(io)
}

pub(crate) fn sync_names(dir: &File, syncs: &GroupSync, container: ContainerId) -> Result<()> {
    let io = |source| ReplicaError::Io { op: DiskOp::Sync("names in a directory"), container, source };
    syncs.sync(|| io::file::sync_all(dir)).map_err(io)
}
