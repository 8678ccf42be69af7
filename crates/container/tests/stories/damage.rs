//! What a disk can do to a volume: bits that flip, files cut short, no room left. Nothing false is served, nothing
//! panics.

use crate::support::*;
use container::{Advice, Identity, ReopenAsk, ReopenKind, ReplicaError, Volume, VolumeError, VolumeIdentity};
use proptest::prelude::*;
use rustix::io::Errno;
use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::path::Path;
use types::{BlockId, ChecksumKind, ChecksumSpec, ContainerId, Generation, ReplicaState};

fn flip(path: &Path, at: u64) {
    let file = OpenOptions::new().read(true).write(true).open(path).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, at).unwrap();
    file.write_all_at(&[byte[0] ^ 0x10], at).unwrap();
}

#[test]
fn a_flipped_bit_is_found_wherever_it_is() {
    let dir = tempfile::tempdir().unwrap();
    let volume = open(dir.path());
    put(&volume, identity(1, 1001), &pattern(1, 100_000));
    put(&volume, identity(2, 1001), &pattern(2, 3000));
    let shelf = dir.path().join("containers/7");
    flip(&shelf.join(format!("{}.data", block(1).0)), 50_000);
    let error = volume.verify(block(1)).unwrap_err();
    assert!(matches!(error, ReplicaError::Corrupt { offset: 49_664, .. }), "{error}");
    assert_eq!(error.advice(), Advice::ReportBad);
    flip(&shelf.join("pack"), 64 + 24 + 2999);
    assert!(matches!(volume.verify(block(2)).unwrap_err(), ReplicaError::Corrupt { offset: 2560, .. }));
    flip(&shelf.join(format!("{}.sums", block(1).0)), 30);
    assert_eq!(volume.read(block(1), Generation(0)).unwrap_err().advice(), Advice::ReportBad);
    flip(&shelf.join("pack"), 30);
    assert!(volume.read(block(2), Generation(0)).is_err());
}

/// Replicas whose headers are damaged are not served, but the rest of the container is, from the files alone.
#[test]
fn a_container_is_read_anew_around_its_damage() {
    let dir = tempfile::tempdir().unwrap();
    {
        let volume = open(dir.path());
        for index in 0..9 {
            put(&volume, identity(index, 1001), &pattern(index.into(), if index < 5 { 1000 } else { 10_000 }));
        }
    }
    let shelf = dir.path().join("containers/7");
    flip(&shelf.join("pack"), 10);
    flip(&shelf.join(format!("{}.sums", block(6).0)), 20);
    std::fs::remove_file(shelf.join(format!("{}.sums", block(7).0))).unwrap();
    let cut = OpenOptions::new().write(true).open(shelf.join(format!("{}.data", block(8).0))).unwrap();
    cut.set_len(5000).unwrap();
    std::fs::remove_dir_all(dir.path().join("index")).unwrap();
    let volume = open(dir.path());
    for index in [1, 2, 3, 4, 5] {
        check(&read(&volume, block(index)), &pattern(index.into(), if index < 5 { 1000 } else { 10_000 }));
    }
    for index in [0, 6, 7] {
        assert!(volume.find(block(index)).unwrap().is_none(), "block {index}");
    }
    let info = volume.find(block(8)).unwrap().unwrap();
    assert_eq!((info.state, info.len), (ReplicaState::WaitingForRecovery, 5000));
    assert_eq!(volume.begin_recovery(block(8), Generation(1002)).unwrap().len, 4608, "whole chunks that verify");
    volume.finish_recovery(block(8), Generation(1002), 4608).unwrap();
    check(&read(&volume, block(8)), &pattern(8, 10_000)[..4608]);
}

/// Directories by the names of files, files by the names of directories, names that nobody gave, an index of other
/// bytes: everything else opens, and whoever needs such a name next finds it free.
#[test]
fn no_single_thing_keeps_a_volume_from_opening() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    let of = |place: &str, index, kind| dir.path().join(format!("{place}/{}.{kind}", block(index).0));
    {
        let volume = open_without_slots(dir.path());
        put(&volume, identity(1, 1001), &pattern(1, 1000));
        put(&volume, identity(2, 1001), &pattern(2, 10_000));
        volume.create(identity(3, 1001)).unwrap().write(0, &pattern(3, 5000), &[]).unwrap();
    }
    let strange = [
        of("open", 4, "sums"),
        of("open", 5, "data"),
        of("containers/7", 6, "data"),
        of("containers/7", 6, "sums"),
        of("containers/7", 7, "sums"),
        path("open/slot-0"),
        path("open/slot-x"),
        path("open/07.data"),
        path("containers/+7"),
        path("containers/garbage"),
        path("ahead/11"),
        path("ahead/garbage"),
    ];
    strange.iter().for_each(|path| std::fs::create_dir(path).unwrap());
    std::fs::write(of("containers/7", 7, "data"), b"x").unwrap();
    std::fs::write(path("containers/9"), b"a file").unwrap();
    std::fs::write(path("open/\u{fffd}.sums"), b"x").unwrap();
    std::fs::write(path("index/data.mdb"), pattern(9, 20_000)).unwrap();
    let volume = open(dir.path());
    assert!(volume.fault_count() >= 7, "{}", volume.fault_count());
    assert!(std::fs::read_dir(path("quarantine")).unwrap().count() >= 7);
    check(&read(&volume, block(1)), &pattern(1, 1000));
    check(&read(&volume, block(2)), &pattern(2, 10_000));
    assert_eq!(volume.begin_recovery(block(3), Generation(1002)).unwrap().len, 5000);
    volume.finish_recovery(block(3), Generation(1002), 5000).unwrap();
    for index in 4..8 {
        put(&volume, identity(index, 1001), &pattern(1, 10_000));
    }
    for container in [9, 11] {
        let block = BlockId::new(ContainerId(container), 1);
        put(&volume, Identity { block, home: ContainerId(container), ..identity(1, 1001) }, &pattern(4, 10_000));
    }
    drop(volume);
    let volume = open(dir.path());
    assert_eq!(volume.fault_count(), 0, "it is told once");
    (4..8).for_each(|index| check(&read(&volume, block(index)), &pattern(1, 10_000)));
}

/// A sector of a header in `open/` does not read: of two files, of checksums whose data are on the shelf already, of a
/// slot. Nothing moves, others go on, and a start at which all reads finds what was acknowledged.
#[test]
fn what_does_not_read_in_open_waits_for_the_next_start() {
    // Reads as a lost sector does: nothing is mapped at the first address.
    let lost = Path::new("/proc/self/mem");
    let error = std::fs::File::open(lost).and_then(|file| file.read_at(&mut [0], 0)).unwrap_err();
    assert_eq!(Errno::from_io_error(&error), Some(Errno::IO));
    let (dir, kept) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let name = |place: &str, index| format!("{place}/{}.sums", block(index).0);
    {
        let volume = open_without_slots(dir.path());
        put(&volume, identity(3, 1001), &pattern(3, 10_000));
        volume.create(identity(1, 1001)).unwrap().write(0, &pattern(1, 5000), &[]).unwrap();
        drop(volume);
        let volume = open(dir.path());
        volume.create(identity(2, 1001)).unwrap().write(0, &pattern(2, 1000), &[]).unwrap();
    }
    std::fs::rename(dir.path().join(name("containers/7", 3)), dir.path().join(name("open", 3))).unwrap();
    let names = [name("open", 1), name("open", 3), "open/slot-0".to_owned()];
    for (number, name) in names.iter().enumerate() {
        std::fs::rename(dir.path().join(name), kept.path().join(number.to_string())).unwrap();
        std::os::unix::fs::symlink(lost, dir.path().join(name)).unwrap();
    }
    let volume = open(dir.path());
    assert!(volume.fault_count() >= 3, "{}", volume.fault_count());
    assert!((1..3).all(|index| volume.find(block(index)).unwrap().is_none()));
    put(&volume, identity(4, 1001), &pattern(4, 1000));
    check(&read(&volume, block(4)), &pattern(4, 1000));
    drop(volume);
    assert!(!dir.path().join("quarantine").exists());
    for (number, name) in names.iter().enumerate() {
        std::fs::rename(kept.path().join(number.to_string()), dir.path().join(name)).unwrap();
    }
    let volume = open(dir.path());
    assert_eq!(volume.fault_count(), 0);
    for (index, len) in [(1, 5000), (2, 1000)] {
        let info = volume.find(block(index)).unwrap().unwrap();
        assert_eq!((info.state, info.len), (ReplicaState::WaitingForRecovery, len));
    }
    [3, 4].into_iter().zip([10_000, 1000]).for_each(|(index, len)| {
        check(&read(&volume, block(index)), &pattern(index.into(), len));
    });
}

/// The file that says whose volume it is goes, or says nonsense, and perhaps the index goes as well: the copy helps.
#[test]
fn an_identity_that_is_lost_costs_no_replica() {
    for (index_lost, damaged) in [(false, false), (true, false), (false, true), (true, true)] {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        let volume = open(dir.path());
        volume.join_pool("BP-1").unwrap();
        let identity_before = volume.identity();
        put(&volume, identity(1, 1001), &pattern(1, 1000));
        put(&volume, identity(2, 1001), &pattern(2, 10_000));
        drop(volume);
        let version = std::fs::read(path("VERSION")).unwrap();
        if damaged {
            std::fs::write(path("VERSION"), b"").unwrap();
        } else {
            std::fs::remove_file(path("VERSION")).unwrap();
        }
        if index_lost {
            std::fs::remove_dir_all(path("index")).unwrap();
        }
        assert_eq!(VolumeIdentity::of(dir.path()).unwrap().as_ref(), Some(&identity_before));
        let volume = open(dir.path());
        assert_eq!(volume.identity(), identity_before);
        check(&read(&volume, block(1)), &pattern(1, 1000));
        check(&read(&volume, block(2)), &pattern(2, 10_000));
        assert_eq!(std::fs::read(path("VERSION")).unwrap(), version);
        drop(volume);
        std::fs::remove_file(path("containers/VERSION")).unwrap();
        drop(open(dir.path()));
        assert_eq!(std::fs::read(path("containers/VERSION")).unwrap(), version, "and the other way round");
    }
}

/// Both are gone: another identity would find nothing in the packs.
#[test]
fn no_identity_is_drawn_where_replicas_are() {
    for index_lost in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        put(&open(dir.path()), identity(1, 1001), &pattern(1, 1000));
        let (version, pack) =
            (std::fs::read(path("VERSION")).unwrap(), std::fs::read(path("containers/7/pack")).unwrap());
        std::fs::remove_file(path("VERSION")).unwrap();
        std::fs::remove_file(path("containers/VERSION")).unwrap();
        if index_lost {
            std::fs::remove_dir_all(path("index")).unwrap();
        }
        let error = Volume::open(dir.path(), options()).unwrap_err();
        assert!(matches!(error, VolumeError::IdentityLost { .. }), "{error}");
        assert_eq!(std::fs::read(path("containers/7/pack")).unwrap(), pack);
        std::fs::write(path("VERSION"), version).unwrap();
        check(&read(&open(dir.path()), block(1)), &pattern(1, 1000));
    }
}

/// The directory was opened once under another identity, and gets its own back: its packs still have every record, and
/// its index is built anew.
#[test]
fn an_identity_that_comes_back_finds_its_replicas() {
    let dir = tempfile::tempdir().unwrap();
    let names = ["VERSION", "containers/VERSION"];
    put(&open(dir.path()), identity(1, 1001), &pattern(1, 1000));
    put(&open(dir.path()), identity(2, 1001), &pattern(2, 10_000));
    let own = std::fs::read(dir.path().join("VERSION")).unwrap();
    let other = tempfile::tempdir().unwrap();
    drop(open(other.path()));
    for name in names {
        std::fs::copy(other.path().join(name), dir.path().join(name)).unwrap();
    }
    let volume = open(dir.path());
    assert!(volume.find(block(1)).unwrap().is_none());
    put(&volume, identity(3, 1001), &pattern(3, 1000));
    check(&read(&volume, block(2)), &pattern(2, 10_000));
    check(&read(&volume, block(3)), &pattern(3, 1000));
    drop(volume);
    names.iter().for_each(|name| std::fs::write(dir.path().join(name), &own).unwrap());
    let volume = open(dir.path());
    check(&read(&volume, block(1)), &pattern(1, 1000));
    check(&read(&volume, block(2)), &pattern(2, 10_000));
}

/// A pack that was stored as a file, block by block, and a header that is lost: what a client wrote never counts as a
/// record, whoever wrote those bytes first.
#[test]
fn a_pack_in_a_file_brings_no_replica_and_removes_none() {
    // 16 checksums, so that the data begin where a record could.
    let checksum = ChecksumSpec { kind: ChecksumKind::Crc32c, chunk_len: 256 };
    let with = |index, generation| Identity { checksum, ..identity(index, generation) };
    let stored = |dir: &Path| {
        let mut pack = std::fs::read(dir.join("containers/7/pack")).unwrap();
        pack.resize(PACK_LEN_MAX as usize, 0);
        pack
    };
    let other = tempfile::tempdir().unwrap();
    {
        let volume = open(other.path());
        put(&volume, identity(1, 1009), &pattern(5, 500));
        put(&volume, identity(8, 1001), &pattern(6, 500));
    }
    for own in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        {
            let volume = open(dir.path());
            put(&volume, identity(1, 1001), &pattern(1, 500));
            put(&volume, identity(7, 1001), &pattern(7, 500));
            let backup = if own { stored(dir.path()) } else { stored(other.path()) };
            if own {
                assert!(volume.delete(block(7), Generation(1001)).unwrap());
            }
            put(&volume, with(2, 1001), &backup);
            put(&volume, identity(3, 1001), &pattern(3, 500));
            check(&read(&volume, block(2)), &backup);
        }
        let pack = dir.path().join("containers/7/pack");
        let bytes = std::fs::read(&pack).unwrap();
        let lost = bytes.windows(8).position(|eight| eight == block(2).0.to_be_bytes()).unwrap();
        assert_eq!(lost % 64, 16, "its header says whose it is");
        flip(&pack, lost as u64);
        std::fs::remove_dir_all(dir.path().join("index")).unwrap();
        let volume = open(dir.path());
        let there: Vec<_> = volume.replicas(BlockId(0), 99).unwrap();
        let there: Vec<_> = there.iter().map(|info| (info.identity.block, info.identity.generation.0)).collect();
        let want: Vec<_> = if own { vec![1, 3] } else { vec![1, 3, 7] };
        assert_eq!(there, want.into_iter().map(|index| (block(index), 1001)).collect::<Vec<_>>(), "own: {own}");
        check(&read(&volume, block(1)), &pattern(1, 500));
    }
}

/// A cut that cannot be made leaves a replica that is as old as it was: under the new generation, and longer than
/// others of it, it would be taken for the one that knows most.
#[test]
fn a_cut_of_damage_is_refused_and_makes_nothing_younger() {
    for (len, file) in [(10_000, format!("{}.data", block(1).0)), (3000, "pack".into())] {
        let dir = tempfile::tempdir().unwrap();
        let volume = open(dir.path());
        put(&volume, identity(1, 1001), &pattern(1, len));
        let at = if file == "pack" { 64 + 24 + 10 } else { 10 };
        flip(&dir.path().join("containers/7").join(file), at);
        volume.begin_recovery(block(1), Generation(1002)).unwrap();
        volume.finish_recovery(block(1), Generation(1002), 100).unwrap_err();
        assert_eq!(volume.find(block(1)).unwrap().unwrap().identity.generation, Generation(1001), "{len} bytes");
        drop(volume);
        let info = open(dir.path()).find(block(1)).unwrap().unwrap();
        assert_eq!(info.identity.generation, Generation(1001), "{len} bytes, after a restart");
    }
}

/// One of the two files is lost, or the header is broken: what is left stays as long as its file does, and no longer.
#[test]
fn the_rest_of_a_damaged_replica_goes_with_its_file() {
    let dir = tempfile::tempdir().unwrap();
    let shelf = dir.path().join("containers/7");
    let path = |index, kind| shelf.join(format!("{}.{kind}", block(index).0));
    let volume = open(dir.path());
    (1..5).for_each(|index| put(&volume, identity(index, 1001), &pattern(1, 100_000)));
    std::fs::remove_file(path(1, "data")).unwrap();
    std::fs::remove_file(path(2, "sums")).unwrap();
    assert!([1, 2].iter().all(|index| volume.read(block(*index), Generation(0)).is_err()));
    drop(volume);
    flip(&path(3, "sums"), 20);
    std::fs::remove_dir_all(dir.path().join("index")).unwrap();
    let volume = open(dir.path());
    assert!(volume.read(block(3), Generation(0)).is_err());
    assert!(path(2, "data").exists() && path(3, "data").exists());
    for index in 1..5 {
        assert_eq!(volume.delete(block(index), Generation(1001)).unwrap(), index == 4);
    }
    assert_eq!(std::fs::read_dir(&shelf).unwrap().count(), 0);
}

#[test]
fn a_row_whose_bytes_are_gone_is_forgotten() {
    let dir = tempfile::tempdir().unwrap();
    let volume = open(dir.path());
    put(&volume, identity(1, 1001), &pattern(1, 10_000));
    std::fs::remove_file(dir.path().join(format!("containers/7/{}.data", block(1).0))).unwrap();
    assert!(matches!(volume.read(block(1), Generation(0)), Err(ReplicaError::NotFound { .. })));
    assert!(volume.find(block(1)).unwrap().is_none());
    put(&volume, identity(1, 1001), &pattern(1, 10_000));
    check(&read(&volume, block(1)), &pattern(1, 10_000));
}

/// A full disk refuses, and the volume goes on: what is there is read, and what fits is written.
#[test]
fn a_full_disk_is_no_broken_disk() {
    let full = Path::new("/dev/full");
    if !full.exists() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let volume = open(dir.path());
    put(&volume, identity(1, 1001), &pattern(1, 10_000));
    std::os::unix::fs::symlink(full, dir.path().join("containers/7/pack")).unwrap();
    let mut writer = volume.create(identity(2, 1001)).unwrap();
    writer.write(0, &pattern(2, 1000), &[]).unwrap();
    let error = writer.put(1000).unwrap_err();
    assert!(error.is_disk_full() && error.advice() == Advice::WriteElsewhere, "{error}");
    assert_eq!(volume.find(block(2)).unwrap().unwrap().state, ReplicaState::Open, "it can still be recovered");
    std::os::unix::fs::symlink(full, dir.path().join(format!("open/{}.data", block(3).0))).unwrap();
    let mut writer = volume.create(identity(3, 1001)).unwrap();
    assert!(writer.write(0, &pattern(3, 100_000), &[]).unwrap_err().is_disk_full());
    assert_eq!(volume.failure(), None);
    check(&read(&volume, block(1)), &pattern(1, 10_000));
    put(&volume, identity(4, 1001), &pattern(4, 10_000));
    check(&read(&volume, block(4)), &pattern(4, 10_000));
}

/// Writes an open replica, stops, does `harm` to its files, starts, and recovers: what is left must be a true
/// beginning.
fn recovered_len(data: &[u8], harm: impl FnOnce(&Path, &Path)) -> usize {
    let dir = tempfile::tempdir().unwrap();
    {
        let volume = open_without_slots(dir.path());
        let mut writer = volume.create(identity(1, 1001)).unwrap();
        writer.write(0, data, &[]).unwrap();
    }
    let name = |kind| dir.path().join(format!("open/{}.{kind}", block(1).0));
    harm(&name("data"), &name("sums"));
    let volume = open(dir.path());
    recover(&volume, data)
}

/// The same, of one that is still in its slot.
fn recovered_from_slot(data: &[u8], harm: impl FnOnce(&Path)) -> usize {
    let dir = tempfile::tempdir().unwrap();
    {
        let volume = open(dir.path());
        // Somebody else was there before, and what he wrote is still there.
        let mut before = volume.create(identity(2, 1001)).unwrap();
        before.write(0, &pattern(9, PACK_LEN_MAX as usize), &[]).unwrap();
        before.put(PACK_LEN_MAX).unwrap();
        let mut writer = volume.create(identity(1, 1001)).unwrap();
        writer.write(0, data, &[]).unwrap();
    }
    assert_eq!(files(&dir.path().join("open")).len(), 1);
    harm(&dir.path().join("open/slot-0"));
    let volume = open(dir.path());
    check(&read(&volume, block(2)), &pattern(9, PACK_LEN_MAX as usize));
    recover(&volume, data)
}

/// The process ends between any two of the three writes of a packet.
#[test]
fn a_slot_is_as_its_header_says() {
    let data = pattern(1, 2000);
    let file = |path: &Path| OpenOptions::new().read(true).write(true).open(path).unwrap();
    assert_eq!(recovered_from_slot(&[], |_| {}), 0);
    assert_eq!(recovered_from_slot(&data[..1300], |_| {}), 1300);
    let data_came = |path: &Path| file(path).write_all_at(&data[1300..1500], 4096 + 1300).unwrap();
    assert_eq!(recovered_from_slot(&data[..1300], data_came), 1300);
    let sums_came = |path: &Path| {
        data_came(path);
        file(path).write_all_at(&sums(identity(1, 1001).checksum, &data[1024..1500]), 64 + 2 * 4).unwrap();
    };
    assert_eq!(recovered_from_slot(&data[..1300], sums_came), 1300);
    assert_eq!(recovered_from_slot(&data[..1300], |path| flip(path, 40)), 0, "without a header nothing is there");
    // The header speaks of just these checksums: of others it cannot say whose they are.
    assert_eq!(recovered_from_slot(&data[..1300], |path| flip(path, 64 + 4)), 0);
    assert_eq!(recovered_from_slot(&data[..1300], |path| flip(path, 4096 + 600)), 512);
}

/// Power is lost when the header has come to the disk, and of bytes and checksums only what lay there before: they fit
/// each other.
#[test]
fn what_lay_in_a_slot_before_is_not_taken_for_what_its_header_says() {
    let (data, before) = (pattern(1, 2000), pattern(9, PACK_LEN_MAX as usize));
    for len in [512, 1300, 2000] {
        let header_alone_came = |path: &Path| {
            let file = OpenOptions::new().write(true).open(path).unwrap();
            file.write_all_at(&sums(identity(2, 1001).checksum, &before), 64).unwrap();
            file.write_all_at(&before, 4096).unwrap();
        };
        assert_eq!(recovered_from_slot(&data[..len], header_alone_came), 0);
    }
}

fn recover(volume: &Volume, data: &[u8]) -> usize {
    if volume.find(block(1)).unwrap().is_none() {
        return 0;
    }
    let info = volume.begin_recovery(block(1), Generation(1002)).unwrap();
    volume.finish_recovery(block(1), Generation(1002), info.len).unwrap();
    check(&read(volume, block(1)), &data[..info.len as usize]);
    info.len as usize
}

/// The crash came between the bytes of a partial chunk and its new checksum: the old one still vouches for the old
/// bytes.
#[test]
fn bytes_that_a_checksum_still_vouches_for_are_kept() {
    let data = pattern(1, 2000);
    let kept = recovered_len(&data[..1300], |path, _| {
        OpenOptions::new().write(true).open(path).unwrap().write_all_at(&data[1300..1500], 1300).unwrap();
    });
    assert_eq!(kept, 1300);
    assert_eq!(recovered_len(&data[..1300], |_, _| {}), 1300);
    assert_eq!(recovered_len(&data[..1300], |_, sums| flip(sums, 64 + 4)), 512);
}

/// Power goes while a partial chunk grows that was synced: its new checksum came to disk, the new bytes did not.
#[test]
fn what_was_synced_outlives_a_write_that_is_lost_behind_it() {
    for appended in [false, true] {
        let (dir, data) = (tempfile::tempdir().unwrap(), pattern(1, 20_000));
        let volume = open(dir.path());
        let mut writer = if appended {
            put(&volume, identity(1, 1001), &data[..5000]);
            let (kind, generation) = (ReopenKind::Append, Generation(1001));
            let ask = ReopenAsk { kind, old: generation, new: generation, min_len: 5000, max_len: 5000 };
            volume.reopen(block(1), ask).unwrap()
        } else {
            let mut writer = volume.create(identity(1, 1001)).unwrap();
            writer.write(0, &data[..5000], &[]).unwrap();
            writer.sync().unwrap();
            writer
        };
        writer.write(5000, &data[5000..5050], &[]).unwrap();
        let after = tempfile::tempdir().unwrap();
        std::fs::create_dir(after.path().join("open")).unwrap();
        for kind in ["data", "sums"] {
            let name = format!("open/{}.{kind}", block(1).0);
            std::fs::copy(dir.path().join(&name), after.path().join(&name)).unwrap();
        }
        let path = after.path().join(format!("open/{}.data", block(1).0));
        let lost = OpenOptions::new().write(true).open(path).unwrap();
        lost.set_len(5000).unwrap();
        lost.set_len(5050).unwrap();
        let volume = open(after.path());
        assert_eq!(recover(&volume, &data), 5000, "appended: {appended}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn what_recovery_finds_is_a_true_beginning(
        len in 0usize..20_000,
        data_cut in 0u64..20_000,
        sums_cut in 0u64..300,
        flips in proptest::collection::vec((any::<bool>(), any::<prop::sample::Index>()), 0..4),
    ) {
        let data = pattern(3, len);
        recovered_len(&data, |data_path, sums_path| {
            for (path, cut) in [(data_path, data_cut), (sums_path, sums_cut)] {
                let file = OpenOptions::new().write(true).open(path).unwrap();
                let have = file.metadata().unwrap().len();
                // Cut, or grown by zeros, as a file system may leave a file after a loss of power.
                file.set_len(have.saturating_sub(cut / 2) + cut % 700).unwrap();
            }
            for (in_data, at) in &flips {
                let path = if *in_data { data_path } else { sums_path };
                let have = std::fs::metadata(path).unwrap().len();
                if have > 0 {
                    flip(path, at.index(have as usize) as u64);
                }
            }
        });
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn what_recovery_finds_in_a_slot_is_a_true_beginning(
        len in 0usize..=PACK_LEN_MAX as usize,
        cut in 0u64..9000,
        flips in proptest::collection::vec(any::<prop::sample::Index>(), 0..4),
    ) {
        recovered_from_slot(&pattern(3, len), |path| {
            let file = OpenOptions::new().write(true).open(path).unwrap();
            let have = file.metadata().unwrap().len();
            file.set_len(have.saturating_sub(cut.saturating_sub(1000))).unwrap();
            file.set_len(have).unwrap();
            for at in &flips {
                flip(path, at.index(have as usize) as u64);
            }
        });
    }
}

fn open_with(dir: &Path, reserved: u64) -> Volume {
    Volume::open(dir, container::Options { reserved_len: Some(reserved), ..options() }).unwrap()
}

/// Of a disk that several share the last bytes are not for replicas: with none left nothing could be deleted any more.
#[test]
fn the_reserve_of_the_disk_is_not_written_to() {
    let dir = tempfile::tempdir().unwrap();
    put(&open(dir.path()), identity(1, 1001), &pattern(1, 10_000));
    let volume = Volume::open(dir.path(), container::Options { reserved_len: Some(u64::MAX), ..options() }).unwrap();
    let usage = volume.usage().unwrap();
    assert_eq!((usage.capacity, usage.remaining, usage.replica_count), (0, 0, 1));
    assert!(volume.create(identity(2, 1001)).unwrap_err().is_disk_full());
    assert!(volume.put_small(identity(3, 1001), &[], &[]).unwrap_err().is_disk_full());
    assert!(volume.create_copy(identity(1, 1002)).unwrap_err().is_disk_full());
    check(&read(&volume, block(1)), &pattern(1, 10_000));
    assert!(volume.delete(block(1), Generation(1001)).unwrap());
}

/// Who is in the midst of a replica cannot well be sent elsewhere: half of the reserve is for that, and of a long one
/// 500 MB, as the rest of it is for others.
#[test]
fn what_has_begun_may_take_half_of_the_reserve() {
    let dir = tempfile::tempdir().unwrap();
    let with = |reserved| open_with(dir.path(), reserved);
    let volume = with(0);
    put(&volume, identity(1, 1001), &pattern(1, 10_000));
    let available = volume.usage().unwrap().remaining;
    drop(volume);
    let (kind, generation) = (ReopenKind::Append, Generation(1001));
    for (beyond, len, fits) in [(250_000_000, 10_000, true), (750_000_000, 10_100, false)] {
        let volume = with(available + beyond);
        assert!(volume.create(identity(2, 1001)).unwrap_err().is_disk_full());
        let ask = ReopenAsk { kind, old: generation, new: generation, min_len: len, max_len: len };
        let mut writer = volume.reopen(block(1), ask).unwrap();
        let written = writer.write(len, &pattern(2, 100), &[]);
        assert_eq!(written.map_err(|error| error.is_disk_full()), if fits { Ok(()) } else { Err(true) });
        writer.put(10_100).unwrap();
        check(&read(&volume, block(1)), &[pattern(1, 10_000), pattern(2, 100)].concat());
    }
}
