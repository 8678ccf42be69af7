//! What is known of one file's layout, as it is kept: in memory, and on a disk.
//!
//! ```text
//! layouts/<last block>-<its generation>-<length of the file>       numbers in hexadecimal digits
//! 0      4     5       6         7   8        32          36      40        48
//! ┌──────┬─────┬───────┬─────────┬───┬────────┬───────────┬───────┬─────────┬──────────────────────────┬─────────┐
//! │ LVLY │ ver │ reads │ outcome │ 0 │ key    │ count u32 │ crc   │ memory  │ count × { offset, block, │ record  │
//! │      │ u8  │ u8    │ u8      │   │ 3 × u64│           │ u32   │ u64     │ generation, len, file:   │ or text │
//! │      │     │       │         │   │        │           │       │         │ u64 }                    │         │
//! └──────┴─────┴───────┴─────────┴───┴────────┴───────────┴───────┴─────────┴──────────────────────────┴─────────┘
//! reads: what the parsers read (layout::READS); crc: CRC-32C of all but itself; memory: what the layout takes, decoded
//! ```
//!
//! A block never changes under its generation, and a file that is appended to, cut or replaced has another last block
//! or another length: so the key says which version of which file it is. The blocks whose bytes were read are named
//! too. A request counts as one for the same file only if it has these at the same places: who asks chooses what it
//! says of them.

use bytes::Bytes;
use std::mem::size_of;
use types::{BlockId, ChecksumKind, FileId, Generation, InodeId};
use wire::layouts::{Answer, BLOCK_COUNT_MAX, LayoutBlock, RECORD_LEN_MAX, ReadLayout};

const MAGIC: [u8; 4] = *b"LVLY";
/// 1 did not say what memory a layout takes, nor always name the last block.
const VERSION: u8 = 2;
const HEAD_LEN: usize = 48;
const CRC_AT: usize = 36;
const MEMORY_AT: usize = 40;
const BLOCK_LEN: usize = 40;
/// Longest file of an entry.
pub(super) const FILE_LEN_MAX: usize = HEAD_LEN + BLOCK_COUNT_MAX * BLOCK_LEN + RECORD_LEN_MAX;

/// Which version of which file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Key {
    last_block: BlockId,
    generation: Generation,
    file_len: u64,
}

/// A block whose bytes an answer was made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Touched {
    pub(super) offset: u64,
    pub(super) block: BlockId,
    pub(super) generation: Generation,
    pub(super) len: u64,
    /// Whose it is, as its replica says: who asks must have a token for that.
    pub(super) file: FileId,
}

/// What asking the file has brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// A record.
    Found,
    /// A text that says why not.
    Unknown,
    TooLarge,
    Damaged,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) outcome: Outcome,
    /// Bytes that the layout takes, decoded; 0 where there is none.
    pub(super) memory_len: u64,
    /// That of the key is the first.
    pub(super) touched: Vec<Touched>,
    /// The record or the text.
    pub(super) bytes: Bytes,
}

impl Key {
    /// Of a request that was checked.
    pub(super) fn of(request: &ReadLayout) -> Option<Self> {
        let last = request.blocks.last()?;
        let (last_block, generation) = (BlockId(last.block), Generation(last.generation));
        Some(Self { last_block, generation, file_len: request.file_len })
    }

    pub(super) fn name(self) -> String {
        format!("{:x}-{:x}-{:x}", self.last_block.0, self.generation.0, self.file_len)
    }

    /// `None`: no name of ours.
    pub(super) fn of_name(name: &str) -> Option<Self> {
        let mut numbers = name.split('-').map(|digits| u64::from_str_radix(digits, 16).ok());
        let key = Self {
            last_block: BlockId(numbers.next()??),
            generation: Generation(numbers.next()??),
            file_len: numbers.next()??,
        };
        (key.name() == name).then_some(key)
    }

    fn numbers(self) -> [u64; 3] {
        [self.last_block.0, self.generation.0, self.file_len]
    }
}

impl Touched {
    pub(super) fn end(&self) -> u64 {
        self.offset.saturating_add(self.len)
    }

    pub(super) fn is(&self, block: &LayoutBlock) -> bool {
        (self.offset, self.block.0, self.generation.0, self.len)
            == (block.offset, block.block, block.generation, block.len)
    }
}

impl Outcome {
    fn of_number(number: u8) -> Option<Self> {
        [Self::Found, Self::Unknown, Self::TooLarge, Self::Damaged].into_iter().find(|known| *known as u8 == number)
    }
}

impl Entry {
    pub(super) fn len(&self) -> usize {
        size_of::<Self>() + self.touched.len() * size_of::<Touched>() + self.bytes.len()
    }

    /// Why there is no layout; of one that was found, nothing.
    pub(super) fn why_not(&self) -> Option<Answer> {
        let text = || String::from_utf8_lossy(&self.bytes).into_owned();
        match self.outcome {
            Outcome::Found => None,
            Outcome::Unknown => Some(Answer::Unknown(text())),
            Outcome::TooLarge => Some(Answer::TooLarge(text())),
            Outcome::Damaged => Some(Answer::Damaged(text())),
        }
    }

    pub(super) fn encode(&self, key: Key) -> Vec<u8> {
        let mut file = Vec::with_capacity(HEAD_LEN + self.touched.len() * BLOCK_LEN + self.bytes.len());
        file.extend_from_slice(&MAGIC);
        file.extend_from_slice(&[VERSION, layout::READS, self.outcome as u8, 0]);
        key.numbers().iter().for_each(|number| file.extend_from_slice(&number.to_be_bytes()));
        file.extend_from_slice(&(self.touched.len() as u32).to_be_bytes());
        file.extend_from_slice(&[0; 4]);
        file.extend_from_slice(&self.memory_len.to_be_bytes());
        for Touched { offset, block, generation, len, file: owner } in &self.touched {
            for number in [*offset, block.0, generation.0, *len, owner.0] {
                file.extend_from_slice(&number.to_be_bytes());
            }
        }
        file.extend_from_slice(&self.bytes);
        let crc = crc(&file).to_be_bytes();
        file[CRC_AT..MEMORY_AT].copy_from_slice(&crc);
        file
    }

    /// `None` for what was not written like this, by parsers that read the same.
    pub(super) fn decode(key: Key, file: Vec<u8>) -> Option<Self> {
        let (head, rest) = file.split_at_checked(HEAD_LEN)?;
        let [version, reads, outcome, _] = *head.get(4..)?.first_chunk()?;
        let (numbers, _) = head.get(8..32)?.as_chunks::<8>();
        let is_ours = head.starts_with(&MAGIC) && (version, reads) == (VERSION, layout::READS);
        let is_its = numbers.iter().map(|number| u64::from_be_bytes(*number)).eq(key.numbers());
        if !is_ours || !is_its || *head.get(CRC_AT..MEMORY_AT)? != crc(&file).to_be_bytes() {
            return None;
        }
        let count = u32::from_be_bytes(*head.get(32..)?.first_chunk()?) as usize;
        let memory_len = u64::from_be_bytes(*head.get(MEMORY_AT..)?.first_chunk()?);
        let blocks_len = count.checked_mul(BLOCK_LEN)?;
        let (blocks, _) = rest.get(..blocks_len)?.as_chunks::<BLOCK_LEN>();
        let touched = blocks.iter().map(|block| {
            let (numbers, _) = block.as_chunks::<8>();
            let [offset, block, generation, len, file] = *numbers.first_chunk()?;
            let number = u64::from_be_bytes;
            Some(Touched {
                offset: number(offset),
                block: BlockId(number(block)),
                generation: Generation(number(generation)),
                len: number(len),
                file: InodeId(number(file)),
            })
        });
        let (outcome, touched) = (Outcome::of_number(outcome)?, touched.collect::<Option<_>>()?);
        Some(Self { outcome, memory_len, touched, bytes: Bytes::from(file).slice(HEAD_LEN + blocks_len..) })
    }
}

fn crc(file: &[u8]) -> u32 {
    let (head, rest) = (file.get(..CRC_AT).unwrap_or_default(), file.get(MEMORY_AT..).unwrap_or_default());
    let sums = [head, rest].map(|part| ChecksumKind::Crc32c.of(part).to_be_bytes());
    ChecksumKind::Crc32c.of(sums.as_flattened())
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in super::super) fn key(block: u64) -> Key {
        Key { last_block: BlockId(block), generation: Generation(1001), file_len: 5000 }
    }

    pub(in super::super) fn entry(len: usize) -> Entry {
        let touched =
            Touched { offset: 0, block: BlockId(7), generation: Generation(1001), len: 5000, file: InodeId(16_400) };
        Entry { outcome: Outcome::Found, memory_len: 300, touched: vec![touched; 2], bytes: vec![3; len].into() }
    }

    #[test]
    fn an_entry_comes_back_as_it_was_or_not_at_all() {
        for outcome in [Outcome::Found, Outcome::Unknown, Outcome::TooLarge, Outcome::Damaged] {
            let entry = Entry { outcome, ..entry(9) };
            let file = entry.encode(key(7));
            assert_eq!(Entry::decode(key(7), file.clone()), Some(entry));
            assert_eq!(Entry::decode(key(8), file.clone()), None, "it is another file's");
            for at in 0..file.len() {
                let mut changed = file.clone();
                changed[at] ^= 0x10;
                assert_eq!(Entry::decode(key(7), changed), None, "byte {at}");
                assert_eq!(Entry::decode(key(7), file[..at].to_vec()), None, "{at} bytes");
            }
        }
    }

    #[test]
    fn golden_bytes() {
        let file = entry(2).encode(key(0xab));
        assert_eq!(file[..8], [b'L', b'V', b'L', b'Y', 2, layout::READS, 0, 0]);
        assert_eq!(
            file[8..36],
            [0, 0, 0, 0, 0, 0, 0, 0xab, 0, 0, 0, 0, 0, 0, 3, 0xe9, 0, 0, 0, 0, 0, 0, 0x13, 0x88, 0, 0, 0, 2]
        );
        assert_eq!(file[40..88].as_chunks::<8>().0.map_numbers(), [300, 0, 7, 1001, 5000, 16_400]);
        assert_eq!(file[128..], [3, 3]);
    }

    trait Numbers {
        fn map_numbers(&self) -> Vec<u64>;
    }

    impl Numbers for [[u8; 8]] {
        fn map_numbers(&self) -> Vec<u64> {
            self.iter().map(|number| u64::from_be_bytes(*number)).collect()
        }
    }

    #[test]
    fn a_name_is_that_of_one_key() {
        assert_eq!(key(0xab).name(), "ab-3e9-1388");
        assert_eq!(Key::of_name("ab-3e9-1388"), Some(key(0xab)));
        for name in ["", "ab-3e9", "ab-3e9-1388.new", "AB-3e9-1388", "0ab-3e9-1388", "ab-3e9-1388-1", "+ab-3e9-1388"] {
            assert_eq!(Key::of_name(name), None, "{name}");
        }
    }
}
