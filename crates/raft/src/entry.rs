//! Entries, votes and positions as bytes: postcard behind a version byte.
//!
//! ```text
//! entry     [1 u8][term varint][index varint][payload: 0 blank | 1 command bytes | 2 membership]
//! position  [1 u8][log id][log id of the membership][membership]      stored by the machine with its rows
//! vote      [1 u8][term][node][committed][purged: log id or none]     the file `vote`
//! ```

use crate::{Entry, LogId, StoredMembership, Vote};
use openraft::{BasicNode, EntryPayload, Membership};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io;
use std::sync::Arc;

/// A command as the log holds it. The machine alone knows what it says.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Command(pub Arc<[u8]>);

impl fmt::Debug for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Command({} bytes)", self.0.len())
    }
}

impl fmt::Display for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

const VERSION: u8 = 1;

#[derive(Serialize, Deserialize)]
struct LogIdRecord {
    term: u64,
    index: u64,
}

#[derive(Serialize, Deserialize)]
struct MembershipRecord {
    /// One set of voters, or two while the members change.
    configs: Vec<BTreeSet<u64>>,
    nodes: BTreeMap<u64, String>,
}

#[derive(Serialize, Deserialize)]
enum PayloadRecord {
    Blank,
    Command(Vec<u8>),
    Membership(MembershipRecord),
}

#[derive(Serialize, Deserialize)]
struct EntryRecord {
    id: LogIdRecord,
    payload: PayloadRecord,
}

#[derive(Serialize, Deserialize)]
struct PositionRecord {
    id: LogIdRecord,
    membership_id: Option<LogIdRecord>,
    membership: MembershipRecord,
}

#[derive(Serialize, Deserialize)]
struct VoteRecord {
    vote: Option<(u64, u64, bool)>,
    purged: Option<LogIdRecord>,
}

impl From<&LogId> for LogIdRecord {
    fn from(id: &LogId) -> Self {
        Self { term: id.committed_leader_id().term, index: id.index() }
    }
}

impl From<LogIdRecord> for LogId {
    fn from(record: LogIdRecord) -> Self {
        Self::new(openraft::vote::leader_id_std::CommittedLeaderId::new(record.term), record.index)
    }
}

impl MembershipRecord {
    fn of(membership: &Membership<u64, BasicNode>) -> Self {
        let nodes = membership.nodes().map(|(id, node)| (*id, node.addr.clone()));
        Self { configs: membership.get_joint_config().clone(), nodes: nodes.collect() }
    }

    fn restore(self) -> io::Result<Membership<u64, BasicNode>> {
        let nodes: BTreeMap<u64, BasicNode> =
            self.nodes.into_iter().map(|(id, addr)| (id, BasicNode { addr })).collect();
        if self.configs.is_empty() && nodes.is_empty() {
            return Ok(Membership::default());
        }
        Membership::new(self.configs, nodes).map_err(io::Error::other)
    }
}

pub(crate) fn encode_entry(entry: &Entry) -> Vec<u8> {
    let payload = match &entry.payload {
        EntryPayload::Blank => PayloadRecord::Blank,
        EntryPayload::Normal(command) => PayloadRecord::Command(command.0.to_vec()),
        EntryPayload::Membership(membership) => PayloadRecord::Membership(MembershipRecord::of(membership)),
    };
    encode(&EntryRecord { id: (&entry.log_id).into(), payload })
}

pub(crate) fn decode_entry(bytes: &[u8]) -> io::Result<Entry> {
    let record: EntryRecord = decode(bytes, "log entry")?;
    let payload = match record.payload {
        PayloadRecord::Blank => EntryPayload::Blank,
        PayloadRecord::Command(bytes) => EntryPayload::Normal(Command(bytes.into())),
        PayloadRecord::Membership(membership) => EntryPayload::Membership(membership.restore()?),
    };
    Ok(Entry { log_id: record.id.into(), payload })
}

/// Where a machine stands: the last entry it applied, and who the members are as of that entry.
#[derive(Clone, Debug, Default)]
pub(crate) struct Position {
    pub applied: Option<LogId>,
    pub membership: StoredMembership,
}

impl Position {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let id = self.applied.as_ref().expect("a position is stored when an entry was applied").into();
        let membership_id = self.membership.log_id().as_ref().map(LogIdRecord::from);
        encode(&PositionRecord { id, membership_id, membership: MembershipRecord::of(self.membership.membership()) })
    }

    pub(crate) fn decode(bytes: &[u8]) -> io::Result<Self> {
        let record: PositionRecord = decode(bytes, "position")?;
        let membership = StoredMembership::new(record.membership_id.map(LogId::from), record.membership.restore()?);
        Ok(Self { applied: Some(record.id.into()), membership })
    }
}

/// What a member promised, and how far its log was cut.
#[derive(Clone, Debug, Default)]
pub(crate) struct Promise {
    pub vote: Option<Vote>,
    pub purged: Option<LogId>,
}

impl Promise {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let vote = self.vote.as_ref().map(|vote| (vote.leader_id.term, vote.leader_id.voted_for, vote.committed));
        encode(&VoteRecord { vote, purged: self.purged.as_ref().map(LogIdRecord::from) })
    }

    pub(crate) fn decode(bytes: &[u8]) -> io::Result<Self> {
        let record: VoteRecord = decode(bytes, "vote")?;
        let vote = record.vote.map(
            |(term, node, committed)| {
                if committed { Vote::new_committed(term, node) } else { Vote::new(term, node) }
            },
        );
        Ok(Self { vote, purged: record.purged.map(LogId::from) })
    }
}

pub(crate) fn encode<T: Serialize>(record: &T) -> Vec<u8> {
    postcard::to_extend(record, vec![VERSION]).expect("plain data is encoded into memory")
}

pub(crate) fn decode<T: DeserializeOwned>(bytes: &[u8], what: &str) -> io::Result<T> {
    let damaged = |why: String| io::Error::new(io::ErrorKind::InvalidData, format!("{what}: {why}"));
    match bytes.split_first() {
        Some((&VERSION, record)) => postcard::from_bytes(record).map_err(|error| damaged(error.to_string())),
        Some((version, _)) => Err(damaged(format!("of version {version}; this program knows {VERSION}"))),
        None => Err(damaged("empty".into())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The bytes are fixed: a log is read by a later version of this program.
    #[test]
    fn golden_entries() {
        let id = || LogId::from(LogIdRecord { term: 3, index: 300 });
        let blank = Entry { log_id: id(), payload: EntryPayload::Blank };
        assert_eq!(encode_entry(&blank), [1, 3, 0xac, 2, 0]);
        let command = Entry { log_id: id(), payload: EntryPayload::Normal(Command([7, 8].into())) };
        assert_eq!(encode_entry(&command), [1, 3, 0xac, 2, 1, 2, 7, 8]);
        let nodes = BTreeMap::from([(1, BasicNode { addr: "a".into() })]);
        let membership = Membership::new(vec![BTreeSet::from([1])], nodes).unwrap();
        let member = Entry { log_id: id(), payload: EntryPayload::Membership(membership.clone()) };
        assert_eq!(encode_entry(&member), [1, 3, 0xac, 2, 2, 1, 1, 1, 1, 1, 1, b'a']);
        for entry in [blank, command, member] {
            assert_eq!(decode_entry(&encode_entry(&entry)).unwrap(), entry);
        }
        let position = Position { applied: Some(id()), membership: StoredMembership::new(Some(id()), membership) };
        let again = Position::decode(&position.encode()).unwrap();
        assert_eq!((again.applied, again.membership), (position.applied, position.membership));
    }

    #[test]
    fn strange_bytes_are_refused() {
        assert!(decode_entry(&[]).is_err() && decode_entry(&[2, 0, 0, 0]).is_err() && decode_entry(&[1, 0]).is_err());
    }
}
