//! Where things lie in a volume's directory.
//!
//! ```text
//! VERSION                          whose volume this is; text
//! lock                             held by the process that has the volume open
//! index/                           the key-value store of replica and container records
//! ahead/<container>                empty; the container may hold replicas that the index on disk does not know yet
//! open/<block>.data, .sums         replicas that are not finalized
//! open/slot-<number>               the same, as long as they are short: one each, used again and again
//! containers/<container>/<block>.data, .sums     finalized replicas, each a file and its checksums
//! containers/<container>/pack                    small finalized replicas, one record each
//! ```

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use types::{BlockId, ContainerId};

#[derive(Debug)]
pub(crate) struct Layout {
    pub dir: PathBuf,
}

impl Layout {
    pub(crate) fn version(&self) -> PathBuf {
        self.dir.join("VERSION")
    }

    pub(crate) fn lock(&self) -> PathBuf {
        self.dir.join("lock")
    }

    pub(crate) fn index(&self) -> PathBuf {
        self.dir.join("index")
    }

    pub(crate) fn ahead(&self) -> PathBuf {
        self.dir.join("ahead")
    }

    pub(crate) fn open(&self) -> PathBuf {
        self.dir.join("open")
    }

    pub(crate) fn containers(&self) -> PathBuf {
        self.dir.join("containers")
    }

    pub(crate) fn container(&self, container: ContainerId) -> PathBuf {
        self.containers().join(container.0.to_string())
    }

    pub(crate) fn pack(&self, container: ContainerId) -> PathBuf {
        self.container(container).join("pack")
    }

    /// The data and the checksum file of a replica that is not finalized.
    pub(crate) fn open_pair(&self, block: BlockId) -> Pair {
        Pair::in_dir(&self.open(), block)
    }

    /// The data and the checksum file of a finalized replica.
    pub(crate) fn shelved_pair(&self, container: ContainerId, block: BlockId) -> Pair {
        Pair::in_dir(&self.container(container), block)
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Pair {
    pub data: PathBuf,
    pub sums: PathBuf,
}

impl Pair {
    fn in_dir(dir: &Path, block: BlockId) -> Self {
        Self { data: dir.join(format!("{}.data", block.0)), sums: dir.join(format!("{}.sums", block.0)) }
    }
}

/// What a file in a directory of replicas is by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Named {
    Data(BlockId),
    Sums(BlockId),
    Other,
}

pub(crate) fn named(name: &OsStr) -> Named {
    let Some((number, kind)) = name.to_str().and_then(|name| name.split_once('.')) else { return Named::Other };
    match (number.parse().map(BlockId), kind) {
        (Ok(block), "data") => Named::Data(block),
        (Ok(block), "sums") => Named::Sums(block),
        _ => Named::Other,
    }
}
