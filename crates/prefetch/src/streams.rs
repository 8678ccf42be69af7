//! Reads of a file whose layout is not known: several streams of them, each sequential or in equal steps.
//!
//! Promise: a read is compared with a few streams and a few reads before it, and no more. Two in succession or three at
//! equal distances begin a stream, in place of that which was used longest ago.

use crate::decision::{Decision, Why};
use crate::span::Span;
use crate::stream::{Stream, Tag, step_of, succeeds};
use std::collections::VecDeque;

/// Threads that read one file side by side, each in its order. A guess; a kernel follows one for each open file.
const STREAM_COUNT_MAX: usize = 8;
/// Reads that fitted nowhere, among which the beginning of a stream is looked for: two for each stream.
const RECENT_COUNT_MAX: usize = 2 * STREAM_COUNT_MAX;
/// A succession through so many columns goes on behind the piece at hand; across so many, it copies the file.
pub(crate) const COLUMN_CHANGES_MIN: u32 = 4;
/// Patterns of one file that are kept.
pub(crate) const PATTERN_COUNT_MAX: usize = STREAM_COUNT_MAX;
/// A pattern is worth a line in a profile from so many reads on.
const STEPS_NOTED_MIN: u32 = 8;
/// What a link of no delay gets: Linux's read-ahead.
const WINDOW_LEN_LEAST: u64 = 128 << 10;

#[derive(Debug, Default)]
pub(crate) struct Streams {
    streams: Vec<Stream>,
    recent: VecDeque<Span>,
    /// Patterns of streams that ended, the longest of them.
    noted: Vec<Pattern>,
}

/// A pattern as a profile keeps it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Pattern {
    pub(crate) offset: u64,
    pub(crate) step: i64,
    pub(crate) len: u64,
    pub(crate) steps: u32,
}

impl Streams {
    /// A pattern that an earlier run had.
    pub(crate) fn know(&mut self, pattern: Pattern) {
        if self.streams.len() < STREAM_COUNT_MAX {
            self.streams.push(Stream::known(Span::new(pattern.offset, pattern.len), pattern.step, pattern.steps));
        }
    }

    /// The read `span`. Answers its stream; `ended` is what was fetched
    /// for a stream that is given up for it.
    pub(crate) fn note(
        &mut self,
        span: Span,
        tag: Tag,
        number: u64,
        ended: &mut Vec<Span>,
        decided: &mut Vec<Decision>,
    ) -> Option<usize> {
        let fits =
            self.streams.iter().enumerate().filter_map(|(at, stream)| Some((stream.fit(span)?, stream.step, at)));
        // Readers at equal distances from each other look like steps; each follows what it read itself.
        if let Some((.., at)) = fits.min_by_key(|(error, step, at)| (*step != 0, *error, *at)) {
            self.streams[at].take(span, tag, number);
            return Some(at);
        }
        let Some(stream) = self.begun_by(span, tag, number) else {
            if self.recent.len() == RECENT_COUNT_MAX {
                self.recent.pop_front();
            }
            self.recent.push_back(span);
            return None;
        };
        if self.streams.len() == STREAM_COUNT_MAX {
            let oldest = (0..STREAM_COUNT_MAX).min_by_key(|at| self.streams[*at].used_at).unwrap_or(0);
            let stream = self.streams.swap_remove(oldest);
            if !stream.is_fresh() {
                stream.unread(ended);
                decided.push(Decision::PatternEnded { why: stream.why(), offset: stream.last.offset });
            }
            note_pattern(&mut self.noted, &stream);
        }
        self.streams.push(stream);
        Some(self.streams.len() - 1)
    }

    /// The stream that `span` makes of reads before it.
    fn begun_by(&mut self, span: Span, tag: Tag, number: u64) -> Option<Stream> {
        if let Some(at) = self.recent.iter().position(|last| succeeds(*last, span)) {
            let first = self.recent.remove(at)?;
            return Some(Stream::new(first.offset, span, 0, 0, tag, number));
        }
        let pairs = self.recent.iter().enumerate().flat_map(|(at, second)| {
            self.recent
                .iter()
                .take(at)
                .filter_map(move |first| Some((step_of(*first, *second, span)?, *first, *second)))
        });
        let ((step, deviation), first, _) = pairs.min_by_key(|((_, deviation), ..)| *deviation)?;
        // The reads stay among the recent ones: each may be the first of a reader of its own.
        Some(Stream::new(first.offset, span, step, deviation, tag, number))
    }

    /// Nothing was there of what a stream came to.
    pub(crate) fn predict_again(&mut self, at: usize) {
        if let Some(stream) = self.streams.get_mut(at) {
            stream.predict_again();
        }
    }

    fn sequential(&self, at: usize) -> Option<&Stream> {
        self.streams.get(at).filter(|stream| stream.why() == Why::Sequential)
    }

    /// Whether a stream goes through columns that lie side by side.
    pub(crate) fn goes_through_columns(&self, at: usize) -> bool {
        self.sequential(at).is_some_and(|stream| stream.column_changes >= COLUMN_CHANGES_MIN)
    }

    /// Whether a stream goes through the file as a whole, whatever its columns.
    pub(crate) fn is_copy(&self, at: usize) -> bool {
        self.sequential(at).is_some_and(|stream| stream.columns_crossed >= COLUMN_CHANGES_MIN)
    }

    pub(crate) fn is_due(&self, at: usize, missed: bool) -> bool {
        self.streams.get(at).is_some_and(|stream| stream.is_due(missed))
    }

    /// How long a window may be: what a round trip brings, and no more than a stream's part of the cache.
    fn window_max(&self, delay_len: u64, cache_len: u64) -> u64 {
        let active = self.streams.len().max(1) as u64;
        delay_len.max(WINDOW_LEN_LEAST).min(cache_len / active)
    }

    /// What follows for a stream, `room` bytes at most, and none behind `end`.
    pub(crate) fn list(
        &mut self,
        at: usize,
        room: u64,
        delay_len: u64,
        cache_len: u64,
        end: u64,
        decided: &mut Vec<Decision>,
    ) -> (Why, Vec<Span>) {
        let window_max = self.window_max(delay_len, cache_len);
        let mut found = Vec::new();
        let Some(stream) = self.streams.get_mut(at) else { return (Why::Sequential, found) };
        if stream.is_fresh() {
            decided.push(Decision::PatternSeen { why: stream.why(), offset: stream.origin, step: stream.step });
        }
        let window = stream.grow(window_max);
        stream.predict(window.saturating_sub(stream.backlog()).min(room), end, &mut found);
        (stream.why(), found)
    }

    pub(crate) fn known_count(&self) -> usize {
        self.streams.len()
    }

    pub(crate) fn patterns(&self) -> Vec<Pattern> {
        let mut patterns = self.noted.clone();
        for stream in &self.streams {
            note_pattern(&mut patterns, stream);
        }
        patterns
    }
}

fn note_pattern(patterns: &mut Vec<Pattern>, stream: &Stream) {
    // Reads of columns are known by these.
    if stream.steps < STEPS_NOTED_MIN || stream.tag.column.is_some() || !stream.is_exact() {
        return;
    }
    patterns.push(Pattern { offset: stream.origin, step: stream.step, len: stream.last.len, steps: stream.steps });
    if patterns.len() > PATTERN_COUNT_MAX {
        let shortest = (0..patterns.len()).min_by_key(|at| patterns[*at].steps).unwrap_or(0);
        patterns.swap_remove(shortest);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn streams(reads: &[(u64, u64)]) -> (Streams, Option<usize>) {
        let mut streams = Streams::default();
        let mut at = None;
        for (number, (offset, len)) in reads.iter().enumerate() {
            at =
                streams.note(Span::new(*offset, *len), Tag::default(), number as u64, &mut Vec::new(), &mut Vec::new());
        }
        (streams, at)
    }

    fn next(reads: &[(u64, u64)]) -> Vec<(u64, u64)> {
        let (mut streams, at) = streams(reads);
        let Some(at) = at else { return Vec::new() };
        if !streams.is_due(at, true) {
            return Vec::new();
        }
        let (_, spans) = streams.list(at, 1 << 20, 0, 1 << 20, 100_000, &mut Vec::new());
        spans.iter().map(|span| (span.offset, span.len)).collect()
    }

    #[test]
    fn two_reads_in_succession_are_a_stream() {
        assert_eq!(next(&[(0, 100), (100, 100)]), [(200, WINDOW_LEN_FIRST)]);
        assert_eq!(next(&[(0, 100)]), []);
        assert_eq!(next(&[(0, 100), (99_000, 900), (100, 100)]), [(200, WINDOW_LEN_FIRST)], "another read between");
        assert_eq!(next(&[(98_000, 1000), (99_000, 900)]), [(99_900, 100)], "not beyond the end");
    }

    const WINDOW_LEN_FIRST: u64 = 16 << 10;

    #[test]
    fn equal_steps_are_seen_at_the_third_read() {
        let three = next(&[(1000, 34), (2400, 34), (3800, 34)]);
        assert_eq!(three, [(5200, 34), (6600, 34), (8000, 34), (9400, 34)]);
        let back = next(&[(9000, 34), (7600, 34), (6200, 34)]);
        assert_eq!(back, [(4800, 34), (3400, 34), (2000, 34), (600, 34)]);
        assert_eq!(next(&[(1000, 34), (2400, 34), (7800, 34)]), []);
    }

    /// Two threads in steps of their own.
    #[test]
    fn streams_side_by_side_are_told_apart() {
        let reads = [(0, 10), (50_000, 20), (100, 10), (50_300, 20), (200, 10), (50_600, 20)];
        assert_eq!(next(&reads[..5])[..2], [(300, 10), (400, 10)]);
        assert_eq!(next(&reads)[..2], [(50_900, 20), (51_200, 20)]);
    }

    #[test]
    fn steps_that_differ_a_little_are_padded() {
        assert_eq!(next(&[(1000, 34), (2400, 34), (3805, 34)])[0], (5197, 54));
        assert_eq!(next(&[(1000, 34), (2400, 34), (3900, 34)]), [], "most of it would be pads");
    }
}
