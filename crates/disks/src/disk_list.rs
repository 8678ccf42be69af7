//! Which disks a node has: a few lines of text in `DISKS`, on each of them, so that one that is missing is missed.
//!
//! ```text
//! # Disks of a Levada datanode
//! format = 1
//! node = 00112233-4455-4677-8899-aabbccddeeff
//! number = 3                                            rises with each change: the highest counts
//! disk = 00112233-4455-4677-8899-aabbccddeeff /srv/d1   a volume, and the directory it was in
//! disk = …
//! ```
//!
//! A node with one directory that never had more has no such file.

use container::VolumeIdentity;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};
use types::NodeId;

const NAME: &str = "DISKS";
const FORMAT: u32 = 1;
/// Longer ones are none: a line for each of some hundred disks.
const LEN_MAX: u64 = 1 << 20;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DiskList {
    pub(crate) node: NodeId,
    pub(crate) number: u64,
    /// Volumes and the directories they were in.
    pub(crate) disks: Vec<(NodeId, PathBuf)>,
}

impl DiskList {
    /// What `dir` knows; `None` if nothing, or nothing that can be read.
    pub(crate) fn read(dir: &Path) -> Option<Self> {
        let path = dir.join(NAME);
        let read = std::fs::metadata(&path).and_then(|meta| {
            if meta.len() > LEN_MAX { Err(ErrorKind::InvalidData.into()) } else { std::fs::read_to_string(&path) }
        });
        match read {
            Ok(text) => {
                let list = Self::parse(&text);
                if list.is_none() {
                    tracing::warn!(path = %path.display(), "this is no list of disks; it is written anew");
                }
                list
            }
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            Err(error) => {
                tracing::warn!(path = %path.display(), %error, "the list of disks cannot be read here");
                None
            }
        }
    }

    fn parse(text: &str) -> Option<Self> {
        let lines =
            || text.lines().filter_map(|line| line.split_once('=')).map(|(key, value)| (key.trim(), value.trim()));
        let value = |name| lines().find(|(key, _)| *key == name).map(|(_, value)| value);
        if value("format")?.parse::<u32>().ok()? > FORMAT {
            return None;
        }
        let disk = |(_, value): (&str, &str)| {
            let (volume, dir) = value.split_once(' ')?;
            Some((NodeId::parse(volume)?, PathBuf::from(dir)))
        };
        let disks = lines().filter(|(key, _)| *key == "disk").map(disk).collect::<Option<_>>()?;
        Some(Self { node: NodeId::parse(value("node")?)?, number: value("number")?.parse().ok()?, disks })
    }

    fn text(&self) -> String {
        let mut text = format!(
            "# Disks of a Levada datanode\nformat = {FORMAT}\nnode = {}\nnumber = {}\n",
            self.node, self.number
        );
        for (volume, dir) in &self.disks {
            let _infallible = writeln!(text, "disk = {volume} {}", dir.display());
        }
        text
    }

    /// Written beside, synced and renamed: a crash leaves the old one or the new one.
    pub(crate) fn write(&self, dir: &Path) -> std::io::Result<()> {
        let (path, beside) = (dir.join(NAME), dir.join("DISKS.new"));
        let mut file = File::create(&beside)?;
        file.write_all(self.text().as_bytes())?;
        io::file::sync_all(&file)?;
        std::fs::rename(&beside, &path)?;
        io::file::sync_dir(dir)
    }

    /// The volume that was in this directory.
    pub(crate) fn was_in(&self, dir: &Path) -> Option<NodeId> {
        self.disks.iter().find(|(_, was)| was == dir).map(|(volume, _)| *volume)
    }

    /// The newest list that one of these volumes has of its node.
    pub(crate) fn newest<'a>(found: impl Iterator<Item = (&'a Path, &'a VolumeIdentity)>) -> Option<Self> {
        let lists = found.filter_map(|(dir, identity)| Self::read(dir).filter(|list| list.node == identity.node));
        lists.max_by_key(|list| list.number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_reads_as_it_was_written() {
        let dir = tempfile::tempdir().unwrap();
        let disks = vec![(NodeId([1; 16]), "/srv/with space = 1/d1".into()), (NodeId([2; 16]), "/srv/d2".into())];
        let list = DiskList { node: NodeId([9; 16]), number: 3, disks };
        assert_eq!(DiskList::read(dir.path()), None);
        list.write(dir.path()).unwrap();
        assert_eq!(DiskList::read(dir.path()), Some(list.clone()));
        assert_eq!(list.was_in(Path::new("/srv/d2")), Some(NodeId([2; 16])));
        for damage in ["format = 1", "format = 2", "disk = x", ""] {
            std::fs::write(dir.path().join(NAME), list.text().replace("format = 1", damage)).unwrap();
            assert_eq!(DiskList::read(dir.path()).is_some(), damage == "format = 1", "{damage}");
        }
    }
}
