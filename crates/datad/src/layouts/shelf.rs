//! Layouts on a disk: so that a restart does not ask all files again.
//!
//! Promise: they take a bounded number of bytes, and those that were used last stay. One that is torn or of other
//! parsers is removed, and the file asked again: nothing depends on it, so nothing is synced. All of this may wait for
//! the disk.

use super::entry::{Entry, FILE_LEN_MAX, Key};
use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::{ErrorKind, Read, Result};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};
use types::Millis;

/// What a file takes at least, of the disk and of the memory that knows of it: with it the count has a limit, too.
const FILE_LEN_MIN: u64 = 4 << 10;

#[derive(Debug)]
pub(super) struct Shelf {
    dir: PathBuf,
    len_max: u64,
    /// Nothing until somebody has asked, and the directory was looked through.
    state: Mutex<Option<State>>,
    /// Bytes of all files, for who must not wait for the disk.
    len: AtomicU64,
}

#[derive(Debug, Default)]
struct State {
    files: HashMap<Key, Known>,
    /// Those used longest ago first.
    by_turn: BTreeMap<u64, Key>,
    turn: u64,
    len: u64,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Known {
    /// Bytes that it takes to read it.
    pub(super) len: u64,
    turn: u64,
}

impl Shelf {
    pub(super) fn new(dir: PathBuf, len_max: u64) -> Self {
        Self { dir, len_max, state: Mutex::default(), len: AtomicU64::new(0) }
    }

    /// Bytes of all files, as far as it is known.
    pub(super) fn len(&self) -> u64 {
        self.len.load(Ordering::Relaxed)
    }

    /// Which file is kept for it, for who has yet to take the memory. None is read.
    pub(super) fn find(&self, key: Key) -> Option<Known> {
        self.with(|state| state.files.get(&key).copied())
    }

    /// Reads what was found. Others find, and read, theirs meanwhile.
    pub(super) fn load(&self, key: Key, found: Known, now: Millis) -> Option<Entry> {
        let path = self.dir.join(key.name());
        let entry = match read(&path, found.len).map(|file| Entry::decode(key, file)) {
            Ok(Some(entry)) => entry,
            Ok(None) => {
                self.remove_unread(key, found);
                tracing::info!(path = %path.display(), "a layout that was kept cannot be read, and is removed");
                return None;
            }
            Err(error) => {
                self.remove_unread(key, found);
                tracing::debug!(path = %path.display(), %error, "a layout that was kept is not there");
                return None;
            }
        };
        self.with(|state| state.was_used(key));
        // For the order after a restart; that it cannot be noted costs nothing else.
        let used_at = SystemTime::UNIX_EPOCH + Duration::from_millis(now.0);
        let _noted = File::options().write(true).open(&path).and_then(|file| file.set_modified(used_at));
        Some(entry)
    }

    /// Not if it was put anew, or used, since it was found: another has read it then.
    fn remove_unread(&self, key: Key, found: Known) {
        self.with(|state| {
            if state.files.get(&key).is_some_and(|known| known.turn == found.turn) {
                self.remove(state, key);
            }
        });
    }

    pub(super) fn put(&self, key: Key, entry: &Entry) -> Result<()> {
        let file = entry.encode(key);
        let len = (file.len() as u64).max(FILE_LEN_MIN);
        if len > self.len_max {
            return Ok(());
        }
        self.with(|state| self.add(state, key, &file, len))
    }

    fn add(&self, state: &mut State, key: Key, file: &[u8], len: u64) -> Result<()> {
        // What is above is the disk's own: if that is gone, nothing is made in its place.
        match std::fs::create_dir(&self.dir) {
            Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        self.remove(state, key);
        self.make_room(state, len);
        let path = self.dir.join(key.name());
        let beside = path.with_extension("new");
        let written = std::fs::write(&beside, file).and_then(|()| std::fs::rename(&beside, &path));
        if written.is_err() {
            let _may_be_none = std::fs::remove_file(&beside);
        }
        written?;
        state.add(key, len);
        Ok(())
    }

    /// For so many bytes more, those used longest ago go.
    fn make_room(&self, state: &mut State, len: u64) {
        while state.len > self.len_max - len
            && let Some((_, oldest)) = state.by_turn.first_key_value()
        {
            let oldest = *oldest;
            self.remove(state, oldest);
        }
    }

    /// Takes it from the list, and from the disk if that can be.
    fn remove(&self, state: &mut State, key: Key) {
        if state.forget(key)
            && let Err(error) = std::fs::remove_file(self.dir.join(key.name()))
        {
            tracing::debug!(%error, "a layout that was kept cannot be removed");
        }
    }

    fn with<T>(&self, run: impl FnOnce(&mut State) -> T) -> T {
        let mut lock = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let state = lock.get_or_insert_with(|| self.look_through());
        let done = run(state);
        self.len.store(state.len, Ordering::Relaxed);
        done
    }

    /// What an earlier process left. What is above the limit goes, and what it had begun to write.
    fn look_through(&self) -> State {
        let mut found = Vec::new();
        for entry in std::fs::read_dir(&self.dir).into_iter().flatten().flatten() {
            let key = entry.file_name().to_str().and_then(Key::of_name);
            match (key, entry.metadata()) {
                (Some(key), Ok(about)) if about.is_file() => {
                    let used = about.modified().unwrap_or(SystemTime::UNIX_EPOCH);
                    found.push((used, key, about.len().max(FILE_LEN_MIN)));
                }
                _ => _ = std::fs::remove_file(entry.path()),
            }
        }
        found.sort_unstable_by_key(|(used, key, _)| (*used, *key));
        let mut state = State::default();
        found.iter().for_each(|(_, key, len)| state.add(*key, *len));
        self.make_room(&mut state, 0);
        state
    }
}

impl State {
    fn add(&mut self, key: Key, len: u64) {
        self.turn += 1;
        self.len += len;
        self.by_turn.insert(self.turn, key);
        let before = self.files.insert(key, Known { len, turn: self.turn });
        assert!(before.is_none(), "a layout is kept twice");
    }

    fn was_used(&mut self, key: Key) {
        if let Some(len) = self.files.get(&key).map(|known| known.len) {
            self.forget(key);
            self.add(key, len);
        }
    }

    fn forget(&mut self, key: Key) -> bool {
        let Some(Known { len, turn }) = self.files.remove(&key) else { return false };
        let listed = self.by_turn.remove(&turn);
        assert_eq!(listed, Some(key), "each layout has its turn");
        self.len -= len;
        true
    }
}

/// What is longer than was found is not read: no memory was taken for it.
fn read(path: &Path, len_max: u64) -> Result<Vec<u8>> {
    let file = File::open(path)?;
    let len = file.metadata()?.len();
    if len > len_max.min(FILE_LEN_MAX as u64) {
        return Err(ErrorKind::FileTooLarge.into());
    }
    let mut bytes = Vec::with_capacity(len as usize);
    file.take(len).read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::super::entry::tests::{entry, key};
    use super::*;

    const NOW: Millis = Millis(1_700_000_000_000);

    impl Shelf {
        fn get(&self, key: Key, now: Millis) -> Option<Entry> {
            self.load(key, self.find(key)?, now)
        }
    }

    fn names(dir: &Path) -> Vec<String> {
        let mut names: Vec<_> =
            std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn what_was_used_last_stays_also_over_a_restart() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path().join("layouts");
        let three = || Shelf::new(dir.clone(), 3 * FILE_LEN_MIN);
        let shelf = three();
        for block in 1..=3 {
            shelf.put(key(block), &entry(10)).unwrap();
        }
        assert_eq!((shelf.get(key(1), NOW), shelf.get(key(4), NOW)), (Some(entry(10)), None));
        shelf.put(key(4), &entry(10)).unwrap();
        assert_eq!(names(&dir), [key(1).name(), key(3).name(), key(4).name()]);
        assert_eq!(shelf.len(), 3 * FILE_LEN_MIN);
        // Another process: what it looked for is the newest.
        std::fs::write(dir.join("5-3e9-1388.new"), "begun").unwrap();
        let shelf = three();
        let later = Millis(SystemTime::UNIX_EPOCH.elapsed().unwrap().as_millis() as u64 + 60_000);
        assert_eq!(shelf.get(key(3), later), Some(entry(10)));
        assert_eq!(names(&dir).len(), 3);
        let shelf = Shelf::new(dir.clone(), FILE_LEN_MIN);
        assert_eq!((shelf.get(key(3), NOW), shelf.get(key(1), NOW)), (Some(entry(10)), None));
        assert_eq!(names(&dir), [key(3).name()]);
    }

    #[test]
    fn what_is_damaged_is_removed() {
        let dir = tempfile::tempdir().unwrap();
        let shelf = Shelf::new(dir.path().to_owned(), 1 << 20);
        shelf.put(key(1), &entry(10)).unwrap();
        shelf.put(key(1), &entry(20)).unwrap();
        assert_eq!(shelf.get(key(1), NOW), Some(entry(20)));
        std::fs::write(dir.path().join(key(1).name()), b"LVLY").unwrap();
        assert_eq!(shelf.get(key(1), NOW), None);
        assert!(names(dir.path()).is_empty() && shelf.len() == 0);
    }

    /// Who waits for one file does not hold up those who look for others.
    #[test]
    fn a_file_that_does_not_come_holds_up_nobody_else() {
        let dir = tempfile::tempdir().unwrap();
        let shelf = Shelf::new(dir.path().to_owned(), 1 << 20);
        shelf.put(key(1), &entry(10)).unwrap();
        shelf.put(key(2), &entry(10)).unwrap();
        let path = dir.path().join(key(1).name());
        std::fs::remove_file(&path).unwrap();
        // Opening it waits until somebody writes to it.
        assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
        let found = shelf.find(key(1)).unwrap();
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| shelf.load(key(1), found, NOW));
            assert_eq!(shelf.get(key(2), NOW), Some(entry(10)));
            drop(File::options().write(true).open(&path).unwrap());
            assert_eq!(waits.join().unwrap(), None);
        });
    }

    /// Memory is taken for what was found, before it is read.
    #[test]
    fn a_file_that_is_longer_than_it_was_is_not_read() {
        let dir = tempfile::tempdir().unwrap();
        let shelf = Shelf::new(dir.path().to_owned(), 1 << 20);
        shelf.put(key(1), &entry(10)).unwrap();
        let found = shelf.find(key(1)).unwrap();
        assert_eq!(found.len, FILE_LEN_MIN);
        std::fs::write(dir.path().join(key(1).name()), entry(5000).encode(key(1))).unwrap();
        assert_eq!(shelf.load(key(1), found, NOW), None);
    }

    /// A disk that is gone, or full: the file is asked again each time, and nothing else.
    #[test]
    fn nothing_is_made_where_the_disk_is_gone() {
        let dir = tempfile::tempdir().unwrap();
        let shelf = Shelf::new(dir.path().join("gone/layouts"), 1 << 20);
        assert!(shelf.put(key(1), &entry(10)).is_err());
        assert_eq!(shelf.get(key(1), NOW), None);
        let shelf = Shelf::new(dir.path().join("layouts"), 10);
        shelf.put(key(1), &entry(10)).unwrap();
        assert_eq!(shelf.get(key(1), NOW), None, "what is above the limit is not kept");
    }
}
