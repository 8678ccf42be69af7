//! Pages of listings as they were encoded last: directories that are listed again and again are sent from here.
//!
//! Promise: a page that is here says what the rows say. [`crate::machine`] tells of each change before it can be seen,
//! which takes the pages out that it touches; a page that was made of rows of before a change does not come in.

use bytes::Bytes;
use namespace::read::PageExtent;
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::{Mutex, MutexGuard};
use types::InodeId;
use types::limits::NAME_LEN_MAX;

/// Bytes of all pages. A guess: a hundred pages, the directories that a hundred jobs have in common.
const LEN_MAX: usize = 16 << 20;
/// A shorter page is made anew as quickly as it is found. A guess: 200 names.
const PAGE_LEN_MIN: usize = 16 << 10;
/// Directories whose changes are told apart; those of one number prevent each other's pages while they change.
const CHANGED_COUNT: usize = 256;

/// Encoded entries.
#[derive(Clone, Debug)]
pub(crate) struct Page {
    pub(crate) entries: Bytes,
    pub(crate) extent: PageExtent,
    /// Its last name.
    pub(crate) last: Box<[u8]>,
    /// The first name behind it, without which there would be no more.
    pub(crate) next: Option<Box<[u8]>>,
}

/// A page as it was read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shown<'a> {
    pub(crate) entries: &'a [u8],
    pub(crate) extent: PageExtent,
    pub(crate) last: &'a [u8],
    pub(crate) next: Option<&'a [u8]>,
}

impl Shown<'_> {
    fn to_page(self) -> Page {
        let Self { entries, extent, last, next } = self;
        Page { entries: Bytes::copy_from_slice(entries), extent, last: last.into(), next: next.map(Box::from) }
    }
}

#[derive(Debug)]
pub(crate) struct Pages {
    inner: Mutex<Inner>,
    len_max: usize,
}

/// A directory, and the name that a page begins behind.
type Place = (InodeId, Vec<u8>);

#[derive(Debug)]
struct Inner {
    /// No two overlap.
    pages: BTreeMap<Place, Kept>,
    len: usize,
    /// Rises with each use.
    uses: u64,
    /// Number of the last change of directories, by their ids' remainder.
    changed: [u64; CHANGED_COUNT],
}

#[derive(Debug)]
struct Kept {
    page: Page,
    used: u64,
}

impl Kept {
    /// Whether this page may be another one with or without a name that is behind its place.
    fn depends_on(&self, name: &[u8]) -> bool {
        self.page.next.as_ref().is_none_or(|next| name <= &**next)
    }

    fn len(&self) -> usize {
        self.page.entries.len()
    }
}

impl Default for Pages {
    fn default() -> Self {
        Self::new(LEN_MAX)
    }
}

impl Pages {
    fn new(len_max: usize) -> Self {
        let inner = Inner { pages: BTreeMap::new(), len: 0, uses: 0, changed: [0; CHANGED_COUNT] };
        Self { inner: Mutex::new(inner), len_max }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(|poisoned| {
            // Which pages a change that panicked had taken out is not known.
            self.inner.clear_poison();
            let mut inner = poisoned.into_inner();
            inner.clear();
            inner
        })
    }

    /// The page of `directory` that begins behind the name `after`, if it is what rows of so many commits say.
    pub(crate) fn get(&self, directory: InodeId, after: &[u8], commits: u64) -> Option<Page> {
        let mut inner = self.lock();
        if *inner.changed(directory) > commits {
            return None;
        }
        inner.uses += 1;
        let used = inner.uses;
        let kept = inner.pages.get_mut(&(directory, after.to_vec()))?;
        kept.used = used;
        Some(kept.page.clone())
    }

    /// What the rows said as of so many commits. It is not kept if its directory changed since.
    pub(crate) fn put(&self, place: (InodeId, &[u8]), shown: Shown<'_>, commits: u64) {
        let (directory, after) = place;
        // A client may say any place; only those of names are worth it.
        if !(PAGE_LEN_MIN..=self.len_max).contains(&shown.entries.len()) || after.len() > NAME_LEN_MAX {
            return;
        }
        let page = shown.to_page();
        assert_eq!(page.extent.more, page.next.is_some(), "what is behind a page has a first name");
        let mut inner = self.lock();
        if *inner.changed(directory) > commits {
            return;
        }
        assert!(*page.last > *after, "a page ends behind its place");
        inner.remove_overlapping(directory, after, &page);
        inner.uses += 1;
        let kept = Kept { page, used: inner.uses };
        inner.len += kept.len();
        inner.pages.insert((directory, after.to_vec()), kept);
        while inner.len > self.len_max {
            inner.remove_oldest();
        }
        debug_assert_eq!(inner.len, inner.pages.values().map(Kept::len).sum::<usize>(), "what is kept is counted");
    }

    /// Change `number` is about to be seen: of these entries of directories.
    pub(crate) fn change<'a>(&self, number: u64, entries: impl Iterator<Item = (InodeId, &'a [u8])>) {
        let mut entries = entries.peekable();
        if entries.peek().is_none() {
            return;
        }
        let mut inner = self.lock();
        for (directory, name) in entries {
            let before = std::mem::replace(inner.changed(directory), number);
            assert!(before <= number, "change {number} comes after change {before}");
            // The page that has the name or may get it, and the one before that, if the name is the first behind it.
            let touched = inner.before(directory, name).filter(|(_, kept)| kept.depends_on(name)).take(2);
            let touched: Vec<Place> = touched.map(first).collect();
            touched.iter().for_each(|place| inner.remove(place));
        }
    }

    /// All rows are about to be others: no page of less than so many commits comes in from now on.
    pub(crate) fn change_all(&self, number: u64) {
        let mut inner = self.lock();
        inner.clear();
        inner.changed = [number; CHANGED_COUNT];
    }

    /// Bytes of all pages.
    pub(crate) fn len(&self) -> usize {
        self.lock().len
    }
}

fn first((place, _): (&Place, &Kept)) -> Place {
    place.clone()
}

impl Inner {
    fn changed(&mut self, directory: InodeId) -> &mut u64 {
        &mut self.changed[directory.0 as usize % CHANGED_COUNT]
    }

    /// The pages that begin before a name, the last one first.
    fn before(&self, directory: InodeId, name: &[u8]) -> impl Iterator<Item = (&Place, &Kept)> {
        let found = self.pages.range(..(directory, name.to_vec())).rev();
        found.take_while(move |((at, _), _)| *at == directory)
    }

    fn remove_overlapping(&mut self, directory: InodeId, after: &[u8], page: &Page) {
        let same = (directory, after.to_vec());
        let mut overlapping: Vec<Place> = Vec::new();
        if let Some((place, kept)) = self.before(directory, after).next()
            && (!kept.page.extent.more || &*kept.page.last > after)
        {
            overlapping.push(place.clone());
        }
        let behind = self.pages.range((Bound::Included(same), Bound::Unbounded));
        let reached = |(at, begin): &Place| {
            *at == directory && (begin == after || !page.extent.more || begin.as_slice() < &*page.last)
        };
        overlapping.extend(behind.map(|(place, _)| place.clone()).take_while(reached));
        overlapping.iter().for_each(|place| self.remove(place));
    }

    fn remove_oldest(&mut self) {
        let oldest = self.pages.iter().min_by_key(|(_, kept)| kept.used).map(first);
        oldest.iter().for_each(|place| self.remove(place));
    }

    fn remove(&mut self, place: &Place) {
        if let Some(kept) = self.pages.remove(place) {
            self.len -= kept.len();
        }
    }

    fn clear(&mut self) {
        self.pages.clear();
        self.len = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use types::random::{Random, Seeded};

    const DIRECTORY_COUNT: u64 = 3;
    /// As the entries of tests are encoded: each name is so long, and a page has so many at most.
    const NAME_LEN: usize = PAGE_LEN_MIN / 4;
    const NAME_COUNT_MAX: usize = 8;

    fn name(number: u64) -> Vec<u8> {
        format!("{number:0>NAME_LEN$}").into()
    }

    /// What directories have in them as of so many commits.
    #[derive(Clone, Default)]
    struct Rows {
        names: [BTreeSet<Vec<u8>>; DIRECTORY_COUNT as usize],
        commits: u64,
    }

    impl Rows {
        fn page(&self, directory: InodeId, after: &[u8]) -> Page {
            let behind = self.names[directory.0 as usize].range::<[u8], _>((Bound::Excluded(after), Bound::Unbounded));
            let names: Vec<_> = behind.clone().take(NAME_COUNT_MAX).cloned().collect();
            let next = behind.clone().nth(NAME_COUNT_MAX).map(|name| name.as_slice().into());
            let extent = PageExtent { count: names.len() as u32, more: next.is_some() };
            let last = names.last().cloned().unwrap_or_default();
            Page { entries: names.concat().into(), extent, last: last.into(), next }
        }

        fn change(&mut self, pages: &Pages, directory: InodeId, name: Vec<u8>) {
            pages.change(self.commits + 1, [(directory, name.as_slice())].into_iter());
            self.commits += 1;
            let names = &mut self.names[directory.0 as usize];
            if !names.remove(&name) {
                names.insert(name);
            }
        }

        fn keep(&self, pages: &Pages, directory: InodeId, after: &[u8]) {
            let Page { entries, extent, last, next } = &self.page(directory, after);
            let shown = Shown { entries, extent: *extent, last, next: next.as_deref() };
            pages.put((directory, after), shown, self.commits);
        }
    }

    #[test]
    fn a_page_says_what_the_rows_say() {
        let mut random = Seeded(1);
        let mut draw = |n: u64| random.below(n as usize) as u64;
        let pages = Pages::new(40 * PAGE_LEN_MIN);
        let (mut rows, mut found, mut slow) = (Rows::default(), 0, None::<(Rows, InodeId, Vec<u8>)>);
        for _ in 0..20_000 {
            let (directory, name) = (InodeId(draw(DIRECTORY_COUNT)), name(draw(60)));
            match draw(8) {
                0 => rows.change(&pages, directory, name),
                // Whoever reads may be slow, and puts what it read when the rows are others.
                1 => match slow.take() {
                    Some((before, directory, name)) => before.keep(&pages, directory, &name),
                    None => slow = Some((rows.clone(), directory, name)),
                },
                2..4 => rows.keep(&pages, directory, &name),
                4 => rows.keep(&pages, directory, b""),
                5 if draw(500) == 0 => {
                    pages.change_all(u64::MAX);
                    rows.keep(&pages, directory, b"");
                    assert_eq!(pages.len(), 0);
                    rows.commits += 1;
                    rows.names.iter_mut().for_each(BTreeSet::clear);
                    pages.change_all(rows.commits);
                }
                _ => {
                    let after = if draw(2) == 0 { name } else { Vec::new() };
                    // Whoever reads may have rows of before the last change.
                    let rows = slow.as_ref().map(|(before, ..)| before).filter(|_| draw(4) == 0).unwrap_or(&rows);
                    if let Some(page) = pages.get(directory, &after, rows.commits) {
                        let now = rows.page(directory, &after);
                        let is_same = page.entries == now.entries && page.extent == now.extent;
                        assert!(is_same, "{directory:?} behind {after:?}");
                        found += 1;
                    }
                }
            }
        }
        assert!(found > 1000, "only {found} were found");
    }

    #[test]
    fn what_is_used_stays() {
        let pages = Pages::new(3 * PAGE_LEN_MIN);
        let extent = PageExtent { count: 1, more: false };
        let keep = |n: u64, len: usize| {
            let shown = Shown { entries: &vec![b'a'; len], extent, last: b"a", next: None };
            pages.put((InodeId(n), b""), shown, 0);
        };
        (0..3).for_each(|n| keep(n, PAGE_LEN_MIN));
        assert!(pages.get(InodeId(0), b"", 0).is_some());
        keep(3, PAGE_LEN_MIN);
        // Too short to be worth it, and too long for all of the room.
        keep(4, PAGE_LEN_MIN - 1);
        keep(5, 3 * PAGE_LEN_MIN + 1);
        let there: Vec<_> = (0..6).filter(|n| pages.get(InodeId(*n), b"", 0).is_some()).collect();
        assert_eq!((there, pages.len()), (vec![0, 2, 3], 3 * PAGE_LEN_MIN));
    }
}
