//! Limits on what the tree of a directory may hold: on names, on bytes with all replicas. What it does hold is in
//! [`crate::usage`].
//!
//! As in HDFS, a limit that is passed already refuses only what makes it worse.

use crate::error::passed::Passed;
use crate::tree_usage::TreeUsage;

/// Where bytes may lie; the number is HDFS's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum StorageType {
    Disk = 1,
    Ssd = 2,
    Archive = 3,
    RamDisk = 4,
    Provided = 5,
    Nvdimm = 6,
}
types::numbered!(StorageType { 0 => Disk, 1 => Ssd, 2 => Archive, 3 => RamDisk, 4 => Provided, 5 => Nvdimm });

/// How much there may be. `None`: no limit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    pub names: Option<u64>,
    pub space: Option<u64>,
    /// Of single types, in order. All bytes are on disks, so no other limit is ever reached.
    pub of_types: Vec<(StorageType, u64)>,
}
types::record!(Limits { 0: names, 1: space, 2: of_types });

impl StorageType {
    pub const ALL: [Self; 6] = [Self::Disk, Self::Ssd, Self::Archive, Self::RamDisk, Self::Provided, Self::Nvdimm];

    pub fn from_number(number: i32) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| *kind as i32 == number)
    }
}

impl Limits {
    pub(crate) fn is_none(&self) -> bool {
        *self == Self::default()
    }

    pub fn of_type(&self, kind: StorageType) -> Option<u64> {
        self.of_types.iter().find(|(known, _)| *known == kind).map(|(_, limit)| *limit)
    }

    pub(crate) fn set_type(&mut self, kind: StorageType, limit: Option<u64>) {
        self.of_types.retain(|(known, _)| *known != kind);
        self.of_types.extend(limit.map(|limit| (kind, limit)));
        self.of_types.sort_unstable();
    }

    /// Refuses what takes more than before, and more than there may be.
    pub(crate) fn check(&self, before: TreeUsage, after: TreeUsage) -> Result<(), Passed> {
        let (had, count) = (before.names(), after.names());
        if let Some(limit) = self.names.filter(|limit| count > had && count > *limit) {
            return Err(Passed::Names { limit, count });
        }
        let space = after.space;
        let is_passed = |limit: &u64| space > before.space && space > u128::from(*limit);
        if let Some(limit) = self.space.filter(is_passed) {
            return Err(Passed::Space { limit, space });
        }
        if let Some(limit) = self.of_type(StorageType::Disk).filter(is_passed) {
            return Err(Passed::DiskSpace { limit, space });
        }
        Ok(())
    }
}

impl Passed {
    /// As it is when names come one by one.
    pub(crate) fn at_first_name(self, before: TreeUsage) -> Self {
        match self {
            Self::Names { limit, .. } => Self::Names { limit, count: before.names().max(limit).saturating_add(1) },
            passed => passed,
        }
    }
}
