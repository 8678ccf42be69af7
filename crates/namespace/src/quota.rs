//! Quotas: how many names, and how many bytes with all replicas, the tree of a directory may hold; and how many it does.
//!
//! ```text
//!            /         a payer: its row of QUOTA counts the whole tree below, itself included
//!           q
//!          / \
//!         a   p        another one; what is made in p is charged to p, then to q
//! ```
//!
//! Promise: what a payer has counted is what stands in its tree, and what deleted trees still owe it ([`crate::check`] adds it up). A
//! change climbs from its place to the root and charges the payers on the way, the deepest first. A marker row tells if there is any:
//! a store without quotas pays one look at it per change.
//!
//! As in HDFS, a block under construction counts as a full one, a limit that is passed already refuses only what makes it worse, and
//! whoever sets a limit, or moves a tree from payer to payer, waits until that tree is counted. Who deletes a large tree does not: it
//! owes its payers what is below it, and pays as `Reap` frees it.

use crate::block::last_row;
use crate::error::{Failure, NsError, corrupt};
use crate::inode::{Node, read_place};
use crate::record::{Inode, Record, decode, encode};
use crate::resolve::{CLIMB_MAX, ROOT, path_of};
use crate::tables::{QUOTA, QUOTA_MARKER_KEY, quota_debt_key, quota_key};
use crate::walk::Walk;
use serde::{Deserialize, Serialize};
use types::InodeId;
use types::rows::{Rows, RowsError, RowsMut};

/// Entries of a deleted tree that are counted at once: some ten milliseconds. A guess.
const COUNTED_AT_ONCE_MAX: usize = 10_000;

/// What a tree takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Files and directories, the top one included.
    pub names: u64,
    /// Bytes with all replicas. A file of the greatest length with the greatest replication does not fit 64 bits.
    pub space: u128,
}

/// Where bytes may lie; the number is HDFS's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum StorageType {
    Disk = 1,
    Ssd = 2,
    Archive = 3,
    RamDisk = 4,
    Provided = 5,
    Nvdimm = 6,
}

/// The one row that stands if any other of QUOTA does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Marker {
    pub(crate) payer_count: u64,
    pub(crate) debt_count: u64,
    /// Given out last.
    pub(crate) serial: u64,
}

/// A directory with a limit.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Payer {
    /// A directory whose limits were lifted and set again is another payer: old debts are not its own.
    pub(crate) serial: u64,
    pub(crate) limits: Limits,
    pub(crate) used: Usage,
}

/// How much there may be. `None`: no limit.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    pub names: Option<u64>,
    pub space: Option<u64>,
    /// Of single types, in order. All bytes are on disks, so no other limit is ever reached.
    pub of_types: Vec<(StorageType, u64)>,
}

/// Whom a deleted directory owes what is below it, with their serials.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Debt {
    pub(crate) payers: Vec<(InodeId, u64)>,
}

impl Record for Marker {}
impl Record for Payer {}
impl Record for Debt {}

/// What becomes of a charge that a limit does not allow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Excess {
    Refused,
    /// For what has happened already, and for what frees more than it takes.
    Recorded,
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

    /// Refuses what takes more than before, and more than there may be; in HDFS's words.
    fn check(&self, before: Usage, after: Usage, path: &str) -> Result<(), NsError> {
        if let Some(limit) = self.names.filter(|limit| after.names > before.names && after.names > *limit) {
            return Err(NsError::NameQuota(format!(
                "The NameSpace quota (directories and files) of directory {path} is exceeded: quota={limit} file count={}",
                after.names
            )));
        }
        let is_passed = |limit: &u64| after.space > before.space && after.space > u128::from(*limit);
        if let Some(limit) = self.space.filter(is_passed) {
            return Err(NsError::SpaceQuota(format!(
                "The DiskSpace quota of {path} is exceeded: quota = {limit} B = {} but diskspace consumed = {} B = {}",
                told(limit.into()),
                after.space,
                told(after.space)
            )));
        }
        if let Some(limit) = self.of_type(StorageType::Disk).filter(is_passed) {
            return Err(NsError::TypeQuota(format!(
                "Quota by storage type : {} on path : {path} is exceeded. quota = {} but space consumed = {}",
                StorageType::Disk.name(),
                told(limit.into()),
                told(after.space)
            )));
        }
        Ok(())
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

fn read<T: Record>(rows: &dyn Rows, key: &[u8]) -> Result<Option<T>, RowsError> {
    match rows.get(QUOTA, key)? {
        Some(bytes) => Ok(Some(decode("read a quota", &bytes)?)),
        None => Ok(None),
    }
}

fn marker(rows: &dyn Rows) -> Result<Option<Marker>, RowsError> {
    read(rows, QUOTA_MARKER_KEY)
}

fn write_marker(rows: &mut dyn RowsMut, marker: Marker) {
    if marker.payer_count == 0 && marker.debt_count == 0 {
        return rows.delete(QUOTA, QUOTA_MARKER_KEY);
    }
    rows.put(QUOTA, QUOTA_MARKER_KEY, encode(&marker));
}

pub(crate) fn payer(rows: &dyn Rows, directory: InodeId) -> Result<Option<Payer>, RowsError> {
    read(rows, &quota_key(directory))
}

/// Those who pay for what is in `directory`, the deepest first.
fn payers(rows: &dyn Rows, directory: InodeId) -> Result<Vec<InodeId>, RowsError> {
    let mut found = Vec::new();
    if marker(rows)?.is_none_or(|marker| marker.payer_count == 0) {
        return Ok(found);
    }
    let mut at = directory;
    for _ in 0..=CLIMB_MAX {
        if rows.get(QUOTA, &quota_key(at))?.is_some() {
            found.push(at);
        }
        match read_place(rows, at)? {
            Some(place) if at != ROOT => at = place.parent,
            _ => break,
        }
    }
    Ok(found)
}

fn charge(
    rows: &mut dyn RowsMut,
    payers: &[InodeId],
    before: Usage,
    after: Usage,
    excess: Excess,
) -> Result<(), Failure> {
    if before == after {
        return Ok(());
    }
    for id in payers {
        let mut row = payer(rows, *id)?.ok_or_else(|| corrupt("charge a quota", format!("{id} has none")))?;
        let used = row.used.less(before, *id)?.plus(after);
        if excess == Excess::Refused {
            let path = path_of(rows, *id)?.unwrap_or_default();
            row.limits.check(row.used, used, &path)?;
        }
        row.used = used;
        rows.put(QUOTA, &quota_key(*id), encode(&row));
    }
    Ok(())
}

impl Usage {
    fn plus(self, more: Self) -> Self {
        Self { names: self.names.saturating_add(more.names), space: self.space.saturating_add(more.space) }
    }

    fn less(self, part: Self, of: InodeId) -> Result<Self, RowsError> {
        let damaged = || corrupt("charge a quota", format!("{of} has counted {self:?}, and shall lose {part:?}"));
        let names = self.names.checked_sub(part.names).ok_or_else(damaged)?;
        let space = self.space.checked_sub(part.space).ok_or_else(damaged)?;
        Ok(Self { names, space })
    }
}

/// Of one inode, whatever is below it.
pub(crate) fn usage_of(rows: &dyn Rows, inode: &Inode) -> Result<Usage, RowsError> {
    let Some(file) = inode.file() else { return Ok(Usage { names: 1, space: 0 }) };
    let mut len = u128::from(file.len);
    if file.open.is_some()
        && let Some((_, row)) = last_row(rows, inode)?
        && !row.is_complete()
        // One that is being cut was charged as what it has, and gets smaller.
        && row.cut_len().is_none()
    {
        len = len.saturating_sub(row.len.into()) + u128::from(file.block_len);
    }
    Ok(Usage { names: 1, space: len * u128::from(file.replication) })
}

/// Of a tree. `None`: it has more than `entries_max` entries.
pub(crate) fn usage_of_tree(rows: &dyn Rows, top: &Inode, entries_max: usize) -> Result<Option<Usage>, Failure> {
    let mut used = usage_of(rows, top)?;
    if top.child_count() == 0 {
        return Ok(Some(used));
    }
    let ended = Walk::new(top.clone(), "/").step(rows, entries_max, &mut |seen| {
        used = used.plus(usage_of(rows, seen.inode)?);
        Ok(())
    })?;
    Ok(ended.then_some(used))
}

/// A file that is about to change, and who pays for it.
pub(crate) struct Bill {
    payers: Vec<InodeId>,
    before: Usage,
}

/// Begins a change of a file. Whoever begins one settles it.
pub(crate) fn bill(rows: &dyn Rows, node: &Node) -> Result<Bill, RowsError> {
    let payers = payers(rows, node.place.parent)?;
    let before = if payers.is_empty() { Usage::default() } else { usage_of(rows, &node.inode)? };
    Ok(Bill { payers, before })
}

impl Bill {
    /// Another file of the same directory is about to become part of this one.
    pub(crate) fn joins(&mut self, rows: &dyn Rows, other: &Inode) -> Result<(), RowsError> {
        if !self.payers.is_empty() {
            self.before = self.before.plus(usage_of(rows, other)?);
        }
        Ok(())
    }

    /// `inode` as it is in the rows now.
    pub(crate) fn settle(self, rows: &mut dyn RowsMut, inode: &Inode, excess: Excess) -> Result<(), Failure> {
        if self.payers.is_empty() {
            return Ok(());
        }
        let after = usage_of(rows, inode)?;
        charge(rows, &self.payers, self.before, after, excess)
    }
}

/// A new inode stands in `parent`.
pub(crate) fn add(rows: &mut dyn RowsMut, parent: InodeId, inode: &Inode) -> Result<(), Failure> {
    let payers = payers(rows, parent)?;
    if payers.is_empty() {
        return Ok(());
    }
    let used = usage_of(rows, inode)?;
    charge(rows, &payers, Usage::default(), used, Excess::Refused)
}

/// A tree is about to be taken from `parent`, and to be freed.
pub(crate) fn remove(rows: &mut dyn RowsMut, parent: InodeId, top: &Inode) -> Result<(), Failure> {
    let payers = payers(rows, parent)?;
    if payers.is_empty() {
        return Ok(());
    }
    let counted = match usage_of_tree(rows, top, COUNTED_AT_ONCE_MAX) {
        // Too deep to be walked: `Reap` needs no way down.
        Err(Failure::Refused(_)) => None,
        counted => counted?,
    };
    let used = match counted {
        Some(used) => used,
        None => {
            let mut debt = Debt { payers: Vec::with_capacity(payers.len()) };
            for id in &payers {
                debt.payers.extend(payer(rows, *id)?.map(|row| (*id, row.serial)));
            }
            owe(rows, top.id, &debt)?;
            usage_of(rows, top)?
        }
    };
    charge(rows, &payers, used, Usage::default(), Excess::Recorded)
}

/// A tree moves from one directory to another.
pub(crate) fn move_tree(rows: &mut dyn RowsMut, from: InodeId, to: InodeId, top: &Inode) -> Result<(), Failure> {
    if from == to {
        return Ok(());
    }
    let (mut from, mut to) = (payers(rows, from)?, payers(rows, to)?);
    while let (Some(one), Some(other)) = (from.last(), to.last())
        && one == other
    {
        from.pop();
        to.pop();
    }
    if from.is_empty() && to.is_empty() {
        return Ok(());
    }
    let used = usage_of_tree(rows, top, usize::MAX)?
        .ok_or_else(|| corrupt("count a tree", format!("the walk below {} never ended", top.id)))?;
    charge(rows, &to, Usage::default(), used, Excess::Refused)?;
    charge(rows, &from, used, Usage::default(), Excess::Recorded)
}

/// Sets the limits of a directory, which counts from then on.
pub(crate) fn set_limits(rows: &mut dyn RowsMut, directory: &Inode, limits: Limits) -> Result<(), Failure> {
    let mut marker = marker(rows)?.unwrap_or_default();
    let row = match payer(rows, directory.id)? {
        _ if limits.is_none() => return Ok(forget(rows, directory.id)?),
        Some(row) => Payer { limits, ..row },
        None => {
            let used = usage_of_tree(rows, directory, usize::MAX)?
                .ok_or_else(|| corrupt("count a tree", format!("the walk below {} never ended", directory.id)))?;
            marker.payer_count += 1;
            marker.serial += 1;
            write_marker(rows, marker);
            Payer { serial: marker.serial, limits, used }
        }
    };
    rows.put(QUOTA, &quota_key(directory.id), encode(&row));
    Ok(())
}

/// A directory pays no more: its limits were lifted, or it was deleted.
pub(crate) fn forget(rows: &mut dyn RowsMut, directory: InodeId) -> Result<(), RowsError> {
    let Some(mut marker) = marker(rows)? else { return Ok(()) };
    let key = quota_key(directory);
    if rows.get(QUOTA, &key)?.is_some() {
        rows.delete(QUOTA, &key);
        marker.payer_count = marker.payer_count.saturating_sub(1);
        write_marker(rows, marker);
    }
    Ok(())
}

/// What a deleted directory owes.
pub(crate) fn debt(rows: &dyn Rows, directory: InodeId) -> Result<Option<Debt>, RowsError> {
    match marker(rows)? {
        Some(marker) if marker.debt_count > 0 => read(rows, &quota_debt_key(directory)),
        _ => Ok(None),
    }
}

fn owe(rows: &mut dyn RowsMut, directory: InodeId, debt: &Debt) -> Result<(), RowsError> {
    let mut marker = marker(rows)?.unwrap_or_default();
    marker.debt_count += 1;
    write_marker(rows, marker);
    rows.put(QUOTA, &quota_debt_key(directory), encode(debt));
    Ok(())
}

/// A child of a deleted directory is about to be freed: it is paid for, and what is below it is owed from then on.
pub(crate) fn pay(rows: &mut dyn RowsMut, debt: &Debt, child: &Inode) -> Result<(), RowsError> {
    let used = usage_of(rows, child)?;
    for (id, serial) in &debt.payers {
        if let Some(mut row) = payer(rows, *id)?.filter(|row| row.serial == *serial) {
            row.used = row.used.less(used, *id)?;
            rows.put(QUOTA, &quota_key(*id), encode(&row));
        }
    }
    if child.child_count() > 0 { owe(rows, child.id, debt) } else { Ok(()) }
}

/// Nothing is left below a deleted directory.
pub(crate) fn end_debt(rows: &mut dyn RowsMut, directory: InodeId) -> Result<(), RowsError> {
    let Some(mut marker) = marker(rows)? else { return Ok(()) };
    rows.delete(QUOTA, &quota_debt_key(directory));
    marker.debt_count = marker.debt_count.saturating_sub(1);
    write_marker(rows, marker);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Caller, Delete, Format, Mkdirs, Op, QuotaChange, Reap, Request, SetQuota, apply, check::check};
    use types::rows::MemoryRows;
    use types::{FsPath, Millis};

    fn run(rows: &mut MemoryRows, op: impl Into<Op>) {
        let request = Request { now: Millis(1), caller: Caller::system(), retry: None, op: op.into() };
        apply(rows, &request).unwrap().unwrap();
    }

    fn path(text: &str) -> FsPath {
        FsPath::parse(text).unwrap()
    }

    fn limit(rows: &mut MemoryRows, on: &str, names: QuotaChange) {
        run(rows, SetQuota { path: path(on), names, space: QuotaChange::Keep, of_type: None });
    }

    fn names(rows: &MemoryRows, of: &str) -> u64 {
        let quota = crate::read::quota(rows, &Caller::system(), &path(of)).unwrap().unwrap();
        quota.unwrap().used.names
    }

    /// A tree too large to be counted while it is deleted owes what is below it, and pays as it is freed: to whom it owes,
    /// not to who has limits by now.
    #[test]
    fn a_large_deleted_tree_pays_bit_by_bit() {
        let mut rows = MemoryRows::default();
        run(&mut rows, Format { owner: "root".into(), group: "supergroup".into() });
        let child_count = COUNTED_AT_ONCE_MAX / 2 + 1;
        for at in 0..child_count {
            run(&mut rows, Mkdirs { path: path(&format!("/q/old/t/{at}/x")), mode: 0o755, create_parent: true });
        }
        limit(&mut rows, "/q", QuotaChange::Set(u64::MAX));
        limit(&mut rows, "/q/old", QuotaChange::Set(u64::MAX));
        let all = 2 * child_count as u64 + 3;
        assert_eq!((names(&rows, "/q"), names(&rows, "/q/old")), (all, all - 1));
        run(&mut rows, Delete { path: path("/q/old/t"), recursive: true });
        assert_eq!(names(&rows, "/q"), all - 1, "its top at once");
        // Another one from now on, which has not counted what is gone.
        limit(&mut rows, "/q/old", QuotaChange::Lift);
        limit(&mut rows, "/q/old", QuotaChange::Set(5));
        assert_eq!(names(&rows, "/q/old"), 1);
        while crate::read::has_deleted_trees(&rows).unwrap() {
            run(&mut rows, Reap { inodes_max: all as u32 / 3 });
            assert_eq!(check(&rows).unwrap(), []);
        }
        assert_eq!((names(&rows, "/q"), names(&rows, "/q/old")), (2, 1));
        limit(&mut rows, "/q/old", QuotaChange::Lift);
        limit(&mut rows, "/q", QuotaChange::Lift);
        assert!(rows.iter().all(|(table, ..)| table != QUOTA), "nothing is left behind");
    }

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
