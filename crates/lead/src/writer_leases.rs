//! Last renewal of each writer's lease. Soft state; which writer holds which file is in the namespace.

use namespace::{HOLDER_LEN_MAX, RECOVERY_HOLDER, read};
use std::collections::BTreeMap;
use std::time::Duration;
use types::rows::{Rows, RowsError};

/// Holders read from the rows at a time.
const PAGE_COUNT: usize = 1000;

/// Writers with open files, by the names clients give themselves.
#[derive(Debug, Default)]
pub struct WriterLeases {
    renewed: BTreeMap<String, Duration>,
    /// Clients with a request for a file under way, and how many. A client that sends requests is not silent.
    asking: BTreeMap<String, u32>,
}

impl WriterLeases {
    /// After a start every writer counts as just renewed: it could not renew while no server listened.
    pub fn load(rows: &dyn Rows, now: Duration) -> Result<Self, RowsError> {
        let mut renewed = BTreeMap::new();
        let mut after = String::new();
        loop {
            let page = read::lease_holders(rows, &after, PAGE_COUNT)?;
            let Some(last) = page.last() else { return Ok(Self { renewed, ..Self::default() }) };
            after = last.clone();
            let clients = page.into_iter().filter(|holder| holder != RECOVERY_HOLDER);
            renewed.extend(clients.map(|holder| (holder, now)));
        }
    }

    /// A client asks for a file to write, and does not have it yet. Between the change and the note of it, others must
    /// not count the holder as silent. So this is called before the change, and [`WriterLeases::answered`] after it.
    /// Names that the namespace will refuse are not remembered.
    pub fn asks(&mut self, holder: &str) {
        if holder.len() <= HOLDER_LEN_MAX {
            *self.asking.entry(holder.into()).or_default() += 1;
        }
    }

    /// The end of a request that [`WriterLeases::asks`] began. `granted`: it has the file, or may have.
    pub fn answered(&mut self, holder: &str, granted: bool, now: Duration) {
        if granted && holder.len() <= HOLDER_LEN_MAX {
            self.renewed.insert(holder.into(), now);
        }
        if let Some(count) = self.asking.get_mut(holder) {
            assert!(*count > 0, "{holder} is listed while it asks");
            *count -= 1;
            if *count == 0 {
                self.asking.remove(holder);
            }
        }
    }

    /// A client renews its lease. One that holds nothing is not remembered.
    pub fn renew(&mut self, holder: &str, now: Duration) {
        if let Some(renewed) = self.renewed.get_mut(holder) {
            *renewed = now;
        }
    }

    /// True if `holder` was silent for longer than `limit`.
    pub fn is_silent(&self, holder: &str, now: Duration, limit: Duration) -> bool {
        let renewed = self.renewed.get(holder);
        !self.asking.contains_key(holder) && renewed.is_none_or(|renewed| now.saturating_sub(*renewed) > limit)
    }

    /// Ask before each file that is taken from `holder`: a list of holders is old by then, and one may have come back.
    pub fn may_be_taken(&self, holder: &str, now: Duration, limit: Duration) -> bool {
        holder == RECOVERY_HOLDER || self.is_silent(holder, now, limit)
    }

    pub fn silent(&self, now: Duration, limit: Duration) -> Vec<String> {
        let silent = self.renewed.iter().filter(|(_, renewed)| now.saturating_sub(**renewed) > limit);
        silent.map(|(holder, _)| holder.clone()).collect()
    }

    /// It has no open file any more. One that opened a file since `seen` is kept.
    pub fn forget(&mut self, holder: &str, seen: Duration) {
        if self.renewed.get(holder).is_some_and(|renewed| *renewed <= seen) {
            self.renewed.remove(holder);
        }
    }

    pub fn len(&self) -> usize {
        self.renewed.len()
    }

    /// Each listed client holds or asks for something, under a name that the namespace accepts.
    pub fn check(&self) {
        assert!(self.asking.values().all(|count| *count > 0), "a writer is listed that asks for nothing");
        let mut names = self.renewed.keys().chain(self.asking.keys());
        assert!(names.all(|name| name.len() <= HOLDER_LEN_MAX), "a writer has too long a name");
    }

    pub fn is_empty(&self) -> bool {
        self.renewed.is_empty()
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
}
