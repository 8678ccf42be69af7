//! Where the baskets of a ROOT file's trees lie. Written by ROOT 6 or uproot, or by others as they do.
//!
//! ```text
//!  head ─▶ directory ─▶ its keys ─┬▶ directory ─▶ …
//!                                 └▶ trees; before the first, the streamers: what the classes look like
//! ```
//!
//! Promise: every place is visited at most once a key, and keys, bytes and reads are counted.

mod cursor;
mod fields;
mod file;
mod key;
mod ntuple;
mod streamers;
mod tree;
mod unzip;

use crate::error::{LayoutError, Result};
use crate::limits::{Budget, Limits};
use crate::tables::{Layout, Table};
use crate::want::{Next, Want};
use cursor::Cursor;
use key::Key;
use ntuple::Ntuple;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use streamers::Streamers;

pub(crate) use unzip::unzip;

/// Directories within each other: a guess.
const DEPTH_MAX: usize = 32;

#[derive(Debug)]
pub(crate) struct Reading {
    file_len: u64,
    /// What the bytes are that are wanted.
    now: Task,
    directories: Vec<(Path, Want)>,
    trees: VecDeque<(Path, Key)>,
    streamers_at: Want,
    streamers: Option<Streamers>,
    tables: Vec<Table>,
}

#[derive(Debug)]
enum Task {
    /// The first one, which has no key of its own.
    Directory,
    /// One with a key before it.
    KeyedDirectory(Path),
    Keys(Path),
    Streamers,
    Tree(Path, Key),
    /// An anchor.
    Ntuple(Path, Key),
    NtuplePart(Ntuple),
}

/// Of a directory: its names, each with a slash behind it.
#[derive(Clone, Debug, Default)]
struct Path {
    /// Shared, since each tree in the directory needs it, and it is as long as its writer liked.
    text: Arc<str>,
    depth: usize,
}

pub(crate) fn begin(bytes: &[u8], file_len: u64) -> Result<Next<Reading, Layout>> {
    let head = file::head(bytes)?;
    let mut reading = Reading {
        file_len,
        now: Task::Directory,
        directories: Vec::new(),
        trees: VecDeque::new(),
        streamers_at: head.streamers,
        streamers: None,
        tables: Vec::new(),
    };
    // Mostly the directory is among the first bytes, too.
    let start = usize::try_from(head.directory.offset).ok();
    let near = start.and_then(|start| bytes.get(start..)?.get(..head.directory.len as usize));
    let Some(near) = near else { return Ok(Next::Ask(head.directory, reading)) };
    let keys = file::directory(near)?;
    reading.now = Task::Keys(Path::default());
    Ok(Next::Ask(keys, reading))
}

impl Reading {
    pub(crate) fn give(mut self, bytes: &[u8], budget: &mut Budget) -> Result<Next<Self, Layout>> {
        match std::mem::replace(&mut self.now, Task::Directory) {
            Task::Directory => {
                let keys = file::directory(bytes)?;
                return Ok(self.ask(keys, Task::Keys(Path::default())));
            }
            Task::KeyedDirectory(path) => {
                let keys = file::directory(Key::split(bytes)?.1)?;
                return Ok(self.ask(keys, Task::Keys(path)));
            }
            Task::Keys(path) => self.keys(&path, bytes, budget)?,
            Task::Streamers => {
                let (key, stored) = Key::split(bytes)?;
                let object = unzip(stored, key.object_len, budget)?;
                self.streamers = Some(Streamers::read(&object, key.key_len)?);
            }
            Task::Tree(path, listed) => self.tree(path, &listed, bytes, budget)?,
            Task::Ntuple(path, listed) => {
                let (key, stored) = found(&listed, bytes)?;
                let anchor = unzip(stored, key.object_len, budget)?;
                let name = format!("{}{}", path.text, key.name);
                budget.name(&name)?;
                let (want, ntuple) = ntuple::begin(&anchor, name, self.file_len)?;
                return Ok(self.ask(want, Task::NtuplePart(ntuple)));
            }
            Task::NtuplePart(ntuple) => match ntuple.give(bytes, budget)? {
                Next::Ask(want, ntuple) => return Ok(self.ask(want, Task::NtuplePart(ntuple))),
                Next::Done(table) => self.tables.push(table),
            },
        }
        Ok(self.next())
    }

    fn ask(mut self, want: Want, task: Task) -> Next<Self, Layout> {
        self.now = task;
        Next::Ask(want, self)
    }

    fn next(mut self) -> Next<Self, Layout> {
        if let Some((path, want)) = self.directories.pop() {
            return self.ask(want, Task::KeyedDirectory(path));
        }
        let Some((path, key)) = self.trees.pop_front() else { return Next::Done(Layout { tables: self.tables }) };
        let want = key.span;
        if key.class == ntuple::CLASS {
            return self.ask(want, Task::Ntuple(path, key));
        }
        if self.streamers.is_none() {
            self.trees.push_front((path, key));
            let want = self.streamers_at;
            return self.ask(want, Task::Streamers);
        }
        self.ask(want, Task::Tree(path, key))
    }

    /// Of several cycles of a name the last one counts: those before are what was saved in between.
    fn keys(&mut self, path: &Path, bytes: &[u8], budget: &mut Budget) -> Result<()> {
        let mut cursor = Cursor::new(bytes, 0);
        Key::read(&mut cursor)?;
        let (mut newest, mut order) = (BTreeMap::<(bool, String), Key>::new(), Vec::new());
        for _ in 0..cursor.count()? {
            let key = Key::read(&mut cursor)?;
            let is_directory = matches!(&*key.class, "TDirectory" | "TDirectoryFile");
            if !is_directory && !matches!(&*key.class, "TTree" | "TNtuple" | "TNtupleD" | ntuple::CLASS) {
                continue;
            }
            match newest.entry((is_directory, key.name.clone())) {
                Entry::Vacant(entry) => {
                    budget.name(&key.name)?;
                    order.push(entry.key().clone());
                    entry.insert(key);
                }
                Entry::Occupied(mut entry) if entry.get().cycle < key.cycle => drop(entry.insert(key)),
                Entry::Occupied(_) => {}
            }
        }
        // In the order of the file, though the last of the directories is taken first.
        let mut trees = Vec::new();
        for name in order.into_iter().rev() {
            let Some(key) = newest.remove(&name) else { continue };
            match name {
                (true, name) if path.depth < DEPTH_MAX => {
                    let inner = Path { text: format!("{}{name}/", path.text).into(), depth: path.depth + 1 };
                    budget.name(&inner.text)?;
                    self.directories.push((inner, key.span));
                }
                (true, _) => return Err(LayoutError::Damaged("its directories lie too deep within each other")),
                (false, _) => trees.push((path.clone(), key)),
            }
        }
        self.trees.extend(trees.into_iter().rev());
        Ok(())
    }

    fn tree(&mut self, path: Path, listed: &Key, bytes: &[u8], budget: &mut Budget) -> Result<()> {
        let (key, stored) = found(listed, bytes)?;
        let object = unzip(stored, key.object_len, budget)?;
        let streamers = self.streamers.get_or_insert_default();
        let place = tree::Place { key: key.span, file_len: self.file_len, key_len: key.key_len };
        let mut table = tree::read(&object, &key.class, place, streamers, budget)?;
        table.name = format!("{}{}", path.text, key.name);
        budget.name(&table.name)?;
        self.tables.push(table);
        Ok(())
    }
}

/// The key that a directory lists, and what it holds.
fn found<'a>(listed: &Key, bytes: &'a [u8]) -> Result<(Key, &'a [u8])> {
    let (key, stored) = Key::split(bytes)?;
    if key.span != listed.span || key.class != listed.class {
        return Err(LayoutError::Damaged("a tree is not where its directory says"));
    }
    Ok((key, stored))
}

/// A tree as [`Reading::object_of`] takes it out of a file.
pub(crate) fn tree_of(streamers: &[u8], object: &[u8], mut budget: Budget) -> Result<Table> {
    const FILE_LEN: u64 = 1 << 20;
    let (streamers, key_len) = key_len_of(streamers)?;
    let streamers = Streamers::read(streamers, key_len)?;
    let (object, key_len) = key_len_of(object)?;
    let place = tree::Place { key: Want { offset: 0, len: FILE_LEN }, file_len: FILE_LEN, key_len };
    tree::read(object, "TTree", place, &streamers, &mut budget)
}

fn key_len_of(bytes: &[u8]) -> Result<(&[u8], usize)> {
    let (key_len, object) = bytes.split_first_chunk().ok_or(LayoutError::Damaged("it has no bytes"))?;
    Ok((object, u16::from_be_bytes(*key_len).into()))
}

impl Reading {
    /// The object that these bytes hold, if they are to be one, behind the length of its key: places in it count from
    /// there.
    pub(crate) fn object_of(&self, bytes: &[u8]) -> Option<Vec<u8>> {
        if !matches!(self.now, Task::Streamers | Task::Tree(..)) {
            return None;
        }
        let (key, stored) = Key::split(bytes).ok()?;
        let object = unzip(stored, key.object_len, &mut Budget::new(Limits::default())).ok()?;
        Some([&(key.key_len as u16).to_be_bytes()[..], &object].concat())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A key of nothing, as a directory lists it.
    fn listed(class: &str, name: &str) -> Vec<u8> {
        let text = |text: &str| [&[text.len() as u8][..], text.as_bytes()].concat();
        let mut key = vec![0; 26];
        key[3] = 1;
        [key, text(class), text(name), text("")].concat()
    }

    /// Else a name of 64 KiB before a hundred thousand keys, in all of 4 MB, takes 6 GB.
    #[test]
    fn trees_share_the_name_of_their_directory() {
        let file = include_bytes!("../../tests/golden/uproot-flat.root");
        let Next::Ask(_, mut reading) = begin(file, file.len() as u64).unwrap() else { panic!("it asks for keys") };
        let keys = [listed("TDirectory", ""), vec![0, 0, 0, 2], listed("TTree", "a"), listed("TNtuple", "b")].concat();
        let path = Path { text: "directory/".into(), depth: 1 };
        reading.keys(&path, &keys, &mut Budget::new(Limits::default())).unwrap();
        assert_eq!(reading.trees.len(), 2);
        assert!(reading.trees.iter().all(|(of_tree, _)| Arc::ptr_eq(&of_tree.text, &path.text)));
    }
}
