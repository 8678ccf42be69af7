//! The reserve of a disk: bytes that new replicas do not take, so that the index and others can still write.

use crate::error::{DiskOp, ReplicaError, Result};
use crate::inner::Inner;
use types::ContainerId;

/// What of the disk's reserve stays untouched.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Reserve {
    Whole,
    /// But for half of it, and at most half of [`RESERVED_LEN_MAX`]: of one that is longer the rest is for somebody
    /// else. For replicas that clients have begun: they can be sent to another node before that, with a word of what is
    /// full, and hardly in its midst. A copy can be given up.
    ButForBegun,
}

/// The most that is reserved of a disk unless somebody says more.
const RESERVED_LEN_MAX: u64 = 1_000_000_000;

impl Inner {
    /// Bytes of the disk, and those left, when `share` of what is reserved is not for replicas.
    pub(crate) fn room(&self, container: ContainerId, share: Reserve) -> Result<(u64, u64)> {
        let space = io::file::space_of(&self.layout.dir);
        let op = DiskOp::Look("at the space of the disk");
        let space = space.map_err(|source| ReplicaError::Io { op, container, source })?;
        let all = self.options.reserved_len.unwrap_or((space.capacity / 10).min(RESERVED_LEN_MAX));
        let reserved = match share {
            Reserve::Whole => all,
            Reserve::ButForBegun => all - (all / 2).min(RESERVED_LEN_MAX / 2),
        };
        Ok((space.capacity.saturating_sub(reserved), space.available.saturating_sub(reserved)))
    }

    /// Refuses when what is left of the disk is reserved.
    pub(crate) fn check_room(&self, container: ContainerId, share: Reserve) -> Result<()> {
        if self.room(container, share)?.1 > 0 {
            return Ok(());
        }
        let dir = self.layout.dir.display();
        let why = format!("the disk of {dir} is full, but for what is kept in reserve; delete files, or add a disk");
        let source = std::io::Error::new(std::io::ErrorKind::StorageFull, why);
        Err(ReplicaError::Io { op: DiskOp::Write("more to the disk"), container, source })
    }
}
