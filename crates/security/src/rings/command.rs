//! The changes of the rings, and what each does to its row.

use super::row::{self, RingKind};
use crate::keys::{KeyId, KeyRing, Lifetimes, TooManyKeys};
use crate::secret::Secret;
use types::Millis;
use types::rows::{RowsError, RowsMut};

/// Of the first ring of its kind.
const FIRST_KEY: KeyId = KeyId(1);

/// One change, as it stands in the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// Begins a ring; or begins it anew, with other lifetimes, and all that it signed is void. `revision` is that of
    /// the ring there is, 0 if there is none.
    Begin {
        kind: RingKind,
        revision: u64,
        now: Millis,
        roll_interval_ms: u64,
        token_lifetime_ms: u64,
        /// Signs from now on.
        current: Secret,
        /// For the roll after this.
        next: Secret,
    },
    /// The next key signs from now on, and `secret` is for the one behind it.
    Roll { kind: RingKind, revision: u64, now: Millis, secret: Secret },
    /// A previous key is forgotten, and all that it signed is void.
    Revoke { kind: RingKind, key: u32 },
}
types::variants!(Command {
    0 => Begin {
        0: kind, 1: revision, 2: now, 3: roll_interval_ms, 4: token_lifetime_ms, 5: current, 6: next
    },
    1 => Roll { 0: kind, 1: revision, 2: now, 3: secret },
    2 => Revoke { 0: kind, 1: key },
});

/// Why a command changed nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RingError {
    #[error("the ring has changed since this was decided: it is of revision {revision}")]
    Moved { revision: u64 },
    #[error("keys that are rolled each {roll_interval_ms} ms cannot sign what lasts for {token_lifetime_ms} ms")]
    Lifetimes { roll_interval_ms: u64, token_lifetime_ms: u64 },
    #[error(transparent)]
    TooManyKeys(#[from] TooManyKeys),
    #[error("{key} is no previous key of the ring: roll first, if it is the current one")]
    NoSuchKey { key: KeyId },
    /// Applying it panicked. No answer of this crate: whoever applies commands catches that.
    #[error("internal error in {operation}, which changed nothing; report it, with the server's log")]
    Fault { operation: String },
}

/// Applies one command. On a refusal (`Ok(Err(..))`) no row was changed.
pub fn apply(rows: &mut dyn RowsMut, command: &Command) -> Result<Result<(), RingError>, RowsError> {
    let kind = command.kind();
    let ring = row::ring(rows, kind)?;
    Ok(command.change(ring.as_ref()).map(|ring| row::put_ring(rows, kind, &ring)))
}

impl Command {
    /// Begins `ring`, or begins it anew.
    pub fn begin(
        kind: RingKind,
        ring: Option<&KeyRing>,
        now: Millis,
        lifetimes: Lifetimes,
        secrets: [Secret; 2],
    ) -> Self {
        let [current, next] = secrets;
        Self::Begin {
            kind,
            revision: revision(ring),
            now,
            roll_interval_ms: lifetimes.roll_interval().as_millis() as u64,
            token_lifetime_ms: lifetimes.token_lifetime().as_millis() as u64,
            current,
            next,
        }
    }

    pub fn kind(&self) -> RingKind {
        match self {
            Self::Begin { kind, .. } | Self::Roll { kind, .. } | Self::Revoke { kind, .. } => *kind,
        }
    }

    /// What the ring of its kind is behind this command.
    pub fn change(&self, ring: Option<&KeyRing>) -> Result<KeyRing, RingError> {
        match self {
            Self::Begin { revision, now, roll_interval_ms, token_lifetime_ms, current, next, .. } => {
                must_be(ring, *revision)?;
                let lifetimes = row::lifetimes(*roll_interval_ms, *token_lifetime_ms).ok_or(RingError::Lifetimes {
                    roll_interval_ms: *roll_interval_ms,
                    token_lifetime_ms: *token_lifetime_ms,
                })?;
                let secrets = [current.clone(), next.clone()];
                Ok(match ring {
                    None => KeyRing::new(*now, lifetimes, FIRST_KEY, secrets),
                    Some(ring) => ring.replaced(*now, lifetimes, secrets),
                })
            }
            Self::Roll { revision, now, secret, .. } => {
                must_be(ring, *revision)?;
                let mut ring = ring.ok_or(RingError::Moved { revision: 0 })?.clone();
                ring.roll(*now, secret.clone())?;
                Ok(ring)
            }
            Self::Revoke { key, .. } => {
                let key = KeyId(*key);
                let mut ring = ring.ok_or(RingError::NoSuchKey { key })?.clone();
                if ring.revoke(key) { Ok(ring) } else { Err(RingError::NoSuchKey { key }) }
            }
        }
    }
}

fn revision(ring: Option<&KeyRing>) -> u64 {
    ring.map_or(0, |ring| ring.keys().revision())
}

fn must_be(ring: Option<&KeyRing>, revision: u64) -> Result<(), RingError> {
    let have = self::revision(ring);
    if have == revision { Ok(()) } else { Err(RingError::Moved { revision: have }) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::secret::SECRET_LEN;
    use types::rows::MemoryRows;

    const KIND: RingKind = RingKind::BlockTokens;
    const INTERVAL_MS: u64 = 36_000_000;

    fn secret(byte: u8) -> Secret {
        Secret::new([byte; SECRET_LEN])
    }

    fn begin(revision: u64, roll_interval_ms: u64) -> Command {
        Command::Begin {
            kind: KIND,
            revision,
            now: Millis(1000),
            roll_interval_ms,
            token_lifetime_ms: INTERVAL_MS,
            current: secret(1),
            next: secret(2),
        }
    }

    fn roll(revision: u64) -> Command {
        Command::Roll { kind: KIND, revision, now: Millis(1000 + INTERVAL_MS), secret: secret(3) }
    }

    /// Two leaders, one after the other, find that a roll is due: the second one's changes nothing.
    #[test]
    fn a_ring_rolls_once_for_all_who_propose_it() {
        let mut rows = MemoryRows::default();
        let mut run = |command: &Command| apply(&mut rows, command).unwrap();
        assert_eq!(run(&roll(0)), Err(RingError::Moved { revision: 0 }), "there is none");
        assert_eq!(run(&begin(0, INTERVAL_MS)), Ok(()));
        assert_eq!(run(&begin(0, INTERVAL_MS)), Err(RingError::Moved { revision: 1 }));
        assert_eq!(run(&roll(1)), Ok(()));
        assert_eq!(run(&roll(1)), Err(RingError::Moved { revision: 2 }));
        let ring = row::ring(&rows, KIND).unwrap().unwrap();
        assert_eq!((ring.current().id, ring.current().secret.clone()), (KeyId(2), secret(2)));
        assert_eq!(row::ring(&rows, RingKind::DelegationTokens).unwrap(), None, "rings are apart");
    }

    #[test]
    fn a_ring_begins_anew_and_keys_are_revoked() {
        let mut rows = MemoryRows::default();
        let mut run = |command: &Command| apply(&mut rows, command).unwrap();
        run(&begin(0, INTERVAL_MS)).unwrap();
        run(&roll(1)).unwrap();
        let revoke = |key| Command::Revoke { kind: KIND, key };
        assert_eq!(run(&revoke(2)), Err(RingError::NoSuchKey { key: KeyId(2) }), "it signs");
        assert_eq!(run(&revoke(1)), Ok(()));
        assert_eq!(run(&revoke(1)), Err(RingError::NoSuchKey { key: KeyId(1) }));
        assert!(matches!(run(&begin(3, 1)), Err(RingError::Lifetimes { .. })));
        assert_eq!(run(&begin(3, INTERVAL_MS / 2)), Ok(()));
        let ring = row::ring(&rows, KIND).unwrap().unwrap();
        assert_eq!((ring.current().id, ring.keys().len(), ring.keys().revision()), (KeyId(4), 2, 4));
    }

    #[test]
    fn no_secret_is_printed() {
        assert!(format!("{:?}", begin(0, INTERVAL_MS)).contains("current: Secret, next: Secret"));
    }
}
