//! Last renewal of each writer's lease. Soft state; which writer holds which file is in the namespace.

use crate::places::Places;
use namespace::{HOLDER_LEN_MAX, RECOVERY_HOLDER, read, user_of};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::time::Duration;
use types::rows::{Rows, RowsError};

/// Holders read from the rows at a time.
const PAGE_COUNT: usize = 1000;
/// Each takes some hundred bytes, for twenty minutes if it never comes back: 68 MiB at most.
/// A process is one writer, whatever number of files it writes.
const WRITERS: Places = Places { max: 131_072 };
/// Silent writers that are looked at in a round.
const LOOKED_AT_COUNT: usize = 1000;

/// Writers with open files, by user and the name their clients give themselves.
#[derive(Debug, Default)]
pub struct WriterLeases {
    /// When each renewed its lease.
    writers: BTreeMap<String, Duration>,
    /// The silent one that was looked at last.
    looked_at: String,
    /// Clients with a request for a file under way, and how many. A client that sends requests is not silent.
    asking: BTreeMap<String, u32>,
    /// Writers of each user, and clients that ask and are none yet.
    of_users: BTreeMap<String, usize>,
    taken: usize,
}

impl WriterLeases {
    /// After a start every writer counts as just renewed: it could not renew while no server listened.
    pub fn load(rows: &dyn Rows, now: Duration) -> Result<Self, RowsError> {
        let mut leases = Self::default();
        let mut after = String::new();
        loop {
            let page = read::lease_holders(rows, &after, PAGE_COUNT)?;
            let Some(last) = page.last() else { return Ok(leases) };
            after = last.clone();
            for holder in page.into_iter().filter(|holder| holder != RECOVERY_HOLDER) {
                leases.enter(&holder);
                leases.writers.insert(holder, now);
            }
        }
    }

    /// Whether `holder` may begin to write.
    pub fn has_room(&self, holder: &str) -> bool {
        let of_user = self.of_users.get(user_of(holder)).copied().unwrap_or_default();
        self.has(holder) || WRITERS.has_room(self.taken, of_user, 1)
    }

    fn has(&self, holder: &str) -> bool {
        self.writers.contains_key(holder) || self.asking.contains_key(holder)
    }

    /// Before it is listed.
    fn enter(&mut self, holder: &str) {
        if !self.has(holder) {
            *self.of_users.entry(user_of(holder).into()).or_default() += 1;
            self.taken += 1;
        }
    }

    /// After it was taken out of a list that it was in.
    fn leave(&mut self, holder: &str) {
        if self.has(holder) {
            return;
        }
        let count = self.of_users.get_mut(user_of(holder)).expect("each of a user's writers is counted");
        *count -= 1;
        self.taken -= 1;
        if *count == 0 {
            self.of_users.remove(user_of(holder));
        }
    }

    /// A client asks for a file to write, and does not have it yet. Between the change and the note of it, others must
    /// not count the holder as silent. So this is called before the change, and [`WriterLeases::answered`] after it.
    /// Names that the namespace will refuse are not remembered.
    pub fn asks(&mut self, holder: &str) {
        if holder.len() <= HOLDER_LEN_MAX {
            self.enter(holder);
            *self.asking.entry(holder.into()).or_default() += 1;
        }
    }

    /// The end of a request that [`WriterLeases::asks`] began. `granted`: it has the file, or may have.
    pub fn answered(&mut self, holder: &str, granted: bool, now: Duration) {
        if granted && holder.len() <= HOLDER_LEN_MAX {
            self.enter(holder);
            self.writers.insert(holder.into(), now);
        }
        if let Some(count) = self.asking.get_mut(holder) {
            assert!(*count > 0, "{holder} is listed while it asks");
            *count -= 1;
            if *count == 0 {
                self.asking.remove(holder);
                self.leave(holder);
            }
        }
    }

    /// A client renews its lease. One that holds nothing is not remembered.
    pub fn renew(&mut self, holder: &str, now: Duration) {
        if let Some(renewed) = self.writers.get_mut(holder) {
            *renewed = now;
        }
    }

    /// True if `holder` was silent for longer than `limit`.
    pub fn is_silent(&self, holder: &str, now: Duration, limit: Duration) -> bool {
        let renewed = self.writers.get(holder);
        !self.asking.contains_key(holder) && renewed.is_none_or(|renewed| now.saturating_sub(*renewed) > limit)
    }

    /// Ask before each file that is taken from `holder`: a list of holders is old by then, and one may have come back.
    pub fn may_be_taken(&self, holder: &str, now: Duration, limit: Duration) -> bool {
        holder == RECOVERY_HOLDER || self.is_silent(holder, now, limit)
    }

    pub fn silent(&self, now: Duration, limit: Duration) -> Vec<String> {
        let silent = self.writers.iter().filter(|(_, renewed)| now.saturating_sub(**renewed) > limit);
        silent.map(|(holder, _)| holder.clone()).collect()
    }

    /// Some of them, each time those behind the ones before, and all in turn.
    pub fn next_silent(&mut self, now: Duration, limit: Duration) -> Vec<String> {
        let behind = (Bound::Excluded(std::mem::take(&mut self.looked_at)), Bound::Unbounded);
        let silent = self.writers.range(behind).filter(|(_, renewed)| now.saturating_sub(**renewed) > limit);
        let silent: Vec<String> = silent.map(|(holder, _)| holder.clone()).take(LOOKED_AT_COUNT).collect();
        if let Some(last) = silent.last().filter(|_| silent.len() == LOOKED_AT_COUNT) {
            self.looked_at.clone_from(last);
        }
        silent
    }

    /// It has no open file any more. One that opened a file since `seen` is kept.
    pub fn forget(&mut self, holder: &str, seen: Duration) {
        if self.writers.get(holder).is_some_and(|renewed| *renewed <= seen) {
            self.writers.remove(holder);
            self.leave(holder);
        }
    }

    pub fn len(&self) -> usize {
        self.writers.len()
    }

    /// Each listed client holds or asks for something, under a name that the namespace accepts.
    pub fn check(&self) {
        assert!(self.asking.values().all(|count| *count > 0), "a writer is listed that asks for nothing");
        let names: BTreeSet<&String> = self.writers.keys().chain(self.asking.keys()).collect();
        let mut counted = BTreeMap::<String, usize>::new();
        names.iter().for_each(|name| *counted.entry(user_of(name).into()).or_default() += 1);
        assert_eq!((names.len(), &counted), (self.taken, &self.of_users), "writers of a user are counted");
        let mut names = names.into_iter();
        assert!(names.all(|name| name.len() <= HOLDER_LEN_MAX), "a writer has too long a name");
    }

    pub fn is_empty(&self) -> bool {
        self.writers.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn silence_is_counted_from_the_last_renewal() {
        let second = Duration::from_secs;
        let mut leases = WriterLeases::default();
        leases.asks("a");
        leases.check();
        leases.answered("a", true, second(0));
        leases.check();
        leases.renew("a", second(50));
        leases.renew("stranger", second(50));
        assert!(
            !leases.may_be_taken("a", second(110), second(60)) && leases.may_be_taken("a", second(111), second(60))
        );
        assert!(leases.may_be_taken(RECOVERY_HOLDER, second(50), second(60)), "nobody writes there");
        assert_eq!(leases.len(), 1);
        assert!(!leases.is_silent("a", second(110), second(60)));
        assert!(leases.is_silent("a", second(111), second(60)));
        assert!(leases.is_silent("stranger", second(50), second(60)), "nobody renews for it");
        assert_eq!(leases.silent(second(200), second(60)), ["a"]);
        leases.forget("a", second(49));
        leases.check();
        assert_eq!(leases.len(), 1, "it was heard since");
        leases.forget("a", second(50));
        leases.check();
        assert_eq!(leases.len(), 0);
    }

    /// Whoever is refused leaves nothing behind, however many names he calls himself by.
    #[test]
    fn who_is_refused_a_file_is_not_remembered() {
        let (now, limit) = (Duration::from_secs(100), Duration::from_secs(60));
        let mut leases = WriterLeases::default();
        leases.asks("a");
        leases.check();
        leases.asks("a");
        leases.check();
        assert!(!leases.is_silent("a", now, limit), "it may have got the file already");
        leases.answered("a", false, now);
        leases.check();
        assert!(!leases.is_silent("a", now, limit), "it asks for another one");
        leases.answered("a", false, now);
        leases.check();
        assert!(leases.is_silent("a", now, limit) && leases.is_empty());
        leases.asks("a");
        leases.check();
        leases.answered("a", true, now);
        leases.check();
        leases.asks("a");
        leases.check();
        leases.answered("a", false, now);
        leases.check();
        assert!(!leases.is_silent("a", now, limit), "it has the first one still");
        assert_eq!((leases.len(), leases.asking.len()), (1, 0));
    }

    /// Whoever opens a file under a new name each time takes no more than a user's share, and those that ask count.
    #[test]
    fn writers_of_a_user_are_bounded_and_looked_at_in_turn() {
        let (now, limit) = (Duration::from_secs(100), Duration::from_secs(60));
        let name = |number: usize| namespace::holder_name("ann", &format!("{number:06}"));
        let mut leases = WriterLeases::default();
        for number in 0..WRITERS.of_one() {
            assert!(leases.has_room(&name(number)));
            leases.asks(&name(number));
        }
        let more = name(WRITERS.of_one());
        assert!(!leases.has_room(&more), "none of them was answered yet");
        for number in 0..WRITERS.of_one() {
            leases.answered(&name(number), true, Duration::ZERO);
        }
        leases.check();
        assert!(!leases.has_room(&more));
        assert!(leases.has_room(&name(7)) && leases.has_room(&namespace::holder_name("ben", "1")));
        let mut seen = BTreeSet::new();
        for _round in 0..WRITERS.of_one() / LOOKED_AT_COUNT + 1 {
            seen.extend(leases.next_silent(now, limit));
        }
        assert_eq!(seen.len(), leases.len());
        assert_eq!(leases.next_silent(now, limit)[0], name(0), "and then anew");
        leases.forget(&name(7), Duration::ZERO);
        leases.check();
        assert!(leases.has_room(&more));
    }
}
