//! Who may read what, as the store said when it was asked last: what an edge goes by while the store is not reached.
//!
//! Promise: once the store has refused, nothing that was asked for before is remembered, however late it is answered:
//! not of the path, and not of what is below it. A file that is found under another path is remembered under that
//! alone. All together take so many bytes; those of the user who has most of them go first, the longest unused of his.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Bound::{Included, Unbounded};
use std::sync::Arc;

/// What one takes beside its names: an entry of each of three maps, and what the store said. Reckoned, and rounded up.
pub const OPENING_COST: u64 = 768;
/// Refusals are remembered by so many numbers. Where two fall on one, an opening may not be remembered, no more.
const REFUSAL_COUNT: usize = 4096;

/// By user and path.
#[derive(Debug)]
pub struct Openings<T> {
    len_max: u64,
    len: u64,
    users: HashMap<Arc<str>, User<T>>,
    by_len: BTreeSet<(u64, Arc<str>)>,
    turn: u64,
    /// When the store last refused something, by the hash of what.
    refused: Vec<u64>,
    /// When it last was found to refuse everything.
    all_refused: u64,
}

#[derive(Debug)]
struct User<T> {
    len: u64,
    known: BTreeMap<Arc<str>, Known<T>>,
    by_turn: BTreeMap<u64, Arc<str>>,
    /// Under which path each file was found last.
    by_file: HashMap<FileId, Arc<str>>,
}

#[derive(Debug)]
struct Known<T> {
    asked: Asked,
    turn: u64,
    file: Option<FileId>,
    opening: T,
}

/// Of a file, whatever its name is. A store that does not say has none.
pub type FileId = std::num::NonZeroU64;

/// When the store was asked: before or after what else was asked, or refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Asked(u64);

impl<T> Default for User<T> {
    fn default() -> Self {
        Self { len: 0, known: BTreeMap::new(), by_turn: BTreeMap::new(), by_file: HashMap::new() }
    }
}

impl<T> User<T> {
    fn insert(&mut self, path: Arc<str>, known: Known<T>) {
        self.by_turn.insert(known.turn, Arc::clone(&path));
        if let Some(file) = known.file {
            self.by_file.insert(file, Arc::clone(&path));
        }
        self.known.insert(path, known);
    }

    fn remove(&mut self, path: &str) {
        let Some(known) = self.known.remove(path) else { return };
        self.by_turn.remove(&known.turn);
        if let Some(file) = known.file
            && self.by_file.get(&file).is_some_and(|its| **its == *path)
        {
            self.by_file.remove(&file);
        }
    }
}

fn cost(user: &str, path: &str) -> u64 {
    OPENING_COST + user.len() as u64 + path.len() as u64
}

fn refusal_at(user: &str, path: &str) -> usize {
    let mut hasher = DefaultHasher::new();
    (user, path).hash(&mut hasher);
    (hasher.finish() % REFUSAL_COUNT as u64) as usize
}

/// A path, and all that it is below, from the root on.
fn with_parents(path: &str) -> impl Iterator<Item = &str> {
    let ends = path.match_indices('/').map(|(at, _)| at.max(1));
    ends.filter_map(|end| path.get(..end)).filter(move |parent| parent.len() < path.len()).chain([path])
}

impl<T> Openings<T> {
    /// So many bytes at most, with [`OPENING_COST`] for each.
    pub fn new(len_max: u64) -> Self {
        let (users, by_len, refused) = (HashMap::new(), BTreeSet::new(), vec![0; REFUSAL_COUNT]);
        Self { len_max, len: 0, users, by_len, turn: 0, refused, all_refused: 0 }
    }

    /// Before the store is asked.
    pub fn ask(&mut self) -> Asked {
        self.turn += 1;
        Asked(self.turn)
    }

    /// What it said, unless it refused since it was asked, or said something that was asked for later.
    pub fn put(&mut self, asked: Asked, user: &str, path: &str, file: Option<FileId>, opening: T) {
        let is_refused = |path| self.refused[refusal_at(user, path)] > asked.0;
        if self.all_refused > asked.0 || with_parents(path).any(is_refused) {
            return;
        }
        let of_user = self.users.get(user);
        let elsewhere = of_user.zip(file).and_then(|(of_user, file)| of_user.by_file.get(&file)).cloned();
        let before = [Some(path), elsewhere.as_deref()].into_iter().flatten();
        let mut before = before.filter_map(|path| of_user?.known.get(path));
        if before.any(|before| before.asked > asked) {
            return;
        }
        // It has another name now: its former one is of no file, or of another.
        [Some(path), elsewhere.as_deref()].into_iter().flatten().for_each(|path| self.remove(user, path));
        if cost(user, path) > self.len_max {
            return;
        }
        self.turn += 1;
        let known = Known { asked, turn: self.turn, file, opening };
        self.change(user, cost(user, path), 0, |of_user| of_user.insert(path.into(), known));
        while self.len > self.len_max {
            let (_, most) = self.by_len.last().expect("who has bytes is in it").clone();
            let oldest = self.users.get(&most).and_then(|of_user| of_user.by_turn.first_key_value());
            let oldest = Arc::clone(oldest.expect("who has bytes has an opening").1);
            self.remove(&most, &oldest);
        }
    }

    /// What the store said last; it counts as used.
    pub fn get(&mut self, user: &str, path: &str) -> Option<&T> {
        let of_user = self.users.get_mut(user)?;
        let known = of_user.known.get_mut(path)?;
        self.turn += 1;
        let path = of_user.by_turn.remove(&known.turn).expect("each opening has its turn");
        of_user.by_turn.insert(self.turn, path);
        known.turn = self.turn;
        Some(&known.opening)
    }

    /// As [`Self::get`], of who does not use it.
    pub fn peek(&self, user: &str, path: &str) -> Option<&T> {
        Some(&self.users.get(user)?.known.get(path)?.opening)
    }

    /// The store has found a file under this path. Under any other it is not what is remembered.
    pub fn found(&mut self, user: &str, path: &str, file: FileId) {
        let elsewhere = self.users.get(user).and_then(|of_user| of_user.by_file.get(&file));
        if let Some(elsewhere) = elsewhere.filter(|elsewhere| ***elsewhere != *path).cloned() {
            self.forget(user, &elsewhere);
        }
    }

    /// The store says something else now, of the path, and of all that is below. What is under way does not count any
    /// more.
    pub fn forget(&mut self, user: &str, path: &str) {
        self.turn += 1;
        self.refused[refusal_at(user, path)] = self.turn;
        let begin = if path.ends_with('/') { path.to_owned() } else { format!("{path}/") };
        let below = self.users.get(user).map(|of_user| {
            let from = of_user.known.range::<str, _>((Included(begin.as_str()), Unbounded));
            from.map(|(path, _)| path).take_while(|path| path.starts_with(&begin)).cloned().collect::<Vec<_>>()
        });
        below.iter().flatten().for_each(|path| self.remove(user, path));
        self.remove(user, path);
    }

    /// The store says something else now to everybody.
    pub fn forget_all(&mut self) {
        self.turn += 1;
        self.all_refused = self.turn;
        self.users.clear();
        self.by_len.clear();
        self.len = 0;
    }

    fn remove(&mut self, user: &str, path: &str) {
        if self.users.get(user).is_some_and(|of_user| of_user.known.contains_key(path)) {
            self.change(user, 0, cost(user, path), |of_user| of_user.remove(path));
        }
    }

    /// What a user has, and the accounts of it.
    fn change(&mut self, user: &str, more: u64, less: u64, change: impl FnOnce(&mut User<T>)) {
        let (user, mut of_user) = self.users.remove_entry(user).unwrap_or_else(|| (user.into(), User::default()));
        self.by_len.remove(&(of_user.len, Arc::clone(&user)));
        change(&mut of_user);
        of_user.len = of_user.len + more - less;
        self.len = self.len + more - less;
        assert_eq!(of_user.known.len(), of_user.by_turn.len(), "each opening has its turn");
        assert!(of_user.by_file.len() <= of_user.known.len(), "a file has one path");
        if of_user.len > 0 {
            self.by_len.insert((of_user.len, Arc::clone(&user)));
            self.users.insert(user, of_user);
        }
    }

    pub fn count(&self) -> usize {
        self.users.values().map(|of_user| of_user.known.len()).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(openings: &mut Openings<u8>, user: &str, path: &str, opening: u8) {
        let asked = openings.ask();
        openings.put(asked, user, path, None, opening);
    }

    fn get(openings: &mut Openings<u8>, user: &str, path: &str) -> u8 {
        openings.get(user, path).copied().unwrap_or_default()
    }

    #[test]
    fn what_one_may_read_is_not_anothers_and_the_oldest_goes() {
        let mut openings = Openings::new(2 * (OPENING_COST + 5));
        put(&mut openings, "ann", "/a", 1);
        put(&mut openings, "ann", "/b", 2);
        assert_eq!([("ann", "/a"), ("bob", "/a")].map(|(user, path)| get(&mut openings, user, path)), [1, 0]);
        put(&mut openings, "ann", "/c", 3);
        assert_eq!(["/a", "/b", "/c"].map(|path| get(&mut openings, "ann", path)), [1, 0, 3]);
        put(&mut openings, "ann", "/a", 4);
        assert_eq!((get(&mut openings, "ann", "/a"), openings.count()), (4, 2));
        openings.forget("ann", "/a");
        openings.forget("ann", "/a");
        assert_eq!((get(&mut openings, "ann", "/a"), openings.count()), (0, 1));
        put(&mut openings, "ann", &"/long".repeat(1000), 5);
        assert_eq!(openings.count(), 1, "what is too long is not remembered");
    }

    /// Nor do many short ones, or a few long ones, of one user drive out another's.
    #[test]
    fn who_has_most_gives_way() {
        let mut openings = Openings::new(10_000);
        put(&mut openings, "bob", "/b", 1);
        for number in 0..100 {
            put(&mut openings, "ann", &format!("/{number:0100}"), 2);
            assert!(openings.len <= 10_000);
        }
        assert_eq!(get(&mut openings, "bob", "/b"), 1);
        assert_eq!(get(&mut openings, "ann", &format!("/{:0100}", 99)), 2);
    }

    #[test]
    fn a_late_answer_does_not_undo_a_refusal_nor_a_newer_answer() {
        let mut openings = Openings::new(10_000);
        let (late, later) = (openings.ask(), openings.ask());
        openings.put(later, "ann", "/a", None, 2);
        openings.put(late, "ann", "/a", None, 1);
        assert_eq!(get(&mut openings, "ann", "/a"), 2);
        let late = openings.ask();
        openings.forget("ann", "/a");
        openings.put(late, "ann", "/a", None, 3);
        assert_eq!(get(&mut openings, "ann", "/a"), 0);
        put(&mut openings, "ann", "/a", 4);
        assert_eq!(get(&mut openings, "ann", "/a"), 4);
    }

    #[test]
    fn what_is_refused_is_refused_with_all_that_is_below() {
        let mut openings = Openings::new(100_000);
        for path in ["/", "/d", "/d/e/f", "/d/g", "/d-1", "/d0"] {
            put(&mut openings, "ann", path, 1);
        }
        put(&mut openings, "bob", "/d/g", 1);
        let late = openings.ask();
        openings.forget("ann", "/d");
        openings.put(late, "ann", "/d/e/f", None, 2);
        let left = ["/", "/d", "/d/e/f", "/d/g", "/d-1", "/d0"].map(|path| get(&mut openings, "ann", path));
        assert_eq!((left, get(&mut openings, "bob", "/d/g")), ([1, 0, 0, 0, 1, 1], 1));
        let late = openings.ask();
        openings.forget("ann", "/");
        openings.put(late, "ann", "/d-1", None, 2);
        assert_eq!(openings.count(), 1, "bob's");
        put(&mut openings, "ann", "/d/g", 3);
        let late = openings.ask();
        openings.forget_all();
        openings.put(late, "bob", "/d/g", None, 4);
        assert_eq!((openings.count(), openings.len), (0, 0));
        put(&mut openings, "ann", "/d/g", 5);
        assert_eq!(get(&mut openings, "ann", "/d/g"), 5);
    }

    #[test]
    fn a_file_that_was_renamed_is_remembered_under_its_new_name_alone() {
        let mut openings = Openings::new(100_000);
        let [one, other] = [1, 2].map(FileId::new);
        let put = |openings: &mut Openings<u8>, path, file| {
            let asked = openings.ask();
            openings.put(asked, "ann", path, file, 1);
        };
        put(&mut openings, "/a", one);
        let late = openings.ask();
        put(&mut openings, "/b", one);
        openings.put(late, "ann", "/a", one, 1);
        assert_eq!(["/a", "/b"].map(|path| get(&mut openings, "ann", path)), [0, 1]);
        // Another file has the former name, and the first one is seen again elsewhere.
        put(&mut openings, "/a", other);
        openings.found("ann", "/c", one.unwrap());
        openings.found("ann", "/a", other.unwrap());
        openings.found("bob", "/c", other.unwrap());
        assert_eq!(["/a", "/b"].map(|path| get(&mut openings, "ann", path)), [1, 0]);
        put(&mut openings, "/a", one);
        openings.found("ann", "/c", other.unwrap());
        assert_eq!(get(&mut openings, "ann", "/a"), 1);
    }
}
