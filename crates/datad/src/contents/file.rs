//! A tree on disk, so that a restart does not read all checksums again.
//!
//! ```text
//! trees/<container>
//! 0       4     5    8           16           20       24
//! ┌───────┬─────┬────┬───────────┬────────────┬────────┬──────────────────────────────────────────────────────┐
//! │ LVTR  │ ver │ 0  │ container │ count      │ crc    │ count × { block u64, generation u64, len u64, content u64 } │
//! │       │ u8  │    │ u64       │ u32        │ u32    │                                                      │
//! └───────┴─────┴────┴───────────┴────────────┴────────┴──────────────────────────────────────────────────────┘
//! crc: CRC-32C of all but itself
//! ```
//!
//! Nothing depends on it: a leaf counts only while the index names a replica of that generation and length, and a file
//! that is torn, of another version, or gone is made anew. So it is not synced.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use types::{BlockId, ChecksumKind, ContainerId};
use wire::tree::{HashTree, Leaf};

const MAGIC: [u8; 4] = *b"LVTR";
const VERSION: u8 = 1;
const HEAD_LEN: usize = 24;
const LEAF_LEN: usize = 32;
const COUNT_MAX: usize = BlockId::INDEX_COUNT as usize;

pub(super) fn path(dir: &Path, home: ContainerId) -> PathBuf {
    dir.join(home.0.to_string())
}

fn crc(head: &[u8], leaves: &[u8]) -> u32 {
    let mut sums = ChecksumKind::Crc32c.of(&head[..20]).to_be_bytes().to_vec();
    sums.extend_from_slice(&ChecksumKind::Crc32c.of(leaves).to_be_bytes());
    ChecksumKind::Crc32c.of(&sums)
}

pub(super) fn encode(home: ContainerId, tree: &HashTree) -> Vec<u8> {
    let mut bytes = vec![0; HEAD_LEN];
    bytes[..4].copy_from_slice(&MAGIC);
    bytes[4] = VERSION;
    bytes[8..16].copy_from_slice(&home.0.to_be_bytes());
    bytes[16..20].copy_from_slice(&(tree.len() as u32).to_be_bytes());
    for leaf in tree.leaves() {
        for word in [leaf.block, leaf.generation, leaf.len, leaf.content] {
            bytes.extend_from_slice(&word.to_be_bytes());
        }
    }
    let sum = crc(&bytes[..HEAD_LEN], &bytes[HEAD_LEN..]);
    bytes[20..24].copy_from_slice(&sum.to_be_bytes());
    bytes
}

/// `None` for what we did not write like this.
pub(super) fn decode(home: ContainerId, bytes: &[u8]) -> Option<HashTree> {
    let (head, leaves) = bytes.split_at_checked(HEAD_LEN)?;
    let sound = head[..4] == MAGIC && head[4] == VERSION && head[8..16] == home.0.to_be_bytes();
    let count = u32::from_be_bytes(*head[16..].first_chunk()?) as usize;
    if !sound || leaves.len() != count * LEAF_LEN || head[20..24] != crc(head, leaves).to_be_bytes() {
        return None;
    }
    let word = |bytes: &[u8; LEAF_LEN], at: usize| {
        u64::from_be_bytes(*bytes[8 * at..].first_chunk().expect("a leaf has four words"))
    };
    let (leaves, _) = leaves.as_chunks::<LEAF_LEN>();
    Some(HashTree::new(leaves.iter().map(|leaf| Leaf {
        block: word(leaf, 0),
        generation: word(leaf, 1),
        len: word(leaf, 2),
        content: word(leaf, 3),
    })))
}

/// Containers that have a file.
pub(super) fn all(dir: &Path) -> BTreeSet<ContainerId> {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    entries.filter_map(|entry| Some(ContainerId(entry.file_name().to_str()?.parse().ok()?))).collect()
}

pub(super) fn read(dir: &Path, home: ContainerId) -> Option<HashTree> {
    let path = path(dir, home);
    let len = std::fs::metadata(&path).ok()?.len();
    if len > (HEAD_LEN + COUNT_MAX * LEAF_LEN) as u64 {
        return None;
    }
    decode(home, &std::fs::read(&path).ok()?)
}

/// Replaces the file of a container; of an empty one there is none.
pub(super) fn write(dir: &Path, home: ContainerId, tree: &HashTree) -> std::io::Result<()> {
    if tree.is_empty() {
        return remove(dir, home);
    }
    // What is above is the disk's own: if that is gone, nothing is made in its place.
    match std::fs::create_dir(dir) {
        Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    let fresh = dir.join(format!("{}.new", home.0));
    std::fs::write(&fresh, encode(home, tree))?;
    std::fs::rename(&fresh, path(dir, home))
}

pub(super) fn remove(dir: &Path, home: ContainerId) -> std::io::Result<()> {
    match std::fs::remove_file(path(dir, home)) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree() -> HashTree {
        HashTree::new((1..20).map(|number| Leaf { block: number, generation: 1001, len: 5, content: number << 40 }))
    }

    #[test]
    fn a_tree_comes_back_as_it_was() {
        let dir = tempfile::tempdir().unwrap();
        let (dir, home) = (dir.path().join("trees"), ContainerId(7));
        assert_eq!(read(&dir, home), None);
        write(&dir, home, &tree()).unwrap();
        assert_eq!((read(&dir, home), all(&dir)), (Some(tree()), BTreeSet::from([home])));
        std::fs::rename(path(&dir, home), path(&dir, ContainerId(8))).unwrap();
        assert_eq!(read(&dir, ContainerId(8)), None, "it speaks of another one");
        write(&dir, home, &HashTree::default()).unwrap();
        assert_eq!(read(&dir, home), None);
    }

    #[test]
    fn nothing_else_is_taken_for_a_tree() {
        let home = ContainerId(7);
        let bytes = encode(home, &tree());
        for len in 0..bytes.len() {
            assert_eq!(decode(home, &bytes[..len]), None, "cut at {len}");
        }
        for bit in 0..bytes.len() * 8 {
            let mut bad = bytes.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(decode(home, &bad), None, "bit {bit}");
        }
    }
}
