//! What names the bytes of a file.

use sha2::{Digest, Sha256};
use types::{BlockId, Generation};

/// Bytes of a complete file: another file, or the same with other bytes, has another content.
///
/// One rule with the layouts that datanodes keep (docs/adr/0033): the last block with its generation, and the file's
/// length. Ids of blocks are never used twice in a store; a file that was cut and written on ends in another block, or
/// in another generation of it, and one that was cut alone is shorter. A time of modification says less: its owner
/// may set it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Content {
    /// Of the store, by its block pool: another one at the same address counts its blocks from the beginning, too.
    pub store: u64,
    pub block: BlockId,
    pub generation: Generation,
    /// Bytes of the file.
    pub len: u64,
}

impl Content {
    pub fn new(pool: &str, block: BlockId, generation: Generation, len: u64) -> Self {
        let digest = Sha256::digest(pool.as_bytes());
        let first = digest.first_chunk().expect("a digest has 32 bytes");
        Self { store: u64::from_be_bytes(*first), block, generation, len }
    }
}
