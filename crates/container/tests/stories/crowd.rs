//! Many at a few blocks at once: writers, readers, appenders, recoveries and deletions, in any order. Whatever is read
//! is a true beginning of its block, nobody waits for ever, and what is left in the end is what the index says.

use crate::support::*;
use container::{Durability, Reader, ReopenKind, ReplicaError, Volume};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use types::random::{Random, Seeded};
use types::{BlockId, Generation, ReplicaState};

const BLOCK_COUNT: usize = 6;
const STEPS: usize = 400;

fn data_of(index: u32) -> Vec<u8> {
    pattern(index.into(), 20_000)
}

fn check_beginning(reader: &Reader, data: &[u8]) {
    let len = reader.len() as usize;
    let mut bytes = vec![0; len];
    // A recovery may cut an open replica while it is read; then the bytes are missing, never wrong.
    if reader.read_at(0, &mut bytes).is_ok() || reader.state() == ReplicaState::Finalized {
        assert!(bytes == data[..len], "other bytes in {:?}", reader.identity());
    }
}

/// One of the crowd. Refusals are part of the game; a damaged disk is not.
fn mingle(volume: &Volume, generations: &AtomicU64, seed: u64) {
    let mut random = Seeded(seed);
    let fair = |error: &ReplicaError| {
        let foul = matches!(error, ReplicaError::Io { .. } | ReplicaError::Corrupt { .. } | ReplicaError::Index(_));
        assert!(!foul, "{error}");
    };
    for _ in 0..STEPS {
        let index = random.below(BLOCK_COUNT) as u32;
        let data = data_of(index);
        let next = || generations.fetch_add(1, Ordering::Relaxed);
        let outcome = match random.below(6) {
            0 => volume.create(identity(index, next())).and_then(|mut writer| {
                let len = [random.below(4000), random.below(20_000)][random.below(2)];
                writer.write(0, &data[..len / 2], &[])?;
                writer.set_visible(len as u64 / 2);
                writer.write((len / 2) as u64, &data[len / 2..len], &[])?;
                if random.below(4) == 0 { Ok(()) } else { writer.put(len as u64) }
            }),
            1 => volume.delete(block(index), Generation(next())).map(|_| ()),
            2 => {
                let recovery = Generation(next());
                volume.begin_recovery(block(index), recovery).and_then(|info| {
                    let len = if info.state == ReplicaState::Finalized { info.len } else { info.visible_len };
                    volume.finish_recovery(block(index), recovery, len)
                })
            }
            3 => match volume.find(block(index)).unwrap() {
                None => Ok(()),
                Some(info) => {
                    let kind = match info.state {
                        ReplicaState::Finalized => ReopenKind::Append,
                        _ => ReopenKind::StreamingRecovery,
                    };
                    let ask = ask(kind, info.identity.generation.0, next(), info.visible_len, 20_000);
                    volume.reopen(block(index), ask).and_then(|mut writer| {
                        let from = writer.received() as usize;
                        let to = (from + random.below(3000)).min(data.len());
                        writer.write(from as u64, &data[from..to], &[])?;
                        writer.put(to as u64)
                    })
                }
            },
            _ => volume.read(block(index), Generation(0)).map(|reader| check_beginning(&reader, &data)),
        };
        outcome.unwrap_or_else(|error| fair(&error));
    }
}

fn crowd(durability: Durability, thread_count: u64) {
    let dir = tempfile::tempdir().unwrap();
    let options = container::Options { durability, ..options() };
    let volume = Volume::open(dir.path(), options.clone()).unwrap();
    let generations = Arc::new(AtomicU64::new(1001));
    let threads: Vec<_> = (0..thread_count)
        .map(|seed| {
            let (volume, generations) = (volume.clone(), Arc::clone(&generations));
            io::task::thread("one of the crowd", move || mingle(&volume, &generations, seed)).unwrap()
        })
        .collect();
    for thread in threads {
        thread.join().unwrap();
    }
    assert_eq!(volume.failure(), None);
    let left = volume.replicas(BlockId(0), 100).unwrap();
    let is_open = |state| state != ReplicaState::Finalized;
    drop(volume);
    std::fs::remove_dir_all(dir.path().join("index")).unwrap();
    let volume = Volume::open(dir.path(), options).unwrap();
    let found = volume.replicas(BlockId(0), 100).unwrap();
    assert_eq!(found.len(), left.len(), "{left:#?}\n{found:#?}");
    for (before, after) in left.iter().zip(&found) {
        assert_eq!(
            (before.identity, before.len, is_open(before.state)),
            (after.identity, after.len, is_open(after.state))
        );
        if !is_open(after.state) {
            let reader = read(&volume, after.identity.block);
            check(&reader, &data_of(after.identity.block.index())[..after.len as usize]);
        }
    }
}

#[test]
fn a_crowd_leaves_an_orderly_volume() {
    crowd(Durability::Replicated, 6);
}

/// Twenty writers of small replicas in a synced volume share what their disk can do.
#[test]
fn small_puts_at_the_same_time_share_their_syncs() {
    let dir = tempfile::tempdir().unwrap();
    let synced = container::Options { durability: Durability::Synced, ..options() };
    let volume = Volume::open(dir.path(), synced.clone()).unwrap();
    let threads: Vec<_> = (0..20)
        .map(|number: u32| {
            let volume = volume.clone();
            io::task::thread("writer", move || {
                for index in (number..200).step_by(20) {
                    put(&volume, identity(index, 1001), &pattern(index.into(), 3000));
                }
            })
            .unwrap()
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    drop(volume);
    std::fs::remove_dir_all(dir.path().join("index")).unwrap();
    let volume = Volume::open(dir.path(), synced).unwrap();
    for index in 0..200 {
        check(&read(&volume, block(index)), &pattern(index.into(), 3000));
    }
}
