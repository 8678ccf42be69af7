//! What members send each other, in bytes of our own: openraft's types may change with its version.
//!
//! Members may run two versions of this program that follow each other. So a field is added at the end, as an option or
//! a list, which an older member skips, and a variant is sent only to one that knows it: what it does not know it
//! refuses. The version changes only where a message means something else than before (docs/adr/0014). An entry is kept
//! by whoever receives it: a field of [`PlainEntry`] or [`Members`] is written only at a level that all members know.
//!
//! ```text
//! request  [version u8][`Request`]
//! answer   [version u8][`Answer`]
//! ```
//!
//! Log ids are (term, index), votes (term, member, committed).

use crate::position::Members;
use crate::types::{Command, Entry, LogId, Payload, Vote, log_id, vote};
use ::types::encoding::{self, DecodeError, Encoded, Input};
use std::fmt;
use std::sync::Arc;

const VERSION: u8 = 5;

pub(crate) type PlainId = (u64, u64);
pub(crate) type PlainVote = (u64, u64, bool);

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Request {
    /// Whom it is for: an address may have passed to another member,
    pub(crate) to: u64,
    /// and the member may have lost its data. 0 is not known: only [`Ask::AreYouNew`] is answered then.
    pub(crate) incarnation: u64,
    pub(crate) from: u64,
    pub(crate) ask: Ask,
}
::types::record!(Request { 0: to, 1: incarnation, 2: from, 3: ask });

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Ask {
    /// Entries, or none: a heartbeat.
    Append {
        vote: PlainVote,
        before: Option<PlainId>,
        committed: Option<PlainId>,
        entries: Vec<PlainEntry>,
    },
    Vote {
        vote: PlainVote,
        last: Option<PlainId>,
        transfer: bool,
    },
    /// Would you vote for me?
    PreVote {
        vote: PlainVote,
        last: Option<PlainId>,
    },
    /// The leader asks member `to` to take over. All others are told too, and stand back.
    Transfer {
        vote: PlainVote,
        to: u64,
        last: Option<PlainId>,
    },
    Chunk(Chunk),
    /// Do you belong to a group already, and which is your incarnation?
    AreYouNew,
    /// Which digest did your rows have after this entry? `doubt`: whether a majority had the same in the last
    /// comparison of this leader; `None` before the first.
    Digest {
        index: u64,
        doubt: Option<bool>,
    },
    /// After this entry most voters have rows with this digest.
    Differs {
        index: u64,
        digest: u64,
    },
}
::types::variants!(Ask {
    0 => Append { 0: vote, 1: before, 2: committed, 3: entries },
    1 => Vote { 0: vote, 1: last, 2: transfer },
    2 => PreVote { 0: vote, 1: last },
    3 => Transfer { 0: vote, 1: to, 2: last },
    4 => Chunk[chunk],
    5 => AreYouNew,
    6 => Digest { 0: index, 1: doubt },
    7 => Differs { 0: index, 1: digest },
});

/// A piece of a snapshot.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Chunk {
    pub(crate) vote: PlainVote,
    /// Tells one sending from the next.
    pub(crate) snapshot: u64,
    /// From 0 on. The first brings the position, in place of rows; the last is empty.
    pub(crate) number: u64,
    pub(crate) is_last: bool,
    pub(crate) bytes: Blob,
}
::types::record!(Chunk { 0: vote, 1: snapshot, 2: number, 3: is_last, 4: bytes });

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct PlainEntry {
    id: PlainId,
    payload: PlainPayload,
}
::types::record!(PlainEntry { 0: id, 1: payload });

#[derive(Clone, Debug, PartialEq)]
enum PlainPayload {
    Blank,
    Command(Blob),
    Members(Members),
}
::types::variants!(PlainPayload { 0 => Blank, 1 => Command(0: bytes), 2 => Members[members] });

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Answer {
    Appended,
    /// The log does not have the entry before the ones that were sent.
    Conflict,
    HigherVote(PlainVote),
    Voted {
        vote: PlainVote,
        last: Option<PlainId>,
        granted: bool,
    },
    /// Go on with the next chunk.
    Taken,
    /// The last chunk is here, and the state is being put in place: ask again with the same chunk.
    Installing,
    Installed {
        vote: PlainVote,
    },
    /// The chunk does not follow the last one: begin again.
    Restart,
    TransferAccepted,
    /// Not now, or not by this member; in words for the log.
    Refused(String),
    /// `AreYouNew`: this member's log is empty.
    New {
        incarnation: u64,
    },
    /// `AreYouNew`: it is not.
    Old {
        incarnation: u64,
    },
    /// `digest`: `None` if it has not applied the entry yet, or too many since. `level`: the highest that it knows.
    Digest {
        digest: Option<u64>,
        level: Option<u8>,
    },
    /// `Differs`: it stops, if it has other rows indeed.
    Noted,
}
::types::variants!(Answer {
    0 => Appended,
    1 => Conflict,
    2 => HigherVote(0: vote),
    3 => Voted { 0: vote, 1: last, 2: granted },
    4 => Taken,
    5 => Installing,
    6 => Installed { 0: vote },
    7 => Restart,
    8 => TransferAccepted,
    9 => Refused(0: reason),
    10 => New { 0: incarnation },
    11 => Old { 0: incarnation },
    12 => Digest { 0: digest, 1: level },
    13 => Noted,
});

/// Bytes that are not taken one by one.
#[derive(Clone, PartialEq)]
pub(crate) struct Blob(pub(crate) Arc<[u8]>);

impl fmt::Debug for Blob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.0.len())
    }
}

impl Encoded for Blob {
    fn encode(&self, out: &mut Vec<u8>) {
        self.0.len().encode(out);
        out.extend_from_slice(&self.0);
    }

    fn decode(input: &mut Input<'_>) -> Result<Self, DecodeError> {
        let len = u64::decode(input)?;
        Ok(Self(input.take(len)?.into()))
    }
}

impl From<&Entry> for PlainEntry {
    fn from(entry: &Entry) -> Self {
        let payload = match &entry.payload {
            Payload::Blank => PlainPayload::Blank,
            Payload::Normal(command) => PlainPayload::Command(Blob(Arc::clone(&command.0))),
            Payload::Membership(membership) => PlainPayload::Members(Members::of(membership)),
        };
        Self { id: plain_id(entry.log_id), payload }
    }
}

impl PlainEntry {
    pub(crate) fn term(&self) -> u64 {
        self.id.0
    }

    /// `None` if no group can have the members it names.
    pub(crate) fn entry(self) -> Option<Entry> {
        let payload = match self.payload {
            PlainPayload::Blank => Payload::Blank,
            PlainPayload::Command(bytes) => Payload::Normal(Command(bytes.0)),
            PlainPayload::Members(members) => Payload::Membership(members.membership()?),
        };
        Some(Entry { log_id: id_of(self.id), payload })
    }
}

/// Terms that a vote may be ahead of what a member knows. Each election adds one: so many no group has seen. A vote of
/// the last term there is, once saved, would end all elections for good, and one that is as far ahead as this needs
/// four thousand million more.
const TERM_LEAP_MAX: u64 = 1 << 32;

/// Whether a vote may be one of a group that is, or was, in the term `known`.
pub(crate) fn is_near(vote: PlainVote, known: u64) -> bool {
    vote.0 <= known.saturating_add(TERM_LEAP_MAX)
}

pub(crate) fn plain_id(id: LogId) -> PlainId {
    (id.leader_id.term, id.index)
}

pub(crate) fn id_of((term, index): PlainId) -> LogId {
    log_id(term, index)
}

pub(crate) fn plain_vote(vote: Vote) -> PlainVote {
    (vote.leader_id.term, vote.leader_id.voted_for, vote.committed)
}

pub(crate) fn vote_of((term, node_id, committed): PlainVote) -> Vote {
    vote(term, node_id, committed)
}

pub(crate) fn encode<T: Encoded>(message: &T) -> Vec<u8> {
    encoding::encode(message, vec![VERSION])
}

pub(crate) fn decode<T: Encoded>(bytes: &[u8]) -> Result<T, String> {
    match bytes.split_first() {
        Some((&VERSION, message)) => encoding::decode_known(message).map_err(|error| error.to_string()),
        version => Err(format!("version {:?}; this program knows {VERSION}", version.map(|(byte, _)| byte))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::{Membership, Node};
    use std::collections::{BTreeMap, BTreeSet};
    use testkit::golden::{Golden, is_variant, variant};

    fn requests() -> Vec<Request> {
        let node = |addr: &str, incarnation| Node { addr: addr.into(), incarnation };
        let nodes = BTreeMap::from([(1, node("a:1", 11)), (2, node("b:2", 12))]);
        let membership = Membership::new(vec![BTreeSet::from([1])], nodes).unwrap();
        let entry = |index, payload| PlainEntry::from(&Entry { log_id: log_id(3, index), payload });
        let entries = vec![
            entry(8, Payload::Blank),
            entry(9, Payload::Normal(Command([1, 2, 3].into()))),
            entry(10, Payload::Membership(membership)),
        ];
        let chunk = Chunk { vote: (3, 1, true), snapshot: 7, number: 1, is_last: false, bytes: Blob([9; 3].into()) };
        let asks = [
            Ask::Append { vote: (3, 1, true), before: Some((2, 7)), committed: Some((2, 6)), entries },
            Ask::Vote { vote: (4, 2, false), last: None, transfer: true },
            Ask::PreVote { vote: (4, 2, false), last: Some((3, 8)) },
            Ask::Transfer { vote: (3, 1, true), to: 5, last: Some((3, 8)) },
            Ask::Chunk(chunk),
            Ask::AreYouNew,
            Ask::Digest { index: 300, doubt: Some(true) },
            Ask::Differs { index: 300, digest: 1 << 63 },
        ];
        asks.into_iter().map(|ask| Request { to: 2, incarnation: 0x1dea, from: 1, ask }).collect()
    }

    #[test]
    fn messages_survive_their_bytes() {
        for request in requests() {
            let bytes = encode(&request);
            assert_eq!(decode::<Request>(&bytes).unwrap(), request);
            for len in 0..bytes.len() {
                assert!(decode::<Request>(&bytes[..len]).is_err(), "{request:?} cut to {len}");
            }
        }
        assert!(decode::<Request>(&[1, 0]).is_err());
    }

    /// The bytes of `message` with one more field in the record that begins at `at`: a program of the next version.
    fn with_newer_field(mut message: Vec<u8>, at: usize) -> Vec<u8> {
        assert!(message[at] < 0x7f, "the record's length has one byte");
        message[at] += 1;
        message.push(7);
        message
    }

    #[test]
    fn fields_of_a_newer_member_are_skipped() {
        for request in requests() {
            assert_eq!(decode::<Request>(&with_newer_field(encode(&request), 1)), Ok(request));
        }
        let answer = Answer::Digest { digest: Some(7), level: Some(1) };
        assert_eq!(decode::<Answer>(&with_newer_field(encode(&answer), 2)), Ok(answer));
    }

    #[test]
    fn fields_that_an_older_member_did_not_send_are_empty() {
        // `Answer::Digest` with its first field alone: an option and a byte.
        let old = [VERSION, 12, 2, 1, 7];
        assert_eq!(decode::<Answer>(&old), Ok(Answer::Digest { digest: Some(7), level: None }));
    }

    #[test]
    fn questions_of_a_newer_member_are_refused() {
        // To 2, its incarnation 7, from 1: question 90, without fields.
        let refused = decode::<Request>(&[VERSION, 5, 2, 7, 1, 90, 0]).unwrap_err();
        assert_eq!(refused, "Ask has no variant 90 in this program; a newer one wrote it");
    }

    #[test]
    fn an_entry_is_the_same_on_the_other_side() {
        let Ask::Append { entries, .. } = requests().remove(0).ask else { panic!() };
        for entry in entries {
            let there = entry.clone().entry().unwrap();
            assert_eq!(PlainEntry::from(&there), entry);
        }
    }

    /// The bytes are fixed for a version: whoever changes them changes that too.
    #[test]
    fn golden_messages() {
        let answers = [
            Answer::Appended,
            Answer::Conflict,
            Answer::HigherVote((4, 2, false)),
            Answer::Voted { vote: (4, 2, false), last: Some((3, 8)), granted: true },
            Answer::Taken,
            Answer::Installing,
            Answer::Installed { vote: (4, 2, true) },
            Answer::Restart,
            Answer::TransferAccepted,
            Answer::Refused("no".into()),
            Answer::New { incarnation: 0x1dea },
            Answer::Old { incarnation: 0x1dea },
            Answer::Digest { digest: Some(1 << 63), level: Some(1) },
            Answer::Noted,
        ];
        let complete = !is_variant::<Ask>(requests().len()) && !is_variant::<Answer>(answers.len());
        assert!(complete, "each message has its example");
        let mut golden = Golden::default();
        for request in requests() {
            golden.add(variant(&request.ask), &encode(&request));
        }
        for answer in answers {
            golden.add(format!("answer.{}", variant(&answer)), &encode(&answer));
        }
        golden.hold(concat!(env!("CARGO_MANIFEST_DIR"), "/src/golden_messages.txt"));
    }
}
