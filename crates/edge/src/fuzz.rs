//! What an edge reads of its disk, as functions of bytes, for fuzz targets. Whatever the bytes are, none panics.

use crate::head::{Head, SEGMENT_BEGIN};
use crate::record;
use crate::shelf::{Limits, Shelf, Source};

/// A list of heads, with sums that fit, as a shelf takes it; and its bytes as records.
pub fn segment(bytes: &[u8]) {
    let Some(heads) = Head::list(bytes) else {
        let sealed = bytes.chunks(Head::LEN - 4).flat_map(|head| {
            let mut sealed = head.to_vec();
            sealed.extend_from_slice(&types::ChecksumKind::Crc32c.of(head).to_be_bytes());
            sealed
        });
        let list: Vec<u8> = SEGMENT_BEGIN.into_iter().chain(sealed).collect();
        return restored(&Head::list(&list).expect("it begins as a list does"), bytes);
    };
    let again: Vec<u8> = SEGMENT_BEGIN.into_iter().chain(heads.iter().flat_map(Head::encode)).collect();
    assert!(bytes.starts_with(&again), "what was read is written as the same");
    restored(&heads, bytes);
}

fn restored(heads: &[Head], bytes: &[u8]) {
    let limits = Limits { memory_len: 0, disk_len: 1 << 30, segment_len: 1 << 24, disk_extent_count: 1000 };
    let mut shelf: Shelf<()> = Shelf::new(limits);
    shelf.restore(7, bytes.len() as u64, heads);
    shelf.check();
    for head in heads {
        let range = head.offset..head.offset + u64::from(head.len);
        let plan = shelf.plan(head.content, std::slice::from_ref(&range), ());
        for part in plan.parts {
            if let Source::Disk(disk) = part.source {
                let reads = record::reads(disk.extent_len, disk.skip, (part.range.end - part.range.start) as u32);
                let at = |from: u64| usize::try_from(disk.place.at + from).expect("it lies in these bytes");
                let sums = &bytes[at(reads.sums.start)..at(reads.sums.end)];
                let data = &bytes[at(reads.data.start)..at(reads.data.end)];
                let owner = record::Owner { content: head.content, offset: disk.begin };
                if record::is_whole(owner, data, &mut sums.to_vec()) {
                    assert!(reads.part.end <= data.len());
                } else {
                    shelf.damaged(head.content, &disk);
                }
            }
        }
        if let Some((flight, _)) = plan.fetch {
            shelf.fail(flight);
        }
        shelf.check();
    }
}
