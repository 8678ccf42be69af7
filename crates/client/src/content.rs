//! What names the bytes of a file, as the metadata server tells it with where they are.

use crate::located::FilePart;
use types::{BlockId, Generation};

/// The bytes of a complete file. Other bytes have another content, whatever the file's times say: blocks are never
/// changed, and no id of one is used twice in a block pool. So a file that was cut and written on ends in another
/// block, or in another generation of it; one that was cut alone is shorter.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Content {
    /// Of the store: another one counts its blocks from the beginning, too.
    pub pool: String,
    /// The last block.
    pub block: BlockId,
    pub generation: Generation,
    /// Bytes of the file.
    pub len: u64,
}

impl FilePart {
    /// `None`: the file is being written, or has no bytes.
    pub(crate) fn content(&self) -> Option<Content> {
        let last = self.last.as_ref().filter(|_| !self.is_open && self.file_len > 0)?;
        let identity = &last.identity;
        let (pool, block, generation) = (identity.pool.clone(), identity.block, identity.generation);
        Some(Content { pool, block, generation, len: self.file_len })
    }
}
