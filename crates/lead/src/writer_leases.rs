//! Last renewal of each writer's lease. Soft state; which writer holds which file is in the namespace.

use namespace::{HOLDER_LEN_MAX, RECOVERY_HOLDER, read};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::ops::Bound;
use std::time::Duration;
use types::rows::{Rows, RowsError};

/// Holders read from the rows at a time.
const PAGE_COUNT: usize = 1000;
/// Each takes some hundred bytes, for twenty minutes if it never comes back: 68 MiB at most.
const WRITER_COUNT_MAX: usize = 131_072;
/// Of one machine. A process is one writer, whatever number of files it writes.
const WRITERS_OF_HOST_MAX: u32 = 8192;
/// Silent writers that are looked at in a round.
const LOOKED_AT_COUNT: usize = 1000;

#[derive(Clone, Copy, Debug)]
struct Writer {
    renewed: Duration,
    /// `None`: it is known from the rows alone.
    host: Option<IpAddr>,
}

/// Writers with open files, by user and the name their clients give themselves.
#[derive(Debug, Default)]
pub struct WriterLeases {
    writers: BTreeMap<String, Writer>,
    by_host: BTreeMap<IpAddr, u32>,
    /// The silent one that was looked at last.
    looked_at: String,
    /// Clients with a request for a file under way, and how many. A client that sends requests is not silent.
    asking: BTreeMap<String, u32>,
}

impl WriterLeases {
    /// After a start every writer counts as just renewed: it could not renew while no server listened.
    pub fn load(rows: &dyn Rows, now: Duration) -> Result<Self, RowsError> {
        let mut writers = BTreeMap::new();
        let mut after = String::new();
        loop {
            let page = read::lease_holders(rows, &after, PAGE_COUNT)?;
            let Some(last) = page.last() else { return Ok(Self { writers, ..Self::default() }) };
            after = last.clone();
            let clients = page.into_iter().filter(|holder| holder != RECOVERY_HOLDER);
            writers.extend(clients.map(|holder| (holder, Writer { renewed: now, host: None })));
        }
    }

    /// Whether `holder`, which calls from `host`, may begin to write.
    pub fn has_room(&self, holder: &str, host: IpAddr) -> bool {
        let of_host = self.by_host.get(&host).copied().unwrap_or_default();
        let is_free = self.writers.len() < WRITER_COUNT_MAX && of_host < WRITERS_OF_HOST_MAX;
        is_free || self.writers.contains_key(holder)
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
    pub fn answered(&mut self, holder: &str, host: IpAddr, granted: bool, now: Duration) {
        if granted && holder.len() <= HOLDER_LEN_MAX {
            self.forget(holder, Duration::MAX);
            self.writers.insert(holder.into(), Writer { renewed: now, host: Some(host) });
            *self.by_host.entry(host).or_default() += 1;
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
        if let Some(writer) = self.writers.get_mut(holder) {
            writer.renewed = now;
        }
    }

    /// True if `holder` was silent for longer than `limit`.
    pub fn is_silent(&self, holder: &str, now: Duration, limit: Duration) -> bool {
        let writer = self.writers.get(holder);
        !self.asking.contains_key(holder) && writer.is_none_or(|writer| now.saturating_sub(writer.renewed) > limit)
    }

    /// Ask before each file that is taken from `holder`: a list of holders is old by then, and one may have come back.
    pub fn may_be_taken(&self, holder: &str, now: Duration, limit: Duration) -> bool {
        holder == RECOVERY_HOLDER || self.is_silent(holder, now, limit)
    }

    pub fn silent(&self, now: Duration, limit: Duration) -> Vec<String> {
        let silent = self.writers.iter().filter(|(_, writer)| now.saturating_sub(writer.renewed) > limit);
        silent.map(|(holder, _)| holder.clone()).collect()
    }

    /// Some of them, each time those behind the ones before, and all in turn.
    pub fn next_silent(&mut self, now: Duration, limit: Duration) -> Vec<String> {
        let behind = (Bound::Excluded(std::mem::take(&mut self.looked_at)), Bound::Unbounded);
        let silent = self.writers.range(behind).filter(|(_, writer)| now.saturating_sub(writer.renewed) > limit);
        let silent: Vec<String> = silent.map(|(holder, _)| holder.clone()).take(LOOKED_AT_COUNT).collect();
        if let Some(last) = silent.last().filter(|_| silent.len() == LOOKED_AT_COUNT) {
            self.looked_at.clone_from(last);
        }
        silent
    }

    /// It has no open file any more. One that opened a file since `seen` is kept.
    pub fn forget(&mut self, holder: &str, seen: Duration) {
        if self.writers.get(holder).is_none_or(|writer| writer.renewed > seen) {
            return;
        }
        let host = self.writers.remove(holder).and_then(|writer| writer.host);
        if let Some((host, count)) = host.and_then(|host| Some((host, self.by_host.get_mut(&host)?))) {
            *count -= 1;
            if *count == 0 {
                self.by_host.remove(&host);
            }
        }
    }

    pub fn len(&self) -> usize {
        self.writers.len()
    }

    /// Each listed client holds or asks for something, under a name that the namespace accepts.
    pub fn check(&self) {
        assert!(self.asking.values().all(|count| *count > 0), "a writer is listed that asks for nothing");
        let mut counted = BTreeMap::<IpAddr, u32>::new();
        self.writers.values().filter_map(|writer| writer.host).for_each(|host| *counted.entry(host).or_default() += 1);
        assert_eq!(counted, self.by_host, "writers of a host are counted");
        let mut names = self.writers.keys().chain(self.asking.keys());
        assert!(names.all(|name| name.len() <= HOLDER_LEN_MAX), "a writer has too long a name");
    }

    pub fn is_empty(&self) -> bool {
        self.writers.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use std::net::Ipv4Addr;

    const HOST: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

    #[test]
    fn silence_is_counted_from_the_last_renewal() {
        let second = Duration::from_secs;
        let mut leases = WriterLeases::default();
        leases.asks("a");
        leases.check();
        leases.answered("a", HOST, true, second(0));
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
        leases.answered("a", HOST, false, now);
        leases.check();
        assert!(!leases.is_silent("a", now, limit), "it asks for another one");
        leases.answered("a", HOST, false, now);
        leases.check();
        assert!(leases.is_silent("a", now, limit) && leases.is_empty());
        leases.asks("a");
        leases.check();
        leases.answered("a", HOST, true, now);
        leases.check();
        leases.asks("a");
        leases.check();
        leases.answered("a", HOST, false, now);
        leases.check();
        assert!(!leases.is_silent("a", now, limit), "it has the first one still");
        assert_eq!((leases.len(), leases.asking.len()), (1, 0));
    }

    /// Whoever opens a file under a new name each time takes no more than his machine's share.
    #[test]
    fn writers_of_a_machine_are_bounded_and_looked_at_in_turn() {
        let (now, limit) = (Duration::from_secs(100), Duration::from_secs(60));
        let other = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));
        let mut leases = WriterLeases::default();
        for number in 0..WRITERS_OF_HOST_MAX {
            let name = format!("{number:05}");
            assert!(leases.has_room(&name, HOST));
            leases.answered(&name, HOST, true, Duration::ZERO);
        }
        assert!(!leases.has_room("one more", HOST));
        assert!(leases.has_room("00007", HOST) && leases.has_room("one more", other));
        let mut seen = BTreeSet::new();
        for _round in 0..WRITERS_OF_HOST_MAX as usize / LOOKED_AT_COUNT + 1 {
            seen.extend(leases.next_silent(now, limit));
        }
        assert_eq!(seen.len(), leases.len());
        assert_eq!(leases.next_silent(now, limit)[0], "00000", "and then anew");
        leases.forget("00007", Duration::ZERO);
        leases.check();
        assert!(leases.has_room("one more", HOST));
    }
}
