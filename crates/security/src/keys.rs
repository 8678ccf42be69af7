//! Keys that sign tokens, and how one follows the other.
//!
//! ```text
//!            signed with until the next roll          known to all for one interval before it signs
//!                          │                                        │
//! previous … previous   current                                   next
//!  ▲ kept until the last token signed with it has expired
//!
//! rolled_at ──────── interval ────────▶ roll ──────── lifetime ────────▶ the former current expires
//! ```
//!
//! Promise: a token that [`KeyRing::current`] signed can be verified for at least `token_lifetime`, and a server that
//! hears of the ring at least once in an interval never meets a key that it does not know. Whoever takes keys takes no
//! older ones later. All times are arguments.

use crate::secret::{Password, Purpose, Secret};
use std::cmp::Ordering;
use std::fmt;
use std::time::Duration;
use types::Millis;

/// Keys of a ring, and of what a server takes from another. Two of them are current and next.
pub const KEY_COUNT_MAX: usize = 16;

/// Names a key for ever. Zero names none: an unsigned token has it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyId(pub u32);

impl fmt::Display for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "key {}", self.0)
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Key {
    pub id: KeyId,
    /// No token signed with it outlives this.
    pub expires: Millis,
    pub secret: Secret,
}

impl Key {
    pub fn password(&self, purpose: Purpose, bytes: &[u8]) -> Password {
        self.secret.password(purpose, bytes)
    }
}

/// Keys by their ids: all that a server needs which verifies and does not sign.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeySet {
    /// Of the ring: each roll and each revocation raises it. A server that has no keys yet is at 0.
    revision: u64,
    /// Ids rise, and so do the expiries.
    keys: Vec<Key>,
}

/// Why keys that came do not take the place of those there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TakeError {
    /// As from a leader that was replaced, or replayed: a key that was revoked would come back.
    #[error("keys of revision {got}, this server has those of {have}")]
    Older { have: u64, got: u64 },
    #[error("other keys than those that this server has of revision {revision}")]
    Differ { revision: u64 },
}

/// Why what another server sent is no set of keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeysError {
    #[error("{count} keys, at most {KEY_COUNT_MAX} are allowed")]
    Count { count: usize },
    #[error("{later} is listed behind {earlier}, but its id or its expiry is not later")]
    Order { earlier: KeyId, later: KeyId },
    #[error("key 0 names none")]
    Zero,
    #[error("the current key of a ring and the next one are missing")]
    Incomplete,
    #[error("{key} is the current one, but expires at another time than one that signs since then")]
    Expiry { key: KeyId },
}

impl KeySet {
    /// Of keys in the order of their ids.
    pub fn new(revision: u64, keys: Vec<Key>) -> Result<Self, KeysError> {
        if keys.len() > KEY_COUNT_MAX {
            return Err(KeysError::Count { count: keys.len() });
        }
        if keys.first().is_some_and(|key| key.id == KeyId(0)) {
            return Err(KeysError::Zero);
        }
        for pair in keys.windows(2) {
            if pair[0].id >= pair[1].id || pair[0].expires > pair[1].expires {
                return Err(KeysError::Order { earlier: pair[0].id, later: pair[1].id });
            }
        }
        Ok(Self { revision, keys })
    }

    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// Takes what the leader has now. False: it is what there is.
    pub fn take(&mut self, newer: Self) -> Result<bool, TakeError> {
        match newer.revision.cmp(&self.revision) {
            Ordering::Less => Err(TakeError::Older { have: self.revision, got: newer.revision }),
            Ordering::Equal if *self != newer => Err(TakeError::Differ { revision: self.revision }),
            Ordering::Equal => Ok(false),
            Ordering::Greater => {
                *self = newer;
                Ok(true)
            }
        }
    }

    /// The key `id` if it is known and has not expired at `now`. A server that heard of no roll for long, or a ring
    /// that nobody rolls, still has keys that should be gone: nobody is to verify with them.
    pub fn find(&self, now: Millis, id: KeyId) -> Option<&Key> {
        let place = self.keys.binary_search_by_key(&id, |key| key.id).ok()?;
        Some(&self.keys[place]).filter(|key| key.expires > now)
    }

    /// In the order of their ids.
    pub fn iter(&self) -> impl Iterator<Item = &Key> {
        self.keys.iter()
    }

    pub fn len(&self) -> usize {
        self.keys.len()
    }

    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }
}

/// How long keys sign, and how long what they signed counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lifetimes {
    roll_interval: Duration,
    token_lifetime: Duration,
}

impl Lifetimes {
    /// HDFS's `dfs.block.access.key.update.interval` and `dfs.block.access.token.lifetime`: ten hours each.
    pub const BLOCK_TOKENS: Self =
        Self { roll_interval: Duration::from_secs(36_000), token_lifetime: Duration::from_secs(36_000) };
    /// HDFS's `dfs.namenode.delegation.key.update-interval` and `dfs.namenode.delegation.token.max-lifetime`.
    pub const DELEGATION_TOKENS: Self =
        Self { roll_interval: Duration::from_secs(86_400), token_lifetime: Duration::from_secs(7 * 86_400) };

    /// `None`: one of them is zero, or keys would be rolled so often that more than [`KEY_COUNT_MAX`] were needed.
    pub fn new(roll_interval: Duration, token_lifetime: Duration) -> Option<Self> {
        // One that signs, one to follow, and room for an administrator who rolls by hand.
        let previous_count_max = (KEY_COUNT_MAX / 2) as u32;
        let fits = roll_interval.saturating_mul(previous_count_max) >= token_lifetime;
        let whole = roll_interval.as_millis() > 0 && token_lifetime.as_millis() > 0;
        (fits && whole).then_some(Self { roll_interval, token_lifetime })
    }

    pub fn roll_interval(self) -> Duration {
        self.roll_interval
    }

    pub fn token_lifetime(self) -> Duration {
        self.token_lifetime
    }

    /// When a key expires that signs from `start` on.
    fn expiry(self, start: Millis) -> Millis {
        start.plus(self.roll_interval).plus(self.token_lifetime)
    }
}

/// The keys of the one who signs. It is replicated: rolls are entries of a log, with the time and the secret in them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyRing {
    lifetimes: Lifetimes,
    rolled_at: Millis,
    /// Previous ones, the current one, and the next one at the end.
    keys: KeySet,
}

/// Why a ring was not rolled: too many keys still have live tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{count} keys have tokens that are still valid; the oldest expires at {} ms", expires.0)]
pub struct TooManyKeys {
    pub count: usize,
    pub expires: Millis,
}

impl KeyRing {
    /// The first ring of a store. Its first key is `first`, and there are secrets for it and for the next one.
    pub fn new(now: Millis, lifetimes: Lifetimes, first: KeyId, secrets: [Secret; 2]) -> Self {
        Self::started(now, lifetimes, 1, first, secrets)
    }

    /// A ring that takes the place of this one, as where lifetimes change. All that this one signed is void.
    #[must_use]
    pub fn replaced(&self, now: Millis, lifetimes: Lifetimes, secrets: [Secret; 2]) -> Self {
        Self::started(now, lifetimes, self.keys.revision + 1, after(self.next().id), secrets)
    }

    /// The same, but the next key has `id`, which is behind its own: those between may name other keys by now.
    #[must_use]
    pub(crate) fn skipped_to(&self, id: KeyId) -> Self {
        assert!(id > self.next().id, "{id} is not behind {}", self.next().id);
        let mut ring = self.clone();
        if let Some(next) = ring.keys.keys.last_mut() {
            next.id = id;
        }
        ring.keys.revision += 1;
        ring.check();
        ring
    }

    fn started(now: Millis, lifetimes: Lifetimes, revision: u64, first: KeyId, secrets: [Secret; 2]) -> Self {
        assert!(first != KeyId(0), "key 0 names none");
        let [current, next] = secrets;
        let keys = vec![
            Key { id: first, expires: lifetimes.expiry(now), secret: current },
            Key { id: after(first), expires: lifetimes.expiry(now.plus(lifetimes.roll_interval)), secret: next },
        ];
        let ring = Self { lifetimes, rolled_at: now, keys: KeySet { revision, keys } };
        ring.check();
        ring
    }

    /// Of stored rows.
    pub fn of_rows(lifetimes: Lifetimes, rolled_at: Millis, revision: u64, keys: Vec<Key>) -> Result<Self, KeysError> {
        let keys = KeySet::new(revision, keys)?;
        let ring = Self { lifetimes, rolled_at, keys };
        match &ring.keys.keys[..] {
            [.., current, _next] if current.expires != lifetimes.expiry(rolled_at) => {
                Err(KeysError::Expiry { key: current.id })
            }
            [.., _current, _next] => {
                ring.check();
                Ok(ring)
            }
            _ => Err(KeysError::Incomplete),
        }
    }

    pub fn lifetimes(&self) -> Lifetimes {
        self.lifetimes
    }

    pub fn rolled_at(&self) -> Millis {
        self.rolled_at
    }

    /// When the current key has signed for as long as it should.
    pub fn roll_at(&self) -> Millis {
        self.rolled_at.plus(self.lifetimes.roll_interval)
    }

    /// Whether the leader has to roll: the current key has signed for as long as it should, or began to by a clock that
    /// was far ahead.
    pub fn is_due(&self, now: Millis) -> bool {
        now >= self.roll_at() || self.is_ahead_of(now)
    }

    fn is_ahead_of(&self, now: Millis) -> bool {
        now.plus(self.lifetimes.roll_interval) < self.rolled_at
    }

    /// The one that signs.
    pub fn current(&self) -> &Key {
        &self.keys.keys[self.keys.len() - 2]
    }

    pub(crate) fn next(&self) -> &Key {
        &self.keys.keys[self.keys.len() - 1]
    }

    /// All that others need to verify what was signed, and what will be after the next roll.
    pub fn keys(&self) -> &KeySet {
        &self.keys
    }

    /// The next key signs from now on, and `secret` is for the one that follows it. Keys are forgotten whose tokens
    /// have all expired. Whoever suspects that a secret is known to others rolls twice and revokes.
    ///
    /// Clocks of leaders differ a little, and the time of a ring does not go back for that. Where it would go back by
    /// more than an interval, a leader's clock was far ahead once: then no roll would be due for as long, and keys
    /// would live for as long. So the ring starts anew at `now`, and what was signed before is void.
    pub fn roll(&mut self, now: Millis, secret: Secret) -> Result<(), TooManyKeys> {
        let starts_anew = self.is_ahead_of(now);
        let now = if starts_anew { now } else { now.max(self.rolled_at) };
        let mut keys = self.keys.keys.clone();
        let mut current = keys.pop().expect("a ring has a next key");
        if starts_anew {
            keys.clear();
        }
        // The key that signed until now goes as well if nobody rolled for longer than its tokens live.
        keys.retain(|key| key.expires > now);
        if keys.len() + 2 > KEY_COUNT_MAX {
            return Err(TooManyKeys { count: keys.len() + 1, expires: keys[0].expires });
        }
        let next_id = after(current.id);
        current.expires = self.lifetimes.expiry(now);
        keys.push(current);
        let next_expires = self.lifetimes.expiry(now.plus(self.lifetimes.roll_interval));
        keys.push(Key { id: next_id, expires: next_expires, secret });
        let revision = self.keys.revision + 1;
        *self = Self { keys: KeySet { revision, keys }, rolled_at: now, ..*self };
        self.check();
        Ok(())
    }

    /// Forgets a previous key, and so all that it signed. The current key and the next one cannot be revoked: roll
    /// first. False: there is no such key.
    pub fn revoke(&mut self, id: KeyId) -> bool {
        let before = self.keys.len();
        let current = self.current().id;
        self.keys.keys.retain(|key| key.id >= current || key.id != id);
        let is_revoked = self.keys.len() < before;
        self.keys.revision += u64::from(is_revoked);
        self.check();
        is_revoked
    }

    /// Every relation between the parts.
    pub fn check(&self) {
        let keys = &self.keys.keys;
        assert!((2..=KEY_COUNT_MAX).contains(&keys.len()), "{} keys", keys.len());
        assert!(keys[0].id != KeyId(0), "key 0 names none");
        for pair in keys.windows(2) {
            assert!(pair[0].id < pair[1].id, "{} before {}", pair[0].id, pair[1].id);
            assert!(pair[0].expires <= pair[1].expires, "{} outlives {}", pair[0].id, pair[1].id);
        }
        assert_eq!(self.current().expires, self.lifetimes.expiry(self.rolled_at), "{}", self.current().id);
    }
}

fn after(id: KeyId) -> KeyId {
    KeyId(id.0.checked_add(1).expect("at a roll a minute, ids last for eight thousand years"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::secret::SECRET_LEN;
    use proptest::prelude::*;

    const HOUR_MS: u64 = 3_600_000;

    fn secret(byte: u8) -> Secret {
        Secret::new([byte; SECRET_LEN])
    }

    fn ring(now: u64) -> KeyRing {
        KeyRing::new(Millis(now), Lifetimes::BLOCK_TOKENS, KeyId(1), [secret(1), secret(2)])
    }

    fn ids(ring: &KeyRing) -> Vec<u32> {
        ring.keys().iter().map(|key| key.id.0).collect()
    }

    #[test]
    fn the_next_key_is_known_before_it_signs() {
        let mut ring = ring(0);
        let announced = ring.keys().find(Millis(0), KeyId(2)).unwrap().secret.clone();
        assert_eq!(ring.roll_at(), Millis(10 * HOUR_MS));
        ring.roll(ring.roll_at(), secret(3)).unwrap();
        assert_eq!(ring.current().id, KeyId(2));
        assert_eq!(ring.current().secret, announced);
        assert_eq!(ids(&ring), [1, 2, 3]);
    }

    #[test]
    fn a_previous_key_stays_while_its_tokens_live() {
        let mut ring = ring(0);
        ring.roll(Millis(10 * HOUR_MS), secret(3)).unwrap();
        ring.roll(Millis(20 * HOUR_MS - 1), secret(4)).unwrap();
        assert_eq!(ids(&ring), [1, 2, 3, 4]);
        ring.roll(Millis(30 * HOUR_MS), secret(5)).unwrap();
        assert_eq!(ids(&ring), [3, 4, 5], "what keys 1 and 2 signed has expired");
    }

    /// Nobody led for a month: what was signed before has expired, and the key that follows was never used.
    #[test]
    fn a_late_roll_forgets_what_has_expired() {
        let mut ring = ring(0);
        ring.roll(Millis(720 * HOUR_MS), secret(3)).unwrap();
        assert_eq!(ids(&ring), [2, 3]);
        assert_eq!(ring.current().expires, Millis(740 * HOUR_MS));
    }

    #[test]
    fn an_expired_key_is_unknown() {
        let ring = ring(0);
        let expires = ring.current().expires;
        assert_eq!(ring.keys().find(Millis(expires.0 - 1), KeyId(1)), Some(ring.current()));
        assert_eq!(ring.keys().find(expires, KeyId(1)), None);
        assert_eq!(ring.keys().find(Millis(0), KeyId(9)), None);
    }

    #[test]
    fn the_time_of_a_ring_does_not_go_back_by_little() {
        let mut ring = ring(100 * HOUR_MS);
        assert!(!ring.is_due(Millis(90 * HOUR_MS)) && ring.is_due(ring.roll_at()));
        ring.roll(Millis(90 * HOUR_MS), secret(3)).unwrap();
        assert_eq!((ring.rolled_at(), ids(&ring)), (Millis(100 * HOUR_MS), vec![1, 2, 3]));
    }

    /// A leader's clock was years ahead when it rolled. Its followers' are right.
    #[test]
    fn one_wrong_clock_does_not_spoil_a_ring() {
        let mut ring = ring(100 * HOUR_MS);
        ring.roll(Millis(100_000 * HOUR_MS), secret(3)).unwrap();
        assert_eq!(ids(&ring), [2, 3]);
        assert!(ring.is_due(Millis(110 * HOUR_MS)));
        ring.roll(Millis(110 * HOUR_MS), secret(4)).unwrap();
        assert_eq!((ring.rolled_at(), ids(&ring)), (Millis(110 * HOUR_MS), vec![3, 4]));
        assert_eq!(ring.current().expires, Millis(130 * HOUR_MS));
    }

    #[test]
    fn a_revoked_key_does_not_come_back() {
        let mut ring = ring(0);
        let mut known = KeySet::default();
        assert_eq!(known.take(ring.keys().clone()), Ok(true));
        assert_eq!(known.take(ring.keys().clone()), Ok(false));
        ring.roll(Millis(10 * HOUR_MS), secret(3)).unwrap();
        let before = ring.keys().clone();
        assert_eq!(known.take(before.clone()), Ok(true));
        assert!(ring.revoke(KeyId(1)) && !ring.revoke(KeyId(1)));
        assert_eq!(ring.keys().revision(), 3);
        assert_eq!(known.take(ring.keys().clone()), Ok(true));
        assert_eq!(known.take(before.clone()), Err(TakeError::Older { have: 3, got: 2 }));
        assert_eq!(known.find(Millis(0), KeyId(1)), None);
        let other = KeySet { revision: 3, ..before };
        assert_eq!(known.take(other), Err(TakeError::Differ { revision: 3 }));
        let replaced = ring.replaced(Millis(0), Lifetimes::DELEGATION_TOKENS, [secret(5), secret(6)]);
        assert_eq!((replaced.keys().revision(), ids(&replaced)), (4, vec![4, 5]));
        assert_eq!(known.take(replaced.keys().clone()), Ok(true));
    }

    #[test]
    fn rolling_without_end_is_refused_and_revoking_makes_room() {
        let mut ring = ring(0);
        let refused = (0..).find_map(|_| ring.roll(Millis(5), secret(9)).err()).unwrap();
        assert_eq!((refused.count, refused.expires), (KEY_COUNT_MAX, Millis(20 * HOUR_MS)));
        assert!(!ring.revoke(ring.current().id), "it signs");
        assert!(ring.revoke(KeyId(1)) && !ring.revoke(KeyId(1)));
        ring.roll(Millis(6), secret(9)).unwrap();
    }

    #[test]
    fn rows_give_the_same_ring() {
        let mut before = ring(0);
        before.roll(Millis(10 * HOUR_MS), secret(3)).unwrap();
        let of_rows = |rolled_at, keys| KeyRing::of_rows(Lifetimes::BLOCK_TOKENS, rolled_at, 2, keys);
        let keys: Vec<Key> = before.keys().iter().cloned().collect();
        assert_eq!(of_rows(before.rolled_at(), keys.clone()), Ok(before));
        assert_eq!(of_rows(Millis(1), keys.clone()), Err(KeysError::Expiry { key: KeyId(2) }));
        assert_eq!(of_rows(Millis(1), keys[..1].to_vec()), Err(KeysError::Incomplete));
        let turned = vec![keys[1].clone(), keys[0].clone()];
        assert_eq!(of_rows(Millis(1), turned), Err(KeysError::Order { earlier: KeyId(2), later: KeyId(1) }));
        let many = vec![keys[0].clone(); KEY_COUNT_MAX + 1];
        assert_eq!(KeySet::new(1, many), Err(KeysError::Count { count: KEY_COUNT_MAX + 1 }));
    }

    #[test]
    fn lifetimes_bound_the_number_of_keys() {
        let hours = |count: u64| Duration::from_secs(3600 * count);
        assert!(Lifetimes::new(hours(1), hours(8)).is_some());
        assert!(Lifetimes::new(hours(1), hours(9)).is_none());
        assert!(Lifetimes::new(Duration::ZERO, Duration::ZERO).is_none());
        for kept in [Lifetimes::BLOCK_TOKENS, Lifetimes::DELEGATION_TOKENS] {
            assert_eq!(Lifetimes::new(kept.roll_interval, kept.token_lifetime), Some(kept));
        }
    }

    proptest! {
        /// Whenever the leader rolls: what was signed at any time is verifiable until its lifetime has passed.
        #[test]
        fn tokens_live_as_long_as_promised(steps in proptest::collection::vec(1..30 * HOUR_MS, 1..30)) {
            let lifetime = Lifetimes::BLOCK_TOKENS.token_lifetime();
            let (mut ring, mut now, mut signed) = (ring(0), Millis(0), Vec::new());
            for step in steps {
                signed.push((now, ring.current().id));
                now = Millis(now.0 + step);
                if now >= ring.roll_at() {
                    // A key that nobody rolled still signs: what it signs late lives shorter.
                    ring.roll(now, secret(1)).unwrap();
                }
                for (at, id) in &signed {
                    prop_assert!(at.plus(lifetime) <= now || ring.keys().find(now, *id).is_some());
                }
                prop_assert!(ring.current().expires >= now.plus(lifetime));
            }
        }
    }
}
