//! Where the blocks of files are, as far as was asked: pure.
//!
//! [`FileBlocks`] is one file of one length; all who read it share it, so that what one of them finds out anew serves
//! the others. [`LocationCache`] keeps those of files that were read, by their ids, for who opens them again.

use crate::located::{FilePart, Located};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;
use types::Millis;

#[derive(Debug, Default)]
pub(crate) struct FileBlocks {
    /// By offset in the file.
    known: BTreeMap<u64, Arc<Located>>,
    len: u64,
    /// As [`FilePart::file`] of the answers: all of them are about one file.
    file: Option<u64>,
}

/// Blocks kept of one answer; those behind are asked for when the reader comes to them. Files of usual blocks have ten
/// in an answer, those that were concatenated from small ones may have any number.
const PAGE_COUNT_MAX: usize = 1000;

impl FileBlocks {
    /// A file of so many bytes, of which no block is known.
    pub(crate) fn new(len: u64) -> Self {
        Self { len, ..Self::default() }
    }

    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    pub(crate) fn file(&self) -> Option<u64> {
        self.file
    }

    pub(crate) fn at(&self, offset: u64) -> Option<Arc<Located>> {
        let (_, block) = self.known.range(..=offset).next_back()?;
        (offset - block.offset < block.len).then(|| Arc::clone(block))
    }

    /// Any block that is known, to ask for again.
    pub(crate) fn first(&self) -> Option<Arc<Located>> {
        self.known.first_key_value().map(|(_, block)| Arc::clone(block))
    }

    /// Blocks that are known, so many at most: half of them from the beginning, the others from the end.
    pub(crate) fn ends(&self, count_max: usize) -> BTreeMap<u64, Arc<Located>> {
        let some = |(offset, block): (&u64, &Arc<Located>)| (*offset, Arc::clone(block));
        let (first, last) = (self.known.iter().take(count_max / 2), self.known.iter().rev().take(count_max / 2));
        first.map(some).chain(last.map(some)).collect()
    }

    /// Whether an answer is about this file, and not about another one that has its name now. `None`: it does not say.
    pub(crate) fn is_same_file(&self, part: &FilePart) -> Option<bool> {
        Some(self.file? == part.file?)
    }

    /// The blocks of an answer about this file. False if they do not lie beside those that are known: the file was cut
    /// and written on since, so where a byte is in one of these blocks says nothing of the others. A block that is
    /// known stays where it is.
    #[must_use]
    pub(crate) fn add(&mut self, file: Option<u64>, blocks: Vec<Located>) -> bool {
        self.file = self.file.or(file);
        for mut block in blocks.into_iter().take(PAGE_COUNT_MAX) {
            // What lies beyond the length is still being written, and is known by its own way.
            if block.offset >= self.len || block.len == 0 {
                continue;
            }
            block.len = block.len.min(self.len - block.offset);
            match self.known.get(&block.offset) {
                Some(known) if known.identity.block == block.identity.block => {}
                Some(_) => return false,
                None if self.overlaps(&block) => return false,
                None => _ = self.known.insert(block.offset, Arc::new(block)),
            }
        }
        true
    }

    fn overlaps(&self, block: &Located) -> bool {
        let before = self.known.range(..block.offset).next_back();
        let behind = self.known.range(block.offset..).next();
        before.is_some_and(|(_, before)| before.offset + before.len > block.offset)
            || behind.is_some_and(|(begin, _)| block.offset + block.len > *begin)
    }

    /// The last block, of which the datanodes show `len` bytes. They are the file's.
    pub(crate) fn add_open(&mut self, last: Located, len: u64) {
        self.len = last.offset.saturating_add(len);
        self.known.insert(last.offset, Arc::new(Located { len, ..last }));
    }

    /// What is known of its readable length stays. False if it is another block: the file was replaced under its name,
    /// and bytes of two files must not be mixed.
    pub(crate) fn replace(&mut self, fresh: Located) -> bool {
        match self.known.get_mut(&fresh.offset) {
            Some(known) if known.identity.block == fresh.identity.block => {
                *known = Arc::new(Located { len: known.len, ..fresh });
                true
            }
            _ => false,
        }
    }
}

/// Names what a file is at one time: other bytes have another id, length or time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Version {
    pub(crate) len: u64,
    pub(crate) modified: Millis,
}

/// Blocks of files that are complete. `T` is what its readers share, [`FileBlocks`] behind a lock.
#[derive(Debug)]
pub(crate) struct LocationCache<T> {
    /// By user and id: what one may read is not another's.
    files: HashMap<(Arc<str>, u64), Entry<T>>,
}

#[derive(Debug)]
struct Entry<T> {
    version: Version,
    since: Duration,
    blocks: Arc<T>,
}

/// A guess: a data set of some hundred files, each of them with ten blocks or so.
const FILE_COUNT_MAX: usize = 1024;
/// How long it is believed where a file's blocks are: replicas move, and tokens expire. A guess, far below the life of
/// a token.
const AGE_MAX: Duration = Duration::from_secs(600);

impl<T> Default for LocationCache<T> {
    fn default() -> Self {
        Self { files: HashMap::new() }
    }
}

impl<T> LocationCache<T> {
    pub(crate) fn get(&self, now: Duration, user: &Arc<str>, file: u64, version: Version) -> Option<Arc<T>> {
        let entry = self.files.get(&(Arc::clone(user), file))?;
        let is_valid = entry.version == version && is_young(now, entry.since);
        is_valid.then(|| Arc::clone(&entry.blocks))
    }

    pub(crate) fn put(&mut self, now: Duration, user: &Arc<str>, file: u64, version: Version, blocks: Arc<T>) {
        if self.files.len() >= FILE_COUNT_MAX {
            self.files.retain(|_, entry| is_young(now, entry.since));
        }
        if self.files.len() >= FILE_COUNT_MAX
            && let Some(oldest) = self.files.iter().min_by_key(|(_, entry)| entry.since).map(|(key, _)| key.clone())
        {
            self.files.remove(&oldest);
        }
        self.files.insert((Arc::clone(user), file), Entry { version, since: now, blocks });
        assert!(self.files.len() <= FILE_COUNT_MAX, "{} files are remembered", self.files.len());
    }

    /// The blocks of this file are not what they were.
    pub(crate) fn forget(&mut self, blocks: &Arc<T>) {
        self.files.retain(|_, entry| !Arc::ptr_eq(&entry.blocks, blocks));
    }

    pub(crate) fn clear(&mut self) {
        self.files.clear();
    }
}

fn is_young(now: Duration, since: Duration) -> bool {
    now.saturating_sub(since) < AGE_MAX
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::located::Token;
    use types::{BlockId, Generation};
    use xfer::writer::Identity;

    fn located(block: u64, offset: u64, len: u64) -> Located {
        let identity = Identity { pool: String::new(), block: BlockId(block), generation: Generation(1), len };
        Located { offset, len, identity, token: Token::default(), nodes: Arc::new([]), is_striped: false }
    }

    /// Of a file of very many blocks a page is kept; the reader asks for the next one when it comes there.
    #[test]
    fn a_long_answer_is_kept_as_far_as_a_page_goes() {
        let count = PAGE_COUNT_MAX as u64;
        let mut blocks = FileBlocks::new(3 * count);
        let from = |first: u64| (first..3 * count).map(|offset| located(offset, offset, 1)).collect::<Vec<_>>();
        assert!(blocks.add(None, from(0)));
        assert_eq!(blocks.known.len(), PAGE_COUNT_MAX);
        assert!(blocks.at(count - 1).is_some() && blocks.at(count).is_none());
        assert!(blocks.add(None, from(count)));
        assert_eq!(blocks.at(count).map(|block| block.offset), Some(count));
    }

    /// Or a reader would look for a byte of one block at its place in another.
    #[test]
    fn blocks_of_a_file_that_was_cut_and_written_on_do_not_come_among_the_others() {
        let mut blocks = FileBlocks::new(40);
        assert!(blocks.add(Some(7), vec![located(1, 0, 10), located(2, 10, 10)]));
        assert!(blocks.add(Some(7), vec![located(2, 10, 10), located(3, 20, 10)]), "again, and the next");
        for other in [located(9, 10, 10), located(9, 15, 10), located(9, 29, 5)] {
            assert!(!blocks.add(Some(7), vec![other.clone()]), "{other:?}");
        }
        let at: Vec<_> = (0..30).map(|offset| blocks.at(offset).unwrap().identity.block.0).collect();
        assert_eq!(at, [[1; 10], [2; 10], [3; 10]].concat());
        assert!(blocks.add(Some(7), vec![located(4, 35, 5)]) && !blocks.add(Some(7), vec![located(5, 30, 6)]));
    }

    #[test]
    fn both_ends_of_a_long_file_are_named() {
        let mut blocks = FileBlocks::new(100);
        assert!(blocks.add(None, (0..10).map(|block| located(block, 10 * block, 10)).collect()));
        let offsets = |count_max| blocks.ends(count_max).into_keys().collect::<Vec<_>>();
        assert_eq!(offsets(4), [0, 10, 80, 90]);
        assert_eq!(offsets(40).len(), 10);
    }

    #[test]
    fn a_block_is_replaced_by_itself_alone() {
        let mut blocks = FileBlocks::new(10);
        assert!(blocks.add(None, vec![located(1, 0, 20)]));
        assert_eq!(blocks.at(9).map(|block| block.len), Some(10), "a file ends where its length says");
        assert!(blocks.replace(located(1, 0, 0)));
        assert_eq!(blocks.at(9).map(|block| block.len), Some(10));
        assert!(!blocks.replace(located(2, 0, 20)));
        assert!(!blocks.replace(located(1, 5, 20)));
    }

    #[test]
    fn the_bytes_of_an_open_block_are_those_that_its_nodes_show() {
        let mut blocks = FileBlocks::new(4);
        assert!(blocks.add(None, vec![located(1, 0, 4), located(2, 4, 0)]));
        blocks.add_open(located(2, 4, 0), 3);
        assert_eq!((blocks.len(), blocks.at(6).map(|block| block.len), blocks.at(7)), (7, Some(3), None));
    }

    #[test]
    fn a_file_is_found_again_while_it_is_the_same_and_by_who_opened_it() {
        let (mut cache, now) = (LocationCache::default(), Duration::from_secs(50));
        let (ann, bob): (Arc<str>, Arc<str>) = ("ann".into(), "bob".into());
        let version = Version { len: 5, modified: Millis(7) };
        let blocks = Arc::new(());
        cache.put(now, &ann, 1, version, Arc::clone(&blocks));
        let has = |cache: &LocationCache<()>, now, user, version| cache.get(now, user, 1, version).is_some();
        assert!(has(&cache, now, &ann, version));
        assert!(!has(&cache, now, &bob, version), "what one user may read is not another's");
        assert!(!has(&cache, now, &ann, Version { len: 6, ..version }));
        assert!(!has(&cache, now, &ann, Version { modified: Millis(8), ..version }));
        assert!(!has(&cache, now + AGE_MAX, &ann, version));
        cache.forget(&blocks);
        assert!(!has(&cache, now, &ann, version));
    }

    #[test]
    fn the_oldest_makes_room() {
        let mut cache = LocationCache::default();
        let (user, version): (Arc<str>, _) = ("ann".into(), Version { len: 5, modified: Millis(7) });
        let at = |file: u64| Duration::from_millis(file);
        for file in 0..=FILE_COUNT_MAX as u64 {
            cache.put(at(file), &user, file, version, Arc::new(()));
        }
        assert_eq!(cache.files.len(), FILE_COUNT_MAX);
        let found = |file| cache.get(at(2000), &user, file, version).is_some();
        assert!(!found(0) && found(1) && found(FILE_COUNT_MAX as u64));
    }
}
