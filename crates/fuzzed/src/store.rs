//! What lies on disk below the namespace: the store's file, and the commands in the log.

use kv::{Options, Store};
use std::cell::RefCell;
use std::fmt::Debug;
use std::ops::{Bound, ControlFlow};
use std::path::Path;
use types::encoding::{Encoded, decode, encode};
use types::rows::{Rows, RowsMut, Table};

/// The file of a store. Either it is refused, or whatever is then asked of it is answered: LMDB itself trusts its file,
/// and a length in it that points elsewhere would end the process.
pub(crate) fn kv_store(bytes: &[u8]) {
    thread_local! {
        static DIR: RefCell<Option<tempfile::TempDir>> = const { RefCell::new(None) };
    }
    DIR.with_borrow_mut(|dir| {
        let dir = dir.get_or_insert_with(|| tempfile::tempdir().expect("a temporary directory")).path();
        std::fs::write(dir.join("data.mdb"), bytes).expect("a temporary file");
        let _refused = use_store(dir);
    });
}

/// Reads all, changes some, reads all.
fn use_store(dir: &Path) -> Result<(), kv::KvError> {
    let store = Store::open(dir, Options { overlay_len_max: 1 << 20, map_len: 4 << 20 })?;
    for round in 0..2u8 {
        let mut count = 0;
        for table in 0..=255 {
            let mut visit = |key: &[u8], value: &[u8]| {
                count += key.len().min(1) + value.len();
                ControlFlow::Continue(())
            };
            // A row that does not match its checksum is an error, and no more.
            let _ = store.view().scan(Table(table), Bound::Unbounded, &mut visit);
            let _ = store.view().last_at_most(Table(table), &[0x80; 9]);
        }
        let mut change = store.change();
        change.put(Table(9), &[round; 20], vec![round; 5000]);
        change.delete(Table(3), &[0, 0, 0, 7]);
        change.commit();
        store.flush()?;
    }
    Ok(())
}

/// Commands as they stand in the log. The first byte chooses whose.
pub(crate) fn commands(bytes: &[u8]) {
    let Some((kind, command)) = bytes.split_first() else { return };
    match kind % 3 {
        0 => again::<namespace::Request>(command),
        1 => again::<blocks::Command>(command),
        _ => again::<security::rings::Command>(command),
    }
}

fn again<T: Encoded + PartialEq + Debug>(bytes: &[u8]) {
    if let Ok(command) = decode::<T>(bytes) {
        let written = encode(&command, Vec::new());
        assert_eq!(decode(&written), Ok(command));
    }
}
