//! The volume's identity: a few lines of text, written once.
//!
//! ```text
//! # Levada volume
//! format = 2
//! salt = 8899aabbccddeeff0011223344556677
//! volume = 00112233-4455-4677-8899-aabbccddeeff
//! node = 00112233-4455-4677-8899-aabbccddeeff
//! pool = BP-…                                        once the node was registered
//! ```

use crate::error::VolumeError;
use crate::layout::Layout;
use std::fmt::{self, Write as _};
use std::fs::File;
use std::io::Write as _;
use std::path::Path;
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
    /// Whose volume is in `dir`; `None` if there is none, or no such directory.
    pub fn of(dir: &Path) -> Result<Option<Self>, VolumeError> {
        Self::read(&Layout { dir: dir.to_owned() })
    }

    /// A new volume's.
    pub(crate) fn draw(node: NodeId) -> Self {
        Self { volume: NodeId(io::random::uuid()), node, pool: None, salt: Salt(io::random::uuid()) }
    }

    pub(crate) fn read(layout: &Layout) -> Result<Option<Self>, VolumeError> {
        let path = layout.version();
        match std::fs::read_to_string(&path) {
            Ok(text) => Self::parse(&text, layout).map(Some),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(source) => Err(VolumeError::Io { op: "read", path: path.display().to_string(), source }),
        }
    }

    /// As [`Self::read`], from the disk: what is in memory would be told of one that hangs, too.
    pub(crate) fn read_from_disk(layout: &Layout) -> Result<Option<Self>, VolumeError> {
        if let Ok(file) = File::open(layout.version())
            && let Ok(metadata) = file.metadata()
        {
            // Only a hint. Where it is not taken, a disk that hangs is found out later.
            let _refused = io::file::drop_cache(&file, 0, metadata.len());
        }
        Self::read(layout)
    }

    fn parse(text: &str, layout: &Layout) -> Result<Self, VolumeError> {
        let path = layout.version().display().to_string();
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

    /// Written beside, synced and renamed: a crash leaves the old one or the new one.
    pub(crate) fn write(&self, layout: &Layout) -> Result<(), VolumeError> {
        let salt = u128::from_be_bytes(self.salt.0);
        let mut text = format!(
            "# Levada volume\nformat = {FORMAT}\nsalt = {salt:032x}\nvolume = {}\nnode = {}\n",
            self.volume, self.node
        );
        if let Some(pool) = &self.pool {
            let _infallible = writeln!(text, "pool = {pool}");
        }
        let path = layout.version();
        replace(&path, &layout.dir, text.as_bytes()).map_err(|source| VolumeError::Io {
            op: "write",
            path: path.display().to_string(),
            source,
        })
    }
}

fn replace(path: &Path, dir: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let beside = path.with_extension("new");
    let mut file = File::create(&beside)?;
    file.write_all(bytes)?;
    io::file::sync_all(&file)?;
    std::fs::rename(&beside, path)?;
    io::file::sync_dir(dir)
}
