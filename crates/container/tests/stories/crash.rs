//! The process is killed in mid-work, and the volume opened again: what was put is there, what was written and not put
//! waits for recovery with all that was acknowledged, what was deleted stays away, and nothing else is left.
//!
//! The victim is this test program, started again with a directory to work in. It tells of each step on its standard
//! output, after the step: so what was read of it is what a client was promised.

use crate::support::*;
use container::{Durability, ReopenKind, Volume};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use types::random::{Random, Seeded};
use types::{BlockId, ContainerId, Generation, ReplicaState};

const VICTIM_DIR: &str = "LEVADA_TEST_VICTIM_DIR";
const VICTIM_FIRST: &str = "LEVADA_TEST_VICTIM_FIRST";
const THREADS: u32 = 4;

fn victim_options() -> container::Options {
    // Flushes come thick, so that kills hit them too.
    let flush_interval = Duration::from_millis(3);
    container::Options { durability: Durability::Synced, flush_interval, ..options() }
}

/// What the victim has told of a block.
#[derive(Debug, Default, Clone, Copy)]
struct Told {
    acknowledged: u64,
    put: bool,
    deleting: bool,
    deleted: bool,
}

/// Each thread has a container of its own, which is empty now and then.
fn block_of(index: u32) -> BlockId {
    BlockId::new(ContainerId(u64::from(7 + index % THREADS)), index)
}

fn identity_of(index: u32) -> container::Identity {
    let block = block_of(index);
    container::Identity { block, home: block.born_in(), ..identity(index, 1001) }
}

fn data_of(index: u32) -> Vec<u8> {
    let len = match index % 5 {
        0 => index as usize * 7 % 4096,
        1 => 4096,
        2 => 5000 + index as usize % 3000,
        3 => 100,
        _ => 200_000,
    };
    pattern(index.into(), len)
}

/// Not a test of its own: does nothing unless it was started as the victim.
#[test]
fn victim() {
    let Ok(dir) = std::env::var(VICTIM_DIR) else { return };
    let first: u32 = std::env::var(VICTIM_FIRST).unwrap().parse().unwrap();
    let volume = Volume::open(Path::new(&dir), victim_options()).unwrap();
    tell("ready 0 0");
    let threads: Vec<_> = (0..THREADS)
        .map(|number| {
            let volume = volume.clone();
            io::task::thread("victim", move || work(&volume, first + number)).unwrap()
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}

fn work(volume: &Volume, first: u32) {
    let mut random = Seeded(first.into());
    let (mut open_writers, mut held) = (Vec::new(), Vec::new());
    for index in (first..).step_by(THREADS as usize) {
        let data = data_of(index);
        let mut writer = volume.create(identity_of(index)).unwrap();
        let mut sent = 0;
        while sent < data.len() {
            let start = sent / 512 * 512;
            sent = data.len().min(sent + 1 + random.below(60_000));
            writer
                .write(start as u64, &data[start..sent], &sums(writer.identity().checksum, &data[start..sent]))
                .unwrap();
            writer.set_visible(sent as u64);
            tell(&format!("acknowledged {index} {sent}"));
        }
        match random.below(8) {
            0 => open_writers.push(writer),
            1 => {
                writer.put(data.len() as u64).unwrap();
                let grow = ask(ReopenKind::Append, 1001, 1002, data.len() as u64, data.len() as u64);
                let writer = volume.reopen(block_of(index), grow).unwrap();
                writer.put(data.len() as u64).unwrap();
                tell(&format!("put {index} 0"));
            }
            _ => {
                writer.put(data.len() as u64).unwrap();
                tell(&format!("put {index} 0"));
            }
        }
        held.push(index);
        let going = match random.below(16) {
            0 => std::mem::take(&mut held),
            1..5 => vec![held.swap_remove(random.below(held.len()))],
            _ => Vec::new(),
        };
        for gone in going {
            tell(&format!("deleting {gone} 0"));
            volume.delete(block_of(gone), Generation(u64::MAX)).unwrap();
            tell(&format!("deleted {gone} 0"));
        }
    }
}

/// One line in one write, straight to the pipe.
fn tell(line: &str) {
    std::io::stderr().write_all(format!("{line}\n").as_bytes()).unwrap();
}

/// Runs a victim over the blocks from `first` on, kills it after `lines` lines, and adds what it told.
fn kill_after(dir: &Path, first: u32, lines: usize, told: &mut BTreeMap<u32, Told>) {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "crash::victim", "--nocapture", "--test-threads=1"])
        .env(VICTIM_DIR, dir)
        .env(VICTIM_FIRST, first.to_string())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut reader = BufReader::new(child.stderr.take().unwrap()).lines();
    let mut count = 0;
    while let Some(Ok(line)) = reader.next() {
        let mut words = line.split(' ');
        let (word, index, number) = (words.next(), words.next(), words.next());
        let (Some(word), Some(Ok(index)), Some(Ok(number))) =
            (word, index.map(str::parse::<u32>), number.map(str::parse::<u64>))
        else {
            panic!("the victim said: {line}");
        };
        let entry = told.entry(index).or_default();
        match word {
            "ready" => {}
            "acknowledged" => entry.acknowledged = number,
            "put" => entry.put = true,
            "deleting" => entry.deleting = true,
            "deleted" => entry.deleted = true,
            _ => panic!("the victim said: {line}"),
        }
        count += 1;
        if count == lines {
            child.kill().unwrap(); // SIGKILL; what it still told is read to the end
        }
    }
    child.wait().unwrap();
    assert!(count >= lines, "the victim ended by itself");
}

/// Holds the volume against what was promised; recovers what waits, and so ends with finalized replicas only.
fn check_all(volume: &Volume, told: &mut BTreeMap<u32, Told>) {
    for (&index, told) in told.iter_mut() {
        let found = volume.find(block_of(index)).unwrap();
        let data = data_of(index);
        let Some(info) = found else {
            assert!(told.deleting || (told.acknowledged == 0 && !told.put), "block {index} is gone: {told:?}");
            told.deleted = true;
            continue;
        };
        assert!(!told.deleted, "block {index} is back from the dead: {told:?} {info:?}");
        if info.state == ReplicaState::Finalized {
            check(&read(volume, block_of(index)), &data);
        } else {
            assert_eq!(info.state, ReplicaState::WaitingForRecovery, "block {index}: {told:?}");
            assert!(!told.put, "block {index} was put: {info:?}");
            let recovery = Generation(info.identity.generation.0 + 10);
            let info = volume.begin_recovery(block_of(index), recovery).unwrap();
            assert!(info.len >= told.acknowledged, "block {index} lost bytes: {told:?} {info:?}");
            volume.finish_recovery(block_of(index), recovery, info.len).unwrap();
            check(&read(volume, block_of(index)), &data[..info.len as usize]);
            // Otherwise the next round would find it shorter than what its index says.
            assert!(volume.delete(block_of(index), recovery).unwrap());
            told.deleting = true;
        }
    }
    let known = volume.replicas(BlockId(0), usize::MAX).unwrap();
    for info in &known {
        let index = info.identity.block.index();
        if info.state == ReplicaState::WaitingForRecovery {
            assert!(!told.contains_key(&index), "the victim died before it could tell of {info:?}");
            assert!(volume.delete(block_of(index), info.identity.generation).unwrap());
        } else {
            check(&read(volume, block_of(index)), &data_of(index));
        }
    }
    assert_eq!(volume.usage().unwrap().replica_count, volume.replicas(BlockId(0), usize::MAX).unwrap().len() as u64);
}

/// A victim has copies of all that this process has open, locks too, until it runs its program: what another story
/// closes meanwhile would not be free.
static ONE_STORY: Mutex<()> = Mutex::new(());

fn rounds(lose_index: bool) {
    let _alone = ONE_STORY.lock().unwrap_or_else(PoisonError::into_inner);
    let dir = tempfile::tempdir().unwrap();
    let mut told = BTreeMap::new();
    let mut random = Seeded(if lose_index { 1 } else { 2 });
    for round in 0..3 {
        kill_after(dir.path(), round * 20_000, 20 + random.below(400), &mut told);
        if lose_index {
            std::fs::remove_dir_all(dir.path().join("index")).unwrap();
        }
        let volume = Volume::open(dir.path(), victim_options()).unwrap();
        check_all(&volume, &mut told);
        drop(volume);
        let open = files(&dir.path().join("open"));
        assert_eq!(open, [""; 0], "nothing waits any more");
        assert_eq!(files(&dir.path().join("ahead")), [""; 0], "a clean end leaves no container behind");
    }
    // Once more, from the files alone: what is on disk is what the index said.
    let volume = Volume::open(dir.path(), victim_options()).unwrap();
    let before = volume.replicas(BlockId(0), usize::MAX).unwrap();
    let usage = volume.usage().unwrap();
    drop(volume);
    std::fs::remove_dir_all(dir.path().join("index")).unwrap();
    let volume = Volume::open(dir.path(), victim_options()).unwrap();
    assert!(volume.replicas(BlockId(0), usize::MAX).unwrap() == before);
    assert_eq!(volume.usage().unwrap().used, usage.used);
    for info in before {
        check(&read(&volume, info.identity.block), &data_of(info.identity.block.index()));
    }
}

#[test]
fn a_killed_volume_keeps_what_it_promised() {
    rounds(false);
}

#[test]
fn a_killed_volume_that_lost_its_index_keeps_what_it_promised() {
    rounds(true);
}
