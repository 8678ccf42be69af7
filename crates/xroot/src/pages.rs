//! Reads by pages: each page of a file comes with its CRC-32C.
//!
//! ```text
//! 0          8            12          14        15       16      20        24            32
//! ┌──────────┬────────────┬───────────┬─────────┬────────┬───────┬─────────┬─────────────┬────────┬──────┬────────┬─
//! │ header,  │ crc32c u32 │ stream 2 B│ code u8 │ kind u8│ 0 4 B │ len u32 │ offset i64  │ crc u32│ page │ crc u32│ …
//! │ body 24 B│ of 12..32  │           │ 30      │ 0 last │       │ of 32.. │ in the file │        │      │        │
//! └──────────┴────────────┴───────────┴─────────┴────────┴───────┴─────────┴─────────────┴────────┴──────┴────────┴─
//! ```
//!
//! Pages are those of the file: the first may begin, and the last may end, inside of one. The length in the header does
//! not count what stands behind the offset.

use crate::codes::{RequestCode, ResponseStatus};
use crate::frame::{ResponseHeader, StreamId};
use crate::limits::PART_LEN_MAX;
use types::ChecksumKind;

const PAGE_LEN: usize = 4096;
const SUM_LEN: usize = 4;
/// Of what stands before the first page.
const HEAD_LEN: usize = ResponseHeader::LEN + STATUS_LEN;
const STATUS_LEN: usize = 24;
const KIND_LAST: u8 = 0;
const KIND_PARTIAL: u8 = 1;
/// Requests are named by one byte here.
const CODE: u8 = (RequestCode::Pgread as u16 - 3000) as u8;

/// A response with some pages of a file, as it is made: the data are read to the end of the buffer, and then moved to
/// their places page by page, while each is in the processor's cache for its sum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PagesFrame {
    offset: u64,
    len: usize,
    is_last: bool,
}

impl PagesFrame {
    /// The next response to a read of `left` bytes from `offset`. All but the last end with a page.
    pub fn next(offset: u64, left: u64) -> Self {
        let inside = (offset % PAGE_LEN as u64) as usize;
        let most = (PART_LEN_MAX - inside) as u64;
        let len = left.min(most);
        Self { offset, len: len as usize, is_last: len == left }
    }

    pub fn is_last(&self) -> bool {
        self.is_last
    }

    /// Bytes of the file in it.
    pub fn data_len(&self) -> usize {
        self.len
    }

    pub fn frame_len(&self) -> usize {
        HEAD_LEN + self.sums_len() + self.len
    }

    /// None where there are no bytes: at the end of a file, which may be inside of a page, too.
    fn sums_len(&self) -> usize {
        if self.len == 0 {
            return 0;
        }
        SUM_LEN * (self.offset as usize % PAGE_LEN + self.len).div_ceil(PAGE_LEN)
    }

    /// Where the data are to be read to, in a frame of [`Self::frame_len`] bytes.
    pub fn data<'a>(&self, frame: &'a mut [u8]) -> &'a mut [u8] {
        assert_eq!(frame.len(), self.frame_len());
        let at = HEAD_LEN + self.sums_len();
        &mut frame[at..]
    }

    /// Puts the data that are at the end of the frame into pages, and all else before them.
    pub fn seal(&self, stream: StreamId, frame: &mut [u8]) {
        assert_eq!(frame.len(), self.frame_len());
        let pages_len = (frame.len() - HEAD_LEN) as u32;
        let (mut from, mut to) = (HEAD_LEN + self.sums_len(), HEAD_LEN);
        let mut room = PAGE_LEN - self.offset as usize % PAGE_LEN;
        while from < frame.len() {
            let len = room.min(frame.len() - from);
            let sum = ChecksumKind::Crc32c.of(&frame[from..from + len]);
            frame.copy_within(from..from + len, to + SUM_LEN);
            frame[to..to + SUM_LEN].copy_from_slice(&sum.to_be_bytes());
            (from, to, room) = (from + len, to + SUM_LEN + len, PAGE_LEN);
        }
        let header = ResponseHeader { stream, status: ResponseStatus::Status, body_len: STATUS_LEN as u32 };
        frame[..8].copy_from_slice(&header.encode());
        frame[12..14].copy_from_slice(&stream.0);
        frame[14] = CODE;
        frame[15] = if self.is_last { KIND_LAST } else { KIND_PARTIAL };
        frame[16..20].fill(0);
        frame[20..24].copy_from_slice(&pages_len.to_be_bytes());
        frame[24..HEAD_LEN].copy_from_slice(&self.offset.to_be_bytes());
        let sum = ChecksumKind::Crc32c.of(&frame[12..HEAD_LEN]);
        frame[8..12].copy_from_slice(&sum.to_be_bytes());
    }
}

const _: () = assert!(HEAD_LEN == 32 && PART_LEN_MAX.is_multiple_of(PAGE_LEN));

#[cfg(test)]
mod tests {
    use super::*;

    /// What is in a frame, taken apart as a client does.
    fn pages(frame: &[u8], offset: u64) -> Vec<u8> {
        let (mut rest, mut room, mut data) = (&frame[HEAD_LEN..], PAGE_LEN - offset as usize % PAGE_LEN, Vec::new());
        while !rest.is_empty() {
            let len = room.min(rest.len() - SUM_LEN);
            assert_eq!(rest[..4], ChecksumKind::Crc32c.of(&rest[4..4 + len]).to_be_bytes());
            data.extend_from_slice(&rest[4..4 + len]);
            (rest, room) = (&rest[4 + len..], PAGE_LEN);
        }
        data
    }

    #[test]
    fn pages_are_those_of_the_file() {
        let empty = [(0, 0), (5, 0), (4095, 0), (4096, 0), (5000, 0)];
        let some = [(0, 1), (0, 4096), (5, 4096), (4095, 1), (4095, 2), (8192, 10_000), (1, 700_000)];
        for (offset, len) in empty.into_iter().chain(some) {
            let part = PagesFrame::next(offset, len as u64);
            assert!(part.is_last() && part.data_len() == len);
            let data: Vec<u8> = (0..len).map(|at| (at % 251) as u8).collect();
            let mut frame = vec![7; part.frame_len()];
            part.data(&mut frame).copy_from_slice(&data);
            part.seal(StreamId([1, 2]), &mut frame);
            assert!(len > 0 || frame.len() == HEAD_LEN, "{offset}");
            assert!(pages(&frame, offset) == data, "{offset} {len}");
            assert_eq!(frame[..8], [1, 2, 0x0f, 0xa7, 0, 0, 0, 24]);
            assert_eq!((frame[14], frame[15]), (30, 0));
        }
    }

    #[test]
    fn parts_end_with_pages() {
        let (mut offset, mut left, mut parts) = (5000, 3_000_000, Vec::new());
        while left > 0 {
            let part = PagesFrame::next(offset, left);
            parts.push(part);
            offset += part.data_len() as u64;
            left -= part.data_len() as u64;
        }
        assert_eq!((parts.len(), offset), (3, 3_005_000));
        assert!(
            parts[..2].iter().all(|part| (part.offset as usize + part.len).is_multiple_of(PAGE_LEN) && !part.is_last())
        );
    }
}
