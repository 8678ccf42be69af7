//! When each writer was heard last. Soft state: who holds which file stands in the namespace.

use crate::lease::RECOVERY_HOLDER;
use crate::limits::HOLDER_LEN_MAX;
use crate::read;
use std::collections::BTreeMap;
use std::time::Duration;
use types::rows::{Rows, RowsError};

/// Holders read from the rows at a time.
const PAGE_COUNT: usize = 1000;

/// Writers with open files, by the names clients give themselves.
#[derive(Debug, Default)]
pub struct Leases {
    renewed: BTreeMap<String, Duration>,
}

impl Leases {
    /// After a start every writer counts as just heard: it could not renew while nobody listened.
    pub fn load(rows: &dyn Rows, now: Duration) -> Result<Self, RowsError> {
        let mut renewed = BTreeMap::new();
        let mut after = String::new();
        loop {
            let page = read::lease_holders(rows, &after, PAGE_COUNT)?;
            let Some(last) = page.last() else { return Ok(Self { renewed }) };
            after = last.clone();
            let clients = page.into_iter().filter(|holder| holder != RECOVERY_HOLDER);
            renewed.extend(clients.map(|holder| (holder, now)));
        }
    }

    /// A client opens a file for writing. Names that the namespace will refuse are not remembered.
    pub fn granted(&mut self, holder: &str, now: Duration) {
        if holder.len() <= HOLDER_LEN_MAX {
            self.renewed.insert(holder.into(), now);
        }
    }

    /// A client says it still lives. One that holds nothing is not remembered.
    pub fn renew(&mut self, holder: &str, now: Duration) {
        if let Some(renewed) = self.renewed.get_mut(holder) {
            *renewed = now;
        }
    }

    /// True if `holder` was silent for longer than `limit`.
    pub fn is_silent(&self, holder: &str, now: Duration, limit: Duration) -> bool {
        self.renewed.get(holder).is_none_or(|renewed| now.saturating_sub(*renewed) > limit)
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
        let mut leases = Leases::default();
        leases.granted("a", second(0));
        leases.renew("a", second(50));
        leases.renew("stranger", second(50));
        assert_eq!(leases.len(), 1);
        assert!(!leases.is_silent("a", second(110), second(60)));
        assert!(leases.is_silent("a", second(111), second(60)));
        assert!(leases.is_silent("stranger", second(50), second(60)), "nobody renews for it");
        assert_eq!(leases.silent(second(200), second(60)), ["a"]);
        leases.forget("a", second(49));
        assert_eq!(leases.len(), 1, "it was heard since");
        leases.forget("a", second(50));
        assert_eq!(leases.len(), 0);
    }
}
