//! The power is cut at every write and sync of a store's life, LMDB's own among them: what a flush has acknowledged is
//! there, what was flushed when the power went is there as a whole or not at all, and the store goes on.

use kv::{Import, Options, Store};
use std::collections::BTreeMap;
use std::ops::{Bound, ControlFlow};
use std::path::Path;
use testkit::power::{self, Disk, Mood};
use types::random::{Random, Seeded};
use types::rows::{Rows, RowsMut, Table};

const ROUNDS: u32 = 14;
/// In this round the rows of another store take the place of all.
const COPIED: u32 = 8;
/// After this one the store is closed, and opened again.
const REOPENED: u32 = 5;
const TABLE: Table = Table(3);

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

fn open(dir: &Path) -> Result<Store, kv::KvError> {
    Store::open(&dir.join("store"), Options { overlay_len_max: 4 << 20, map_len: 64 << 20 })
}

/// What a round changes: many rows, with values that fit into a page and such that need several, put and deleted.
fn edit(round: u32, put: &mut dyn FnMut(Vec<u8>, Option<Vec<u8>>)) {
    let mut random = Seeded(round.into());
    for _ in 0..60 {
        let key = vec![b'k', random.below(200) as u8];
        let len = [0, 30, 400, 1900, 2100, 9000][random.below(6)];
        let value = (random.below(3) > 0).then(|| vec![round as u8; len]);
        put(key, value);
    }
    put(b"round".to_vec(), Some(vec![round as u8]));
}

/// The rows as of the end of each round.
fn models() -> Vec<Model> {
    let mut model = Model::new();
    let mut models = vec![model.clone()];
    for round in 1..=ROUNDS {
        if round == COPIED {
            model = copied();
        } else {
            edit(round, &mut |key, value| match value {
                Some(value) => drop(model.insert(key, value)),
                None => drop(model.remove(&key)),
            });
        }
        models.push(model.clone());
    }
    models
}

fn copied() -> Model {
    let rows = (0..300u32).map(|number| (number.to_be_bytes().to_vec(), vec![number as u8; 100]));
    rows.chain([(b"round".to_vec(), vec![COPIED as u8])]).collect()
}

fn fill(store: &Store, rows: impl IntoIterator<Item = (Vec<u8>, Option<Vec<u8>>)>) {
    let mut change = store.change();
    for (key, value) in rows {
        match value {
            Some(value) => change.put(TABLE, &key, value),
            None => change.delete(TABLE, &key),
        }
    }
    change.commit();
}

/// Not a test by itself: does nothing unless it was started as the victim.
#[test]
fn victim() {
    let Some(dir) = power::victim_dir() else { return };
    let mut store = open(&dir).unwrap();
    for round in 1..=ROUNDS {
        power::tell(&format!("flushing {round}"));
        if round == COPIED {
            // The other store's directory loses nothing.
            let source = open(&dir.with_extension("source")).unwrap();
            fill(
                &source,
                copied().into_iter().filter(|(key, _)| key != b"round").map(|(key, value)| (key, Some(value))),
            );
            source.flush().unwrap();
            let mut export = source.export().unwrap();
            let mut import = Import::begin(&dir.join("incoming")).unwrap();
            while let Some(chunk) = export.chunk(4000).unwrap() {
                import.take(&chunk).unwrap();
            }
            store.replace(import, &[(TABLE, b"round", &[COPIED as u8])]).unwrap();
        } else {
            let mut rows = Vec::new();
            edit(round, &mut |key, value| rows.push((key, value)));
            fill(&store, rows);
            store.flush().unwrap();
        }
        power::tell(&format!("flushed {round}"));
        if round == REOPENED {
            drop(store);
            store = open(&dir).unwrap();
        }
    }
}

fn last(disk: &Disk, cut: usize, word: &str) -> usize {
    disk.told(cut).filter_map(|told| told.strip_prefix(word)?.trim().parse().ok()).last().unwrap_or(0)
}

fn rows(store: &Store) -> Model {
    let mut found = Model::new();
    let mut visit = |key: &[u8], value: &[u8]| {
        found.insert(key.to_vec(), value.to_vec());
        ControlFlow::Continue(())
    };
    store.view().scan(TABLE, Bound::Unbounded, &mut visit).unwrap();
    found
}

#[test]
fn a_store_that_loses_power_is_as_of_its_last_flush_or_the_one_under_way() {
    let dirs = tempfile::tempdir().unwrap();
    let disk = power::life("power::victim", &dirs.path().join("life"));
    let models = models();
    let cuts = (1..=disk.calls() + 1).filter(|cut| !disk.tells_at(*cut));
    let mut found = [0; 2];
    for (cut, mood) in cuts.flat_map(|cut| Mood::ALL.map(|mood| (cut, mood))) {
        let left = dirs.path().join(format!("left {cut} {mood:?}"));
        std::fs::create_dir(&left).unwrap();
        disk.leave(cut, mood, cut as u64, &left);
        let (flushed, flushing) = (last(&disk, cut, "flushed"), last(&disk, cut, "flushing"));
        let what = format!("call {cut} of {}, {mood:?}, flushed {flushed}, flushing {flushing}", disk.calls());
        let store = open(&left).unwrap_or_else(|error| panic!("{what}: {error}"));
        let rows_now = rows(&store);
        let round = (flushed..=flushing).find(|round| models[*round] == rows_now);
        let round = round.unwrap_or_else(|| panic!("{what}: other rows, of round {:?}", rows_now.get(&b"round"[..])));
        found[round - flushed] += 1;
        // It goes on, and what it does now is kept.
        if cut % 4 == 0 {
            fill(&store, [(b"after".to_vec(), Some(vec![1; 5000]))]);
            store.flush().unwrap();
            let want = rows(&store);
            drop(store);
            assert!(rows(&open(&left).unwrap()) == want, "{what}: what came after is lost");
        }
        std::fs::remove_dir_all(left).unwrap();
    }
    println!("{} calls; as of the last flush {}, of the one under way {}", disk.calls(), found[0], found[1]);
    assert!(found.iter().all(|count| *count > 20), "both can happen: {found:?}");
}
