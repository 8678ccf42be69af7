//! A disk is found to be full by a sync, as file systems find out that allocate late, and the sync after that succeeds:
//! what the volume calls durable from then on is on the disk when the power goes.

use crate::support::*;
use container::{Durability, Volume};
use std::collections::BTreeMap;
use std::time::Duration;
use testkit::power::{self, Disk, FailingSync, Mood};
use types::{Generation, ReplicaState};

/// Calls of fdatasync that fail, one in each life: of data and checksums, of slots that were spread, of packs. The
/// first ones are those of the index.
const NUMBERS: std::ops::Range<usize> = 1..16;
/// Lives in which one failed that a replica depends on.
const FAILED_COUNT_MIN: usize = 8;
const BLOCKS: u32 = 6;

fn victim_options() -> container::Options {
    let flush_interval = Duration::from_secs(3600);
    container::Options { durability: Durability::Synced, flush_interval, slot_count_max: 1, ..options() }
}

fn data_of(index: u32) -> Vec<u8> {
    pattern(index.into(), [3000, 9000, 70_000][index as usize % 3] + index as usize)
}

/// Not a test by itself: does nothing unless it was started as the victim. Whatever fails is tried again, since nobody
/// tells who wrote that a sync failed which another one ran.
#[test]
fn victim() {
    let Some(dir) = power::victim_dir() else { return };
    power::tell("begins 0 0");
    let Ok(volume) = Volume::open(&dir, victim_options()) else { return power::tell("unopened 0 0") };
    for index in 0..BLOCKS {
        let data = data_of(index);
        let Ok(mut writer) = volume.create(identity(index, 1001)) else { break };
        writer.write(0, &data[..1024], &[]).unwrap();
        let synced = writer.sync().or_else(|_| writer.sync());
        if synced.is_ok() {
            power::tell(&format!("durable {index} 1024"));
        }
        let written = writer.write(1024, &data[1024..], &[]);
        let put = written.and_then(|()| writer.put(data.len() as u64)).or_else(|_| {
            volume.begin_recovery(block(index), Generation(1002))?;
            volume.finish_recovery(block(index), Generation(1002), data.len() as u64)
        });
        if put.is_ok() {
            power::tell(&format!("durable {index} {}", data.len()));
        }
    }
    power::tell(if volume.failure().is_some() { "failed 0 0" } else { "sound 0 0" });
    assert_eq!(volume.is_full(), volume.failure().is_some(), "what is there still counts");
}

fn durable(disk: &Disk) -> (BTreeMap<u32, u64>, bool) {
    let (mut durable, mut failed) = (BTreeMap::new(), false);
    for line in disk.told(disk.calls() + 1) {
        let mut words = line.split(' ');
        match (words.next().unwrap(), words.next().unwrap().parse().unwrap(), words.next().unwrap().parse().unwrap()) {
            ("durable", index, len) => drop(durable.insert(index, len)),
            (word, ..) => failed = word == "failed",
        }
    }
    (durable, failed)
}

#[test]
fn what_is_called_durable_after_a_sync_that_failed_is_durable() {
    let dirs = tempfile::tempdir().unwrap();
    let mut failed_count = 0;
    for (number, error) in NUMBERS.zip(["ENOSPC", "EDQUOT"].into_iter().cycle()) {
        let life = power::life_with(
            "full::victim",
            &dirs.path().join(format!("life {number}")),
            Some(FailingSync { number, error }),
        );
        let (durable, failed) = durable(&life);
        failed_count += usize::from(failed);
        for mood in Mood::ALL {
            let left = dirs.path().join(format!("left {number} {mood:?}"));
            std::fs::create_dir(&left).unwrap();
            life.leave(life.calls() + 1, mood, number as u64, &left);
            let volume = Volume::open(&left, victim_options()).unwrap();
            for (&index, &promised) in &durable {
                let place = format!("block {index}, {promised} bytes, sync {number} failed with {error}, {mood:?}");
                let info = volume.find(block(index)).unwrap().unwrap_or_else(|| panic!("{place}: nothing"));
                if info.state != ReplicaState::Finalized {
                    let info = volume.begin_recovery(block(index), Generation(1010)).unwrap();
                    assert!(info.len >= promised, "{place}: {info:?}");
                    volume.finish_recovery(block(index), Generation(1010), info.len).unwrap();
                }
                let reader = read(&volume, block(index));
                assert!(reader.len() >= promised, "{place}: {} bytes", reader.len());
                check(&reader, &data_of(index)[..reader.len() as usize]);
            }
        }
    }
    assert!(failed_count >= FAILED_COUNT_MIN, "only {failed_count}");
}
