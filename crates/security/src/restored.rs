//! Keys and invitations of a backup that takes the place of the store: what happened to them since is not known.
//!
//! Promise: no key gets an id that another key of this store has had since, and nobody joins by an invitation that may
//! have been used or withdrawn since.

use crate::joining;
use crate::keys::KeyId;
use crate::rings::{RingKind, put_ring, ring};
use std::time::Duration;
use types::rows::{RowsError, RowsMut};
use types::{Millis, Skip};

/// Rings are rolled in hours, and begun anew by an administrator. Ids have room for those of 500 years.
const SKIP: Skip = Skip { count: 1, each: Duration::from_secs(4), least: 1 << 10, max: u32::MAX as u64 - (1 << 20) };

/// Readies rows of a backup for a store that goes on with them at `now`; returns how many invitations were open.
pub fn restore(rows: &mut dyn RowsMut, now: Millis) -> Result<usize, RowsError> {
    for kind in RingKind::ALL {
        let Some(ring) = ring(rows, kind)? else { continue };
        let id = SKIP.behind(ring.next().id.0.into(), now).and_then(|id| u32::try_from(id).ok());
        let id = id.ok_or_else(|| RowsError { op: "restore a backup", reason: "no id of a key is left".into() })?;
        put_ring(rows, kind, &ring.skipped_to(KeyId(id)));
    }
    joining::drop_open(rows)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::joining::{Invitation, JoinError, JoinToken, Taken, usable};
    use crate::rings::{self, Command};
    use crate::secret::{SECRET_LEN, Secret};
    use types::NodeId;
    use types::rows::MemoryRows;

    const KIND: RingKind = RingKind::DelegationTokens;
    const HOUR_MS: u64 = 3_600_000;
    /// In 2027.
    const MORNING: Millis = Millis(1_800_000_000_000);

    fn secret(byte: u8) -> Secret {
        Secret::new([byte; SECRET_LEN])
    }

    fn roll(rows: &mut MemoryRows, hour: u64, byte: u8) {
        let revision = ring(rows, KIND).unwrap().unwrap().keys().revision();
        let now = MORNING.plus(Duration::from_millis(hour * HOUR_MS));
        rings::apply(rows, &Command::Roll { kind: KIND, revision, now, secret: secret(byte) }).unwrap().unwrap();
    }

    fn keys(rows: &MemoryRows) -> Vec<(u32, Secret)> {
        let ring = ring(rows, KIND).unwrap().unwrap();
        ring.keys().iter().map(|key| (key.id.0, key.secret.clone())).collect()
    }

    /// A store rolls its keys and is lost; its backup is restored, which rolls its keys, and is restored once more.
    #[test]
    fn an_id_names_one_key() {
        let mut backup = MemoryRows::default();
        let begin = Command::Begin {
            kind: KIND,
            revision: 0,
            now: MORNING,
            roll_interval_ms: HOUR_MS,
            token_lifetime_ms: 4 * HOUR_MS,
            current: secret(1),
            next: secret(2),
        };
        rings::apply(&mut backup, &begin).unwrap().unwrap();
        let (mut lost, mut first, mut second) = (backup.clone(), backup.clone(), backup.clone());
        roll(&mut lost, 1, 3);
        restore(&mut first, MORNING.plus(Duration::from_secs(7200))).unwrap();
        roll(&mut first, 2, 4);
        restore(&mut second, MORNING.plus(Duration::from_secs(7260))).unwrap();
        roll(&mut second, 2, 5);
        let mut all: Vec<(u32, Secret)> = [&lost, &first, &second].into_iter().flat_map(keys).collect();
        all.sort_by_key(|(id, _)| *id);
        for pair in all.windows(2) {
            assert!(pair[0].0 != pair[1].0 || pair[0].1 == pair[1].1, "key {} is two", pair[0].0);
        }
        assert_eq!(keys(&second)[0], (1, secret(1)), "what it signed counts as before");
    }

    /// One was withdrawn since, and one was used: nobody can know which.
    #[test]
    fn nobody_joins_by_an_invitation_of_a_backup() {
        const SECRET: [u8; 16] = [5; 16];
        let mut rows = MemoryRows::default();
        let node = NodeId([1; 16]);
        for number in [1, 2, 3] {
            let (hash, made_by) = (JoinToken::hash(&SECRET), "ada".to_owned());
            let invitation = Invitation { hash, expires: Millis(100), node: None, made_by, taken: None };
            joining::apply(&mut rows, &joining::Command::Invite { number, now: Millis(0), invitation })
                .unwrap()
                .unwrap();
        }
        let by = Taken { node, key: [1; 32] };
        let take = joining::Command::Take { number: 3, hash: JoinToken::hash(&SECRET), now: Millis(1), by };
        joining::apply(&mut rows, &take).unwrap().unwrap();
        assert_eq!(restore(&mut rows, Millis(2)).unwrap(), 2);
        assert_eq!(usable(&rows, 1, &SECRET, Millis(3)).unwrap(), Err(JoinError::Unknown));
        let left = joining::invitations(&rows).unwrap();
        assert_eq!(left.len(), 1, "whose id was given out by it is known still: {left:?}");
    }
}
