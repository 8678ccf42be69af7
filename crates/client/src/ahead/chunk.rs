//! Bytes of a file that arrived.

use bytes::Bytes;
use prefetch::Span;

/// A range is kept in chunks of this length, so that a part of it can leave the memory. A guess: a hundredth of a
/// cache.
const CHUNK_LEN_MAX: u64 = 256 << 10;

/// From an offset of the file on.
#[derive(Clone, Debug)]
pub(super) struct Chunk {
    pub(super) offset: u64,
    pub(super) bytes: Bytes,
}

/// Memory for a range that is on its way.
#[derive(Debug)]
pub(super) struct Room {
    pub(super) offset: u64,
    pub(super) bytes: Vec<u8>,
}

impl Room {
    /// For all of these, in their order.
    pub(super) fn of(spans: &[Span]) -> Vec<Self> {
        let chunks = spans.iter().flat_map(|span| {
            let starts = (span.offset..span.end()).step_by(CHUNK_LEN_MAX as usize);
            starts.map(|offset| (offset, CHUNK_LEN_MAX.min(span.end() - offset)))
        });
        chunks.map(|(offset, len)| Self { offset, bytes: vec![0; len as usize] }).collect()
    }

    pub(super) fn filled(self) -> Chunk {
        Chunk { offset: self.offset, bytes: self.bytes.into() }
    }
}

/// Fills `dest` from chunks in the order of the file. False: they have not all of it.
#[must_use]
pub(super) fn copy_from(chunks: &[Chunk], offset: u64, dest: &mut [u8]) -> bool {
    let first = chunks.partition_point(|chunk| chunk.offset <= offset).saturating_sub(1);
    copy_of(chunks.iter().skip(first).map(|chunk| (chunk.offset, &chunk.bytes)), offset, dest)
}

/// As [`copy_from`], of chunks of which the first is the one that may hold `offset`.
#[must_use]
pub(super) fn copy_of<'a>(chunks: impl Iterator<Item = (u64, &'a Bytes)>, offset: u64, mut dest: &mut [u8]) -> bool {
    let mut at = offset;
    for (start, bytes) in chunks {
        if dest.is_empty() {
            break;
        }
        let skipped = at.checked_sub(start).and_then(|skipped| usize::try_from(skipped).ok());
        let Some(there) = skipped.and_then(|skipped| bytes.get(skipped..)).filter(|there| !there.is_empty()) else {
            return false;
        };
        let len = there.len().min(dest.len());
        let (own, rest) = std::mem::take(&mut dest).split_at_mut(len);
        own.copy_from_slice(&there[..own.len()]);
        (at, dest) = (at + own.len() as u64, rest);
    }
    dest.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_goes_over_chunks_that_touch_and_over_no_gap() {
        let chunk = |offset: u64, bytes: &'static [u8]| Chunk { offset, bytes: Bytes::from_static(bytes) };
        let chunks = [chunk(10, b"abc"), chunk(13, b"de"), chunk(20, b"xyz")];
        let copied = |offset, len| {
            let mut dest = vec![0; len];
            copy_from(&chunks, offset, &mut dest).then_some(dest)
        };
        assert_eq!(copied(11, 4).as_deref(), Some(&b"bcde"[..]));
        assert_eq!(copied(20, 3).as_deref(), Some(&b"xyz"[..]));
        assert_eq!((copied(9, 2), copied(13, 3), copied(22, 2), copied(30, 1)), (None, None, None, None));
        assert_eq!(copied(11, 0).as_deref(), Some(&b""[..]));
    }

    #[test]
    fn a_long_range_has_room_in_chunks() {
        let rooms = Room::of(&[Span::new(5, 2 * CHUNK_LEN_MAX + 1), Span::new(9_000_000, 7)]);
        let lens: Vec<(u64, u64)> = rooms.iter().map(|room| (room.offset, room.bytes.len() as u64)).collect();
        let second = 5 + CHUNK_LEN_MAX;
        assert_eq!(lens, [(5, CHUNK_LEN_MAX), (second, CHUNK_LEN_MAX), (second + CHUNK_LEN_MAX, 1), (9_000_000, 7)]);
    }
}
