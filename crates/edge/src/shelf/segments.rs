//! The segments on the disk, oldest first: what each has, and how long all are.

use super::part::Place;
use crate::content::Content;
use crate::head::{Head, SEGMENT_BEGIN};
use crate::record;
use std::collections::BTreeMap;

#[derive(Debug, Default)]
pub(super) struct Segments {
    all: BTreeMap<u64, Segment>,
    /// The one that is written to. What an earlier process wrote is not gone on with.
    open: Option<u64>,
    /// Of the next one. No number is used twice, not of one that went either: its files may be in use still.
    next: u64,
    /// Bytes of all.
    len: u64,
}

/// What one segment may have. A head is short: without the count, one segment could have all that are allowed.
#[derive(Clone, Copy, Debug)]
pub(super) struct SegmentMax {
    pub(super) len: u64,
    pub(super) record_count: u64,
}

/// Numbers of segments are lower. With one for each megabyte, an exabyte times as much was written before.
pub const SEGMENT_NUMBER_MAX: u64 = 1 << 48;

/// Two files, of which one has a head for each record of the other.
#[derive(Debug)]
pub(super) struct Segment {
    pub(super) bytes_len: u64,
    head_count: u64,
    /// Which extents were written to it, in their order. Some may be elsewhere by now, or gone.
    pub(super) records: Vec<(Content, u64)>,
}

impl Segment {
    fn len(&self) -> u64 {
        self.bytes_len + SEGMENT_BEGIN.len() as u64 + self.head_count * Head::LEN as u64
    }
}

impl Segments {
    pub(super) fn len(&self) -> u64 {
        self.len
    }

    pub(super) fn count(&self) -> usize {
        self.all.len()
    }

    pub(super) fn has(&self, place: Place) -> bool {
        self.all.get(&place.segment).is_some_and(|segment| place.at < segment.bytes_len)
    }

    /// Bytes that one more record takes, if it goes where [`Self::append`] puts it.
    pub(super) fn cost(&self, data_len: u32, max: SegmentMax) -> u64 {
        let begin = if self.fitting(data_len, max).is_some() { 0 } else { SEGMENT_BEGIN.len() as u64 };
        begin + record::len_of(data_len) + Head::LEN as u64
    }

    fn fitting(&self, data_len: u32, max: SegmentMax) -> Option<u64> {
        let segment = self.all.get(&self.open?)?;
        let fits = segment.len() + record::len_of(data_len) + Head::LEN as u64 <= max.len;
        self.open.filter(|_| fits && segment.head_count < max.record_count)
    }

    /// A place for one more record, in a new segment if the open one is full.
    pub(super) fn append(&mut self, data_len: u32, max: SegmentMax) -> Place {
        let number = self.fitting(data_len, max).unwrap_or_else(|| {
            let next = self.next;
            self.add(next, Segment { bytes_len: 0, head_count: 0, records: Vec::new() });
            self.open = Some(next);
            next
        });
        let segment = self.all.get_mut(&number).expect("it is there, or was made");
        let (at, before) = (segment.bytes_len, segment.len());
        segment.bytes_len += record::len_of(data_len);
        segment.head_count += 1;
        self.len += segment.len() - before;
        Place { segment: number, at }
    }

    pub(super) fn note(&mut self, place: Place, record: (Content, u64)) {
        if let Some(segment) = self.all.get_mut(&place.segment) {
            segment.records.push(record);
        }
    }

    /// One that an earlier process left. Its number is below [`SEGMENT_NUMBER_MAX`].
    pub(super) fn restore(&mut self, number: u64, bytes_len: u64, head_count: u64) {
        self.add(number, Segment { bytes_len, head_count, records: Vec::new() });
    }

    fn add(&mut self, number: u64, segment: Segment) {
        self.len += segment.len();
        self.next = self.next.max(number + 1);
        let before = self.all.insert(number, segment);
        assert!(before.is_none(), "segment {number} is there already");
    }

    pub(super) fn pop_oldest(&mut self) -> Option<(u64, Segment)> {
        let (number, segment) = self.all.pop_first()?;
        self.len -= segment.len();
        self.open = self.open.filter(|open| *open != number);
        Some((number, segment))
    }

    pub(super) fn check(&self) {
        assert_eq!(self.len, self.all.values().map(Segment::len).sum::<u64>(), "the length of all segments");
        assert!(self.all.last_key_value().is_none_or(|(last, _)| *last < self.next), "numbers go on");
        assert!(self.open.is_none_or(|open| self.all.last_key_value().is_some_and(|(last, _)| *last == open)));
    }
}
