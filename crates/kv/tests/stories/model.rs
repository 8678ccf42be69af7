//! The store against a plain map: whatever is committed is read back, over flushes, views and new starts.

use kv::{Options, Store};
use proptest::prelude::*;
use std::ops::{Bound, ControlFlow};
use std::os::unix::fs::FileExt;
use types::rows::{MemoryRows, Rows, RowsMut, Table};

#[derive(Clone, Debug)]
enum Step {
    Put(u8, u8, u16),
    Delete(u8, u8),
    /// A change that is dropped.
    Forget(u8, u8),
    Flush,
    Reopen,
    Scan(u8, u8),
    Last(u8, u8),
}

fn step() -> impl Strategy<Value = Step> {
    let (table, key) = (1u8..4, any::<u8>());
    prop_oneof![
        6 => (table.clone(), key, any::<u16>()).prop_map(|(table, key, value)| Step::Put(table, key, value)),
        3 => (table.clone(), key).prop_map(|(table, key)| Step::Delete(table, key)),
        1 => (table.clone(), key).prop_map(|(table, key)| Step::Forget(table, key)),
        1 => Just(Step::Flush),
        1 => Just(Step::Reopen),
        3 => (table.clone(), key).prop_map(|(table, key)| Step::Scan(table, key)),
        3 => (table, key).prop_map(|(table, key)| Step::Last(table, key)),
    ]
}

fn options() -> Options {
    Options { overlay_len_max: 1 << 20, map_len: 64 << 20 }
}

fn all(rows: &dyn Rows, table: u8, from: Bound<&[u8]>) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut found = Vec::new();
    let mut visit = |key: &[u8], value: &[u8]| {
        found.push((key.to_vec(), value.to_vec()));
        ControlFlow::Continue(())
    };
    rows.scan(Table(table), from, &mut visit).unwrap();
    found
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]
    #[test]
    fn a_store_is_a_map(steps in proptest::collection::vec(step(), 1..80)) {
        let dir = tempfile::tempdir().unwrap();
        let mut store = Store::open(dir.path(), options()).unwrap();
        let mut model = MemoryRows::default();
        for step in steps {
            match step {
                Step::Put(table, key, value) => {
                    let mut change = store.change();
                    change.put(Table(table), &[key], value.to_be_bytes().to_vec());
                    prop_assert!(change.get(Table(table), &[key]).unwrap().is_some(), "a change sees its own writes");
                    change.commit();
                    model.put(Table(table), &[key], value.to_be_bytes().to_vec());
                }
                Step::Delete(table, key) => {
                    let mut change = store.change();
                    change.delete(Table(table), &[key]);
                    change.commit();
                    model.delete(Table(table), &[key]);
                }
                Step::Forget(table, key) => {
                    let mut change = store.change();
                    change.put(Table(table), &[key], vec![]);
                    drop(change);
                }
                Step::Flush => store.flush().unwrap(),
                Step::Reopen => {
                    store.flush().unwrap();
                    drop(store);
                    store = Store::open(dir.path(), options()).unwrap();
                }
                Step::Scan(table, key) => {
                    let from = [key];
                    let from = if key % 2 == 0 { Bound::Included(&from[..]) } else { Bound::Excluded(&from[..]) };
                    prop_assert_eq!(all(&store.view(), table, from), all(&model, table, from));
                    prop_assert_eq!(all(&store.view(), table, Bound::Unbounded), all(&model, table, Bound::Unbounded));
                }
                Step::Last(table, key) => {
                    let last = store.view().last_at_most(Table(table), &[key]).unwrap();
                    prop_assert_eq!(last, model.last_at_most(Table(table), &[key]).unwrap());
                }
            }
        }
    }
}

/// What was not flushed is gone, what was flushed is there: never anything between.
#[test]
fn only_what_was_flushed_survives() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path(), options()).unwrap();
    for (key, flush) in [(b"a", true), (b"b", false)] {
        let mut change = store.change();
        change.put(Table(1), key, b"row".to_vec());
        change.commit();
        if flush {
            store.flush().unwrap();
        }
    }
    drop(store);
    let store = Store::open(dir.path(), options()).unwrap();
    assert_eq!(all(&store.view(), 1, Bound::Unbounded), [(b"a".to_vec(), b"row".to_vec())]);
}

#[test]
fn a_second_process_is_told_that_the_store_is_in_use() {
    let dir = tempfile::tempdir().unwrap();
    let _store = Store::open(dir.path(), options()).unwrap();
    let error = Store::open(dir.path(), options()).unwrap_err();
    assert!(matches!(error, kv::KvError::InUse { .. }), "{error}");
}

#[test]
fn a_full_store_says_so_and_keeps_what_it_has() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path(), Options { overlay_len_max: 64 << 20, map_len: 1 << 20 }).unwrap();
    for key in 0..400u32 {
        let mut change = store.change();
        change.put(Table(1), &key.to_be_bytes(), vec![7; 10_000]);
        change.commit();
    }
    assert!(matches!(store.flush().unwrap_err(), kv::KvError::Full { .. }));
    assert_eq!(all(&store.view(), 1, Bound::Unbounded).len(), 400, "what is not on disk is still in memory");
    drop(store);
    // With more room it goes on: what failed was not kept in part.
    let store = Store::open(dir.path(), options()).unwrap();
    assert_eq!(all(&store.view(), 1, Bound::Unbounded), []);
}

/// Changes, flushes and views at the same time: a view sees all of a change or nothing.
#[test]
fn views_are_of_one_moment() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path(), options()).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for round in 0..2000u32 {
                let mut change = store.change();
                for key in 0..4u8 {
                    change.put(Table(1), &[key], round.to_be_bytes().to_vec());
                }
                change.commit();
            }
        });
        scope.spawn(|| (0..20).for_each(|_| store.flush().unwrap()));
        for _ in 0..2000 {
            let rows = all(&store.view(), 1, Bound::Unbounded);
            assert!(rows.is_empty() || rows.len() == 4 && rows.iter().all(|row| row.1 == rows[0].1), "{rows:?}");
        }
    });
}

/// Strangers choose names, so a key may be longer than any that can be stored. That is no fault of the store.
#[test]
fn keys_too_long_to_be_stored_are_simply_not_there() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path(), options()).unwrap();
    let longest = [b'k'; kv::KEY_LEN_MAX];
    let mut change = store.change();
    for key in [&b"a"[..], &longest, b"z"] {
        change.put(Table(1), key, b"row".to_vec());
    }
    change.commit();
    for flushed in [false, true] {
        if flushed {
            store.flush().unwrap();
        }
        let (view, longer) = (store.view(), [b'k'; 2000]);
        assert_eq!(view.get(Table(1), &longer).unwrap(), None);
        assert_eq!(view.get(Table(1), &longest).unwrap(), Some(b"row".to_vec()));
        assert_eq!(view.last_at_most(Table(1), &longer).unwrap().unwrap().0, longest);
        for from in [Bound::Included(&longer[..]), Bound::Excluded(&longer[..])] {
            assert_eq!(all(&view, 1, from), [(b"z".to_vec(), b"row".to_vec())]);
        }
    }
}

/// A reader need not wait for a change that takes long.
#[test]
fn a_view_does_not_wait_for_a_change() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path(), options()).unwrap();
    let mut change = store.change();
    change.put(Table(1), b"a", b"1".to_vec());
    std::thread::scope(|scope| {
        let seen = scope.spawn(|| store.view().get(Table(1), b"a").unwrap());
        assert_eq!(seen.join().unwrap(), None);
        change.commit();
        let seen = scope.spawn(|| store.view().get(Table(1), b"a").unwrap());
        assert_eq!(seen.join().unwrap(), Some(b"1".to_vec()));
    });
}

#[test]
#[should_panic(expected = "end that first")]
fn two_changes_in_one_thread_are_a_mistake_that_shows_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path(), options()).unwrap();
    let (_first, _second) = (store.change(), store.change());
}

#[test]
fn a_damaged_row_is_an_error_and_not_an_answer() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path(), options()).unwrap();
    let mut change = store.change();
    change.put(Table(1), b"a", b"a value that is found in the file".to_vec());
    change.put(Table(1), b"b", b"another".to_vec());
    change.commit();
    store.flush().unwrap();
    // While it is open; damage.rs tells what opening does.
    let path = dir.path().join("data.mdb");
    let bytes = std::fs::read(&path).unwrap();
    let needle = b"found in the file";
    let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
    for at in (0..bytes.len()).filter(|at| bytes[*at..].starts_with(needle)) {
        file.write_all_at(&[bytes[at] ^ 1], at as u64).unwrap();
    }
    let error = store.view().get(Table(1), b"a").unwrap_err();
    assert!(error.to_string().contains("checksum"), "{error}");
    assert_eq!(store.view().get(Table(1), b"b").unwrap(), Some(b"another".to_vec()));
}
