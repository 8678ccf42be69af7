//! A store is copied into another one while both are in use.

use kv::{Import, KvError, Options, Store};
use std::ops::{Bound, ControlFlow};
use std::path::Path;
use types::random::{Random, Seeded};
use types::rows::{Rows, RowsMut, Table};

fn open(dir: &Path) -> Store {
    Store::open(dir, Options { overlay_len_max: 4 << 20, map_len: 256 << 20 }).unwrap()
}

fn all(store: &Store) -> Vec<(u8, Vec<u8>, Vec<u8>)> {
    let view = store.view();
    let mut found = Vec::new();
    for table in 1..=40 {
        let mut visit = |key: &[u8], value: &[u8]| {
            found.push((table, key.to_vec(), value.to_vec()));
            ControlFlow::Continue(())
        };
        view.scan(Table(table), Bound::Unbounded, &mut visit).unwrap();
    }
    found
}

fn fill(store: &Store, random: &mut Seeded, count: usize) {
    let mut change = store.change();
    for _ in 0..count {
        let table = Table(1 + random.below(3) as u8);
        let key = vec![random.below(256) as u8; random.below(40)];
        change.put(table, &key, vec![random.below(256) as u8; random.below(3000)]);
    }
    change.commit();
}

/// Chunks of many lengths; changes and flushes between them do not show in the copy. The target had other rows, on disk
/// and in memory, and a view of them while they were replaced. A new start finds the copy.
#[test]
fn a_copy_is_the_store_as_it_was_flushed() {
    for (seed, len_max) in [(1, 1), (2, 700), (3, 1 << 20)] {
        let (mut random, dirs) = (Seeded(seed), tempfile::tempdir().unwrap());
        let source = open(&dirs.path().join("source"));
        fill(&source, &mut random, 500);
        source.flush().unwrap();
        let flushed = all(&source);
        fill(&source, &mut random, 50);
        let mut export = source.export().unwrap();
        let target = open(&dirs.path().join("target"));
        fill(&target, &mut random, 300);
        target.flush().unwrap();
        fill(&target, &mut random, 20);
        let mut import = Import::begin(&dirs.path().join("incoming")).unwrap();
        while let Some(chunk) = export.chunk(len_max).unwrap() {
            import.take(&chunk).unwrap();
            if random.below(20) == 0 {
                fill(&source, &mut random, 10);
                source.flush().unwrap();
            }
        }
        target.replace(import, &[(Table(32), b"", b"here")]).unwrap();
        let mut want = flushed.clone();
        want.push((32, Vec::new(), b"here".to_vec()));
        assert!(all(&target) == want, "seed {seed}");
        assert_eq!(target.overlay_len(), 0);
        assert!(!dirs.path().join("incoming").exists());
        fill(&target, &mut random, 10);
        target.flush().unwrap();
        let later = all(&target);
        drop(target);
        assert!(all(&open(&dirs.path().join("target"))) == later);
    }
}

/// What is damaged, out of order or cut off changes nothing.
#[test]
fn a_copy_that_went_wrong_leaves_the_store_alone() {
    let (mut random, dirs) = (Seeded(9), tempfile::tempdir().unwrap());
    let source = open(&dirs.path().join("source"));
    fill(&source, &mut random, 100);
    source.flush().unwrap();
    let mut export = source.export().unwrap();
    let (first, second) = (export.chunk(2000).unwrap().unwrap(), export.chunk(2000).unwrap().unwrap());
    let target = open(&dirs.path().join("target"));
    fill(&target, &mut random, 30);
    let before = all(&target);
    let begin = || Import::begin(&dirs.path().join("incoming")).unwrap();
    let mut import = begin();
    import.take(&second).unwrap();
    assert!(matches!(import.take(&first), Err(KvError::Foreign { .. })));
    let mut import = begin();
    let mut flipped = first.clone();
    flipped[10] ^= 1;
    assert!(matches!(import.take(&flipped), Err(KvError::Foreign { .. })));
    import.take(&first).unwrap();
    let len = std::fs::metadata(dirs.path().join("incoming")).unwrap().len();
    drop(import);
    assert_eq!(len, 0, "buffered so far");
    assert!(all(&target) == before);
}

#[test]
fn a_store_without_rows_has_no_chunk() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    assert_eq!(store.export().unwrap().chunk(1).unwrap(), None);
}
