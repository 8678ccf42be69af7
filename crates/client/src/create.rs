//! How a new file is to be.

use types::ChecksumSpec;

/// How a new file is to be. The default is what the server proposes, and refuses to replace.
#[derive(Clone, Debug)]
pub struct Create {
    /// Replace a file that is there.
    pub overwrite: bool,
    /// Make missing directories above.
    pub parents: bool,
    pub mode: u16,
    pub replication: Option<u16>,
    pub block_len: Option<u64>,
    pub checksum: Option<ChecksumSpec>,
    /// How long the file will be, if that is known: then each next block can be made ready in time. Nothing breaks if
    /// it becomes another length.
    pub len: Option<u64>,
}

impl Default for Create {
    fn default() -> Self {
        Self {
            overwrite: false,
            parents: true,
            mode: MODE,
            replication: None,
            block_len: None,
            checksum: None,
            len: None,
        }
    }
}

/// What a file grants if nobody says otherwise, and what that is without the usual umask.
const MODE: u16 = 0o644;
const MODE_UNMASKED: u16 = 0o666;

impl Create {
    /// What the default access list of the directory may make of a mode that nobody chose.
    pub(crate) fn unmasked(&self) -> Option<u16> {
        (self.mode == MODE).then_some(MODE_UNMASKED)
    }
}
