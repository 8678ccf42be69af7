//! A record: the unit of the log on disk.
//!
//! ```text
//! 0         2         3        4              8          12             20
//! ┌─────────┬─────────┬────────┬──────────────┬──────────┬──────────────┬──────────────┐
//! │ "Lv"    │ version │ kind   │ body_len u32 │ sum u32  │ synced u64   │ body         │   all numbers big-endian
//! └─────────┴─────────┴────────┴──────────────┴──────────┴──────────────┴──────────────┘
//! ```
//!
//! | kind | body |
//! |---|---|
//! | 1 head | [`Head`]; opens each segment |
//! | 2 vote | term u64, node u64, committed u8 |
//! | 3 committed | log id: term u64, index u64 |
//! | 4 cut | log id: entries behind it are void; no body: all are |
//! | 5 purged | log id: entries up to it are no longer needed |
//! | 6 blank | log id |
//! | 7 command | log id, then the command: its level u8, then its record |
//! | 8 members | log id, then [`Members`] |
//!
//! `sum` is the CRC-32C of the whole record, taken while the field itself holds the record's *place*: a mix of the
//! segment's salt and the record's offset. So a record is valid only where it was written, and no command, whatever
//! bytes a client puts into it, can look like one. `synced` is how much of the segment was known to be on disk when the
//! record was written: it tells a torn end, which nobody was promised, from damage, which must stop the node.

use crate::position::Members;
use crate::types::{Command, Entry, LogId, Payload, Vote, log_id, vote};
use ::types::ChecksumKind;
use ::types::encoding::{self, Encoded};

const HEADER_LEN: usize = 20;
const MAGIC: [u8; 2] = *b"Lv";
const VERSION: u8 = 3;
const LOG_ID_LEN: usize = 16;
/// Longest body: a command of the greatest length, behind its log id.
const BODY_LEN_MAX: usize = LOG_ID_LEN + crate::limits::COMMAND_LEN_MAX;

/// Whose log it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Owner {
    pub(crate) node_id: u64,
    /// Drawn when the log is made, and the same in all its segments: a member whose data was lost has another.
    pub(crate) incarnation: u64,
}
::types::record!(Owner { 0: node_id, 1: incarnation });

/// What opens a segment: everything that older segments, which may be gone, have decided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) salt: u64,
    pub(crate) owner: Owner,
    /// Segments are numbered without gaps.
    pub(crate) sequence: u64,
    vote: Option<(u64, u64, bool)>,
    committed: Option<(u64, u64)>,
    purged: Option<(u64, u64)>,
    last: Option<(u64, u64)>,
}
::types::record!(Head { 0: salt, 1: owner, 2: sequence, 3: vote, 4: committed, 5: purged, 6: last });

impl Head {
    pub(crate) fn new(salt: u64, owner: Owner, sequence: u64, facts: &Facts) -> Self {
        let plain = |id: LogId| (id.leader_id.term, id.index);
        Self {
            salt,
            owner,
            sequence,
            vote: facts.vote.map(|vote| (vote.leader_id.term, vote.leader_id.voted_for, vote.committed)),
            committed: facts.committed.map(plain),
            purged: facts.purged.map(plain),
            last: facts.last.map(plain),
        }
    }

    pub(crate) fn facts(&self) -> Facts {
        let id = |(term, index)| log_id(term, index);
        Facts {
            vote: self.vote.map(|(term, node_id, committed)| vote(term, node_id, committed)),
            committed: self.committed.map(id),
            purged: self.purged.map(id),
            last: self.last.map(id),
        }
    }
}

/// What a log says beside its entries.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Facts {
    pub(crate) vote: Option<Vote>,
    pub(crate) committed: Option<LogId>,
    pub(crate) purged: Option<LogId>,
    /// The last entry, or what was purged if there is none.
    pub(crate) last: Option<LogId>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Record {
    Head(Head),
    Vote(Vote),
    Committed(LogId),
    Cut(Option<LogId>),
    Purged(LogId),
    Entry(Entry),
}

/// Where a record stands; part of its sum.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub(crate) salt: u64,
    pub(crate) offset: u64,
}

impl Place {
    /// Heads are read before their salt is known.
    pub(crate) const HEAD: Self = Self { salt: 0, offset: 0 };

    fn mixed(self) -> [u8; 4] {
        // Any odd number spreads the offset; this one is the golden ratio's, as in SplitMix64.
        let mixed = self.salt ^ self.offset.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        ((mixed ^ (mixed >> 32)) as u32).to_be_bytes()
    }
}

impl Record {
    /// Appends the record as it stands on disk at `place`.
    pub(crate) fn encode(&self, place: Place, synced: u64, bytes: &mut Vec<u8>) {
        Self::seal(self.kind(), place, synced, bytes, |bytes| self.encode_body(bytes));
    }

    /// A record of any body.
    pub(crate) fn seal(kind: u8, place: Place, synced: u64, bytes: &mut Vec<u8>, body: impl FnOnce(&mut Vec<u8>)) {
        let start = bytes.len();
        bytes.extend_from_slice(&MAGIC);
        bytes.extend_from_slice(&[VERSION, kind, 0, 0, 0, 0]);
        bytes.extend_from_slice(&place.mixed());
        bytes.extend_from_slice(&synced.to_be_bytes());
        body(bytes);
        let body_len = bytes.len() - start - HEADER_LEN;
        assert!(body_len <= BODY_LEN_MAX, "a record of {body_len} bytes; proposals are bounded before they come here");
        bytes[start + 4..start + 8].copy_from_slice(&(body_len as u32).to_be_bytes());
        let sum = ChecksumKind::Crc32c.of(&bytes[start..]);
        bytes[start + 8..start + 12].copy_from_slice(&sum.to_be_bytes());
    }

    fn kind(&self) -> u8 {
        match self {
            Self::Head(_) => 1,
            Self::Vote(_) => 2,
            Self::Committed(_) => 3,
            Self::Cut(_) => 4,
            Self::Purged(_) => 5,
            Self::Entry(entry) => match entry.payload {
                Payload::Blank => 6,
                Payload::Normal(_) => 7,
                Payload::Membership(_) => 8,
            },
        }
    }

    fn encode_body(&self, bytes: &mut Vec<u8>) {
        match self {
            Self::Head(head) => head.encode(bytes),
            Self::Vote(vote) => {
                bytes.extend_from_slice(&vote.leader_id.term.to_be_bytes());
                bytes.extend_from_slice(&vote.leader_id.voted_for.to_be_bytes());
                bytes.push(vote.committed.into());
            }
            Self::Committed(id) | Self::Purged(id) | Self::Cut(Some(id)) => encode_id(id, bytes),
            Self::Cut(None) => {}
            Self::Entry(entry) => {
                encode_id(&entry.log_id, bytes);
                match &entry.payload {
                    Payload::Blank => {}
                    Payload::Normal(command) => bytes.extend_from_slice(&command.0),
                    Payload::Membership(membership) => {
                        Members::of(membership).encode(bytes);
                    }
                }
            }
        }
    }

    /// The record at the start of `bytes`. `None`: there is no valid record at this place.
    pub(crate) fn decode(bytes: &[u8], place: Place) -> Option<Decoded> {
        let header = bytes.first_chunk::<HEADER_LEN>()?;
        if header[..2] != MAGIC || header[2] != VERSION {
            return None;
        }
        let body_len = u32::from_be_bytes([header[4], header[5], header[6], header[7]]) as usize;
        if body_len > BODY_LEN_MAX {
            return None;
        }
        let mut whole = bytes.get(..HEADER_LEN + body_len)?.to_vec();
        whole[8..12].copy_from_slice(&place.mixed());
        if ChecksumKind::Crc32c.of(&whole).to_be_bytes() != header[8..12] {
            return None;
        }
        let record = Self::decode_body(header[3], &whole[HEADER_LEN..])?;
        Some(Decoded { record, synced: number(&header[12..])?, len: whole.len() })
    }

    fn decode_body(kind: u8, body: &[u8]) -> Option<Self> {
        let exact = |body: &[u8]| decode_id(body).filter(|_| body.len() == LOG_ID_LEN);
        let entry = |payload| Some(Self::Entry(Entry { log_id: decode_id(body)?, payload }));
        match kind {
            1 => encoding::decode_known(body).ok().map(Self::Head),
            2 => {
                let body: &[u8; 17] = body.try_into().ok()?;
                Some(Self::Vote(vote(number(body)?, number(&body[8..])?, body[16] == 1)))
            }
            3 => exact(body).map(Self::Committed),
            4 if body.is_empty() => Some(Self::Cut(None)),
            4 => exact(body).map(|id| Self::Cut(Some(id))),
            5 => exact(body).map(Self::Purged),
            6 => exact(body).and_then(|_| entry(Payload::Blank)),
            7 => entry(Payload::Normal(Command(body.get(LOG_ID_LEN..)?.into()))),
            8 => {
                let members: Members = encoding::decode_known(body.get(LOG_ID_LEN..)?).ok()?;
                entry(Payload::Membership(members.membership()?))
            }
            _ => None,
        }
    }
}

/// A record found on disk.
#[derive(Debug)]
pub(crate) struct Decoded {
    pub(crate) record: Record,
    pub(crate) synced: u64,
    pub(crate) len: usize,
}

/// True if a record could begin here; cheap, for searching.
pub(crate) fn may_begin(bytes: &[u8]) -> bool {
    bytes.starts_with(&[MAGIC[0], MAGIC[1], VERSION])
}

fn encode_id(id: &LogId, bytes: &mut Vec<u8>) {
    bytes.extend_from_slice(&id.leader_id.term.to_be_bytes());
    bytes.extend_from_slice(&id.index.to_be_bytes());
}

fn decode_id(body: &[u8]) -> Option<LogId> {
    Some(log_id(number(body)?, number(body.get(8..)?)?))
}

fn number(bytes: &[u8]) -> Option<u64> {
    bytes.first_chunk().map(|bytes| u64::from_be_bytes(*bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::{Membership, Node};
    use std::collections::{BTreeMap, BTreeSet};
    use testkit::golden::{Golden, variant};

    const OWNER: Owner = Owner { node_id: 1, incarnation: 0x1dea };

    fn records() -> Vec<Record> {
        let facts = Facts { vote: Some(vote(3, 1, false)), last: Some(log_id(2, 7)), ..Facts::default() };
        let node = |addr: &str, incarnation| Node { addr: addr.into(), incarnation };
        let nodes = BTreeMap::from([(1, node("a:1", 11)), (2, node("b:2", 12))]);
        let membership = Membership::new(vec![BTreeSet::from([1])], nodes).unwrap();
        let entry = |payload| Record::Entry(Entry { log_id: log_id(3, 8), payload });
        vec![
            Record::Head(Head::new(77, OWNER, 5, &facts)),
            Record::Vote(vote(4, 2, true)),
            Record::Committed(log_id(3, 8)),
            Record::Cut(None),
            Record::Cut(Some(log_id(3, 8))),
            Record::Purged(log_id(1, 2)),
            entry(Payload::Blank),
            entry(Payload::Normal(Command([1, 2, 3].into()))),
            entry(Payload::Membership(membership)),
        ]
    }

    #[test]
    fn what_is_written_is_read_back_at_its_place_alone() {
        let place = Place { salt: 99, offset: 4096 };
        for record in records() {
            let mut bytes = Vec::new();
            record.encode(place, 4000, &mut bytes);
            let found = Record::decode(&bytes, place).unwrap();
            assert_eq!((found.record, found.synced, found.len), (record, 4000, bytes.len()));
            assert!(Record::decode(&bytes, Place { offset: 4097, ..place }).is_none());
            assert!(Record::decode(&bytes, Place { salt: 98, ..place }).is_none());
            assert!(may_begin(&bytes));
        }
    }

    #[test]
    fn a_flipped_bit_or_a_missing_byte_is_noticed() {
        let place = Place { salt: 5, offset: 0 };
        for record in records() {
            let mut bytes = Vec::new();
            record.encode(place, 0, &mut bytes);
            for bit in 0..bytes.len() * 8 {
                bytes[bit / 8] ^= 1 << (bit % 8);
                assert!(Record::decode(&bytes, place).is_none(), "{record:?}, bit {bit}");
                bytes[bit / 8] ^= 1 << (bit % 8);
            }
            for len in 0..bytes.len() {
                assert!(Record::decode(&bytes[..len], place).is_none(), "{record:?} cut to {len}");
            }
        }
    }

    #[test]
    fn a_head_carries_all_facts() {
        let facts = Facts {
            vote: Some(vote(9, 1, true)),
            committed: Some(log_id(9, 40)),
            purged: Some(log_id(8, 30)),
            last: Some(log_id(9, 41)),
        };
        assert_eq!(Head::new(1, OWNER, 2, &facts).facts(), facts);
    }

    /// There is none behind it: bytes of every length make no record of the next kind.
    const KIND_MAX: u8 = 8;

    #[test]
    fn no_other_kinds_are_read() {
        for kind in [0, KIND_MAX + 1] {
            assert!((0..64).all(|len| Record::decode_body(kind, &vec![0; len]).is_none()), "kind {kind}");
        }
    }

    /// The bytes are fixed for a version: whoever changes them changes that too.
    #[test]
    fn golden_records() {
        let mut golden = Golden::default();
        for (at, record) in records().iter().enumerate() {
            let mut bytes = Vec::new();
            record.encode(Place { salt: 1, offset: 2 }, 3, &mut bytes);
            golden.add(format!("{at}.{}", variant(record)), &bytes);
        }
        let kinds: BTreeSet<u8> = records().iter().map(Record::kind).collect();
        assert_eq!(kinds, (1..=KIND_MAX).collect(), "each kind has its example");
        golden.hold(concat!(env!("CARGO_MANIFEST_DIR"), "/src/golden_records.txt"));
    }
}
