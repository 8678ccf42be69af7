//! The power is cut at writes, syncs and renames of a volume's life, any of them: what was put or synced is there, what
//! is served as finalized is whole, and what was under way waits for recovery with right bytes or is gone.
//!
//! A deleted replica may be back, whole: whoever ordered the deletion hears of it in the catalogue, and orders it
//! again.

use crate::support::*;
use container::{Durability, ReopenKind, SmallPut, Volume};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use testkit::power::{self, Disk, Mood};
use types::random::{Random, Seeded};
use types::{BlockId, Generation, ReplicaState};

const BLOCKS: u32 = 48;
/// Cuts at every call that changes something, some 750 in half a minute. `LEVADA_TEST_CUTS=100` for a short run.
const CUTS: usize = usize::MAX;
const AT_A_TIME: usize = 4;

fn victim_options() -> container::Options {
    // Flushes come thick, so that cuts hit them too; few slots, so that they are used again.
    let flush_interval = Duration::from_millis(20);
    container::Options { durability: Durability::Synced, flush_interval, slot_count_max: 2, ..options() }
}

/// All that a block may come to hold.
fn data_of(index: u32) -> Vec<u8> {
    let len = [100, 0, 4096, 1500, 9000, 70_000][index as usize % 6] + index as usize;
    pattern(index.into(), len)
}

/// What the block holds when it is put first, if it is appended to later.
fn first_len(index: u32) -> usize {
    data_of(index).len() / 3
}

fn is_appended(index: u32) -> bool {
    index % 5 == 3 && !is_copied(index)
}

/// A copy of a newer generation takes the place of what was put first: of a packed replica, or one in files.
fn is_copied(index: u32) -> bool {
    [23, 33, 38].contains(&index)
}

/// Not a test by itself: does nothing unless it was started as the victim.
#[test]
fn victim() {
    let Some(dir) = power::victim_dir() else { return };
    let mut volume = Volume::open(&dir, victim_options()).unwrap();
    let mut random = Seeded(7);
    let mut left_open = Vec::new();
    let mut index = 0;
    while index < BLOCKS {
        power::tell(&format!("writes {index}"));
        let data = data_of(index);
        if volume.is_small(data.len() as u64) && index % 4 == 0 {
            batch(&volume, index);
            index += 3;
        } else if is_appended(index) {
            let len = first_len(index);
            put(&volume, identity(index, 1001), &data[..len]);
            power::tell(&format!("put {index} {len}"));
            let grow = ask(ReopenKind::Append, 1001, 1002, len as u64, len as u64);
            let mut writer = volume.reopen(block(index), grow).unwrap();
            let start = len / 512 * 512;
            writer.write(start as u64, &data[start..], &sums(writer.identity().checksum, &data[start..])).unwrap();
            writer.put(data.len() as u64).unwrap();
            power::tell(&format!("put {index} {}", data.len()));
        } else if is_copied(index) {
            let len = first_len(index);
            put(&volume, identity(index, 1001), &data[..len]);
            power::tell(&format!("put {index} {len}"));
            let mut copy = volume.create_copy(identity(index, 1002)).unwrap();
            for (at, piece) in (0..).zip(data.chunks(1024)) {
                copy.write(at * 1024, piece, &sums(copy.identity().checksum, piece)).unwrap();
            }
            copy.put(data.len() as u64).unwrap();
            power::tell(&format!("put {index} {}", data.len()));
        } else {
            let mut writer = volume.create(identity(index, 1001)).unwrap();
            let mut sent = 0;
            while sent < data.len() {
                let start = sent / 512 * 512;
                sent = data.len().min(sent + 1 + random.below(30_000));
                let piece = &data[start..sent];
                writer.write(start as u64, piece, &sums(writer.identity().checksum, piece)).unwrap();
                if random.below(3) == 0 {
                    writer.sync().unwrap();
                    power::tell(&format!("synced {index} {sent}"));
                }
            }
            if random.below(4) == 0 {
                left_open.push(writer);
            } else {
                writer.put(data.len() as u64).unwrap();
                power::tell(&format!("put {index} {}", data.len()));
            }
        }
        index += 1;
        match random.below(8) {
            0 | 1 => {
                let gone = random.below(index as usize) as u32;
                power::tell(&format!("deletes {gone}"));
                volume.delete(block(gone), Generation(u64::MAX)).unwrap();
            }
            2 => volume.compact(),
            3 => volume.flush_index().unwrap(),
            4 if index > BLOCKS / 2 => {
                left_open.clear();
                drop(volume);
                volume = Volume::open(&dir, victim_options()).unwrap();
            }
            _ => {}
        }
    }
}

/// Four small blocks with one write and one sync.
fn batch(volume: &Volume, first: u32) {
    let wholes: Vec<_> = (first..first + 4)
        .map(|index| {
            let data = data_of(index);
            let data = data[..data.len().min(3000)].to_vec();
            let sums = sums(identity(index, 1001).checksum, &data);
            (identity(index, 1001), data, sums)
        })
        .collect();
    for index in first + 1..first + 4 {
        power::tell(&format!("writes {index}"));
    }
    let puts: Vec<_> =
        wholes.iter().map(|(identity, data, sums)| SmallPut { identity: *identity, data, sums }).collect();
    volume.put_batch(&puts, false).into_iter().for_each(|outcome| outcome.unwrap());
    for (identity, data, _) in &wholes {
        power::tell(&format!("put {} {}", identity.block.index(), data.len()));
    }
}

/// What the victim has told of a block.
#[derive(Debug, Default)]
struct Told {
    synced: u64,
    put: u64,
    is_put: bool,
    is_deleted: bool,
}

fn told(disk: &Disk, cut: usize) -> BTreeMap<u32, Told> {
    let mut blocks: BTreeMap<u32, Told> = BTreeMap::new();
    for line in disk.told(cut) {
        let mut words = line.split(' ');
        let (word, index, len) = (words.next().unwrap(), words.next().unwrap(), words.next().unwrap_or("0"));
        let (entry, len) = (blocks.entry(index.parse().unwrap()).or_default(), len.parse().unwrap());
        match word {
            "writes" => {}
            "synced" => entry.synced = len,
            "put" => (entry.put, entry.is_put) = (len, true),
            "deletes" => entry.is_deleted = true,
            _ => panic!("the victim said: {line}"),
        }
    }
    blocks
}

/// Holds the volume against what was promised.
fn judge(volume: &Volume, told: &BTreeMap<u32, Told>) {
    for info in volume.replicas(BlockId(0), usize::MAX).unwrap() {
        assert!(told.contains_key(&info.identity.block.index()), "nobody wrote {info:?}");
    }
    for (&index, told) in told {
        let data = data_of(index);
        let Some(info) = volume.find(block(index)).unwrap() else {
            assert!(told.is_deleted || (told.synced == 0 && !told.is_put), "block {index} is gone: {told:?}");
            continue;
        };
        let promised = told.synced.max(told.put);
        if info.state == ReplicaState::Finalized {
            let whole = [data.len(), data.len().min(3000), first_len(index)];
            // Unless it was recovered when it was looked at before.
            let is_put = info.identity.generation > Generation(1002) || whole.contains(&(info.len as usize));
            assert!(is_put, "nobody put this of block {index}: {told:?} {info:?}");
            assert!(info.len >= promised, "block {index} lost bytes: {told:?} {info:?}");
            check(&read(volume, block(index)), &data[..info.len as usize]);
            continue;
        }
        assert_eq!(info.state, ReplicaState::WaitingForRecovery, "block {index}: {told:?}");
        assert!(!told.is_put || is_appended(index), "block {index} was put: {info:?}");
        let recovery = Generation(info.identity.generation.0 + 10);
        let info = volume.begin_recovery(block(index), recovery).unwrap();
        assert!(info.len >= promised, "block {index} lost bytes: {told:?} {info:?}");
        volume.finish_recovery(block(index), recovery, info.len).unwrap();
        check(&read(volume, block(index)), &data[..info.len as usize]);
    }
}

fn reopened(left: &Path, told: &BTreeMap<u32, Told>) {
    let volume = Volume::open(left, victim_options()).unwrap();
    judge(&volume, told);
}

#[test]
fn a_volume_that_loses_power_keeps_what_it_promised() {
    let dirs = tempfile::tempdir().unwrap();
    let disk = power::life("power::victim", &dirs.path().join("life"));
    let wanted = std::env::var("LEVADA_TEST_CUTS").ok().and_then(|count| count.parse().ok()).unwrap_or(CUTS);
    let mut random = Seeded(1);
    let cuts = (1..=disk.calls() + 1).filter(|cut| !disk.tells_at(*cut));
    let cuts = cuts.filter(|_| random.below(disk.calls()) < wanted);
    let cuts: Vec<usize> = cuts.collect();
    let next = AtomicUsize::new(0);
    let look = || {
        while let Some(&cut) = cuts.get(next.fetch_add(1, Ordering::Relaxed)) {
            let mood = Mood::ALL[count_of(cut)];
            let left = dirs.path().join(format!("left {cut}"));
            std::fs::create_dir(&left).unwrap();
            disk.leave(cut, mood, cut as u64, &left);
            let told = told(&disk, cut);
            // Whoever sees this fail sees where.
            let guard = Where(format!("call {cut} of {}, {mood:?}", disk.calls()));
            reopened(&left, &told);
            if cut % 16 == 0 {
                reopened(&left, &told);
            }
            drop(guard);
            std::fs::remove_dir_all(left).unwrap();
        }
    };
    // It mostly waits for syncs.
    std::thread::scope(|scope| (0..AT_A_TIME).for_each(|_| drop(scope.spawn(look))));
    println!("{} calls, {} cuts", disk.calls(), cuts.len());
}

/// One mood a cut, and each mood with calls of every kind.
fn count_of(cut: usize) -> usize {
    Seeded(cut as u64).below(Mood::ALL.len())
}

struct Where(String);

impl Drop for Where {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("at {}", self.0);
        }
    }
}
