//! Where things lie in a volume's directory.
//!
//! ```text
//! VERSION                          whose volume this is; text
//! lock                             held by the process that has the volume open
//! index/                           the key-value store of replica and container records
//! ahead/<container>                empty; the container may hold replicas that the index on disk does not know yet
//! open/<block>.data, .sums         replicas that are not finalized
//! open/slot-<number>               the same, as long as they are short: one each, used again and again
//! containers/VERSION               the same as in VERSION, should that be lost
//! containers/<container>/<block>.data, .sums     finalized replicas, each a file and its checksums
//! containers/<container>/pack                    small finalized replicas, one record each
//! quarantine/<directory>-<name>                  what could not be what its name says, moved out of the way for someone to look at
//! ```

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use types::{BlockId, ContainerId};

#[derive(Clone, Debug)]
pub(crate) struct Layout {
    pub dir: PathBuf,
}

impl Layout {
    pub(crate) fn version(&self) -> PathBuf {
        self.dir.join("VERSION")
    }

    pub(crate) fn version_copy(&self) -> PathBuf {
        self.containers().join("VERSION")
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

    pub(crate) fn quarantine(&self) -> PathBuf {
        self.dir.join("quarantine")
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
    let Some((text, kind)) = name.to_str().and_then(|name| name.split_once('.')) else { return Named::Other };
    match (number(text).map(BlockId), kind) {
        (Some(block), "data") => Named::Data(block),
        (Some(block), "sums") => Named::Sums(block),
        _ => Named::Other,
    }
}

/// A number as names have it: `7` is one, `07` and `+7` are somebody else's.
pub(crate) fn number(text: &str) -> Option<u64> {
    text.parse().ok().filter(|number: &u64| number.to_string() == text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_means_one_file() {
        let named = |name: &str| named(OsStr::new(name));
        assert_eq!((named("7.data"), named("7.sums")), (Named::Data(BlockId(7)), Named::Sums(BlockId(7))));
        for name in ["07.data", "+7.data", "7.data.bak", "7", ".data", "-7.sums", "18446744073709551616.sums", "pack"] {
            assert_eq!(named(name), Named::Other, "{name}");
        }
    }
}
