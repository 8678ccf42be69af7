//! What this crate reads from its files and from other members, as functions of bytes, for fuzz targets. Whatever the
//! bytes are, none panics.

use crate::message::{self, Answer, Ask, PlainEntry, Request};
use crate::position::Position;
use crate::record::{Facts, Head, Owner, Place, Record};
use crate::segment::{self, Contents};
use crate::writer::Replay;

/// A segment of the log.
pub fn segment(bytes: &[u8]) {
    if let Some(contents) = segment::parse(bytes) {
        replay(contents);
    }
}

/// A segment whose records are sound, with bodies of strange bytes: `[kind u8][body_len u8][body]`, one after the
/// other.
pub fn records(bytes: &[u8]) {
    let whole = sealed(bytes);
    let contents = segment::parse(&whole).expect("its head is sound");
    assert!(contents.len as usize <= whole.len());
    replay(contents);
}

/// The segment of [`records`].
pub fn sealed(mut bytes: &[u8]) -> Vec<u8> {
    const SALT: u64 = 0x5a17;
    let mut whole = Vec::new();
    Record::Head(Head::new(SALT, Owner::default(), 1, &Facts::default())).encode(Place::HEAD, 0, &mut whole);
    while let [kind, body_len, rest @ ..] = bytes {
        let (body, behind) = rest.split_at(usize::from(*body_len).min(rest.len()));
        let place = Place { salt: SALT, offset: whole.len() as u64 };
        Record::seal(*kind, place, whole.len() as u64, &mut whole, |whole| whole.extend_from_slice(body));
        bytes = behind;
    }
    whole
}

fn replay(contents: Contents) {
    let mut replay = Replay::default();
    replay.begin(contents.head.facts());
    // Each that is read is written as it was read, or the log would change when it is copied.
    for record in contents.records {
        let mut bytes = Vec::new();
        record.encode(Place::HEAD, 0, &mut bytes);
        let again = Record::decode(&bytes, Place::HEAD).map(|found| found.record);
        assert_eq!(again.as_ref(), Some(&record));
        if replay.take(record).is_err() {
            return; // such a log is refused
        }
    }
}

/// What members say to each other.
pub fn message(bytes: &[u8]) {
    if let Ok(request) = message::decode::<Request>(bytes) {
        assert_eq!(message::decode::<Request>(&message::encode(&request)).as_ref(), Ok(&request));
        if let Ask::Append { entries, .. } = request.ask {
            for entry in entries.into_iter().filter_map(PlainEntry::entry) {
                let _ = PlainEntry::from(&entry);
            }
        }
    }
    if let Ok(answer) = message::decode::<Answer>(bytes) {
        assert_eq!(message::decode::<Answer>(&message::encode(&answer)), Ok(answer));
    }
}

/// Where a machine stands.
pub fn position(bytes: &[u8]) {
    if let Ok(position) = Position::decode(bytes) {
        assert_eq!(Position::decode(&position.encode()).ok(), Some(position));
    }
}
