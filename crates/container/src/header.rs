//! The header of a replica's checksum file: everything that makes two files a replica.
//!
//! ```text
//! <block>.data    the bytes, nothing else, so that sendfile and mmap need no offset
//! <block>.sums    header (64 B) │ 4 B for each chunk, big-endian, the last chunk may be short
//!
//! 0       4     5     6     7    8           12     16       24           32     40     48     56     60     64
//! ┌───────┬─────┬─────┬─────┬────┬───────────┬──────┬────────┬────────────┬──────┬──────┬──────┬──────┬──────┐
//! │ LVSM  │ ver │state│ sum │ 0  │ chunk_len │ tail │ block  │ generation │ file │ home │ len  │  0   │ crc  │
//! │       │ u8  │ u8  │ kind│    │ u32       │ u32  │ u64    │ u64        │ u64  │ u64  │ u64  │      │ u32  │
//! └───────┴─────┴─────┴─────┴────┴───────────┴──────┴────────┴────────────┴──────┴──────┴──────┴──────┴──────┘
//! state 0 open · 1 finalized · 2 copying          len: of the data when it was finalized or synced last, 0 if never
//! tail: checksum of the partial last chunk then   crc: CRC-32C of the 60 bytes before it
//! all numbers big-endian
//! ```
//!
//! The header lies within one sector, so a rewrite of it is whole or did not happen.

use crate::replica::Identity;
use std::fs::File;
use std::io::ErrorKind;
use std::os::unix::fs::FileExt;
use types::{BlockId, ChecksumKind, ChecksumSpec, ContainerId, FileId, Generation};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    Open = 0,
    Finalized = 1,
    Copying = 2,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SumsHeader {
    pub stage: Stage,
    pub identity: Identity,
    pub kept: Kept,
}

/// What must not be lost by writing on: bytes that were synced, and the checksum of their partial last chunk. The
/// chunk's own place among the checksums is written over as it grows, and after a crash may speak of bytes that never
/// came to disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Kept {
    pub len: u64,
    /// 0 if the last chunk is whole.
    pub tail: u32,
}

const MAGIC: [u8; 4] = *b"LVSM";
const VERSION: u8 = 1;

impl SumsHeader {
    pub(crate) const LEN: usize = 64;

    pub(crate) fn encode(&self) -> [u8; Self::LEN] {
        let mut bytes = [0; Self::LEN];
        bytes[..4].copy_from_slice(&MAGIC);
        bytes[4] = VERSION;
        bytes[5] = self.stage as u8;
        bytes[6] = self.identity.checksum.kind as u8;
        bytes[8..12].copy_from_slice(&self.identity.checksum.chunk_len.to_be_bytes());
        bytes[12..16].copy_from_slice(&self.kept.tail.to_be_bytes());
        bytes[16..24].copy_from_slice(&self.identity.block.0.to_be_bytes());
        bytes[24..32].copy_from_slice(&self.identity.generation.0.to_be_bytes());
        bytes[32..40].copy_from_slice(&self.identity.file.0.to_be_bytes());
        bytes[40..48].copy_from_slice(&self.identity.home.0.to_be_bytes());
        bytes[48..56].copy_from_slice(&self.kept.len.to_be_bytes());
        seal(bytes)
    }

    /// As [`Self::encode`], for a slot: `sums` are those of all its bytes. What lay in the slot before has sums of its
    /// own, which fit its bytes, and after a loss of power both may be there under a newer header.
    pub(crate) fn encode_for_slot(&self, sums: &[u8]) -> [u8; Self::LEN] {
        let mut bytes = self.encode();
        bytes[56..60].copy_from_slice(&ChecksumKind::Crc32c.of(sums).to_be_bytes());
        seal(bytes)
    }

    /// Whether a slot's header was written for just these checksums.
    pub(crate) fn speaks_of(bytes: &[u8; Self::LEN], sums: &[u8]) -> bool {
        be32(&bytes[56..]) == ChecksumKind::Crc32c.of(sums)
    }

    /// `None` if these are not the bytes of a header we wrote.
    pub(crate) fn decode(bytes: &[u8; Self::LEN]) -> Option<Self> {
        let sound = bytes[..4] == MAGIC && bytes[4] == VERSION;
        if !sound || ChecksumKind::Crc32c.of(&bytes[..60]) != be32(&bytes[60..]) {
            return None;
        }
        let stage = [Stage::Open, Stage::Finalized, Stage::Copying].into_iter().find(|s| *s as u8 == bytes[5])?;
        let kind = ChecksumKind::from_number(bytes[6].into())?;
        let identity = Identity {
            block: BlockId(be64(&bytes[16..])),
            generation: Generation(be64(&bytes[24..])),
            file: FileId::from(types::InodeId(be64(&bytes[32..]))),
            home: ContainerId(be64(&bytes[40..])),
            checksum: ChecksumSpec::new(kind, be32(&bytes[8..]))?,
        };
        let kept = Kept { len: be64(&bytes[48..]), tail: be32(&bytes[12..]) };
        Some(Self { stage, identity, kept })
    }
}

/// The header that a checksum file must have to be opened again.
pub(crate) fn read_header(sums: &File) -> std::io::Result<Option<SumsHeader>> {
    let mut bytes = [0; SumsHeader::LEN];
    match sums.read_exact_at(&mut bytes, 0) {
        Ok(()) => Ok(SumsHeader::decode(&bytes)),
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => Ok(None),
        Err(error) => Err(error),
    }
}

/// Where the checksum of a chunk lies in the checksum file.
pub(crate) fn sums_place(chunk: u64) -> u64 {
    SumsHeader::LEN as u64 + chunk * ChecksumSpec::SUM_LEN as u64
}

fn seal(mut bytes: [u8; SumsHeader::LEN]) -> [u8; SumsHeader::LEN] {
    let sum = ChecksumKind::Crc32c.of(&bytes[..60]);
    bytes[60..].copy_from_slice(&sum.to_be_bytes());
    bytes
}

pub(crate) fn be32(bytes: &[u8]) -> u32 {
    bytes[..4].iter().fold(0, |number, byte| number << 8 | u32::from(*byte))
}

pub(crate) fn be64(bytes: &[u8]) -> u64 {
    bytes[..8].iter().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_survives_and_every_flipped_bit_is_noticed() {
        let identity = Identity {
            block: BlockId::new(ContainerId(7), 9),
            generation: Generation(1001),
            file: types::InodeId(16_400),
            home: ContainerId(8),
            checksum: ChecksumSpec { kind: ChecksumKind::Crc32, chunk_len: 4096 },
        };
        let header =
            SumsHeader { stage: Stage::Finalized, identity, kept: Kept { len: 123_456_789, tail: 0x8765_4321 } };
        let bytes = header.encode();
        assert_eq!(SumsHeader::decode(&bytes), Some(header));
        for bit in 0..SumsHeader::LEN * 8 {
            let mut bad = bytes;
            bad[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(SumsHeader::decode(&bad), None, "bit {bit}");
        }
    }
}
