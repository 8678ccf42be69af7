//! Limits on what the tree of a directory may hold: on names, on bytes with all replicas. What it does hold is in
//! [`crate::usage`].
//!
//! As in HDFS, a limit that is passed already refuses only what makes it worse.

use crate::error::NsError;
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

/// A limit that a change would pass, with what there would be then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Passed {
    Names { limit: u64, count: u64 },
    Space { limit: u64, space: u128 },
    DiskSpace { limit: u64, space: u128 },
}

impl StorageType {
    pub const ALL: [Self; 6] = [Self::Disk, Self::Ssd, Self::Archive, Self::RamDisk, Self::Provided, Self::Nvdimm];

    pub fn from_number(number: i32) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| *kind as i32 == number)
    }

    fn name(self) -> &'static str {
        match self {
            Self::Disk => "DISK",
            Self::Ssd => "SSD",
            Self::Archive => "ARCHIVE",
            Self::RamDisk => "RAM_DISK",
            Self::Provided => "PROVIDED",
            Self::Nvdimm => "NVDIMM",
        }
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

    /// In HDFS's words.
    pub(crate) fn refusal(self, path: &str) -> NsError {
        match self {
            Self::Names { limit, count } => NsError::NameQuota(format!(
                "The NameSpace quota (directories and files) of directory {path} is exceeded: quota={limit} file count={count}"
            )),
            Self::Space { limit, space } => NsError::SpaceQuota(format!(
                "The DiskSpace quota of {path} is exceeded: quota = {limit} B = {} but diskspace consumed = {space} B = {}",
                told(limit.into()),
                told(space)
            )),
            Self::DiskSpace { limit, space } => NsError::TypeQuota(format!(
                "Quota by storage type : {} on path : {path} is exceeded. quota = {} but space consumed = {}",
                StorageType::Disk.name(),
                told(limit.into()),
                told(space)
            )),
        }
    }
}

/// Bytes as HDFS tells them: `384 MB`, `1.50 GB`.
fn told(bytes: u128) -> String {
    const PREFIXES: [&str; 6] = ["K", "M", "G", "T", "P", "E"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let mut place = (bytes.ilog2() as usize / 10 - 1).min(PREFIXES.len() - 1);
    let unit = |place: usize| 1_u128 << (10 * (place + 1));
    if bytes.is_multiple_of(unit(place)) {
        return format!("{} {}B", bytes / unit(place), PREFIXES[place]);
    }
    let rounded = |place: usize| format!("{:.2}", bytes as f64 / unit(place) as f64);
    if rounded(place).starts_with("1024") && place + 1 < PREFIXES.len() {
        place += 1;
    }
    format!("{} {}B", rounded(place), PREFIXES[place])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_told_as_hdfs_tells_them() {
        let check = |bytes: u128, text: &str| assert_eq!(told(bytes), text);
        check(0, "0 B");
        check(1023, "1023 B");
        check(1 << 20, "1 MB");
        check(402_653_184, "384 MB");
        check(1_048_590, "1.00 MB");
        check((1 << 30) - 1, "1.00 GB");
        check(3 << 29, "1.50 GB");
        check(u128::from(u64::MAX), "16.00 EB");
    }
}
