//! Bits that flip in the file of a store: it is refused, or every row is as it was; no row is silently missing.

use kv::{Options, Store};
use std::ops::{Bound, ControlFlow};
use std::path::Path;
use types::random::{Random, Seeded};
use types::rows::{Rows, RowsMut, Table};

fn options() -> Options {
    Options { overlay_len_max: 1 << 20, map_len: 64 << 20 }
}

fn rows(store: &Store) -> Option<Vec<(Vec<u8>, Vec<u8>)>> {
    let mut found = Vec::new();
    let mut visit = |key: &[u8], value: &[u8]| {
        found.push((key.to_vec(), value.to_vec()));
        ControlFlow::Continue(())
    };
    store.view().scan(Table(3), Bound::Unbounded, &mut visit).ok()?;
    Some(found)
}

/// A store with pages in several levels and values with pages of their own, and without old ones: it is flushed once.
fn filled(dir: &Path) -> Vec<(Vec<u8>, Vec<u8>)> {
    let store = Store::open(dir, options()).unwrap();
    let mut change = store.change();
    for number in 0..2000u32 {
        change.put(Table(3), &(number * 7).to_be_bytes(), vec![number as u8; 40]);
    }
    for number in 0..3u32 {
        change.put(Table(3), &(number * 700 + 1).to_be_bytes(), vec![7; 9000]);
    }
    change.commit();
    store.flush().unwrap();
    rows(&store).unwrap()
}

/// Whatever LMDB makes of a file in a long life is sound to us: pages freed and used again, long values, an empty
/// store.
#[test]
fn a_sound_store_is_never_refused() {
    let dir = tempfile::tempdir().unwrap();
    let mut random = Seeded(5);
    for life in 0..40 {
        let store = Store::open(dir.path(), options()).unwrap();
        for _ in 0..4 {
            let mut change = store.change();
            let all = life % 10 == 9;
            for number in 0..400 {
                let key = (if all { number } else { random.below(400) } as u32).to_be_bytes();
                if all || random.below(3) == 0 {
                    change.delete(Table(3), &key);
                } else {
                    let len = [0, 40, 300, 1900, 2100, 5000, 20_000][random.below(7)];
                    change.put(Table(3), &key[..2 + random.below(3)], vec![1; len]);
                    change.put(Table(3), &key, vec![number as u8; len]);
                }
            }
            change.commit();
            store.flush().unwrap();
        }
    }
}

#[test]
fn no_flipped_bit_hides_a_row() {
    let dir = tempfile::tempdir().unwrap();
    let want = filled(dir.path());
    let file = dir.path().join("data.mdb");
    let sound = std::fs::read(&file).unwrap();
    let mut refused = 0;
    let mut random = Seeded(11);
    for _ in 0..500 {
        // Behind the two pages that LMDB checks by itself.
        let at = 8192 + random.below(sound.len() - 8192);
        let bit = random.below(8);
        let mut bytes = sound.clone();
        bytes[at] ^= 1 << bit;
        std::fs::write(&file, &bytes).unwrap();
        match Store::open(dir.path(), options()) {
            Err(_) => refused += 1,
            Ok(store) => assert_eq!(rows(&store), Some(want.clone()), "bit {bit} of byte {at}"),
        }
    }
    assert!(refused > 300, "{refused} of 500");
}

/// The case that no checksum sees: the row is there, but nobody who looks for it finds it.
#[test]
fn a_damaged_key_is_told_when_the_store_is_opened() {
    let dir = tempfile::tempdir().unwrap();
    filled(dir.path());
    let file = dir.path().join("data.mdb");
    let mut bytes = std::fs::read(&file).unwrap();
    let key: Vec<u8> = [3].into_iter().chain((1000u32 * 7).to_be_bytes()).collect();
    for at in 0..bytes.len() - key.len() {
        if bytes[at..].starts_with(&key) {
            bytes[at + 4] ^= 1;
        }
    }
    std::fs::write(&file, &bytes).unwrap();
    let error = Store::open(dir.path(), options()).unwrap_err().to_string();
    assert!(error.contains("is damaged") && error.contains(&*dir.path().to_string_lossy()), "{error}");
}
