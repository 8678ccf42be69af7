//! The rows of invitations and of what was revoked. A value is a version byte and a record.
//!
//! ```text
//! table            key                     value
//! 41 INVITATION    number u32 BE           Invitation: until it expires, also when it was taken
//! 42 REVOKED       datanode's id 16 B      Revoked: its certificates from before that do not count
//! ```
//!
//! Tables 43 to 47 are kept free for this crate.

use sha2::{Digest, Sha256};
use std::ops::{Bound, ControlFlow};
use types::encoding::{self, Encoded};
use types::rows::{Rows, RowsError, RowsMut, Table};
use types::{Millis, NodeId};

/// Of all rows of this module. It changes only where a row means something else than before.
const VERSION: u8 = 1;

pub const INVITATION: Table = Table(41);
pub const REVOKED: Table = Table(42);

/// One datanode may join by it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invitation {
    /// [`JoinToken::hash`](super::JoinToken::hash) of its secret.
    pub hash: [u8; 32],
    /// It counts before that.
    pub expires: Millis,
    /// The one that it is for, which the store knows already. `None`: one that it does not.
    pub node: Option<NodeId>,
    /// For people: who made it.
    pub made_by: String,
    pub taken: Option<Taken>,
}
types::record!(Invitation { 0: hash, 1: expires, 2: node, 3: made_by, 4: taken });

/// Who joined by an invitation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Taken {
    pub node: NodeId,
    /// SHA-256 of its public key.
    pub key: [u8; 32],
}
types::record!(Taken { 0: node, 1: key });

impl Taken {
    pub fn new(node: NodeId, public_key: &[u8]) -> Self {
        Self { node, key: Sha256::digest(public_key).into() }
    }
}

struct Revoked {
    before: Millis,
}
types::record!(Revoked { 0: before });

/// `None`: it was never made, was withdrawn, or is forgotten as it expired.
pub fn invitation(rows: &dyn Rows, number: u32) -> Result<Option<Invitation>, RowsError> {
    rows.get(INVITATION, &number.to_be_bytes())?.map(|value| decode(&value)).transpose()
}

/// All there are, by number.
pub fn invitations(rows: &dyn Rows) -> Result<Vec<(u32, Invitation)>, RowsError> {
    let (mut all, mut wrong) = (Vec::new(), None);
    rows.scan(INVITATION, Bound::Unbounded, &mut |key, value| {
        let number = <[u8; 4]>::try_from(key).map(u32::from_be_bytes).map_err(|_| corrupt(format!("key {key:?}")));
        match number.and_then(|number| Ok((number, decode(value)?))) {
            Ok(one) => {
                all.push(one);
                ControlFlow::Continue(())
            }
            Err(error) => {
                wrong = Some(error);
                ControlFlow::Break(())
            }
        }
    })?;
    wrong.map_or(Ok(all), Err)
}

/// Certificates of this datanode that were made before that do not count. `None`: all do.
pub fn revoked_before(rows: &dyn Rows, node: NodeId) -> Result<Option<Millis>, RowsError> {
    let row = rows.get(REVOKED, &node.0)?.map(|value| decode::<Revoked>(&value)).transpose()?;
    Ok(row.map(|row| row.before))
}

pub(super) fn put_invitation(rows: &mut dyn RowsMut, number: u32, invitation: &Invitation) {
    rows.put(INVITATION, &number.to_be_bytes(), encode(invitation));
}

pub(super) fn remove_invitation(rows: &mut dyn RowsMut, number: u32) {
    rows.delete(INVITATION, &number.to_be_bytes());
}

pub(super) fn put_revoked(rows: &mut dyn RowsMut, node: NodeId, before: Millis) {
    rows.put(REVOKED, &node.0, encode(&Revoked { before }));
}

pub(super) fn encode(row: &impl Encoded) -> Vec<u8> {
    encoding::encode(row, vec![VERSION])
}

pub(super) fn decode<T: Encoded>(value: &[u8]) -> Result<T, RowsError> {
    match value.split_first() {
        Some((&VERSION, record)) => encoding::decode(record).map_err(|error| corrupt(error.to_string())),
        Some((version, _)) => Err(corrupt(format!("a record of version {version}; this program knows {VERSION}"))),
        None => Err(corrupt("an empty record".into())),
    }
}

fn corrupt(reason: String) -> RowsError {
    RowsError { op: "reading invitations and what was revoked", reason }
}
