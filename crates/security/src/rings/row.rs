//! The row of a ring. Its key is the ring's kind, one byte; the value is a version byte and a record.
//!
//! ```text
//! table            key            value
//! 40 KEY_RING      kind u8        RingRow: lifetimes, time of the last roll, revision, keys with their secrets
//! ```
//!
//! Tables 41 and 42 are [`crate::joining`]'s; 43 to 47 are kept free for this crate.

use crate::keys::{Key, KeyId, KeyRing, Lifetimes};
use crate::secret::Secret;
use std::time::Duration;
use types::Millis;
use types::encoding;
use types::rows::{Rows, RowsError, RowsMut, Table};

/// Of all rows of this crate. It changes only where a row means something else than before.
pub(super) const VERSION: u8 = 1;

pub const KEY_RING: Table = Table(40);

/// What the keys of a ring sign.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RingKind {
    BlockTokens,
    DelegationTokens,
}
types::numbered!(RingKind { 0 => BlockTokens, 1 => DelegationTokens });

impl RingKind {
    pub const ALL: [Self; 2] = [Self::BlockTokens, Self::DelegationTokens];

    fn key(self) -> Vec<u8> {
        encoding::encode(&self, Vec::new())
    }
}

/// For logs.
impl std::fmt::Display for RingKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::BlockTokens => "block tokens",
            Self::DelegationTokens => "delegation tokens",
        })
    }
}

struct RingRow {
    roll_interval_ms: u64,
    token_lifetime_ms: u64,
    rolled_at: Millis,
    revision: u64,
    keys: Vec<KeyRow>,
}
types::record!(RingRow { 0: roll_interval_ms, 1: token_lifetime_ms, 2: rolled_at, 3: revision, 4: keys });

struct KeyRow {
    id: u32,
    expires: Millis,
    secret: Secret,
}
types::record!(KeyRow { 0: id, 1: expires, 2: secret });

/// `None`: no such ring was begun.
pub fn ring(rows: &dyn Rows, kind: RingKind) -> Result<Option<KeyRing>, RowsError> {
    rows.get(KEY_RING, &kind.key())?.map(|value| decode(&value)).transpose()
}

pub(crate) fn put_ring(rows: &mut dyn RowsMut, kind: RingKind, ring: &KeyRing) {
    rows.put(KEY_RING, &kind.key(), encode(ring));
}

pub(super) fn encode(ring: &KeyRing) -> Vec<u8> {
    let key = |key: &Key| KeyRow { id: key.id.0, expires: key.expires, secret: key.secret.clone() };
    let row = RingRow {
        roll_interval_ms: ring.lifetimes().roll_interval().as_millis() as u64,
        token_lifetime_ms: ring.lifetimes().token_lifetime().as_millis() as u64,
        rolled_at: ring.rolled_at(),
        revision: ring.keys().revision(),
        keys: ring.keys().iter().map(key).collect(),
    };
    encoding::encode(&row, vec![VERSION])
}

pub(super) fn decode(value: &[u8]) -> Result<KeyRing, RowsError> {
    let row: RingRow = match value.split_first() {
        Some((&VERSION, record)) => encoding::decode(record).map_err(|error| corrupt(error.to_string()))?,
        Some((version, _)) => {
            return Err(corrupt(format!("a record of version {version}; this program knows {VERSION}")));
        }
        None => return Err(corrupt("an empty record".into())),
    };
    let lifetimes = lifetimes(row.roll_interval_ms, row.token_lifetime_ms)
        .ok_or_else(|| corrupt(format!("a roll each {} ms", row.roll_interval_ms)))?;
    let key = |row: KeyRow| Key { id: KeyId(row.id), expires: row.expires, secret: row.secret };
    let keys = row.keys.into_iter().map(key).collect();
    KeyRing::of_rows(lifetimes, row.rolled_at, row.revision, keys).map_err(|error| corrupt(error.to_string()))
}

/// `None`: nobody can roll so often.
pub(super) fn lifetimes(roll_interval_ms: u64, token_lifetime_ms: u64) -> Option<Lifetimes> {
    Lifetimes::new(Duration::from_millis(roll_interval_ms), Duration::from_millis(token_lifetime_ms))
}

fn corrupt(reason: String) -> RowsError {
    RowsError { op: "reading a ring of keys", reason }
}
