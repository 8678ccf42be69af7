//! The volume's identity: a few lines of text, written once, in two files. Without the salt no record of a pack is
//! found, so `containers/` has a copy, from which a `VERSION` that is lost or damaged is written anew.
//!
//! ```text
//! # Levada volume
//! format = 2
//! salt = 8899aabbccddeeff0011223344556677
//! volume = 00112233-4455-4677-8899-aabbccddeeff
//! node = 00112233-4455-4677-8899-aabbccddeeff
//! pool = BP-…                                        once the node was registered
//! ```

use crate::errno::is_lost;
use crate::error::VolumeError;
use crate::layout::Layout;
use std::fmt::{self, Write as _};
use std::fs::File;
use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};
use types::NodeId;

/// The layout described in [`crate::layout`] and the files' own headers.
pub(crate) const FORMAT: u32 = 2;

/// Drawn when a volume is made, and told to nobody: records in packs are known by it (see [`crate::record`]).
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Salt(pub(crate) [u8; 16]);

impl Salt {
    fn parse(text: &str) -> Option<Self> {
        let number = u128::from_str_radix(text, 16).ok().filter(|_| text.len() == 32)?;
        Some(Self(number.to_be_bytes()))
    }
}

impl fmt::Debug for Salt {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "Salt")
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumeIdentity {
    /// Drawn when the directory was made. Shown like a node's.
    pub volume: NodeId,
    /// The node whose volume this is.
    pub node: NodeId,
    /// The cluster whose blocks lie here; `None` until the node was registered once.
    pub pool: Option<String>,
    pub salt: Salt,
}

impl VolumeIdentity {
    /// Whose volume is in `dir`; `None` if nothing says so, or there is no such directory.
    pub fn of(dir: &Path) -> Result<Option<Self>, VolumeError> {
        Self::read(&Layout { dir: dir.to_owned() })
    }

    /// A new volume's.
    pub(crate) fn draw(node: NodeId) -> Self {
        Self { volume: NodeId(io::random::uuid()), node, pool: None, salt: Salt(io::random::uuid()) }
    }

    /// What `VERSION` says, or its copy where that is lost or damaged.
    pub(crate) fn read(layout: &Layout) -> Result<Option<Self>, VolumeError> {
        let first = Self::read_at(&layout.version(), layout);
        let is_lost = match &first {
            Ok(found) => found.is_none(),
            Err(VolumeError::Identity { .. }) => true,
            Err(VolumeError::Io { source, .. }) => source.kind() == ErrorKind::InvalidData || is_lost(source),
            Err(_) => false,
        };
        if !is_lost {
            return first;
        }
        match (first, Self::read_at(&layout.version_copy(), layout)) {
            (Ok(_none), copy) => copy,
            (Err(_), Ok(Some(copy))) => Ok(Some(copy)),
            (first, _) => first,
        }
    }

    fn read_at(path: &Path, layout: &Layout) -> Result<Option<Self>, VolumeError> {
        match std::fs::read_to_string(path) {
            Ok(text) => Self::parse(&text, path, layout).map(Some),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(source) => Err(VolumeError::Io { op: "read", path: path.display().to_string(), source }),
        }
    }

    /// What `VERSION` itself says, from the disk: what is in memory would be told of one that hangs, too.
    pub(crate) fn read_from_disk(layout: &Layout) -> Result<Option<Self>, VolumeError> {
        if let Ok(file) = File::open(layout.version())
            && let Ok(metadata) = file.metadata()
        {
            // Only a hint. Where it is not taken, a disk that hangs is found out later.
            let _refused = io::file::drop_cache(&file, 0, metadata.len());
        }
        Self::read_at(&layout.version(), layout)
    }

    pub(crate) fn parse(text: &str, path: &Path, layout: &Layout) -> Result<Self, VolumeError> {
        let path = path.display().to_string();
        let bad = |reason: String| VolumeError::Identity { path: path.clone(), reason };
        let value = |name: &str| {
            let mut lines = text.lines().filter_map(|line| line.split_once('='));
            lines.find(|(key, _)| key.trim() == name).map(|(_, value)| value.trim())
        };
        let format = value("format").and_then(|number| number.parse().ok());
        let have: u32 = format.ok_or_else(|| bad("it has no format number".into()))?;
        if have > FORMAT {
            return Err(VolumeError::Format { dir: layout.dir.display().to_string(), have, known: FORMAT });
        }
        if have < FORMAT {
            return Err(bad(format!("format {have} is that of a program before the first release")));
        }
        let salt = value("salt").and_then(Salt::parse);
        let salt = salt.ok_or_else(|| bad("`salt` is missing, or not 32 hexadecimal digits".into()))?;
        let id = |name: &str| {
            value(name).and_then(NodeId::parse).ok_or_else(|| bad(format!("`{name}` is missing or not a UUID")))
        };
        Ok(Self { volume: id("volume")?, node: id("node")?, pool: value("pool").map(str::to_owned), salt })
    }

    /// Writes both files; a crash leaves the old or the new one of each. `VERSION` comes first: it counts.
    pub(crate) fn write(&self, layout: &Layout) -> Result<(), VolumeError> {
        self.write_at(&layout.version(), &layout.dir)?;
        self.write_at(&layout.version_copy(), &layout.containers())
    }

    /// Writes whichever of the two files does not say this. A disk that is full opens without the copy.
    pub(crate) fn repair(&self, layout: &Layout) -> Result<(), VolumeError> {
        let says_this = |path: &Path| matches!(Self::read_at(path, layout), Ok(Some(there)) if there == *self);
        let (version, copy) = (layout.version(), layout.version_copy());
        if !says_this(&version) {
            tracing::error!(path = %version.display(), "lost or damaged; written anew from its copy");
            self.write_at(&version, &layout.dir)?;
        }
        if !says_this(&copy)
            && let Err(error) = self.write_at(&copy, &layout.containers())
        {
            tracing::warn!(%error, "the volume's identity has no copy; the next start tries again");
        }
        Ok(())
    }

    fn write_at(&self, path: &Path, dir: &Path) -> Result<(), VolumeError> {
        replace(path, dir, self.text().as_bytes()).map_err(|source| VolumeError::Io {
            op: "write",
            path: path.display().to_string(),
            source,
        })
    }

    pub(crate) fn text(&self) -> String {
        let salt = u128::from_be_bytes(self.salt.0);
        let mut text = format!(
            "# Levada volume\nformat = {FORMAT}\nsalt = {salt:032x}\nvolume = {}\nnode = {}\n",
            self.volume, self.node
        );
        if let Some(pool) = &self.pool {
            let _infallible = writeln!(text, "pool = {pool}");
        }
        text
    }
}

/// Refuses a directory that has no identity and is not new: with another salt, nothing in its packs would be found.
pub(crate) fn check_unused(layout: &Layout) -> Result<(), VolumeError> {
    for dir in [layout.containers(), layout.index()] {
        let is_empty = match std::fs::read_dir(&dir) {
            Ok(mut entries) => entries.next().is_none(),
            Err(error) if error.kind() == ErrorKind::NotFound => true,
            Err(source) => return Err(VolumeError::Io { op: "list", path: dir.display().to_string(), source }),
        };
        if !is_empty {
            let path = |path: PathBuf| path.display().to_string();
            let (version, copy) = (path(layout.version()), path(layout.version_copy()));
            return Err(VolumeError::IdentityLost { dir: path(dir), version, copy });
        }
    }
    Ok(())
}

/// Beside, synced and renamed.
fn replace(path: &Path, dir: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let beside = path.with_extension("new");
    let mut file = File::create(&beside)?;
    file.write_all(bytes)?;
    io::file::sync_all(&file)?;
    std::fs::rename(&beside, path)?;
    io::file::sync_dir(dir)
}
