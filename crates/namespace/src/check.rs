//! What must hold of the rows at all times, written down so that tests, and an administrator in doubt, can ask.
//!
//! - Each inode stands in one place; from each a way leads up to the root, or to a deleted tree. PLACE says where,
//!   exactly.
//! - A directory counts its children right.
//! - The blocks of a file follow one another without gap; all but the last of an open file are complete, and none is
//!   empty then; their lengths add up to the file's. OWNER names for each block its file, exactly.
//! - A file is open if, and only if, a lease and a row of OPEN say so. A file under recovery is held by the recovery.
//! - Ids and generations lie below what the counters gave out; a block waits for deletion only at generations that no
//!   file names any more.
//! - An inode counts its extended attributes right; an access list is in order, and only directories have defaults.
//!   What is deleted has neither.
//! - A block whose home is not its birthplace is listed under its home.
//! - Each kept outcome has its expiry, and the reverse.
//! - A delegation token has a number that was given out.
//! - A directory has counted exactly what stands below it. It has a row for that if there is anything, or if it has
//!   limits.
//! - A directory's bound of the levels below it is above that of each directory in it. No tree is too deep.
//!
//! [`check`] reads all rows into memory; it is no call for a busy server.

use crate::acl_entry::AclScope;
use crate::delegation_token::DelegationToken;
use crate::inode::{NOWHERE, ROOT};
use crate::lease::RECOVERY_HOLDER;
use crate::limits::TREE_DEPTH_MAX;
use crate::record::{BlockRow, Body, Counters, DoomedRow, File, Inode, decode};
use crate::retry::{RetryRow, split_expiry};
use crate::safe_mode::SafeMode;
use crate::tables::{
    self, BLOCK, COUNTERS, DELEGATION_TOKEN, DOOMED_BLOCK, DOOMED_TREE, ENTRY, FRONT, LAST_TOKEN, LEASE, OPEN, OWNER,
    PLACE, RESERVED, RESIZED, RETRY, RETRY_EXPIRY, SAFE_MODE, USAGE, VISITOR, XATTR, split_entry, split_inode,
    split_lease, split_pair, split_token, split_xattr,
};
use crate::tree_usage::TreeUsage;
use crate::usage::DirectoryUsage;
use crate::xattr::XATTR_COUNT_MAX;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::ops::{Bound, ControlFlow};
use types::encoding::Encoded;
use types::limits::{CHILDREN_COUNT_MAX, MODE_MASK, NAME_LEN_MAX, REPLICATION_MAX};
use types::rows::{Rows, RowsError, Table};
use types::{BlockId, ContainerId, FileId, Generation, InodeId};

/// Something that does not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation(pub String);

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// All that is wrong. An error means the rows could not be read at all.
pub fn check(rows: &dyn Rows) -> Result<Vec<Violation>, RowsError> {
    let mut check = Check::default();
    check.load(rows)?;
    check.counters();
    check.tree();
    check.files();
    check.leases();
    check.attributes();
    check.outcomes();
    check.usage();
    Ok(check.violations)
}

#[derive(Default)]
struct Check {
    violations: Vec<Violation>,
    counters: Option<Counters>,
    reserved: Option<InodeId>,
    /// The highest number of a delegation token, and the last that was given out.
    last_token: Option<u32>,
    last_token_given: Option<u32>,
    /// By id: where it stands, and what it is.
    inodes: BTreeMap<InodeId, ((InodeId, Vec<u8>), Inode)>,
    places: BTreeMap<InodeId, (InodeId, Vec<u8>)>,
    deleted: BTreeMap<InodeId, Inode>,
    blocks: BTreeMap<FileId, Vec<(u64, BlockRow)>>,
    owners: BTreeMap<BlockId, (u64, u64)>,
    leases: BTreeSet<(FileId, String)>,
    open: BTreeSet<FileId>,
    doomed: Vec<(BlockId, DoomedRow)>,
    visitors: BTreeSet<(ContainerId, BlockId)>,
    outcomes: BTreeSet<Vec<u8>>,
    expiries: BTreeSet<Vec<u8>>,
    fronts: Vec<(Table, Vec<u8>)>,
    xattr_counts: BTreeMap<InodeId, u32>,
    tallies: BTreeMap<InodeId, DirectoryUsage>,
    /// Of every inode, without what is below it.
    used: BTreeMap<InodeId, TreeUsage>,
}

impl Check {
    fn wrong(&mut self, what: impl Into<String>) {
        self.violations.push(Violation(what.into()));
    }

    fn load(&mut self, rows: &dyn Rows) -> Result<(), RowsError> {
        for table in tables::ALL {
            rows.scan(table, Bound::Unbounded, &mut |key, value| {
                if self.load_row(table, key, value).is_none() {
                    self.wrong(format!("table {}: the row at {key:02x?} can not be read", table.0));
                }
                ControlFlow::Continue(())
            })?;
        }
        for (table, front) in std::mem::take(&mut self.fronts) {
            rows.scan(table, Bound::Unbounded, &mut |key, _| {
                if key < front.as_slice() {
                    self.wrong(format!("table {}: the row at {key:02x?} is before the front {front:02x?}", table.0));
                }
                ControlFlow::Break(())
            })?;
        }
        Ok(())
    }

    fn load_row(&mut self, table: Table, key: &[u8], value: &[u8]) -> Option<()> {
        match table {
            ENTRY => {
                let (parent, name) = split_entry(key)?;
                let inode: Inode = record(value)?;
                let id = inode.id;
                if let Some(((other, _), _)) = self.inodes.insert(id, ((parent, name.into()), inode)) {
                    self.wrong(format!("{id} stands in {other} and in {parent}"));
                }
            }
            PLACE => {
                let (parent, name) = split_entry(value)?;
                self.places.insert(split_inode(key)?, (parent, name.into()));
            }
            BLOCK => {
                let (file, offset) = split_pair(key)?;
                self.blocks.entry(InodeId(file)).or_default().push((offset, record(value)?));
            }
            OWNER => {
                self.owners.insert(BlockId(split_inode(key)?.0), split_pair(value)?);
            }
            LEASE => {
                let (holder, file) = split_lease(key)?;
                self.leases.insert((file, holder.into()));
            }
            OPEN => {
                self.open.insert(split_inode(key)?);
            }
            DOOMED_TREE => {
                let inode: Inode = record(value)?;
                let id = split_inode(key).filter(|id| *id == inode.id)?;
                self.deleted.insert(id, inode);
            }
            DOOMED_BLOCK => self.doomed.push((BlockId(split_pair(key)?.0), record(value)?)),
            RETRY => {
                let row: RetryRow = record(value)?;
                self.outcomes.insert([&row.expires.0.to_be_bytes(), key].concat());
            }
            RETRY_EXPIRY => {
                split_expiry(key)?;
                self.expiries.insert(key.into());
            }
            COUNTERS => self.counters = Some(record(value)?),
            RESERVED => self.reserved = Some(split_inode(value)?),
            VISITOR => {
                let (home, block) = split_pair(key)?;
                self.visitors.insert((ContainerId(home), BlockId(block)));
            }
            DELEGATION_TOKEN => {
                let _token: DelegationToken = record(value)?;
                self.last_token = self.last_token.max(Some(split_token(key)?));
            }
            LAST_TOKEN => self.last_token_given = Some(split_token(value).filter(|_| key.is_empty())?),
            SAFE_MODE => drop(record::<SafeMode>(value).filter(|_| key.is_empty())?),
            RESIZED => {
                split_inode(key)?;
            }
            FRONT => {
                let table = Table(*key.first()?);
                self.fronts.push((table, value.into()));
            }
            XATTR => {
                let (inode, _) = split_xattr(key).filter(|_| value.first() == Some(&1))?;
                *self.xattr_counts.entry(inode).or_default() += 1;
            }
            USAGE => {
                self.tallies.insert(split_inode(key)?, record(value)?);
            }
            _ => return None,
        }
        Some(())
    }

    fn counters(&mut self) {
        if self.last_token > self.last_token_given {
            self.wrong("a delegation token has a number that was never given out");
        }
        let Some(counters) = self.counters else {
            if !self.inodes.is_empty() {
                self.wrong("there are inodes, but no counters");
            }
            return;
        };
        let last = self.inodes.keys().chain(self.deleted.keys()).copied().chain(self.reserved).max();
        if last.is_some_and(|last| last > counters.inode) {
            self.wrong(format!("{last:?} was never given out"));
        }
        let issued = self.blocks.values().flatten().map(|(_, row)| row.issued).max();
        if issued.is_some_and(|issued| issued > counters.generation) {
            self.wrong(format!("{issued:?} was never given out"));
        }
        if !self.inodes.contains_key(&ROOT) {
            self.wrong("there is no root");
        }
    }

    fn tree(&mut self) {
        let mut found = Vec::new();
        let standing: BTreeMap<_, _> = self.inodes.iter().map(|(id, (place, _))| (*id, place.clone())).collect();
        if standing != self.places {
            let odd = standing.iter().find(|(id, place)| self.places.get(id) != Some(place)).map(|(id, _)| *id);
            let odd = odd.or_else(|| self.places.keys().find(|id| !standing.contains_key(id)).copied());
            found.push(format!("entries and places do not agree, for one of {odd:?}"));
        }
        let mut counts: BTreeMap<InodeId, u32> = BTreeMap::new();
        let mut safe: BTreeSet<InodeId> = self.deleted.keys().copied().chain([ROOT]).collect();
        for (id, ((parent, name), inode)) in &self.inodes {
            *counts.entry(*parent).or_default() += 1;
            check_inode(inode, &mut found);
            let right_name = match *id {
                ROOT => *parent == NOWHERE && name.is_empty(),
                _ => (1..=NAME_LEN_MAX).contains(&name.len()) && std::str::from_utf8(name).is_ok(),
            };
            if !right_name || name.contains(&b'/') {
                found.push(format!("{id} has the name {name:?} in {parent}"));
            }
            // Climb until a node that is known to be well; more steps than inodes mean a circle.
            let mut way = Vec::new();
            let mut at = *id;
            while !safe.contains(&at) && way.len() <= self.inodes.len() {
                way.push(at);
                at = self.inodes.get(&at).map_or(NOWHERE, |((parent, _), _)| *parent);
            }
            if safe.contains(&at) {
                safe.extend(way);
            } else {
                found.push(format!("no way leads from {id} to the root"));
            }
        }
        let directories = self.inodes.values().map(|(_, inode)| inode).chain(self.deleted.values());
        for inode in directories {
            let count = counts.remove(&inode.id).unwrap_or(0);
            if count != inode.child_count() || count > CHILDREN_COUNT_MAX {
                found.push(format!("{} counts {} children, but has {count}", inode.id, inode.child_count()));
            }
        }
        counts.remove(&NOWHERE);
        found.extend(counts.keys().map(|parent| format!("there are children of {parent}, which does not exist")));
        found.extend(
            self.deleted
                .keys()
                .filter(|id| self.inodes.contains_key(id))
                .map(|id| format!("{id} stands in the tree, and is deleted")),
        );
        self.violations.extend(found.into_iter().map(Violation));
    }

    fn files(&mut self) {
        let mut found = Vec::new();
        let mut owners = BTreeMap::new();
        let mut in_use = BTreeMap::new();
        let mut visitors = BTreeSet::new();
        let mut blocks = std::mem::take(&mut self.blocks);
        let standing = self.inodes.values().map(|(_, inode)| (inode, true));
        for (inode, stands) in standing.chain(self.deleted.values().map(|inode| (inode, false))) {
            let rows = blocks.remove(&inode.id).unwrap_or_default();
            for (offset, row) in &rows {
                owners.insert(row.block, (inode.id.0, *offset));
                in_use.insert(row.block, row.generation);
                if row.home != row.block.born_in() {
                    visitors.insert((row.home, row.block));
                }
            }
            self.used.insert(inode.id, usage_of(inode, &rows));
            match &inode.body {
                Body::File(file) => check_blocks(inode.id, file, &rows, stands, &mut found),
                Body::Directory { .. } if rows.is_empty() => {}
                Body::Directory { .. } => found.push(format!("the directory {} has blocks", inode.id)),
            }
        }
        found.extend(blocks.keys().map(|file| format!("there are blocks of {file}, which does not exist")));
        if owners != self.owners {
            let odd = owners.iter().find(|(block, at)| self.owners.get(block) != Some(at)).map(|(block, _)| *block);
            let odd = odd.or_else(|| self.owners.keys().find(|block| !owners.contains_key(block)).copied());
            found.push(format!("blocks and owners do not agree, for one of {odd:?}"));
        }
        if let Some(odd) = visitors.symmetric_difference(&self.visitors).next() {
            found.push(format!("the list of blocks that moved is wrong about {odd:?}"));
        }
        for (block, doomed) in &self.doomed {
            // A block that moved is doomed where it was, below its generation of today.
            if in_use.get(block).is_some_and(|generation| doomed.generation >= *generation) {
                found.push(format!("{block} is in use, but to be deleted at {}", doomed.generation));
            }
        }
        self.violations.extend(found.into_iter().map(Violation));
    }

    fn leases(&mut self) {
        let mut found = Vec::new();
        let mut held = BTreeSet::new();
        for ((_, _), inode) in self.inodes.values() {
            let Some(open) = inode.file().and_then(|file| file.open.as_ref()) else { continue };
            held.insert((inode.id, open.holder.clone()));
            if (open.holder == RECOVERY_HOLDER) != open.recovery.is_some() {
                found.push(format!("{} is held by {}, its recovery is {:?}", inode.id, open.holder, open.recovery));
            }
        }
        found.extend(self.deleted.values().filter_map(|inode| {
            inode.file()?.open.as_ref().map(|open| format!("{} is deleted, but open by {}", inode.id, open.holder))
        }));
        if held != self.leases {
            let odd = held.symmetric_difference(&self.leases).next();
            found.push(format!("open files and leases do not agree, for one of {odd:?}"));
        }
        let ids: BTreeSet<FileId> = held.iter().map(|(file, _)| *file).collect();
        if ids != self.open {
            let odd = ids.symmetric_difference(&self.open).next();
            found.push(format!("open files and their index do not agree, for one of {odd:?}"));
        }
        self.violations.extend(found.into_iter().map(Violation));
    }

    fn attributes(&mut self) {
        let mut counts = std::mem::take(&mut self.xattr_counts);
        let mut found = Vec::new();
        for ((_, _), inode) in self.inodes.values() {
            let count = counts.remove(&inode.id).unwrap_or(0);
            if count != inode.extra.xattr_count || count > XATTR_COUNT_MAX {
                found.push(format!("{} counts {} attributes, but has {count}", inode.id, inode.extra.xattr_count));
            }
            let acl = &inode.extra.acl;
            let defaults = acl.iter().any(|entry| entry.key.scope == AclScope::Default);
            if !acl.is_sorted_by(|one, next| one.key < next.key) || defaults && !inode.is_directory() {
                found.push(format!("the access list of {} is {acl:?}", inode.id));
            }
        }
        found.extend(counts.keys().map(|id| format!("there are attributes of {id}, which does not exist")));
        self.violations.extend(found.into_iter().map(Violation));
    }

    fn usage(&mut self) {
        let mut found = Vec::new();
        let mut counted: BTreeMap<InodeId, TreeUsage> = BTreeMap::new();
        let mut reachable = BTreeSet::new();
        let mut depth = 0;
        for id in self.inodes.keys() {
            let Some(above) = self.above(*id) else { continue };
            reachable.insert(*id);
            depth = depth.max(above.len());
            let used = self.used.get(id).copied().unwrap_or_default();
            for directory in above {
                let sum = counted.entry(directory).or_default();
                sum.files += used.files;
                sum.directories += used.directories;
                sum.len += used.len;
                sum.space += used.space;
            }
        }
        for (id, tally) in &self.tallies {
            // Below a deleted directory nobody counts any more.
            let inode = self.inodes.get(id).map(|(_, inode)| inode);
            if !inode.is_some_and(Inode::is_directory) || *tally == DirectoryUsage::default() {
                found.push(format!("{id} has counted {tally:?}, and is {inode:?}"));
            }
        }
        if depth > TREE_DEPTH_MAX {
            found.push(format!("something stands {depth} levels deep, of {TREE_DEPTH_MAX}"));
        }
        for id in reachable {
            let there = counted.get(&id).copied().unwrap_or_default();
            let below = self.tallies.get(&id).map(|tally| tally.below).unwrap_or_default();
            if below != there {
                found.push(format!("{id} has counted {below:?}, but there is {there:?}"));
            }
            let (parent, height) = (self.inodes.get(&id).map(|((parent, _), _)| *parent), self.height_max(id));
            if parent.is_some_and(|parent| parent != NOWHERE && self.height_max(parent) <= height) {
                found.push(format!("{id} may have {height} levels below it, and {parent:?} above it no more"));
            }
        }
        self.violations.extend(found.into_iter().map(Violation));
    }

    /// Levels that may stand below, as the directory has it. The bounds fall from the root to each inode, so each is
    /// one.
    fn height_max(&self, id: InodeId) -> u32 {
        self.tallies.get(&id).map_or(0, |tally| tally.height_max)
    }

    /// The directories on the way from an inode up to the root; `None` if it stands in a deleted tree.
    fn above(&self, id: InodeId) -> Option<Vec<InodeId>> {
        let mut above = Vec::new();
        let mut at = id;
        while at != ROOT {
            let ((parent, _), _) = self.inodes.get(&at).filter(|_| above.len() <= self.inodes.len())?;
            at = *parent;
            above.push(at);
        }
        Some(above)
    }

    fn outcomes(&mut self) {
        if self.outcomes != self.expiries {
            self.wrong("outcomes of calls and their expiries do not agree");
        }
    }
}

/// As `usage` counts, from the rows of its blocks.
fn usage_of(inode: &Inode, rows: &[(u64, BlockRow)]) -> TreeUsage {
    let Some(file) = inode.file() else { return TreeUsage { directories: 1, ..TreeUsage::default() } };
    let is_whole = |row: &BlockRow| row.is_complete() || row.cut_len().is_some() || file.open.is_none();
    let charged = |row: &BlockRow| if is_whole(row) { row.len } else { file.block_len };
    let len = rows.iter().map(|(_, row)| u128::from(row.len)).sum();
    let space = rows.iter().map(|(_, row)| u128::from(charged(row))).sum::<u128>() * u128::from(file.replication);
    TreeUsage { files: 1, directories: 0, len, space }
}

fn check_inode(inode: &Inode, found: &mut Vec<String>) {
    if inode.owner.is_empty() || inode.group.is_empty() || inode.mode & !MODE_MASK != 0 {
        found.push(format!("{} has owner {:?}, group {:?}, mode {:o}", inode.id, inode.owner, inode.group, inode.mode));
    }
    if let Some(file) = inode.file()
        && !(1..=REPLICATION_MAX).contains(&file.replication)
    {
        found.push(format!("{} has a replication of {}", inode.id, file.replication));
    }
}

fn check_blocks(id: FileId, file: &File, rows: &[(u64, BlockRow)], stands: bool, found: &mut Vec<String>) {
    let len = types::len::total(rows.iter().map(|(_, row)| row.len));
    if len != file.len || rows.len() != file.block_count as usize {
        found.push(format!(
            "{id} has {} bytes in {} blocks, its rows have {len} in {}",
            file.len,
            file.block_count,
            rows.len()
        ));
    }
    // A file that is being freed loses its first blocks first.
    let mut next = if stands { 0 } else { rows.first().map_or(0, |(offset, _)| *offset) };
    for (place, (offset, row)) in rows.iter().enumerate() {
        let last = place + 1 == rows.len();
        if *offset != next {
            found.push(format!("{} of {id} begins at {offset}, not at {next}", row.block));
        }
        next = offset.saturating_add(row.len);
        if row.is_complete() && row.len == 0 {
            found.push(format!("{} of {id} is complete and empty", row.block));
        }
        if !row.is_complete() && stands && !(last && file.open.is_some()) {
            found.push(format!("{} of {id} is under construction, but not the last of an open file", row.block));
        }
        if row.cut_len().is_some_and(|len| len == 0 || len >= row.len)
            || row.cut_len().is_some() && stands && file.open.as_ref().is_none_or(|open| open.recovery.is_none())
        {
            found.push(format!("{} of {id} has {} bytes, and is {:?}", row.block, row.len, row.state));
        }
        if row.generation > row.issued || row.generation == Generation(0) {
            found.push(format!("{} of {id} is at {}, of {} issued", row.block, row.generation, row.issued));
        }
    }
    if let Some(recovery) = file.open.as_ref().and_then(|open| open.recovery)
        && rows.last().is_none_or(|(_, row)| row.is_complete() || row.issued != recovery)
    {
        found.push(format!("{id} is under recovery at {recovery}, its last block is not"));
    }
}

fn record<T: Encoded>(value: &[u8]) -> Option<T> {
    decode("check", value).ok()
}
