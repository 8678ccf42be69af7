//! Copies in memory of what HDFS's clients get descriptors of and cannot get as it lies on the disk.
//!
//! ```text
//! checksums, in HDFS's form     2 B version, 1 │ kind u8 │ chunk_len u32 │ 4 B for each chunk        all big-endian
//! data, of a replica in a pack  alone: the pack holds those of other files
//! ```
//!
//! Promise: copies take no more memory than [`LEN_MAX`], those included that clients still have open; nobody can change
//! one. Whoever asks for a replica that another has gets the same copy.

use crate::budget::Budget;
use container::Reader;
use io::memory_file;
use std::fs::File;
use std::sync::{Mutex, PoisonError};
use types::{BlockId, ChecksumSpec, Generation};
use xfer::answer::Refusal;

/// The checksums of 16 GB of replicas, of the usual chunks. A client of HDFS keeps 256 replicas open. A guess.
const LEN_MAX: u64 = 128 << 20;
/// Of one replica: the checksums of a block of 2 GB. A guess.
const ONE_LEN_MAX: u64 = 16 << 20;
/// `BlockMetadataHeader.VERSION`.
const VERSION: u16 = 1;
const HEADER_LEN: usize = 7;

#[derive(Debug)]
pub(crate) struct Copies {
    /// Those asked for last come last.
    kept: Mutex<Vec<Kept>>,
    len_max: u64,
}

#[derive(Debug)]
struct Kept {
    block: BlockId,
    generation: Generation,
    len: u64,
    /// Of a replica that has a file of its own there is none.
    data: Option<File>,
    sums: File,
    /// It is no copy of what is stored any more, and only counted.
    is_old: bool,
}

/// What a client gets.
#[derive(Debug)]
pub(crate) struct Copied {
    pub(crate) data: Option<File>,
    pub(crate) sums: File,
}

impl Default for Copies {
    fn default() -> Self {
        Self { kept: Mutex::default(), len_max: LEN_MAX }
    }
}

impl Kept {
    fn is_held(&self) -> bool {
        memory_file::is_held(&self.sums) || self.data.as_ref().is_some_and(memory_file::is_held)
    }

    fn shown(&self) -> std::io::Result<Copied> {
        let data = self.data.as_ref().map(memory_file::reader).transpose()?;
        Ok(Copied { data, sums: memory_file::reader(&self.sums)? })
    }
}

impl Copies {
    /// What is to be copied of a finalized replica. Blocks.
    pub(crate) fn of(&self, reader: &Reader, budget: &Budget) -> Result<Copied, Refusal> {
        let (identity, data_len) = (reader.identity(), if reader.has_own_files() { 0 } else { reader.len() });
        let len = data_len + HEADER_LEN as u64 + reader.checksum().sums_len(reader.len());
        if len > ONE_LEN_MAX {
            return Err(Refusal::unsupported(format!("its checksums take {len} bytes")));
        }
        let same = |kept: &Kept| (kept.block, kept.generation) == (identity.block, identity.generation) && !kept.is_old;
        {
            let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(place) = kept.iter().position(same) {
                let found = kept.remove(place);
                let shown = found.shown();
                kept.push(found);
                return Ok(shown?);
            }
        }
        let Some(_memory) = budget.take_for_read(len) else {
            return Err(Refusal::unsupported("no memory left for another read"));
        };
        let data = match data_len {
            0 => None,
            _ => Some({
                let mut data = vec![0; data_len as usize];
                reader.read_at(0, &mut data)?;
                memory_file::sealed("levada replica", &[&data])?
            }),
        };
        let mut sums = Vec::with_capacity((len - data_len) as usize);
        put_header(reader.checksum(), &mut sums);
        reader.sums(0, reader.len(), &mut sums)?;
        let sums = memory_file::sealed("levada checksums", &[&sums])?;
        let made = Kept { block: identity.block, generation: identity.generation, len, data, sums, is_old: false };
        let shown = made.shown()?;
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        make_room(&mut kept, self.len_max.saturating_sub(len))?;
        kept.push(made);
        Ok(shown)
    }

    /// The replica is no longer what it was.
    pub(crate) fn revoke(&self, block: BlockId) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.retain_mut(|kept| {
            kept.is_old |= kept.block == block;
            kept.block != block || kept.is_held()
        });
    }
}

/// Has all that is kept take no more than `room`: those go that nobody has, the ones first that were asked for longest
/// ago.
fn make_room(kept: &mut Vec<Kept>, room: u64) -> Result<(), Refusal> {
    let mut len: u64 = kept.iter().map(|kept| kept.len).sum();
    kept.retain(|kept| {
        let stays = len <= room || kept.is_held();
        len -= if stays { 0 } else { kept.len };
        stays
    });
    match len <= room {
        true => Ok(()),
        false => Err(Refusal::unsupported("clients hold as many copies of checksums as there is memory for")),
    }
}

fn put_header(spec: ChecksumSpec, bytes: &mut Vec<u8>) {
    bytes.extend_from_slice(&VERSION.to_be_bytes());
    bytes.push(spec.kind as u8);
    bytes.extend_from_slice(&spec.chunk_len.to_be_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(block: u64, len: u64) -> Kept {
        let sums = memory_file::sealed("test", &[b"x"]).unwrap();
        Kept { block: BlockId(block), generation: Generation(1), len, data: None, sums, is_old: false }
    }

    fn blocks(kept: &[Kept]) -> Vec<u64> {
        kept.iter().map(|kept| kept.block.0).collect()
    }

    #[test]
    fn what_clients_hold_stays_counted() {
        let mut all: Vec<_> = (1..=4).map(|block| kept(block, 10)).collect();
        let held = all[0].shown().unwrap();
        make_room(&mut all, 20).unwrap();
        assert_eq!(blocks(&all), [1, 4], "the oldest went that nobody has");
        assert!(make_room(&mut all, 5).is_err());
        assert_eq!(blocks(&all), [1]);
        drop(held);
        make_room(&mut all, 5).unwrap();
        assert!(all.is_empty());
    }

    #[test]
    fn a_copy_of_what_was_replaced_is_given_to_nobody_else() {
        let copies = Copies::default();
        copies.kept.lock().unwrap().extend([kept(1, 10), kept(1, 10), kept(2, 10)]);
        let held = copies.kept.lock().unwrap()[0].shown().unwrap();
        copies.revoke(BlockId(1));
        let kept = copies.kept.lock().unwrap();
        assert_eq!(blocks(&kept), [1, 2]);
        assert!(kept[0].is_old && !kept[1].is_old);
        drop(held);
    }

    #[test]
    fn the_header_is_hdfs() {
        let mut bytes = Vec::new();
        put_header(ChecksumSpec::DEFAULT, &mut bytes);
        assert_eq!(bytes, [0, 1, 2, 0, 0, 2, 0]);
        assert_eq!(bytes.len(), HEADER_LEN);
    }
}
