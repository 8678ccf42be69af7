//! How often users have access profiles kept, which are a change of the log each.
//!
//! Promise: whoever may read a file causes few changes by that, whatever he says of it. Nothing is refused to him: a
//! profile is a hint, and the next run says it again. Nothing is lost if this memory is.

use std::collections::BTreeMap;
use std::time::Duration;
use types::InodeId;

/// Of one user and directory, in the long run. A guess: a query is run for longer, and says something new seldom.
const EACH: Duration = Duration::from_secs(60);
/// At once: the first runs of a program that reads other columns each time. A guess.
const AT_ONCE_COUNT: u32 = 4;
/// Directories of one user that are remembered, so that one leaves room for others.
const OF_USER_COUNT_MAX: usize = 100;
/// Of all users, some hundred bytes each.
const COUNT_MAX: usize = 10_000;
/// Between two looks for what time has made up for: each is at all of it, and callers ask as often as they like.
const SWEEP_EACH: Duration = Duration::from_secs(1);
/// A longer name would take more room than it should. A guess, above any that a system has.
const USER_LEN_MAX: usize = 256;

/// Until when what each user had kept of each directory is made up for by the time that passes.
#[derive(Debug, Default)]
pub struct ProfilePace {
    until: BTreeMap<(String, InodeId), Duration>,
    /// When those that time has made up for were looked for last.
    swept: Duration,
}

impl ProfilePace {
    /// `user` has something to be kept of `directory`. False: not now.
    pub fn spend(&mut self, user: &str, directory: InodeId, now: Duration) -> bool {
        if user.len() > USER_LEN_MAX {
            return false;
        }
        let key = (user.to_owned(), directory);
        if !self.until.contains_key(&key) && !self.has_room(user, now) {
            return false;
        }
        let until = self.until.entry(key).or_insert(now);
        let next = now.max(*until) + EACH;
        if next > now + EACH * AT_ONCE_COUNT {
            return false;
        }
        *until = next;
        true
    }

    fn has_room(&mut self, user: &str, now: Duration) -> bool {
        if self.is_full(user) && now.saturating_sub(self.swept) >= SWEEP_EACH {
            self.swept = now;
            self.until.retain(|_, until| *until > now);
        }
        !self.is_full(user)
    }

    fn is_full(&self, user: &str) -> bool {
        let of_user = (user.to_owned(), InodeId(0))..=(user.to_owned(), InodeId(u64::MAX));
        self.until.len() >= COUNT_MAX || self.until.range(of_user).count() >= OF_USER_COUNT_MAX
    }

    /// The limit.
    pub fn check(&self) {
        assert!(self.until.len() <= COUNT_MAX, "{} directories of users are remembered", self.until.len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn some_at_once_and_then_one_a_minute() {
        let mut pace = ProfilePace::default();
        let mut spend = |user: &str, directory, seconds| {
            let spent = pace.spend(user, InodeId(directory), Duration::from_secs(seconds));
            pace.check();
            spent
        };
        let at_once: Vec<bool> = (0..6).map(|_| spend("ann", 1, 1000)).collect();
        assert_eq!(at_once, [true, true, true, true, false, false]);
        assert!(spend("bob", 1, 1000) && spend("ann", 2, 1000), "others are not concerned");
        assert_eq!([1059, 1060, 1061, 1120].map(|seconds| spend("ann", 1, seconds)), [false, true, false, true]);
        assert!(!spend(&"a".repeat(USER_LEN_MAX + 1), 1, 2000));
    }

    #[test]
    fn one_user_leaves_room_for_others_and_all_have_a_bound() {
        let mut pace = ProfilePace::default();
        let now = Duration::from_secs(1000);
        let mut kept_of = |user: usize, now| {
            let kept = (0..110).filter(|directory| pace.spend(&format!("u{user}"), InodeId(*directory), now)).count();
            pace.check();
            kept
        };
        assert_eq!((kept_of(0, now), kept_of(1, now)), (OF_USER_COUNT_MAX, OF_USER_COUNT_MAX));
        let all: usize = (2..102).map(|user| kept_of(user, now)).sum();
        assert_eq!(all, COUNT_MAX - 2 * OF_USER_COUNT_MAX);
        assert_eq!(kept_of(300, now + EACH), OF_USER_COUNT_MAX, "time makes room");
    }
}
