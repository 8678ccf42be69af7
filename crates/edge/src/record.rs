//! The bytes of one record on the disk: its checksums, and then itself.
//!
//! ```text
//! ┌───────────────────────────────┬──────────────┐
//! │ CRC-32C of each 4 KiB of it,  │ the bytes    │      so a short read of a long record verifies what it takes alone
//! │ xor that of whose it is       │              │
//! └───────────────────────────────┴──────────────┘
//!   whose: store, block, generation, and length of the file, and where the record begins in it, u64 each, big-endian
//! ```
//!
//! A record in the place of another, as a disk may have it after a power failure, fits no checksum.

use crate::content::Content;
use std::ops::Range;
use types::{ChecksumKind, ChecksumSpec};

/// Bytes of one extent. A guess: more of a sequential read than a round trip to a disk is worth.
pub const EXTENT_LEN_MAX: u32 = 1 << 20;
/// A page: what a disk reads at least. A tenth of a percent of sums.
pub const CHUNK_LEN: u32 = 4 << 10;

const SPEC: ChecksumSpec = ChecksumSpec { kind: ChecksumKind::Crc32c, chunk_len: CHUNK_LEN };

/// Bytes that a record of so many bytes takes.
pub fn len_of(data_len: u32) -> u64 {
    SPEC.sums_len(data_len.into()) + u64::from(data_len)
}

/// Whose a record is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owner {
    pub content: Content,
    /// Where the record begins in the file.
    pub offset: u64,
}

impl Owner {
    /// Into what sums are of the bytes alone, or out of it.
    fn sign(&self, sums: &mut [u8]) {
        let Content { store, block, generation, len } = self.content;
        let numbers = [store, block.0, generation.0, len, self.offset].map(u64::to_be_bytes);
        let own = ChecksumKind::Crc32c.of(numbers.as_flattened()).to_be_bytes();
        sums.iter_mut().zip(own.iter().cycle()).for_each(|(sum, own)| *sum ^= own);
    }
}

/// Appends a record.
pub fn encode(owner: Owner, data: &[u8], out: &mut Vec<u8>) {
    let begin = out.len();
    SPEC.compute(data, out);
    owner.sign(&mut out[begin..]);
    out.extend_from_slice(data);
}

/// What to read of a record for a part of it: whole chunks, and their sums. From the beginning of the record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reads {
    pub sums: Range<u64>,
    pub data: Range<u64>,
    /// The part in `data`.
    pub part: Range<usize>,
}

/// For `len` bytes from `skip` on, of a record of `data_len` bytes that has them.
pub fn reads(data_len: u32, skip: u32, len: u32) -> Reads {
    let chunk = u64::from(CHUNK_LEN);
    let (first, end) = (u64::from(skip) / chunk, (u64::from(skip) + u64::from(len)).div_ceil(chunk));
    let sums_len = SPEC.sums_len(data_len.into());
    let sum = ChecksumSpec::SUM_LEN as u64;
    let data = first * chunk..(end * chunk).min(data_len.into());
    let begin = (u64::from(skip) - data.start) as usize;
    Reads {
        sums: first * sum..end * sum,
        data: sums_len + data.start..sums_len + data.end,
        part: begin..begin + len as usize,
    }
}

/// Whether the bytes are those that were written. The sums are of no more use.
pub fn is_whole(owner: Owner, data: &[u8], sums: &mut [u8]) -> bool {
    owner.sign(sums);
    sums.len() as u64 == SPEC.sums_len(data.len() as u64) && SPEC.verify(data, sums).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use types::{BlockId, Generation};

    fn owner() -> Owner {
        Owner { content: Content::new("BP-1", BlockId(1), Generation(1), 20_000), offset: 10_000 }
    }

    #[test]
    fn a_part_is_verified_by_itself() {
        let data: Vec<u8> = (0..10_000u32).map(|i| (i % 251) as u8).collect();
        let mut record = Vec::new();
        encode(owner(), &data, &mut record);
        assert_eq!(record.len() as u64, len_of(10_000));
        let at = |range: &Range<u64>| range.start as usize..range.end as usize;
        for (skip, len) in [(0, 10_000), (0, 1), (4095, 2), (4096, 4096), (9_999, 1), (8192, 1808)] {
            let Reads { sums, data: chunks, part } = reads(10_000, skip, len);
            let sums = &record[at(&sums)];
            assert!(is_whole(owner(), &record[at(&chunks)], &mut sums.to_vec()), "{skip} {len}");
            for other in [
                Owner { offset: 0, ..owner() },
                Owner { content: Content { generation: Generation(2), ..owner().content }, ..owner() },
            ] {
                assert!(!is_whole(other, &record[at(&chunks)], &mut sums.to_vec()), "of another");
            }
            assert_eq!(record[at(&chunks)][part], data[skip as usize..(skip + len) as usize]);
        }
        record[12 + 5000] ^= 1;
        let is_whole = |skip| {
            let reads = reads(10_000, skip, 1);
            is_whole(owner(), &record[at(&reads.data)], &mut record[at(&reads.sums)].to_vec())
        };
        assert_eq!([0, 4096, 8192].map(is_whole), [true, false, true]);
        assert!(!super::is_whole(owner(), &[0; 4096], &mut [0; 4]), "what was never written");
    }
}
