//! Known groups of users. Time is an argument, and nothing here waits.
//!
//! ```text
//! answered   0 ──── FRESH ──────────── SERVED ────▶
//!            fresh  │ outdated: served, │ unknown: a call waits for the next answer
//!                   │ and asked again   │
//! ```
//!
//! Promise: the number of users and bytes is bounded, and users in no group are dropped first. So many invented names
//! displace each other, not users whom the user database knows.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

pub(crate) type GroupNames = Arc<[String]>;

/// For so long nobody is asked again. HDFS's `hadoop.security.groups.cache.secs`.
pub(super) const FRESH: Duration = Duration::from_secs(300);
/// For so long an answer is served while no newer one can be had, and then its user counts as unknown. Ten times as
/// long, as in HDFS (`Groups` expires what it has ten times as late as it refreshes it): a directory server that is
/// down for half an hour takes nobody's rights.
pub(super) const SERVED: Duration = Duration::from_secs(3000);
/// After a look-up that failed the next one waits for so long: an error is remembered, but not for long. A guess.
pub(super) const RETRY: Duration = Duration::from_secs(10);
const _: () = assert!(RETRY.as_secs() < FRESH.as_secs() && FRESH.as_secs() < SERVED.as_secs());
/// A guess: more people and programs than work on one store within an hour.
pub(super) const USER_COUNT_MAX: usize = 10_000;
/// What is left when some are dropped, in eighths, so that not each new one needs a look at all. A guess.
const KEPT_EIGHTHS: usize = 7;
/// Bytes of all that is remembered. 10,000 users in fifty groups each take about as much.
const LEN_MAX: usize = 32 << 20;
/// What a user, and a group of a user, take beside the bytes of their names. About: the map's entry and the
/// allocations.
const USER_LEN: usize = 160;
const GROUP_LEN: usize = 40;

#[derive(Debug, Default)]
pub(super) struct Known {
    users: HashMap<Box<str>, User>,
    len: usize,
}

#[derive(Debug)]
struct User {
    /// The last good answer, and when it was asked for.
    answer: Option<(GroupNames, Duration)>,
    /// When a look-up failed last.
    failed: Option<Duration>,
    /// When somebody last wanted to know.
    used: Duration,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Standing {
    Fresh(GroupNames),
    /// To be served. `ask`: and asked again.
    Outdated {
        groups: GroupNames,
        ask: bool,
    },
    /// The database was asked a moment ago and did not answer.
    Failing,
    Unknown,
}

impl Known {
    pub(super) fn standing(&mut self, name: &str, now: Duration) -> Standing {
        let Some(user) = self.users.get_mut(name) else { return Standing::Unknown };
        user.used = now;
        let ask = user.failed.is_none_or(|failed| now.saturating_sub(failed) >= RETRY);
        match &user.answer {
            Some((groups, at)) if now.saturating_sub(*at) < FRESH => Standing::Fresh(Arc::clone(groups)),
            Some((groups, at)) if now.saturating_sub(*at) < SERVED => {
                Standing::Outdated { groups: Arc::clone(groups), ask }
            }
            _ if ask => Standing::Unknown,
            _ => Standing::Failing,
        }
    }

    pub(super) fn answered(&mut self, name: &str, groups: GroupNames, now: Duration) {
        self.put(name, User { answer: Some((groups, now)), failed: None, used: now });
    }

    /// The last good answer stays.
    pub(super) fn failed(&mut self, name: &str, now: Duration) {
        match self.users.get_mut(name) {
            Some(user) => user.failed = Some(now),
            None => self.put(name, User { answer: None, failed: Some(now), used: now }),
        }
    }

    fn put(&mut self, name: &str, user: User) {
        self.len += len_of(name, &user);
        if let Some(old) = self.users.insert(name.into(), user) {
            self.len -= len_of(name, &old);
        }
        if self.users.len() > USER_COUNT_MAX || self.len > LEN_MAX {
            self.thin_out();
            let lens = self.users.iter().map(|(name, user)| len_of(name, user));
            debug_assert_eq!(self.len, lens.sum::<usize>(), "bytes of all");
        }
        assert!(
            self.users.len() <= USER_COUNT_MAX && self.len <= LEN_MAX,
            "{} users, {} B",
            self.users.len(),
            self.len
        );
    }

    /// Forgets an eighth, so that it is not done for each newcomer: users in no group first, then who was not wanted
    /// for longest.
    fn thin_out(&mut self) {
        let worth = |user: &User| (user.answer.as_ref().is_some_and(|(groups, _)| !groups.is_empty()), user.used);
        let mut order: Vec<_> = self.users.iter().map(|(name, user)| (worth(user), name.clone())).collect();
        order.sort_unstable();
        for (_, name) in order {
            if self.users.len() <= USER_COUNT_MAX / 8 * KEPT_EIGHTHS && self.len <= LEN_MAX / 8 * KEPT_EIGHTHS {
                return;
            }
            if let Some(user) = self.users.remove(&name) {
                self.len -= len_of(&name, &user);
            }
        }
    }
}

fn len_of(name: &str, user: &User) -> usize {
    let groups = user.answer.iter().flat_map(|(groups, _)| groups.iter());
    USER_LEN + name.len() + groups.map(|group| GROUP_LEN + group.len()).sum::<usize>()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn groups(names: &[&str]) -> GroupNames {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn an_answer_is_fresh_then_outdated_then_gone() {
        let mut known = Known::default();
        assert_eq!(known.standing("ann", Duration::ZERO), Standing::Unknown);
        known.answered("ann", groups(&["staff"]), Duration::ZERO);
        assert_eq!(known.standing("ann", FRESH - SECOND), Standing::Fresh(groups(&["staff"])));
        let outdated = |ask| Standing::Outdated { groups: groups(&["staff"]), ask };
        assert_eq!(known.standing("ann", FRESH), outdated(true));
        known.failed("ann", FRESH);
        assert_eq!(known.standing("ann", FRESH + SECOND), outdated(false), "not asked at every call");
        assert_eq!(known.standing("ann", FRESH + RETRY), outdated(true));
        assert_eq!(known.standing("ann", SERVED), Standing::Unknown);
        known.failed("ann", SERVED);
        assert_eq!(known.standing("ann", SERVED + SECOND), Standing::Failing);
        known.answered("ann", groups(&[]), SERVED);
        assert_eq!(known.standing("ann", SERVED), Standing::Fresh(groups(&[])), "in no group, which is no error");
    }

    /// Invented names, and users of many groups: neither takes more than the limit, and who is known by the database
    /// stays.
    #[test]
    fn a_crowd_of_invented_names_pushes_out_itself() {
        let mut known = Known::default();
        known.answered("admin", groups(&["supergroup"]), Duration::ZERO);
        for number in 0..3 * USER_COUNT_MAX {
            let name = format!("{number:0>200}");
            match number % 2 {
                0 => known.answered(&name, groups(&[]), SECOND),
                _ => known.failed(&name, SECOND),
            }
            assert!(known.users.len() <= USER_COUNT_MAX && known.len <= LEN_MAX);
        }
        assert_eq!(known.standing("admin", SECOND), Standing::Fresh(groups(&["supergroup"])));
        let many: GroupNames = (0..1000).map(|number| format!("{number:0>60}")).collect();
        for number in 0..1000 {
            known.answered(&number.to_string(), Arc::clone(&many), SECOND);
            assert!(known.len <= LEN_MAX);
        }
        assert!(known.users.len() > LEN_MAX / 120_000, "it is full");
        let len: usize = known.users.iter().map(|(name, user)| len_of(name, user)).sum();
        assert_eq!(known.len, len);
    }
}
