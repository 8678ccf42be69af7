//! Which directories a node starts with.
//!
//! ```text
//! VERSION there ── of this node ─────▶ opened, wherever it lies now       of another node or cluster ─▶ refused
//!               ── does not open ────▶ failed, the node goes on           in use by another process  ─▶ refused
//!                                                                         no addresses for its index ─▶ refused
//! nothing there ── a disk was here ──▶ failed: it is missing, not empty   (a file NEW-DISK says that it is a new one)
//!               ── none was ─────────▶ joins
//! ```
//!
//! Which disk was where is written on each of them ([`crate::known`]). A disk that is in no configured directory any
//! more was taken away on purpose, and is forgotten.

use crate::block_locations::BlockLocations;
use crate::disk::Disk;
use crate::disk_list::DiskList;
use crate::disks::{Disks, UnopenedDisk};
use crate::index::{DISK_COUNT_MAX, Index};
use crate::{duplicates, thread_quota};
use container::{Options, Volume, VolumeError, VolumeIdentity};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use types::NodeId;

/// Why no disk of a node was opened, or one is not to be used.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error("the volume: {0}")]
    Volume(#[from] VolumeError),
    #[error("{0}")]
    Dirs(String),
}

/// Says that the empty directory beside it is a new disk in the place of one that is gone for good.
const MARK: &str = "NEW-DISK";

/// Opens the volumes in these directories; those that are new are made.
pub fn open(dirs: &[PathBuf], options: &Options) -> Result<Disks, OpenError> {
    if dirs.len() > DISK_COUNT_MAX {
        return Err(OpenError::Dirs(format!("{} directories are too many; a node takes {DISK_COUNT_MAX}", dirs.len())));
    }
    let found: Vec<_> = dirs.iter().map(|dir| VolumeIdentity::of(dir)).collect();
    let there =
        || dirs.iter().zip(&found).filter_map(|(dir, found)| Some((dir.as_path(), found.as_ref().ok()?.as_ref()?)));
    check(there(), options.node)?;
    let former_list = DiskList::newest(there());
    let node = there().next().map(|(_, identity)| identity.node).or(options.node);
    let pool = there().find_map(|(_, identity)| identity.pool.clone());
    // The volume that was here, if it is nowhere now.
    let was = |dir: &PathBuf| {
        let volume = former_list.as_ref()?.was_in(dir)?;
        (!there().any(|(_, identity)| identity.volume == volume)).then_some(volume)
    };
    let missing: Vec<Option<NodeId>> = dirs.iter().map(was).collect();
    let options = Options { node, ..options.clone() };
    let mut opening = Opening { options, pool, dir_count: dirs.len(), disks: Vec::new(), unopened: Vec::new() };
    for ((dir, found), missing) in dirs.iter().zip(found).zip(missing) {
        match (found, missing) {
            (Ok(Some(identity)), _) => opening.open(dir, Some(identity.volume))?,
            (Ok(None), Some(volume)) if !dir.join(MARK).exists() => opening.miss(dir, volume),
            (Ok(None), _) => opening.open(dir, None)?,
            (Err(error), missing) => opening.fail(dir, missing, error)?,
        }
    }
    opening.end(former_list)
}

/// All must be of one node (of `node`, if that is given) and one cluster, and each another one.
fn check<'a>(
    there: impl Iterator<Item = (&'a Path, &'a VolumeIdentity)>,
    mut node: Option<NodeId>,
) -> Result<(), OpenError> {
    let mut by_volume: BTreeMap<NodeId, &Path> = BTreeMap::new();
    let mut pool: Option<&String> = None;
    for (dir, identity) in there {
        let dir_text = dir.display().to_string();
        let of = *node.get_or_insert(identity.node);
        if of != identity.node {
            return Err(VolumeError::Foreign { dir: dir_text, have: identity.node, want: of }.into());
        }
        if let Some(have) = &identity.pool {
            let want = pool.get_or_insert(have);
            if *want != have {
                let (have, want) = (have.clone(), (*want).clone());
                return Err(VolumeError::ForeignPool { dir: dir_text, have, want }.into());
            }
        }
        if let Some(other) = by_volume.insert(identity.volume, dir) {
            return Err(OpenError::Dirs(format!(
                "{} and {dir_text} are the same disk, or copies of each other; name one of them",
                other.display()
            )));
        }
    }
    Ok(())
}

struct Opening {
    options: Options,
    pool: Option<String>,
    dir_count: usize,
    disks: Vec<Disk>,
    unopened: Vec<UnopenedDisk>,
}

impl Opening {
    fn open(&mut self, dir: &Path, volume: Option<NodeId>) -> Result<(), OpenError> {
        let opened = Volume::open(dir, self.options.clone()).and_then(|opened| {
            if let Some(pool) = &self.pool {
                opened.join_pool(pool)?;
            }
            Ok(opened)
        });
        match opened {
            Ok(opened) => {
                // The first of a new node draws its id.
                self.options.node = Some(opened.identity().node);
                if volume.is_none() {
                    let _ = std::fs::remove_file(dir.join(MARK));
                    tracing::info!(dir = %dir.display(), "a new disk");
                }
                self.disks.push(Disk::new(dir, opened, thread_quota::of_disk(self.dir_count)));
                Ok(())
            }
            Err(error) => self.fail(dir, volume, error),
        }
    }

    fn miss(&mut self, dir: &Path, volume: NodeId) {
        let reason =
            format!("the disk that was here is missing; mount it, or if it is replaced, make a file {MARK} here");
        self.leave_unopened(dir, Some(volume), reason);
    }

    fn fail(&mut self, dir: &Path, volume: Option<NodeId>, error: VolumeError) -> Result<(), OpenError> {
        use VolumeError::{Addresses, Foreign, ForeignPool, Format, Locked};
        // Nothing is wrong with a disk for which the process has no room: to go on without it would have all of it
        // copied.
        let is_fatal =
            matches!(error, Foreign { .. } | ForeignPool { .. } | Format { .. } | Locked { .. } | Addresses { .. });
        if is_fatal {
            return Err(error.into());
        }
        self.leave_unopened(dir, volume, error.to_string());
        Ok(())
    }

    fn leave_unopened(&mut self, dir: &Path, volume: Option<NodeId>, reason: String) {
        self.unopened.push(UnopenedDisk { dir: dir.to_owned(), volume, reason });
    }

    fn end(self, former_list: Option<DiskList>) -> Result<Disks, OpenError> {
        let Self { disks, unopened, pool, options, dir_count } = self;
        let (Some(node), false) = (options.node, disks.is_empty()) else {
            let reasons: Vec<String> =
                unopened.iter().map(|disk| format!("{}: {}", disk.dir.display(), disk.reason)).collect();
            return Err(OpenError::Dirs(format!("no disk can be used: {}", reasons.join("; "))));
        };
        for UnopenedDisk { dir, reason, .. } in &unopened {
            tracing::error!(dir = %dir.display(), reason, "a disk has failed; the node goes on without it");
        }
        assert_eq!(
            disks.len() + unopened.len(),
            dir_count,
            "each directory has a disk that was opened, or one that was not"
        );
        write_disk_list(node, &disks, &unopened, former_list);
        let found = if disks.len() == 1 {
            (BlockLocations::One, Vec::new())
        } else {
            let index = Index::default();
            let duplicates = duplicates::fill(&index, &disks);
            (BlockLocations::several(index), duplicates)
        };
        Ok(Disks::new(node, pool, (disks, unopened), found))
    }
}

/// Writes down which disks there are, if that has changed.
fn write_disk_list(node: NodeId, disks: &[Disk], unopened: &[UnopenedDisk], former_list: Option<DiskList>) {
    let there = disks.iter().map(|disk| (disk.identity().volume, disk.dir().to_owned()));
    let missing = unopened.iter().filter_map(|disk| Some((disk.volume?, disk.dir.clone())));
    let mut now: Vec<(NodeId, PathBuf)> = there.chain(missing).collect();
    now.sort();
    let number = former_list.as_ref().map_or(0, |former_list| former_list.number);
    if let Some(former_list) = &former_list {
        for (volume, dir) in former_list.disks.iter().filter(|(volume, _)| !now.iter().any(|(now, _)| now == volume)) {
            tracing::warn!(
                %volume, dir = %dir.display(),
                "a disk of this node is in none of its directories any more; it is forgotten"
            );
        }
    }
    let changed = former_list.as_ref().is_none_or(|former_list| former_list.disks != now);
    if former_list.is_none() && now.len() == 1 {
        return; // it never had more
    }
    let list = DiskList { node, number: number + u64::from(changed), disks: now };
    for disk in disks {
        if DiskList::read(disk.dir()).as_ref() != Some(&list)
            && let Err(error) = list.write(disk.dir())
        {
            // One that is full, say. The others know.
            tracing::warn!(dir = %disk.dir().display(), %error, "the list of disks was not written");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file lies where the directory of a disk should be.
    #[test]
    fn a_node_starts_without_a_disk_if_another_one_opens() {
        let dir = tempfile::tempdir().unwrap();
        let [bad, good] = ["bad", "good"].map(|name| dir.path().join(name));
        std::fs::write(&bad, "no directory").unwrap();
        let options = Options::default();
        let alone = open(std::slice::from_ref(&bad), &options).unwrap_err().to_string();
        assert!(alone.contains("no disk can be used") && alone.contains(&bad.display().to_string()), "{alone}");
        let disks = open(&[bad.clone(), good], &options).unwrap();
        let failed: Vec<String> =
            disks.reports().into_iter().filter(|disk| !disk.failure.is_empty()).map(|disk| disk.dir).collect();
        assert_eq!((disks.disks().len(), failed), (1, vec![bad.display().to_string()]));
    }
}
