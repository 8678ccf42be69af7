//! The reads of an opening: headers, footers and indexes, which are no columns.

use crate::profile::{AGE_USED_MAX, OPENING_COUNT_MAX, OPENING_LEN_MAX, OpeningRead, Profile};
use crate::span::Span;

/// What is read later belongs to the work rather than to the opening.
const OPENING_READS_MAX: u64 = 64;

#[derive(Debug)]
pub(crate) struct Opening {
    file_len: u64,
    reads: Vec<OpeningRead>,
}

impl Opening {
    pub(crate) fn new(file_len: u64) -> Self {
        Self { file_len, reads: Vec::new() }
    }

    /// The `number`th read, which is none of a column.
    pub(crate) fn note(&mut self, span: Span, number: u64) {
        if number > OPENING_READS_MAX || self.reads.len() == OPENING_COUNT_MAX || span.len > OPENING_LEN_MAX {
            return;
        }
        // What lies in the second half is taken for a footer: in another file of the data set it is as far from the
        // end.
        let from_end = span.offset >= self.file_len / 2;
        let offset = if from_end { self.file_len.saturating_sub(span.offset) } else { span.offset };
        let read = OpeningRead { from_end, offset, len: span.len, age: 0, seen: 1 };
        if !self.reads.contains(&read) {
            self.reads.push(read);
        }
    }

    pub(crate) fn reads(&self) -> &[OpeningRead] {
        &self.reads
    }

    /// Where they are in a file of this length; those of the last two runs. A program that reads anywhere reads
    /// elsewhere each time, so from the second run on only what was seen twice is taken for an opening.
    pub(crate) fn spans(profile: &Profile, file_len: u64) -> impl Iterator<Item = Span> {
        let is_first = profile.runs <= 1;
        let recent = profile.opening.iter().filter(move |read| read.age <= AGE_USED_MAX && (is_first || read.seen > 1));
        recent.filter_map(move |read| {
            let offset = if read.from_end { file_len.checked_sub(read.offset)? } else { read.offset };
            Some(Span::new(offset, read.len).before(file_len))
        })
    }
}
