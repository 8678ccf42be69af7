//! A page of a directory, encoded entry by entry: the longest answer that clients often ask for.
//!
//! Promise: byte for byte what prost makes of the same
//! [`GetListingResponseProto`](crate::proto::GetListingResponseProto), in one pass and without a copy of names: prost
//! asks each message for its length once for every message around it.

use crate::encoding::{HEAD_LEN, LEN, NUMBER, NUMBER_LEN_MAX, number_len, put_field, put_head, put_numbers, tag};
use crate::proto::hdfs_file_status_proto::FileType;
use crate::proto::{FsPermissionProto, HdfsFileStatusProto, LocatedBlocksProto};
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
}

const DIR_LIST: u64 = tag(1, LEN);
const ENTRY: u64 = tag(1, LEN);
const REMAINING: u64 = tag(2, NUMBER);
/// Space at first: a few entries.
const START_LEN: usize = 1 << 10;

/// An entry, as a server of ours fills [`HdfsFileStatusProto`].
#[derive(Clone, Copy, Debug)]
pub struct Entry<'a> {
    pub kind: FileType,
    pub path: &'a [u8],
    pub len: u64,
    pub perm: u32,
    pub owner: &'a str,
    pub group: &'a str,
    pub modified_ms: u64,
    pub accessed_ms: u64,
    pub replication: u32,
    pub block_len: u64,
    pub file_id: u64,
    pub child_count: i32,
    pub flags: u32,
    /// As [`crate::located::Located::message`] has them.
    pub locations: Option<&'a [u8]>,
}

/// HDFS's number of the policy that is none.
const STORAGE_POLICY: u32 = 0;

impl From<Entry<'_>> for HdfsFileStatusProto {
    fn from(entry: Entry<'_>) -> Self {
        Self {
            file_type: entry.kind.into(),
            path: Bytes::copy_from_slice(entry.path),
            length: entry.len,
            permission: FsPermissionProto { perm: entry.perm },
            owner: entry.owner.to_owned(),
            group: entry.group.to_owned(),
            modification_time: entry.modified_ms,
            access_time: entry.accessed_ms,
            symlink: None,
            block_replication: Some(entry.replication),
            blocksize: Some(entry.block_len),
            locations: entry
                .locations
                .map(|encoded| LocatedBlocksProto::decode(encoded).expect("a message that was encoded here is one")),
            file_id: Some(entry.file_id),
            children_num: Some(entry.child_count),
            storage_policy: Some(STORAGE_POLICY),
            flags: Some(entry.flags),
            namespace: None,
        }
    }
}

impl Default for PageWriter {
    fn default() -> Self {
        let mut bytes = Vec::with_capacity(START_LEN);
        bytes.resize(HEAD_LEN, 0);
        Self { bytes }
    }
}

impl PageWriter {
    pub fn push(&mut self, entry: &Entry<'_>) {
        // Most entries are shorter than 128 bytes, and their length has one.
        put_numbers([ENTRY, 0], &mut self.bytes);
        let start = self.bytes.len();
        put_status(entry, &mut self.bytes);
        let len = self.bytes.len() - start;
        if len < 0x80 {
            self.bytes[start - 1] = len as u8;
            return;
        }
        let mut digits = Vec::with_capacity(NUMBER_LEN_MAX);
        put_numbers([len as u64], &mut digits);
        self.bytes.splice(start - 1..start, digits);
    }

    /// Entries that were encoded before.
    pub fn push_encoded(&mut self, entries: &[u8]) {
        self.bytes.extend_from_slice(entries);
    }

    /// The entries so far.
    pub fn encoded(&self) -> &[u8] {
        &self.bytes[HEAD_LEN..]
    }

    /// The answer: a page that so many entries follow.
    pub fn finish(mut self, remaining: u32) -> Bytes {
        put_numbers([REMAINING, remaining.into()], &mut self.bytes);
        let start = put_head(DIR_LIST, &mut self.bytes);
        Bytes::from(self.bytes).slice(start..)
    }
}

fn put_status(entry: &Entry<'_>, out: &mut Vec<u8>) {
    let perm = u64::from(entry.perm);
    // Negative numbers travel as the 64 bits of their two's complement.
    put_numbers([tag(1, NUMBER), i64::from(i32::from(entry.kind)) as u64], out);
    put_field(tag(2, LEN), entry.path, out);
    put_numbers([tag(3, NUMBER), entry.len, tag(4, LEN), 1 + number_len(perm), tag(1, NUMBER), perm], out);
    put_field(tag(5, LEN), entry.owner.as_bytes(), out);
    put_field(tag(6, LEN), entry.group.as_bytes(), out);
    put_numbers([tag(7, NUMBER), entry.modified_ms, tag(8, NUMBER), entry.accessed_ms], out);
    put_numbers([tag(10, NUMBER), entry.replication.into(), tag(11, NUMBER), entry.block_len], out);
    if let Some(locations) = entry.locations {
        put_field(tag(12, LEN), locations, out);
    }
    put_numbers([tag(13, NUMBER), entry.file_id, tag(14, NUMBER), i64::from(entry.child_count) as u64], out);
    put_numbers([tag(16, NUMBER), STORAGE_POLICY.into(), tag(18, NUMBER), entry.flags.into()], out);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::{DirectoryListingProto, GetListingResponseProto};

    fn entry<'a>(number: u32, name: &'a [u8], text: &'a str, locations: &'a [u8]) -> Entry<'a> {
        let shift = number % 64;
        let every = |n: u32| number.is_multiple_of(n);
        Entry {
            kind: if every(3) { FileType::IsDir } else { FileType::IsFile },
            path: name,
            len: u64::MAX >> shift,
            perm: 0o1777 >> (number % 11),
            owner: &text[..number as usize % text.len()],
            group: "staff",
            modified_ms: 1 << shift,
            accessed_ms: (1 << shift) - 1,
            replication: number,
            block_len: 1 << shift,
            file_id: 1 << (63 - shift),
            child_count: number as i32 - 3,
            flags: u32::MAX >> (number % 32),
            locations: every(5).then_some(locations),
        }
    }

    #[test]
    fn a_page_is_the_message_that_prost_makes() {
        let (text, locations) = ("ann".repeat(50), LocatedBlocksProto { file_length: 1 << 40, ..Default::default() });
        let locations = locations.encode_to_vec();
        for (count, name_len, remaining) in [(0, 0, 0), (1, 0, 0), (3, 200, 1), (1000, 20, 127), (1000, 255, u32::MAX)]
        {
            let name = vec![b'a'; name_len];
            let entries: Vec<_> = (0..count).map(|number| entry(number, &name, &text, &locations)).collect();
            let mut page = PageWriter::default();
            entries.iter().for_each(|entry| page.push(entry));
            let partial_listing = entries.into_iter().map(Into::into).collect();
            let dir_list = Some(DirectoryListingProto { partial_listing, remaining_entries: remaining });
            let message = GetListingResponseProto { dir_list };
            assert_eq!(page.finish(remaining), message.encode_to_vec(), "{count} names of {name_len}");
        }
    }
}
