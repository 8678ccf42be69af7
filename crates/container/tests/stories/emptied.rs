//! Containers that hold nothing any more leave nothing behind, and take replicas again as if nothing had been.

use crate::support::*;
use container::{Durability, Options, ReopenKind, Volume};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use types::{BlockId, ContainerId, Generation};

/// Flushes without a put until a container counts as quiet, and one more.
const QUIET_FLUSHES: usize = 5;
/// Of a small replica, which lies in the pack, and of one that has files of its own.
const LENS: [usize; 2] = [1000, 20_000];

/// No flush comes by itself.
fn open_still(dir: &Path) -> Volume {
    Volume::open(dir, Options { flush_interval: Duration::from_secs(3600), ..options() }).unwrap()
}

fn containers(dir: &Path) -> Vec<String> {
    let mut names: Vec<String> = std::fs::read_dir(dir.join("containers"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name != "VERSION")
        .collect();
    names.sort();
    names
}

fn fill(volume: &Volume) {
    for (index, len) in (0..).zip(LENS) {
        put(volume, identity(index, 1001), &pattern(index.into(), len));
    }
}

fn empty(volume: &Volume) {
    (0..LENS.len() as u32).for_each(|index| assert!(volume.delete(block(index), Generation(1001)).unwrap()));
}

fn be_quiet(volume: &Volume) {
    (0..QUIET_FLUSHES).for_each(|_| volume.flush_index().unwrap());
}

#[test]
fn the_directory_goes_with_the_last_replica_and_comes_with_the_next() {
    let dir = tempfile::tempdir().unwrap();
    {
        let volume = open_still(dir.path());
        for _ in 0..3 {
            fill(&volume);
            be_quiet(&volume);
            assert_eq!(containers(dir.path()), ["7"]);
            volume.delete(block(0), Generation(1001)).unwrap();
            be_quiet(&volume);
            assert_eq!(containers(dir.path()), ["7"], "it holds one");
            volume.delete(block(1), Generation(1001)).unwrap();
            volume.flush_index().unwrap();
            assert_eq!(containers(dir.path()), ["7"], "another one may come");
            be_quiet(&volume);
            assert_eq!(containers(dir.path()), [""; 0]);
        }
        fill(&volume);
    }
    let volume = open_still(dir.path());
    for (index, len) in (0..).zip(LENS) {
        check(&read(&volume, block(index)), &pattern(index.into(), len));
    }
}

/// The node ends before anybody saw that the container is empty.
#[test]
fn what_was_emptied_before_goes_after_the_next_start() {
    let dir = tempfile::tempdir().unwrap();
    {
        let volume = open_still(dir.path());
        fill(&volume);
        let other = container::Identity { block: BlockId::new(ContainerId(8), 1), ..identity(1, 1001) };
        put(&volume, container::Identity { home: ContainerId(8), ..other }, &pattern(8, 20_000));
        empty(&volume);
        assert_eq!(containers(dir.path()), ["7", "8"]);
    }
    let volume = open_still(dir.path());
    while containers(dir.path()) != ["8"] {
        std::thread::yield_now(); // the volume's thread looks
    }
    fill(&volume);
    check(&read(&volume, block(1)), &pattern(1, LENS[1]));
}

/// What a process that is killed leaves of the volume.
fn kill(volume: &Path) -> tempfile::TempDir {
    fn copy(from: &Path, to: &Path) {
        for entry in std::fs::read_dir(from).unwrap() {
            let entry = entry.unwrap();
            let to = to.join(entry.file_name());
            if entry.file_type().unwrap().is_dir() {
                std::fs::create_dir(&to).unwrap();
                copy(&entry.path(), &to);
            } else {
                std::fs::copy(entry.path(), &to).unwrap();
            }
        }
    }
    let dir = tempfile::tempdir().unwrap();
    copy(volume, dir.path());
    dir
}

/// The index on disk speaks of the pack that was removed, of which more or less was known than the one in its place
/// has.
#[test]
fn a_pack_that_was_begun_anew_is_found_after_a_kill() {
    for lens in [[4000, 100, 100], [100, 4000, 100], [1000, 1000, 1000]] {
        let dir = tempfile::tempdir().unwrap();
        let volume = open_still(dir.path());
        put(&volume, identity(0, 1001), &pattern(0, lens[0]));
        volume.flush_index().unwrap();
        volume.delete(block(0), Generation(1001)).unwrap();
        (1..3).for_each(|index| put(&volume, identity(index, 1001), &pattern(index.into(), lens[index as usize])));
        let killed = kill(dir.path());
        let volume = open_still(killed.path());
        for index in 1..3 {
            check(&read(&volume, block(index)), &pattern(index.into(), lens[index as usize]));
        }
        assert!(volume.find(block(0)).unwrap().is_none());
    }
}

/// As above, where the pack's row was removed as well, if not yet on disk: after a first kill the pack is not there.
#[test]
fn a_pack_that_was_begun_anew_is_found_though_its_container_was_forgotten() {
    let dir = tempfile::tempdir().unwrap();
    let volume = open_still(dir.path());
    put(&volume, identity(0, 1001), &pattern(0, 4000));
    volume.flush_index().unwrap();
    volume.delete(block(0), Generation(1001)).unwrap();
    let killed = kill(dir.path());
    let volume = open_still(killed.path());
    for index in 1..4 {
        while !containers(killed.path()).is_empty() {
            volume.flush_index().unwrap();
        }
        // The second time the row's removal is on disk.
        (1..index).for_each(|_| volume.flush_index().unwrap());
        let blocks = [(index, 100), (index + 10, 4000)];
        blocks.iter().for_each(|(index, len)| put(&volume, identity(*index, 1001), &pattern((*index).into(), *len)));
        let again = kill(killed.path());
        let found = open_still(again.path());
        for (index, len) in blocks {
            check(&read(&found, block(index)), &pattern(index.into(), len));
            volume.delete(block(index), Generation(1001)).unwrap();
        }
    }
}

/// After a kill the files of one are found before the pack, in which the index knows of no other.
#[test]
fn a_pack_stays_until_all_of_it_was_read() {
    let dir = tempfile::tempdir().unwrap();
    let volume = open_still(dir.path());
    put(&volume, identity(0, 1001), &pattern(0, 1000));
    volume.flush_index().unwrap();
    let data = pattern(0, 20_000);
    let mut writer = volume.reopen(block(0), ask(ReopenKind::Append, 1001, 1002, 1000, 1000)).unwrap();
    writer.write(512, &data[512..], &sums(writer.identity().checksum, &data[512..])).unwrap();
    writer.put(20_000).unwrap();
    put(&volume, identity(1, 1001), &pattern(1, 1000));
    let killed = kill(dir.path());
    let volume = open_still(killed.path());
    check(&read(&volume, block(0)), &data);
    check(&read(&volume, block(1)), &pattern(1, 1000));
}

/// A new index is made of packs that begin far behind their files' beginnings.
#[test]
fn a_pack_behind_a_hole_is_read_from_its_file_alone() {
    let dir = tempfile::tempdir().unwrap();
    {
        let volume = open_still(dir.path());
        for index in 0..100 {
            put(&volume, identity(index, 1001), &pattern(index.into(), 4000));
            volume.delete(block(index), Generation(1001)).unwrap();
        }
        put(&volume, identity(100, 1001), &pattern(100, 1000));
    }
    let pack = dir.path().join("containers/7/pack");
    assert!(std::fs::metadata(&pack).unwrap().len() > 100 * 4000);
    assert!(std::os::unix::fs::MetadataExt::blocks(&std::fs::metadata(&pack).unwrap()) * 512 < 100_000);
    std::fs::remove_dir_all(dir.path().join("index")).unwrap();
    let volume = open_still(dir.path());
    check(&read(&volume, block(100)), &pattern(100, 1000));
}

#[test]
fn nobody_is_hindered_who_puts_while_the_container_is_looked_at() {
    for durability in [Durability::Replicated, Durability::Synced] {
        let dir = tempfile::tempdir().unwrap();
        let volume = Volume::open(dir.path(), Options { durability, ..options() }).unwrap();
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    volume.flush_index().unwrap();
                }
            });
            let writer = |first: u32| {
                let volume = &volume;
                move || {
                    for index in (first..100).step_by(2) {
                        let data = pattern(index.into(), LENS[index as usize / 2 % 2]);
                        put(volume, identity(index, 1001), &data);
                        check(&read(volume, block(index)), &data);
                        volume.delete(block(index), Generation(1001)).unwrap();
                    }
                }
            };
            let writers = [scope.spawn(writer(0)), scope.spawn(writer(1))];
            let outcomes = writers.map(std::thread::ScopedJoinHandle::join);
            done.store(true, Ordering::Relaxed);
            outcomes.into_iter().for_each(Result::unwrap);
        });
        be_quiet(&volume);
        assert_eq!(containers(dir.path()), [""; 0]);
    }
}
