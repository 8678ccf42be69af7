//! Where a machine stands: the last entry it applied, and who the members are as of that entry.
//!
//! ```text
//! [version u8][`PositionRecord`]        stored by the machine with its rows; it need not look inside
//! ```
//!
//! The forms on disk are our own: openraft's types may change with its version, what is on disk must not.

use crate::types::{LogId, Membership, Node, StoredMembership, log_id};
use ::types::encoding;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Arc;

/// Raised with what members compare as well: those who compute it otherwise would cast each other out.
const VERSION: u8 = 5;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Position {
    pub(crate) applied: Option<LogId>,
    /// Shared, as each entry has a position and hardly any has other members.
    pub(crate) members: Arc<KnownMembers>,
    /// So far the log may lack what the machine has: the last entry of a state that was taken over from another member,
    /// or the last one that was applied before this member's own log had it on disk.
    pub(crate) ahead: Option<LogId>,
}

/// The index of the entry at which a machine stands, by the position that it was given with the entry.
pub fn entry_index(position: &[u8]) -> Option<u64> {
    entry_id(position).map(|(_, index)| index)
}

/// As [`entry_index`], with the term before it.
pub fn entry_id(position: &[u8]) -> Option<(u64, u64)> {
    Position::decode(position).ok()?.applied.map(|id| (id.leader_id.term, id.index))
}

struct PositionRecord {
    /// Term and index, as all log ids here.
    applied: Option<(u64, u64)>,
    membership_id: Option<(u64, u64)>,
    members: Arc<Members>,
    ahead: Option<(u64, u64)>,
}
::types::record!(PositionRecord { 0: applied, 1: membership_id, 2: members, 3: ahead });

/// Who the members are, for openraft and as it is stored.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct KnownMembers {
    pub(crate) membership: StoredMembership,
    stored: Arc<Members>,
}

impl From<StoredMembership> for KnownMembers {
    fn from(membership: StoredMembership) -> Self {
        let stored = Members::of(membership.membership()).into();
        Self { membership, stored }
    }
}

impl Position {
    /// Those of entry `id`.
    pub(crate) fn members_of(id: LogId, membership: Membership) -> Arc<KnownMembers> {
        Arc::new(StoredMembership::new(Some(id), membership).into())
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let plain = |id: LogId| (id.leader_id.term, id.index);
        let record = PositionRecord {
            applied: self.applied.map(plain),
            membership_id: self.members.membership.log_id().map(plain),
            members: Arc::clone(&self.members.stored),
            ahead: self.ahead.map(plain),
        };
        encoding::encode(&record, vec![VERSION])
    }

    pub(crate) fn decode(bytes: &[u8]) -> io::Result<Self> {
        let damaged =
            |why: String| io::Error::new(io::ErrorKind::InvalidData, format!("the machine's position: {why}"));
        let record: PositionRecord = match bytes.split_first() {
            Some((&VERSION, record)) => encoding::decode_known(record).map_err(|error| damaged(error.to_string()))?,
            Some((version, _)) => return Err(damaged(format!("version {version}; this program knows {VERSION}"))),
            None => return Err(damaged("no bytes".into())),
        };
        let id = |(term, index)| log_id(term, index);
        let membership =
            Members::clone(&record.members).membership().ok_or_else(|| damaged("members that cannot be".into()))?;
        let membership = StoredMembership::new(record.membership_id.map(id), membership);
        let members = Arc::new(KnownMembers { membership, stored: record.members });
        Ok(Self { applied: record.applied.map(id), members, ahead: record.ahead.map(id) })
    }
}

/// Who belongs to the group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Members {
    /// Voters; two sets while the group changes.
    configs: Vec<BTreeSet<u64>>,
    /// Voters and learners: address and incarnation.
    nodes: BTreeMap<u64, (String, u64)>,
}
::types::record!(Members { 0: configs, 1: nodes });

impl Members {
    pub(crate) fn of(membership: &Membership) -> Self {
        Self {
            configs: membership.get_joint_config().clone(),
            nodes: membership.nodes().map(|(id, node)| (*id, (node.addr.clone(), node.incarnation))).collect(),
        }
    }

    /// `None` if no group can have these members.
    pub(crate) fn membership(self) -> Option<Membership> {
        if self == Self::default() {
            return Some(Membership::default());
        }
        let nodes = self.nodes.into_iter().map(|(id, (addr, incarnation))| (id, Node { addr, incarnation }));
        Membership::new(self.configs, nodes.collect::<BTreeMap<_, _>>()).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use testkit::golden::Golden;

    fn positions() -> [Position; 4] {
        let node = |addr: &str, incarnation| Node { addr: addr.into(), incarnation };
        let nodes = BTreeMap::from([(1, node("a:1", 11)), (2, node("b:2", 12))]);
        let stored = |voters| {
            let membership = Membership::new(voters, nodes.clone()).unwrap();
            Arc::new(KnownMembers::from(StoredMembership::new(Some(log_id(1, 0)), membership)))
        };
        let members = stored(vec![BTreeSet::from([1])]);
        let plain = Position { applied: Some(log_id(3, 300)), members, ahead: None };
        let ahead = Position { ahead: Some(log_id(2, 200)), ..plain.clone() };
        let changing = stored(vec![BTreeSet::from([1]), BTreeSet::from([1, 2])]);
        let changing = Position { members: changing, ..plain.clone() };
        [Position::default(), plain, ahead, changing]
    }

    #[test]
    fn a_position_survives_its_bytes() {
        for position in positions() {
            assert_eq!(Position::decode(&position.encode()).unwrap(), position);
            assert_eq!(entry_index(&position.encode()), position.applied.map(|id| id.index));
        }
    }

    /// The bytes are fixed for a version: whoever changes them changes that too.
    #[test]
    fn golden_positions() {
        let mut golden = Golden::default();
        for (name, position) in ["new", "plain", "ahead", "changing"].into_iter().zip(positions()) {
            golden.add(name, &position.encode());
        }
        golden.hold(concat!(env!("CARGO_MANIFEST_DIR"), "/src/golden_positions.txt"));
    }

    #[test]
    fn strange_bytes_are_refused() {
        for bad in [&[][..], &[4], &[3, 0, 0, 0, 0, 0], &[4, 1, 3], &[4, 4, 0, 0, 1, 0]] {
            assert!(Position::decode(bad).is_err(), "{bad:?}");
        }
    }
}
