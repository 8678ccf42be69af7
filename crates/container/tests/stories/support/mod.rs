//! What the stories share: a volume in a directory of its own, and bytes that tell where they belong.

use container::{Durability, Identity, Options, Reader, ReopenAsk, ReopenKind, Volume};
use std::path::Path;
use types::{BlockId, ChecksumKind, ChecksumSpec, ContainerId, Generation, InodeId};

pub(crate) const PACK_LEN_MAX: u64 = 4096;

pub(crate) fn options() -> Options {
    // No disk is asked to be quick: synced mode is chosen where it matters.
    Options { durability: Durability::Replicated, pack_len_max: PACK_LEN_MAX, ..Options::default() }
}

pub(crate) fn open(dir: &Path) -> Volume {
    Volume::open(dir, options()).unwrap()
}

/// A volume whose open replicas have files of their own from the start.
pub(crate) fn open_without_slots(dir: &Path) -> Volume {
    Volume::open(dir, Options { slot_count_max: 0, ..options() }).unwrap()
}

pub(crate) fn block(index: u32) -> BlockId {
    BlockId::new(ContainerId(7), index)
}

pub(crate) fn identity(index: u32, generation: u64) -> Identity {
    Identity {
        block: block(index),
        generation: Generation(generation),
        file: InodeId(16_400),
        home: ContainerId(7),
        checksum: ChecksumSpec { kind: ChecksumKind::Crc32c, chunk_len: 512 },
    }
}

/// Bytes in which no two places look alike for long.
pub(crate) fn pattern(seed: u64, len: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    (0..len)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 32) as u8
        })
        .collect()
}

pub(crate) fn sums(spec: ChecksumSpec, data: &[u8]) -> Vec<u8> {
    let mut sums = Vec::new();
    spec.compute(data, &mut sums);
    sums
}

/// Writes all of `data` in packets of some chunks and puts it.
pub(crate) fn put(volume: &Volume, identity: Identity, data: &[u8]) {
    let mut writer = volume.create(identity).unwrap();
    let mut at = 0;
    for packet in data.chunks(identity.checksum.chunk_len as usize * 37) {
        writer.write(at, packet, &sums(identity.checksum, packet)).unwrap();
        at += packet.len() as u64;
    }
    writer.put(data.len() as u64).unwrap();
}

/// Reads all, and holds bytes, checksums and length against what should be there.
pub(crate) fn check(reader: &Reader, data: &[u8]) {
    assert_eq!(reader.len(), data.len() as u64, "{:?}", reader.identity());
    let mut bytes = vec![0; data.len()];
    reader.read_at(0, &mut bytes).unwrap();
    assert!(bytes == data, "other bytes in {:?}", reader.identity());
    let mut stored = Vec::new();
    reader.sums(0, reader.len(), &mut stored).unwrap();
    assert!(stored == sums(reader.checksum(), data), "other checksums in {:?}", reader.identity());
    reader.verify().unwrap();
}

pub(crate) fn read(volume: &Volume, block: BlockId) -> Reader {
    volume.read(block, Generation(0)).unwrap()
}

pub(crate) fn ask(kind: ReopenKind, old: u64, new: u64, min_len: u64, max_len: u64) -> ReopenAsk {
    ReopenAsk { kind, old: Generation(old), new: Generation(new), min_len, max_len }
}

/// Names of the files that replicas have on their shelves.
pub(crate) fn shelved(dir: &Path) -> Vec<String> {
    let copy = dir.join("containers/VERSION").display().to_string();
    files(&dir.join("containers")).into_iter().filter(|name| *name != copy).collect()
}

/// Names of files below `dir`, for stories about what is left.
pub(crate) fn files(dir: &Path) -> Vec<String> {
    let mut names = Vec::new();
    if let Ok(entries) = std::fs::read_dir(dir) {
        for entry in entries.flatten() {
            if entry.path().is_dir() {
                names.extend(files(&entry.path()));
            } else {
                names.push(entry.path().display().to_string());
            }
        }
    }
    names.sort();
    names
}
