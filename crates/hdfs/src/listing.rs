//! A page of a directory, encoded entry by entry: the longest answer that clients often ask for.
//!
//! Promise: byte for byte what prost makes of the same [`GetListingResponseProto`](crate::proto::GetListingResponseProto),
//! in one pass: prost asks each message for its length once for every message around it, and copies handles of names.

use crate::proto::{FsPermissionProto, HdfsFileStatusProto};
use bytes::Bytes;
use prost::Message;

/// ```text
/// 0                            HEAD_LEN
/// ┌────────┬──────────────────┬───────────────────────┬───┬──────────────────┐
/// │ unused │ DIR_LIST, length │ ENTRY, length, status │ … │ REMAINING, count │
/// └────────┴──────────────────┴───────────────────────┴───┴──────────────────┘
/// ```
#[derive(Debug)]
pub struct PageWriter {
    bytes: Vec<u8>,
    /// One entry, until its length is known.
    entry: Vec<u8>,
}

const DIR_LIST: u64 = tag(1, LEN);
const ENTRY: u64 = tag(1, LEN);
const REMAINING: u64 = tag(2, NUMBER);
/// A tag and the longest length.
const HEAD_LEN: usize = 1 + NUMBER_LEN_MAX;
const NUMBER_LEN_MAX: usize = 10;
/// Space for an entry at first: 67 bytes, with its name, owner and group. A guess; more is taken if need be.
const ENTRY_LEN: usize = 128;

/// Protobuf's wire types: a number, or a length and so many bytes.
const NUMBER: u64 = 0;
const LEN: u64 = 2;

const fn tag(field: u64, wire_type: u64) -> u64 {
    field << 3 | wire_type
}

impl PageWriter {
    pub fn new(entry_count: usize) -> Self {
        let mut bytes = Vec::with_capacity(HEAD_LEN + entry_count * ENTRY_LEN);
        bytes.resize(HEAD_LEN, 0);
        Self { bytes, entry: Vec::with_capacity(ENTRY_LEN) }
    }

    pub fn push(&mut self, status: &HdfsFileStatusProto) {
        self.entry.clear();
        put_status(status, &mut self.entry);
        put_field(ENTRY, &self.entry, &mut self.bytes);
    }

    /// The answer: a page that so many entries follow.
    pub fn finish(mut self, remaining: u32) -> Bytes {
        put_numbers([REMAINING, remaining.into()], &mut self.bytes);
        let mut head = Vec::with_capacity(HEAD_LEN);
        put_numbers([DIR_LIST, (self.bytes.len() - HEAD_LEN) as u64], &mut head);
        let start = HEAD_LEN - head.len();
        self.bytes[start..HEAD_LEN].copy_from_slice(&head);
        Bytes::from(self.bytes).slice(start..)
    }
}

fn put_status(status: &HdfsFileStatusProto, out: &mut Vec<u8>) {
    // Whole: a field that is added must be written here too.
    let HdfsFileStatusProto {
        file_type,
        path,
        length,
        permission: FsPermissionProto { perm },
        owner,
        group,
        modification_time,
        access_time,
        symlink,
        block_replication,
        blocksize,
        locations,
        file_id,
        children_num,
        storage_policy,
        flags,
        namespace,
    } = status;
    // Negative numbers travel as the 64 bits of their two's complement.
    put_numbers([tag(1, NUMBER), i64::from(*file_type) as u64], out);
    put_field(tag(2, LEN), path, out);
    put_numbers([tag(3, NUMBER), *length], out);
    put_numbers([tag(4, LEN), 1 + number_len(u64::from(*perm)), tag(1, NUMBER), u64::from(*perm)], out);
    put_field(tag(5, LEN), owner.as_bytes(), out);
    put_field(tag(6, LEN), group.as_bytes(), out);
    put_numbers([tag(7, NUMBER), *modification_time, tag(8, NUMBER), *access_time], out);
    if let Some(symlink) = symlink {
        put_field(tag(9, LEN), symlink, out);
    }
    put_option(10, block_replication.map(u64::from), out);
    put_option(11, *blocksize, out);
    if let Some(locations) = locations {
        put_field(tag(12, LEN), &locations.encode_to_vec(), out);
    }
    put_option(13, *file_id, out);
    put_option(14, children_num.map(|count| i64::from(count) as u64), out);
    put_option(16, storage_policy.map(u64::from), out);
    put_option(18, flags.map(u64::from), out);
    if let Some(namespace) = namespace {
        put_field(tag(19, LEN), namespace.as_bytes(), out);
    }
}

fn put_option(field: u64, number: Option<u64>, out: &mut Vec<u8>) {
    if let Some(number) = number {
        put_numbers([tag(field, NUMBER), number], out);
    }
}

fn put_field(tag: u64, bytes: &[u8], out: &mut Vec<u8>) {
    put_numbers([tag, bytes.len() as u64], out);
    out.extend_from_slice(bytes);
}

/// Seven bits a byte, the lowest first; the top bit says that more follow.
fn put_numbers<const N: usize>(numbers: [u64; N], out: &mut Vec<u8>) {
    for mut number in numbers {
        while number >= 0x80 {
            out.push(number as u8 | 0x80);
            number >>= 7;
        }
        out.push(number as u8);
    }
}

fn number_len(number: u64) -> u64 {
    u64::from((64 - (number | 1).leading_zeros()).div_ceil(7))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::{DirectoryListingProto, GetListingResponseProto, LocatedBlocksProto};

    fn status(number: u32, name_len: usize) -> HdfsFileStatusProto {
        let shift = number % 64;
        let every = |n: u32| number.is_multiple_of(n);
        HdfsFileStatusProto {
            file_type: 2,
            path: vec![b'a'; name_len].into(),
            length: u64::MAX >> shift,
            permission: FsPermissionProto { perm: 0o1777 >> (number % 11) },
            owner: "ann".repeat(number as usize % 50),
            group: "staff".into(),
            modification_time: 1 << shift,
            access_time: (1 << shift) - 1,
            symlink: every(7).then(|| Bytes::from_static(b"to")),
            block_replication: every(2).then_some(number),
            blocksize: every(3).then_some(1 << shift),
            locations: every(5).then(|| LocatedBlocksProto { file_length: 1 << shift, ..Default::default() }),
            file_id: (!every(4)).then_some(1 << shift),
            children_num: (!every(11)).then_some(number as i32 - 3),
            storage_policy: (!every(13)).then_some(number),
            flags: (!every(17)).then_some(u32::MAX >> (number % 32)),
            namespace: every(19).then(|| "/user".into()),
        }
    }

    #[test]
    fn a_page_is_the_message_that_prost_makes() {
        for (count, name_len, remaining) in [(0, 0, 0), (1, 0, 0), (3, 200, 1), (1000, 20, 127), (1000, 255, u32::MAX)]
        {
            let partial_listing: Vec<_> = (0..count).map(|number| status(number, name_len)).collect();
            let mut page = PageWriter::new(count as usize);
            partial_listing.iter().for_each(|status| page.push(status));
            let dir_list = Some(DirectoryListingProto { partial_listing, remaining_entries: remaining });
            let message = GetListingResponseProto { dir_list };
            assert_eq!(page.finish(remaining), message.encode_to_vec(), "{count} names of {name_len}");
        }
    }
}
