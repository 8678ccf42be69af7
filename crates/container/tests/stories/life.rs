//! The life of replicas on a sound disk: written, put, found, read, listed, deleted, found again after a restart.

use crate::support::*;
use container::{Advice, ReplicaError, Volume, VolumeError};
use types::{BlockId, ChecksumKind, ChecksumSpec, ContainerId, Generation, InodeId, NodeId, ReplicaState};

#[test]
fn replicas_of_all_lengths_come_back_as_they_were_put() {
    let dir = tempfile::tempdir().unwrap();
    let lens = [0, 1, 511, 512, 513, 4095, 4096, 4097, 100_000, 3_000_000];
    {
        let volume = open(dir.path());
        for (index, len) in (0..).zip(lens) {
            put(&volume, identity(index, 1001), &pattern(len as u64, len));
            check(&read(&volume, block(index)), &pattern(len as u64, len));
        }
    }
    let volume = open(dir.path());
    for (index, len) in (0..).zip(lens) {
        check(&read(&volume, block(index)), &pattern(len as u64, len));
        let info = volume.find(block(index)).unwrap().unwrap();
        assert_eq!((info.state, info.len, info.visible_len), (ReplicaState::Finalized, len as u64, len as u64));
        assert_eq!(info.identity, identity(index, 1001));
    }
    assert_eq!(files(&dir.path().join("open")), [""; 0]);
    assert_eq!(volume.usage().unwrap().replica_count, lens.len() as u64);
}

#[test]
fn every_kind_of_checksum_and_length_of_chunk_is_kept() {
    let dir = tempfile::tempdir().unwrap();
    let mut index = 0;
    let mut all = Vec::new();
    {
        let volume = open(dir.path());
        for kind in [ChecksumKind::Null, ChecksumKind::Crc32, ChecksumKind::Crc32c] {
            for chunk_len in [1, 100, 512, 65_536] {
                for len in [0, 99, 5000, 70_000] {
                    let spec = ChecksumSpec { kind, chunk_len };
                    let id = container::Identity { checksum: spec, ..identity(index, 1001) };
                    put(&volume, id, &pattern(u64::from(index), len));
                    all.push((index, len));
                    index += 1;
                }
            }
        }
    }
    let volume = open(dir.path());
    for (index, len) in all {
        check(&read(&volume, block(index)), &pattern(u64::from(index), len));
    }
}

#[test]
fn a_replica_being_written_is_read_as_far_as_it_came() {
    let dir = tempfile::tempdir().unwrap();
    let volume = open(dir.path());
    let spec = identity(1, 1001).checksum;
    let data = pattern(1, 2000);
    let mut writer = volume.create(identity(1, 1001)).unwrap();
    writer.write(0, &data[..700], &sums(spec, &data[..700])).unwrap();
    writer.set_visible(600);
    let early = read(&volume, block(1));
    check(&early, &data[..700]);
    assert_eq!((early.visible_len(), early.state()), (600, ReplicaState::Open));
    // The client sends the partial chunk again, from its start, as it does after hflush.
    writer.write(512, &data[512..2000], &sums(spec, &data[512..2000])).unwrap();
    check(&early, &data[..700]);
    check(&read(&volume, block(1)), &data);
    writer.put(2000).unwrap();
    check(&early, &data[..700]);
    check(&read(&volume, block(1)), &data);
}

#[test]
fn a_deleted_replica_is_gone_and_its_space_is_back() {
    let dir = tempfile::tempdir().unwrap();
    let volume = open(dir.path());
    for index in 0..3 {
        put(&volume, identity(index, 1001), &pattern(1, 3000));
    }
    put(&volume, identity(3, 1001), &pattern(1, 500_000));
    let still_reading = read(&volume, block(3));
    assert!(!volume.delete(block(3), Generation(1000)).unwrap(), "a newer replica than the request means");
    for index in 0..4 {
        assert!(volume.delete(block(index), Generation(1001)).unwrap());
        assert!(!volume.delete(block(index), Generation(1001)).unwrap());
        assert!(volume.find(block(index)).unwrap().is_none());
        let error = volume.read(block(index), Generation(0)).unwrap_err();
        assert_eq!(error.advice(), Advice::RefreshLocations);
    }
    check(&still_reading, &pattern(1, 500_000));
    assert_eq!(shelved(dir.path()), [""; 0], "no empty pack stays");
    assert_eq!(volume.usage().unwrap().used, 0);
    put(&volume, identity(4, 1001), &pattern(4, 100));
    check(&read(&volume, block(4)), &pattern(4, 100));
}

#[test]
fn a_deleted_open_replica_fences_its_writer() {
    let dir = tempfile::tempdir().unwrap();
    let volume = open(dir.path());
    let mut writer = volume.create(identity(1, 1001)).unwrap();
    writer.write(0, b"x", &[]).unwrap();
    assert!(volume.delete(block(1), Generation(1001)).unwrap());
    let error = writer.write(1, b"y", &[]).unwrap_err();
    assert_eq!(error.advice(), Advice::StopWriting);
    assert!(writer.put(1).is_err());
    drop(volume);
    let volume = open(dir.path());
    assert!(volume.find(block(1)).unwrap().is_none(), "nothing is left in its slot");
    assert_eq!(files(&dir.path().join("open")), [""; 0]);
}

#[test]
fn a_newer_generation_replaces_and_an_older_one_does_not() {
    let dir = tempfile::tempdir().unwrap();
    let volume = open(dir.path());
    for (index, len) in [(1, 100), (2, 100_000)] {
        put(&volume, identity(index, 1005), &pattern(1, len));
        for generation in [1004, 1005] {
            let error = volume.create(identity(index, generation)).unwrap_err();
            assert!(matches!(error, ReplicaError::Exists { have: Generation(1005), .. }), "{error}");
        }
        put(&volume, identity(index, 1006), &pattern(2, len / 2));
        check(&read(&volume, block(index)), &pattern(2, len / 2));
        let error = volume.read(block(index), Generation(1007)).unwrap_err();
        assert!(matches!(error, ReplicaError::Stale { .. }), "{error}");
    }
    let mut old = volume.create(identity(3, 1001)).unwrap();
    old.write(0, b"old", &[]).unwrap();
    let new = volume.create(identity(3, 1002)).unwrap();
    assert!(matches!(old.write(3, b"er", &[]), Err(ReplicaError::Fenced { by: Generation(1002), .. })));
    drop(old);
    new.put(0).unwrap();
    check(&read(&volume, block(3)), b"");
}

#[test]
fn a_listing_has_open_and_finalized_replicas_page_by_page() {
    let dir = tempfile::tempdir().unwrap();
    let volume = open(dir.path());
    let mut writers = Vec::new();
    for index in 0..20 {
        match index % 3 {
            0 => put(&volume, identity(index, 1001), &pattern(1, 100)),
            1 => put(&volume, identity(index, 1001), &pattern(1, 9000)),
            _ => writers.push(volume.create(identity(index, 1001)).unwrap()),
        }
    }
    let copy = volume.create_copy(identity(20, 1001)).unwrap();
    let mut seen = Vec::new();
    let mut from = BlockId(0);
    loop {
        let page = volume.replicas(from, 6).unwrap();
        let Some(last) = page.last() else { break };
        from = BlockId(last.identity.block.0 + 1);
        seen.extend(page.iter().map(|info| (info.identity.block.index(), info.state == ReplicaState::Open)));
    }
    assert_eq!(seen, (0..20).map(|index| (index, index % 3 == 2)).collect::<Vec<_>>());
    drop(copy);
}

#[test]
fn a_copy_is_seen_by_nobody_until_it_is_kept_or_put() {
    let dir = tempfile::tempdir().unwrap();
    let volume = open(dir.path());
    let data = pattern(1, 5000);
    let mut copy = volume.create_copy(identity(1, 1001)).unwrap();
    copy.write(0, &data, &[]).unwrap();
    assert_eq!(volume.read(block(1), Generation(0)).unwrap_err().advice(), Advice::ReadElsewhere);
    drop(copy);
    assert!(volume.find(block(1)).unwrap().is_none());
    assert_eq!(files(&dir.path().join("open")), [""; 0]);

    let mut copy = volume.create_copy(identity(1, 1001)).unwrap();
    copy.write(0, &data, &[]).unwrap();
    copy.keep().unwrap();
    let reader = read(&volume, block(1));
    check(&reader, &data);
    assert_eq!((reader.state(), reader.visible_len()), (ReplicaState::Open, 5000));

    let mut copy = volume.create_copy(identity(2, 1001)).unwrap();
    copy.write(0, &data, &[]).unwrap();
    copy.put(5000).unwrap();
    check(&read(&volume, block(2)), &data);
}

/// The source of a copy goes away, or what came does not read back: the older replica is still what it was.
#[test]
fn an_older_replica_stays_until_the_copy_of_a_newer_one_is_put() {
    for (old_len, new_len) in [(900, 1000), (9000, 10_000), (900, 10_000), (9000, 1000)] {
        let dir = tempfile::tempdir().unwrap();
        let volume = open(dir.path());
        let (old, new) = (pattern(1, old_len), pattern(2, new_len));
        put(&volume, identity(1, 1001), &old);
        let there = |volume: &Volume| {
            let info = volume.find(block(1)).unwrap().expect("it is still there");
            assert_eq!((info.identity.generation, info.state), (Generation(1001), ReplicaState::Finalized));
            check(&read(volume, block(1)), &old);
            assert_eq!(volume.replicas(BlockId(0), 9).unwrap().len(), 1);
        };
        let mut copy = volume.create_copy(identity(1, 1002)).unwrap();
        there(&volume);
        copy.write(0, &new[..512], &[]).unwrap();
        there(&volume);
        drop(copy);
        there(&volume);

        let copy = volume.create_copy(identity(1, 1002)).unwrap();
        let lost = volume.create_copy(identity(1, 1003)).unwrap();
        assert!(copy.put(0).is_err(), "overtaken");
        there(&volume);
        drop(lost);
        there(&volume);

        let mut bad = volume.create_copy(identity(1, 1002)).unwrap();
        bad.write(0, &new, &sums(identity(1, 1002).checksum, &pattern(3, new_len))).unwrap();
        assert!(matches!(bad.put(new_len as u64), Err(ReplicaError::Corrupt { .. })));
        there(&volume);

        let mut copy = volume.create_copy(identity(1, 1002)).unwrap();
        copy.write(0, &new, &[]).unwrap();
        let early = read(&volume, block(1));
        copy.put(new_len as u64).unwrap();
        check(&early, &old);
        check(&volume.read(block(1), Generation(1002)).unwrap(), &new);
        assert_eq!(volume.usage().unwrap().replica_count, 1);
        std::fs::remove_dir_all(dir.path().join("index")).ok();
        drop(volume);
        check(&open(dir.path()).read(block(1), Generation(1002)).unwrap(), &new);
    }
}

/// A stale replica may be deleted while its successor comes.
#[test]
fn a_deletion_of_an_older_replica_leaves_the_copy_of_a_newer_one() {
    let dir = tempfile::tempdir().unwrap();
    let volume = open(dir.path());
    put(&volume, identity(1, 1001), &pattern(1, 9000));
    let mut copy = volume.create_copy(identity(1, 1002)).unwrap();
    assert!(volume.delete(block(1), Generation(1001)).unwrap());
    assert_eq!(volume.find(block(1)).unwrap().unwrap().state, ReplicaState::Copying);
    copy.write(0, &pattern(2, 9000), &[]).unwrap();
    copy.put(9000).unwrap();
    check(&read(&volume, block(1)), &pattern(2, 9000));
}

#[test]
fn an_owner_told_late_is_kept() {
    let dir = tempfile::tempdir().unwrap();
    let unowned = |index| container::Identity { file: InodeId(0), home: ContainerId(0), ..identity(index, 1001) };
    {
        let volume = open(dir.path());
        put(&volume, unowned(1), &pattern(1, 100));
        put(&volume, unowned(2), &pattern(2, 9000));
        let mut writer = volume.create(unowned(3)).unwrap();
        writer.write(0, &pattern(3, 8000), &[]).unwrap();
        for index in 1..4 {
            assert!(volume.set_owner(block(index), InodeId(55), ContainerId(9)).unwrap());
        }
        assert!(!volume.set_owner(block(4), InodeId(55), ContainerId(9)).unwrap());
        writer.put(8000).unwrap();
    }
    std::fs::remove_dir_all(dir.path().join("index")).ok();
    let volume = open(dir.path());
    for (index, len) in [(1, 100), (2, 9000), (3, 8000)] {
        let reader = read(&volume, block(index));
        check(&reader, &pattern(index.into(), len));
        assert_eq!((reader.identity().file, reader.identity().home), (InodeId(55), ContainerId(9)));
        assert!(volume.delete(block(index), Generation(1001)).unwrap());
    }
    assert_eq!(shelved(dir.path()), [""; 0]);
}

#[test]
fn a_small_replica_is_put_in_one_step() {
    let dir = tempfile::tempdir().unwrap();
    let volume = open(dir.path());
    let data = pattern(1, 4000);
    let spec = identity(1, 1001).checksum;
    volume.put_small(identity(1, 1001), &data, &sums(spec, &data)).unwrap();
    check(&read(&volume, block(1)), &data);
    volume.put_small(identity(1, 1001), &data, &sums(spec, &data)).expect("who lost the answer asks again");
    let other = pattern(2, 4000);
    assert!(volume.put_small(identity(1, 1001), &other, &sums(spec, &other)).is_err());
    assert!(volume.put_small(identity(2, 1001), &data, &[]).is_err());
    assert!(volume.put_small(identity(2, 1001), &pattern(1, 4097), &[]).is_err());
}

#[test]
fn a_directory_has_one_master_and_remembers_whose_it_is() {
    let dir = tempfile::tempdir().unwrap();
    let node = NodeId([7; 16]);
    let with_node = |node| container::Options { node: Some(node), ..options() };
    let volume = Volume::open(dir.path(), with_node(node)).unwrap();
    let error = Volume::open(dir.path(), options()).unwrap_err();
    assert!(matches!(error, VolumeError::Locked { .. }), "{error}");
    let first = volume.identity();
    volume.join_pool("BP-1-127.0.0.1-1").unwrap();
    assert!(matches!(volume.join_pool("BP-2"), Err(VolumeError::ForeignPool { .. })));
    drop(volume);
    let volume = open(dir.path());
    let pool = Some("BP-1-127.0.0.1-1".to_owned());
    assert_eq!(volume.identity(), container::VolumeIdentity { pool, ..first });
    drop(volume);
    let error = Volume::open(dir.path(), with_node(NodeId([8; 16]))).unwrap_err();
    assert!(matches!(error, VolumeError::Foreign { .. }), "{error}");
    std::fs::write(dir.path().join("VERSION"), "format = 99\n").unwrap();
    assert!(matches!(Volume::open(dir.path(), options()), Err(VolumeError::Format { have: 99, .. })));
}

#[test]
fn a_part_of_a_replica_is_digested_with_a_fresh_last_checksum() {
    let dir = tempfile::tempdir().unwrap();
    let volume = open(dir.path());
    let data = pattern(1, 10_000);
    put(&volume, identity(1, 1001), &data);
    let reader = read(&volume, block(1));
    assert_eq!(reader.partial_sum(512, 100).unwrap(), ChecksumKind::Crc32c.of(&data[512..612]));
    assert_eq!(reader.partial_sum(9728, 272).unwrap(), ChecksumKind::Crc32c.of(&data[9728..]));
    assert_eq!(volume.verify(block(1)).unwrap(), ChecksumKind::Crc32c.of(&data));
    let mut some = Vec::new();
    reader.sums(1024, 1000, &mut some).unwrap();
    assert_eq!(some, sums(reader.checksum(), &data[1024..2048]), "the stored ones, of whole chunks");
    assert!(reader.sums(9728, 273, &mut some).is_err());
}

/// A writer sends small packets of all kinds while others read: each finds bytes and checksums that agree, up to a
/// length that never shrinks.
#[test]
fn who_reads_a_growing_replica_always_finds_checksums_that_agree() {
    let dir = tempfile::tempdir().unwrap();
    let volume = open(dir.path());
    let data = pattern(1, 60_000);
    let mut writer = volume.create(identity(1, 1001)).unwrap();
    let readers: Vec<_> = (0..3)
        .map(|_| {
            let (volume, data) = (volume.clone(), data.clone());
            io::task::thread("reader", move || {
                let mut seen = 0;
                while seen < data.len() as u64 {
                    let reader = read(&volume, block(1));
                    assert!(reader.len() >= seen && reader.visible_len() <= reader.len());
                    seen = reader.len();
                    check(&reader, &data[..seen as usize]);
                }
            })
            .unwrap()
        })
        .collect();
    let mut at = 0;
    let mut turn = 0;
    while at < data.len() {
        turn += 1;
        let (from, to) = match turn % 3 {
            0 => (at / 512 * 512, at + 700),
            1 => (at, (at + 99).min(at / 512 * 512 + 512)),
            _ => ((at / 512).saturating_sub(2) * 512, at + 5),
        };
        let to = to.min(data.len());
        writer.write(from as u64, &data[from..to], &sums(identity(1, 1001).checksum, &data[from..to])).unwrap();
        writer.set_visible(to as u64);
        at = to;
    }
    readers.into_iter().for_each(|reader| reader.join().unwrap());
    writer.put(data.len() as u64).unwrap();
}
