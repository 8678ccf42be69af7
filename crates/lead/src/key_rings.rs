//! The rings of keys as the leader has them, and what they sign.
//!
//! Promise: they are the rows' at every moment, as each entry of the log changes both by the same function
//! ([`rings::Command::change`]). Time and chance are arguments. Nothing is signed with a key that has expired.

use security::block_token::{Grant, GrantError, SignedToken, Signer};
use security::keys::{KeyRing, KeySet, Lifetimes};
use security::rings::{self, Command, RingError, RingKind};
use security::secret::{SECRET_LEN, Secret};
use std::collections::BTreeMap;
use types::rows::{Rows, RowsError};
use types::{Millis, Random};

/// Signatures remembered, some 200 bytes each: those of files that are opened again and again. docs/adr/0019 has
/// what it saves.
const REMEMBERED_COUNT: usize = 500;

#[derive(Debug)]
pub struct KeyRings {
    rings: BTreeMap<RingKind, KeyRing>,
    signer: Signer,
}

/// Why a block token was not signed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SignError {
    #[error("there are no keys for block tokens yet; try again in a moment")]
    NoKeys,
    #[error(transparent)]
    Grant(#[from] GrantError),
}

impl SignError {
    /// Whether the leader is about to mend it.
    pub fn is_momentary(self) -> bool {
        matches!(self, Self::NoKeys | Self::Grant(GrantError::KeyExpired { .. }))
    }
}

impl KeyRings {
    pub fn load(rows: &dyn Rows) -> Result<Self, RowsError> {
        let mut rings = BTreeMap::new();
        for kind in RingKind::ALL {
            rings.extend(rings::ring(rows, kind)?.map(|ring| (kind, ring)));
        }
        Ok(Self { rings, signer: Signer::new(REMEMBERED_COUNT) })
    }

    /// A command was applied, whoever proposed it. To be called in the order of the log.
    pub fn on_applied(&mut self, command: &Command, answer: &Result<(), RingError>) {
        if answer.is_err() {
            return;
        }
        let changed = command.change(self.rings.get(&command.kind()));
        let ring = changed.expect("the rows took the command, so what mirrors them does");
        self.rings.insert(command.kind(), ring);
    }

    pub fn ring(&self, kind: RingKind) -> Option<&KeyRing> {
        self.rings.get(&kind)
    }

    /// What others need to verify; `None` before the first ring.
    pub fn keys(&self, kind: RingKind) -> Option<&KeySet> {
        self.ring(kind).map(KeyRing::keys)
    }

    /// What is to be proposed now, so that a ring of these lifetimes has a key that signs. A leader asks as soon as it
    /// begins: an earlier one may have been late.
    pub fn due(&self, kind: RingKind, lifetimes: Lifetimes, now: Millis, random: &mut dyn Random) -> Option<Command> {
        let ring = self.ring(kind);
        match ring.filter(|ring| ring.lifetimes() == lifetimes) {
            None => Some(Command::begin(kind, ring, now, lifetimes, [draw(random), draw(random)])),
            Some(ring) if ring.is_due(now) => {
                Some(Command::Roll { kind, revision: ring.keys().revision(), now, secret: draw(random) })
            }
            Some(_) => None,
        }
    }

    /// A block token of the current key.
    pub fn sign(&mut self, now: Millis, grant: Grant<'_>) -> Result<SignedToken, SignError> {
        let ring = self.rings.get(&RingKind::BlockTokens).ok_or(SignError::NoKeys)?;
        Ok(self.signer.sign(now, ring, grant)?)
    }

    pub fn check(&self) {
        self.rings.values().for_each(KeyRing::check);
        self.signer.check();
    }
}

fn draw(random: &mut dyn Random) -> Secret {
    let mut bytes = [0; SECRET_LEN];
    for piece in bytes.as_chunks_mut::<8>().0 {
        *piece = random.next_u64().to_ne_bytes();
    }
    Secret::new(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use security::block_token::{Mode, Modes};
    use security::keys::KeyId;
    use std::time::Duration;
    use types::InodeId;
    use types::random::Seeded;
    use types::rows::MemoryRows;

    const KIND: RingKind = RingKind::BlockTokens;

    fn lifetimes(secs: u64) -> Lifetimes {
        Lifetimes::new(Duration::from_secs(secs), Duration::from_secs(secs)).unwrap()
    }

    /// One leader's time.
    struct Lead {
        rings: KeyRings,
        random: Seeded,
    }

    impl Lead {
        fn begin(rows: &MemoryRows) -> Self {
            Self { rings: KeyRings::load(rows).unwrap(), random: Seeded(7) }
        }

        /// Proposes what is due, until nothing is.
        fn look(&mut self, rows: &mut MemoryRows, secs: u64, now: u64) -> usize {
            let mut count = 0;
            while let Some(command) = self.rings.due(KIND, lifetimes(secs), Millis(now), &mut self.random) {
                let answer = rings::apply(rows, &command).unwrap();
                self.rings.on_applied(&command, &answer);
                self.rings.check();
                assert_eq!(rings::ring(rows, KIND).unwrap().as_ref(), self.rings.ring(KIND), "the rows are the same");
                count += 1;
            }
            count
        }

        fn key(&self) -> KeyId {
            self.rings.ring(KIND).unwrap().current().id
        }

        fn sign(&mut self, now: u64) -> Result<SignedToken, SignError> {
            let grant = Grant { user: "ada", file: InodeId(7), modes: Modes::of(&[Mode::Read]), block: None };
            self.rings.sign(Millis(now), grant)
        }
    }

    #[test]
    fn a_ring_begins_and_rolls_when_it_is_due() {
        let mut rows = MemoryRows::default();
        let mut lead = Lead::begin(&rows);
        assert_eq!(lead.sign(0), Err(SignError::NoKeys));
        assert_eq!(lead.look(&mut rows, 10, 0), 1);
        let first = lead.sign(0).unwrap();
        assert_eq!(lead.look(&mut rows, 10, 9_999), 0);
        assert_eq!(lead.look(&mut rows, 10, 10_000), 1);
        assert_ne!(lead.sign(10_000).unwrap(), first);
    }

    /// Nobody led for longer than keys live: the next leader rolls before it signs.
    #[test]
    fn a_leader_that_comes_late_rolls_first() {
        let mut rows = MemoryRows::default();
        Lead::begin(&rows).look(&mut rows, 10, 0);
        let mut next = Lead::begin(&rows);
        assert!(next.sign(20_000).is_err_and(SignError::is_momentary), "its key has expired");
        assert_eq!((next.look(&mut rows, 10, 20_000), next.key()), (1, KeyId(2)));
        next.sign(20_000).unwrap();
    }

    /// What an earlier leader proposed and a later one did not see changes nothing.
    #[test]
    fn two_leaders_roll_once() {
        let mut rows = MemoryRows::default();
        let mut one = Lead::begin(&rows);
        one.look(&mut rows, 10, 0);
        let mut other = Lead::begin(&rows);
        let late = one.rings.due(KIND, lifetimes(10), Millis(10_000), &mut one.random).unwrap();
        assert_eq!(other.look(&mut rows, 10, 10_000), 1);
        let answer = rings::apply(&mut rows, &late).unwrap();
        other.rings.on_applied(&late, &answer);
        assert_eq!((answer.is_err(), other.key()), (true, KeyId(2)));
    }

    #[test]
    fn other_lifetimes_are_another_ring() {
        let mut rows = MemoryRows::default();
        let mut lead = Lead::begin(&rows);
        lead.look(&mut rows, 10, 0);
        assert_eq!((lead.look(&mut rows, 20, 5), lead.key()), (1, KeyId(3)));
        assert_eq!(lead.look(&mut rows, 20, 5), 0);
    }
}
