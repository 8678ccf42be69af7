//! What a segment's list says of one record: the disk form of the index.
//!
//! A segment is two files: `NUMBER.bytes` has records one behind the other (see [`crate::record`]), `NUMBER.heads` has
//! a head for each, written after it. Neither is synced: a head that is torn ends the list, and bytes that did not
//! reach the disk do not fit their checksums.

use crate::content::Content;
use crate::record::{self, EXTENT_LEN_MAX};
use types::{BlockId, ChecksumKind, Generation};

/// With what a list of heads begins.
pub const SEGMENT_BEGIN: [u8; 8] = *b"LVedge\x00\x01";

/// One record. Big-endian.
///
/// ```text
/// 0           8           16             24           32           40         48       52       56
/// ┌───────────┬───────────┬──────────────┬────────────┬────────────┬──────────┬────────┬────────┐
/// │ store u64 │ block u64 │generation u64│file len u64│ offset u64 │  at u64  │ len u32│ CRC u32│
/// └───────────┴───────────┴──────────────┴────────────┴────────────┴──────────┴────────┴────────┘
///   `offset`: in the file; `at`: of the record in `NUMBER.bytes`; CRC-32C over what is before it
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    pub content: Content,
    pub offset: u64,
    pub at: u64,
    pub len: u32,
}

/// Why a list ends before its file does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeadError {
    /// Written in part, or not at all.
    Torn,
    /// No record is like this.
    Invalid,
}

impl Head {
    pub const LEN: usize = 56;

    pub fn encode(&self) -> [u8; Self::LEN] {
        let Content { store, block, generation, len } = self.content;
        let mut out = [0; Self::LEN];
        let numbers = [store, block.0, generation.0, len, self.offset, self.at];
        for (place, number) in out.chunks_exact_mut(8).zip(numbers) {
            place.copy_from_slice(&number.to_be_bytes());
        }
        out[48..52].copy_from_slice(&self.len.to_be_bytes());
        let sum = ChecksumKind::Crc32c.of(&out[..52]);
        out[52..].copy_from_slice(&sum.to_be_bytes());
        out
    }

    pub fn decode(bytes: &[u8; Self::LEN]) -> Result<Self, HeadError> {
        let (covered, sum) = bytes.split_at(52);
        if sum != ChecksumKind::Crc32c.of(covered).to_be_bytes() {
            return Err(HeadError::Torn);
        }
        let number = |at: usize| {
            let eight = covered.get(at..at + 8).and_then(|bytes| bytes.first_chunk());
            eight.map_or(0, |eight| u64::from_be_bytes(*eight))
        };
        let len = covered.last_chunk().map_or(0, |four| u32::from_be_bytes(*four));
        let (block, generation) = (BlockId(number(8)), Generation(number(16)));
        let content = Content { store: number(0), block, generation, len: number(24) };
        let head = Self { content, offset: number(32), at: number(40), len };
        head.is_sensible().then_some(head).ok_or(HeadError::Invalid)
    }

    /// It is of bytes that a file of this length has, and that lie where numbers do not overflow.
    fn is_sensible(&self) -> bool {
        let is_in_file = self.offset.checked_add(self.len.into()).is_some_and(|end| end <= self.content.len);
        let ends = self.at.checked_add(record::len_of(self.len)).is_some();
        self.len > 0 && self.len <= EXTENT_LEN_MAX && is_in_file && ends
    }

    /// All heads of a list, as far as it is whole. `None`: it is no such list.
    pub fn list(bytes: &[u8]) -> Option<Vec<Self>> {
        let rest = bytes.strip_prefix(&SEGMENT_BEGIN)?;
        let (heads, _torn) = rest.as_chunks();
        Some(heads.iter().map_while(|head| Self::decode(head).ok()).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use testkit::golden::Golden;

    fn head() -> Head {
        let content = Content::new("BP-1", BlockId(0x10_0007), Generation(3), 5_000_000);
        Head { content, offset: 4_000_000, at: 8192, len: 70_000 }
    }

    #[test]
    fn golden_bytes() {
        let mut golden = Golden::default();
        golden.add("segment.begin", &SEGMENT_BEGIN);
        golden.add("head", &head().encode());
        let mut record = Vec::new();
        let owner = record::Owner { content: head().content, offset: head().offset };
        record::encode(owner, &[7; 5000], &mut record);
        golden.add("record.sums", &record[..8]);
        golden.hold(concat!(env!("CARGO_MANIFEST_DIR"), "/src/golden.txt"));
    }

    #[test]
    fn a_list_is_read_as_far_as_it_is_whole() {
        let second = Head { offset: 0, ..head() };
        let mut list = [&SEGMENT_BEGIN[..], &head().encode(), &second.encode()].concat();
        assert_eq!(Head::list(&list), Some(vec![head(), second]));
        list.pop();
        assert_eq!(Head::list(&list), Some(vec![head()]));
        list[20] ^= 1;
        assert_eq!(Head::list(&list), Some(vec![]));
        list[0] ^= 1;
        assert_eq!(Head::list(&list), None);
    }

    #[test]
    fn what_no_file_can_have_is_refused() {
        let content = head().content;
        let none = [
            Head { len: 0, ..head() },
            Head { len: EXTENT_LEN_MAX + 1, content: Content { len: u64::MAX, ..content }, ..head() },
            Head { offset: content.len - 69_999, ..head() },
            Head { offset: u64::MAX, ..head() },
            Head { at: u64::MAX, ..head() },
        ];
        for head in none {
            assert_eq!(Head::decode(&head.encode()), Err(HeadError::Invalid), "{head:?}");
        }
    }
}
