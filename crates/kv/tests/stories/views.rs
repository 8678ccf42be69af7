//! Views that live long: they stand still, and nobody waits for them.

use kv::{Options, Store};
use std::ops::{Bound, ControlFlow};
use std::sync::mpsc;
use std::time::Duration;
use types::random::{Random, Seeded};
use types::rows::{MemoryRows, Rows, RowsMut, Table};

const TABLE: Table = Table(1);
/// Nothing here waits for anything but the disk.
const LONG: Duration = Duration::from_secs(30);

fn options() -> Options {
    Options { overlay_len_max: 1 << 20, map_len: 64 << 20 }
}

fn all(rows: &dyn Rows) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut found = Vec::new();
    let mut visit = |key: &[u8], value: &[u8]| {
        found.push((key.to_vec(), value.to_vec()));
        ControlFlow::Continue(())
    };
    rows.scan(TABLE, Bound::Unbounded, &mut visit).unwrap();
    found
}

fn put(store: &Store, key: &[u8], value: &[u8]) {
    let mut change = store.change();
    change.put(TABLE, key, value.to_vec());
    change.commit();
}

/// Small changes and large ones, flushes that end and begin, and views of all moments that are read at the end.
#[test]
fn a_view_stands_still_whatever_comes_after_it() {
    for seed in 0..10 {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(dir.path(), options()).unwrap();
        let (mut random, mut model, mut views) = (Seeded(seed), MemoryRows::default(), Vec::new());
        for _ in 0..120 {
            match random.below(8) {
                0 | 1 => store.flush().unwrap(),
                2 | 3 if views.len() < 20 => views.push((store.view(), model.clone())),
                kind => {
                    let mut change = store.change();
                    for _ in 0..[1, 10, 200][kind % 3] {
                        let key = (random.below(400) as u16).to_be_bytes();
                        if random.below(4) == 0 {
                            change.delete(TABLE, &key);
                            model.delete(TABLE, &key);
                        } else {
                            let value = random.next_u64().to_be_bytes().to_vec();
                            change.put(TABLE, &key, value.clone());
                            model.put(TABLE, &key, value);
                        }
                    }
                    change.commit();
                }
            }
        }
        views.push((store.view(), model));
        for (view, model) in &views {
            assert_eq!(all(view), all(model), "seed {seed}");
            for key in 0..400u16 {
                assert_eq!(view.get(TABLE, &key.to_be_bytes()).unwrap(), model.get(TABLE, &key.to_be_bytes()).unwrap());
            }
        }
    }
}

/// One reader is in the middle of a page that does not come; a change of a few rows, one of many, a flush and another
/// reader go on.
#[test]
fn nobody_waits_for_a_reader() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path(), options()).unwrap();
    put(&store, b"a", b"1");
    store.flush().unwrap();
    put(&store, b"b", b"1");
    let (reads, reading) = mpsc::channel();
    let (go_on, page) = mpsc::channel::<()>();
    let reader = {
        let store = store.clone();
        move || {
            let (view, mut seen) = (store.view(), Vec::new());
            let mut visit = |key: &[u8], value: &[u8]| {
                reads.send(()).unwrap();
                page.recv_timeout(LONG).expect("the others are done");
                seen.push((key.to_vec(), value.to_vec()));
                ControlFlow::Continue(())
            };
            view.scan(TABLE, Bound::Unbounded, &mut visit).unwrap();
            seen
        }
    };
    #[expect(clippy::disallowed_methods, reason = "a panic in it is to show in the test")]
    let reader = std::thread::spawn(reader);
    reading.recv().unwrap();
    put(&store, b"a", b"2");
    let mut change = store.change();
    (0..1000u16).for_each(|key| change.put(TABLE, &key.to_be_bytes(), b"3".to_vec()));
    change.commit();
    store.flush().unwrap();
    assert_eq!(store.view().get(TABLE, b"a").unwrap(), Some(b"2".to_vec()));
    [(), ()].into_iter().for_each(|()| go_on.send(()).unwrap());
    let seen = reader.join().unwrap();
    assert_eq!(seen, [(b"a".to_vec(), b"1".to_vec()), (b"b".to_vec(), b"1".to_vec())]);
}

/// A change that takes long holds up no flush, and what was flushed meanwhile stays below it.
#[test]
fn a_flush_does_not_wait_for_a_change() {
    for row_count in [1u16, 500] {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(dir.path(), options()).unwrap();
        put(&store, b"before", b"1");
        let mut change = store.change();
        (0..row_count).for_each(|key| change.put(TABLE, &key.to_be_bytes(), b"2".to_vec()));
        store.flush().unwrap();
        assert_eq!(change.get(TABLE, b"before").unwrap(), Some(b"1".to_vec()));
        change.commit();
        assert_eq!(all(&store.view()).len(), usize::from(row_count) + 1);
        store.flush().unwrap();
        assert_eq!((store.overlay_len(), all(&store.view()).len()), (0, usize::from(row_count) + 1));
    }
}

/// Large changes beside flushes, which freeze the layer that the change is put above, or finish the one before it.
#[test]
fn a_large_change_keeps_what_was_there() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path(), options()).unwrap();
    std::thread::scope(|scope| {
        let (done, until) = mpsc::channel::<()>();
        let flushed = &store;
        scope.spawn(move || {
            while until.try_recv().is_err() {
                flushed.flush().unwrap()
            }
        });
        for round in 0..300u32 {
            let mut change = store.change();
            for key in 0..100u32 {
                change.put(TABLE, &(round * 100 + key).to_be_bytes(), vec![7]);
            }
            change.commit();
            put(&store, b"last", &round.to_be_bytes());
            assert_eq!(all(&store.view()).len(), round as usize * 100 + 101);
        }
        done.send(()).unwrap();
    });
}
