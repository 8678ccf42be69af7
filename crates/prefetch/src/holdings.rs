//! Which bytes of a file are in the cache or on their way to it, which of them were read, and what was fetched in vain.
//!
//! ```text
//!            ask            arrive                     make_room
//!   missing ─────▶ coming ─────────▶ held ─────────────────────────▶ missing
//!                     │                 the spent first, then the doubtful, the oldest first of each
//!                     └─ fail ─▶ missing
//! ```
//!
//! Promise: what is coming and held together is never longer than the cache. Every byte that was fetched is counted
//! once: read ([`Accounts::used_len`]), dropped without having been read (`lost_len`), or neither yet (`risk_len`,
//! `promised_len`). A call takes time by the number of segments that it touches.

use crate::id::FetchId;
use crate::span::Span;
use std::collections::{BTreeMap, BTreeSet};

/// Pieces that the cache is cut in by what was asked for and what was read. 150 bytes each, about: some 20 MB when all
/// are in use, which takes a program that reads every other byte.
pub(crate) const SEGMENT_COUNT_MAX: usize = 1 << 17;
/// Bytes that were expected so many reads ago are not expected any more.
const STALE_READS: u64 = 1 << 14;

/// What is dropped first stands first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Class {
    /// It was read.
    Spent,
    /// It was not, and nobody expects that it will be.
    Doubtful,
    /// A plan expects it to be read.
    Wanted,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Segment {
    end: u64,
    coming: Option<FetchId>,
    class: Class,
    /// The read at which it was asked for or read last.
    stamp: u64,
}

/// What became of the bytes that were asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Accounts {
    /// All that arrived or is on its way; what failed is not counted.
    pub asked_len: u64,
    /// Read by the program, once or more often.
    pub used_len: u64,
    /// Dropped, and never read.
    pub lost_len: u64,
    /// In the cache or on its way, and not read so far.
    pub risk_len: u64,
    /// On its way, and a read waits for it.
    pub promised_len: u64,
}

impl Accounts {
    /// What is in vain if the program ends here.
    pub fn waste_len(&self) -> u64 {
        self.lost_len.saturating_add(self.risk_len)
    }
}

/// A part of a read, and where it comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The cache has it.
    Held,
    /// A fetch brings it.
    Coming(FetchId),
    Missing,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    pub span: Span,
    pub source: Source,
}

#[derive(Debug, Default)]
pub(crate) struct Holdings {
    segments: BTreeMap<u64, Segment>,
    /// All that is held, in the order in which it is dropped.
    order: BTreeSet<(Class, u64, u64)>,
    /// What each fetch brings into the cache.
    fetches: BTreeMap<FetchId, Vec<Span>>,
    /// What each brings to a reader past the cache.
    through: BTreeMap<FetchId, u64>,
    accounts: Accounts,
    coming_len: u64,
    held_len: u64,
    wanted_len: u64,
    number: u64,
}

impl Holdings {
    pub(crate) fn accounts(&self) -> Accounts {
        self.accounts
    }

    /// Memory in use.
    pub(crate) fn len(&self) -> u64 {
        self.coming_len + self.held_len
    }

    /// What no plan may take: on its way, or expected.
    pub(crate) fn kept_len(&self) -> u64 {
        self.coming_len + self.wanted_len
    }

    pub(crate) fn fetch_count(&self) -> usize {
        self.fetches.len()
    }

    pub(crate) fn segments_left(&self) -> usize {
        SEGMENT_COUNT_MAX.saturating_sub(self.segments.len())
    }

    /// The number of the read that follows.
    pub(crate) fn at(&mut self, number: u64) {
        self.number = number;
    }

    fn first_at(&self, offset: u64) -> u64 {
        let before = self.segments.range(..=offset).next_back();
        before.filter(|(_, segment)| segment.end > offset).map_or(offset, |(start, _)| *start)
    }

    /// What `span` consists of, in its order.
    pub(crate) fn parts(&self, span: Span) -> Vec<Part> {
        let mut parts: Vec<Part> = Vec::new();
        let mut add = |start: u64, end: u64, source| {
            if start >= end {
                return;
            }
            match parts.last_mut() {
                Some(last) if last.source == source => last.span.len = end - last.span.offset,
                _ => parts.push(Part { span: Span::between(start, end), source }),
            }
        };
        let mut at = span.offset;
        for (start, segment) in self.segments.range(self.first_at(span.offset)..span.end()) {
            add(at, *start, Source::Missing);
            let source = segment.coming.map_or(Source::Held, Source::Coming);
            add(at.max(*start), segment.end.min(span.end()), source);
            at = segment.end;
        }
        add(at, span.end(), Source::Missing);
        parts
    }

    pub(crate) fn missing(&self, span: Span, found: &mut Vec<Span>) {
        let mut at = span.offset;
        for (start, segment) in self.segments.range(self.first_at(span.offset)..span.end()) {
            if at < *start {
                found.push(Span::between(at, *start));
            }
            at = segment.end;
        }
        if at < span.end() {
            found.push(Span::between(at, span.end()));
        }
    }

    fn remove(&mut self, start: u64) -> Option<Segment> {
        let segment = self.segments.remove(&start)?;
        let len = segment.end - start;
        match segment.coming {
            Some(_) => self.coming_len -= len,
            None => {
                self.held_len -= len;
                self.order.remove(&(segment.class, segment.stamp, start));
                if segment.class == Class::Wanted {
                    self.wanted_len -= len;
                }
            }
        }
        Some(segment)
    }

    fn insert(&mut self, start: u64, segment: Segment) {
        let len = segment.end - start;
        match segment.coming {
            Some(_) => self.coming_len += len,
            None => {
                self.held_len += len;
                self.order.insert((segment.class, segment.stamp, start));
                if segment.class == Class::Wanted {
                    self.wanted_len += len;
                }
            }
        }
        let before = self.segments.insert(start, segment);
        assert!(before.is_none(), "bytes are in the cache once");
    }

    /// Puts a segment back, as one with that before it if they differ in nothing but age.
    fn insert_joined(&mut self, start: u64, mut segment: Segment) {
        let mut start = start;
        if let Some((before, neighbour)) = self.segments.range(..start).next_back()
            && neighbour.end == start
            && neighbour.coming == segment.coming
            && neighbour.class == segment.class
        {
            let before = *before;
            segment.stamp = segment.stamp.max(neighbour.stamp);
            self.remove(before);
            start = before;
        }
        self.insert(start, segment);
    }

    /// Gives what is in the cache of `span` another class; segments are cut where it begins and ends.
    fn change(&mut self, span: Span, class_of: impl Fn(Class) -> Class) {
        if span.is_empty() {
            return;
        }
        let mut at = self.first_at(span.offset);
        while let Some((start, segment)) = self.segments.range(at..span.end().max(at)).next() {
            let (start, segment) = (*start, *segment);
            at = segment.end;
            let inner = Span::between(start.max(span.offset), segment.end.min(span.end()));
            let is_cut = inner.offset > start || inner.end() < segment.end;
            if is_cut && segment.class != Class::Spent && self.segments_left() < 2 {
                // It stays as it is, as if it was not read: what is counted in vain is too much rather than too little.
                continue;
            }
            let class = class_of(segment.class);
            if class == segment.class && class != Class::Spent {
                continue;
            }
            if class == segment.class && is_cut {
                // It was read before: that a part of it was read again makes it young as a whole.
                self.remove(start);
                self.insert(start, Segment { stamp: self.number, ..segment });
                continue;
            }
            if class == Class::Spent && segment.class != Class::Spent {
                let accounts = &mut self.accounts;
                accounts.risk_len -= inner.len;
                match segment.coming {
                    Some(_) => accounts.promised_len = accounts.promised_len.saturating_add(inner.len),
                    None => accounts.used_len = accounts.used_len.saturating_add(inner.len),
                }
            }
            self.remove(start);
            if inner.offset > start {
                self.insert(start, Segment { end: inner.offset, ..segment });
            }
            self.insert_joined(inner.offset, Segment { end: inner.end(), class, stamp: self.number, ..segment });
            if inner.end() < segment.end {
                self.insert(inner.end(), segment);
            }
        }
    }

    /// The program reads `span`: what is there of it counts as used, or as promised where it is still on its way. True:
    /// some of it was fetched ahead, and nobody had read it.
    pub(crate) fn read(&mut self, span: Span) -> bool {
        let before = self.accounts.risk_len;
        self.change(span, |_| Class::Spent);
        self.accounts.risk_len < before
    }

    /// No plan expects `span` any more.
    pub(crate) fn doubt(&mut self, span: Span) {
        self.change(span, |class| class.min(Class::Doubtful));
    }

    /// A plan expects it after all.
    pub(crate) fn want(&mut self, span: Span) {
        self.change(span, |class| if class == Class::Doubtful { Class::Wanted } else { class });
    }

    /// Drops what is `worst` or better to drop, until `len` bytes more fit in `cache_len`. False: they do not.
    pub(crate) fn make_room(&mut self, len: u64, cache_len: u64, worst: Class, dropped: &mut Vec<Span>) -> bool {
        while self.len().saturating_add(len) > cache_len {
            let Some((class, stamp, start)) = self.order.first().copied() else { return false };
            let is_stale = stamp.saturating_add(STALE_READS) < self.number;
            if class > worst && !is_stale {
                return false;
            }
            let needed = self.len().saturating_add(len) - cache_len;
            let Some(segment) = self.remove(start) else { return false };
            let mut span = Span::between(start, segment.end);
            if class == Class::Spent && span.len > needed {
                // What was read on and on is one segment. Its end was read last, and may be read again.
                span = Span::new(start, needed);
                self.insert(span.end(), segment);
            }
            if class != Class::Spent {
                self.accounts.risk_len -= span.len;
                self.accounts.lost_len += span.len;
            }
            dropped.push(span);
        }
        true
    }

    /// Drops a few of what is least expected when the cache is cut in too many pieces.
    pub(crate) fn thin(&mut self, dropped: &mut Vec<Span>) {
        /// More than a read adds.
        const A_FEW: usize = 16;
        for _ in 0..A_FEW {
            let first = self.order.first().filter(|(class, ..)| *class < Class::Wanted);
            let Some((_, _, start)) = first.copied().filter(|_| self.segments_left() < SEGMENT_COUNT_MAX / 8) else {
                return;
            };
            let len = self.segments.get(&start).map_or(0, |segment| segment.end - start);
            self.make_room(0, self.len().saturating_sub(len), Class::Doubtful, dropped);
        }
    }

    /// `spans` are on their way to the cache. They are missing and do not overlap, and there is room for them.
    pub(crate) fn ask(&mut self, fetch: FetchId, spans: &[Span], class: Class) {
        for span in spans.iter().filter(|span| !span.is_empty()) {
            let segment = Segment { end: span.end(), coming: Some(fetch), class, stamp: self.number };
            self.insert(span.offset, segment);
            self.accounts.asked_len = self.accounts.asked_len.saturating_add(span.len);
            let counted = &mut self.accounts;
            let counted = if class == Class::Spent { &mut counted.promised_len } else { &mut counted.risk_len };
            *counted = counted.saturating_add(span.len);
        }
        self.fetches.entry(fetch).or_default().extend_from_slice(spans);
    }

    /// `len` bytes are on their way to a reader, past the cache. What a server calls the length of a file limits it,
    /// and nothing else, so sums end at the last number.
    pub(crate) fn ask_through(&mut self, fetch: FetchId, len: u64) {
        self.accounts.asked_len = self.accounts.asked_len.saturating_add(len);
        self.accounts.promised_len = self.accounts.promised_len.saturating_add(len);
        self.through.insert(fetch, len);
        self.fetches.entry(fetch).or_default();
    }

    /// What `fetch` was to bring is there, or will not come. False: it is not known.
    pub(crate) fn settle(&mut self, fetch: FetchId, is_there: bool) -> bool {
        let Some(spans) = self.fetches.remove(&fetch) else { return false };
        let through = self.through.remove(&fetch).unwrap_or(0);
        let accounts = &mut self.accounts;
        accounts.promised_len = accounts.promised_len.saturating_sub(through);
        match is_there {
            true => accounts.used_len = accounts.used_len.saturating_add(through),
            false => accounts.asked_len = accounts.asked_len.saturating_sub(through),
        }
        for span in spans {
            let mut at = span.offset;
            while let Some((start, segment)) = self.segments.range(at..span.end().max(at)).next() {
                let (start, segment) = (*start, *segment);
                at = segment.end;
                if segment.coming != Some(fetch) {
                    continue;
                }
                self.remove(start);
                let len = segment.end - start;
                let is_read = segment.class == Class::Spent;
                let accounts = &mut self.accounts;
                match (is_there, is_read) {
                    (true, true) => {
                        accounts.promised_len = accounts.promised_len.saturating_sub(len);
                        accounts.used_len = accounts.used_len.saturating_add(len);
                    }
                    (true, false) => {}
                    (false, true) => {
                        accounts.promised_len = accounts.promised_len.saturating_sub(len);
                        accounts.asked_len = accounts.asked_len.saturating_sub(len);
                    }
                    (false, false) => {
                        accounts.risk_len -= len;
                        accounts.asked_len = accounts.asked_len.saturating_sub(len);
                    }
                }
                if is_there {
                    self.insert_joined(start, Segment { coming: None, ..segment });
                }
            }
        }
        true
    }

    /// Every relation between the parts above. For tests: it looks at every segment.
    pub(crate) fn check(&self, cache_len: u64) {
        let Accounts { asked_len, used_len, lost_len, risk_len, promised_len } = self.accounts;
        assert_eq!(asked_len, used_len + lost_len + risk_len + promised_len);
        let (mut coming, mut held, mut wanted, mut risk, mut at) = (0, 0, 0, 0, 0);
        for (start, segment) in &self.segments {
            assert!(*start >= at && segment.end > *start);
            at = segment.end;
            let len = segment.end - start;
            *if segment.coming.is_some() { &mut coming } else { &mut held } += len;
            risk += if segment.class == Class::Spent { 0 } else { len };
            match segment.coming {
                Some(fetch) => assert!(self.fetches.contains_key(&fetch)),
                None => {
                    assert!(self.order.contains(&(segment.class, segment.stamp, *start)));
                    wanted += if segment.class == Class::Wanted { len } else { 0 };
                }
            }
        }
        assert_eq!((coming, held, wanted, risk), (self.coming_len, self.held_len, self.wanted_len, risk_len));
        assert_eq!(self.order.len(), self.segments.values().filter(|segment| segment.coming.is_none()).count());
        assert!(self.len() <= cache_len && self.segments.len() <= SEGMENT_COUNT_MAX);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CACHE_LEN: u64 = 100;

    fn span(start: u64, end: u64) -> Span {
        Span::between(start, end)
    }

    /// Reads of a window, some before it arrives; the rest is lost when room is needed.
    #[test]
    fn every_byte_is_counted_once() {
        let mut holdings = Holdings::default();
        holdings.ask(FetchId(1), &[span(0, 40), span(50, 90)], Class::Wanted);
        holdings.read(span(10, 20));
        let counted = holdings.accounts();
        assert_eq!((counted.asked_len, counted.risk_len, counted.promised_len), (80, 70, 10));
        assert!(holdings.settle(FetchId(1), true) && !holdings.settle(FetchId(1), true));
        holdings.at(1);
        holdings.read(span(30, 60));
        holdings.check(CACHE_LEN);
        assert_eq!(holdings.accounts().used_len, 30);
        assert_eq!(holdings.parts(span(35, 55)).len(), 3);

        let mut dropped = Vec::new();
        assert!(!holdings.make_room(60, CACHE_LEN, Class::Doubtful, &mut dropped), "the wanted stay");
        assert_eq!(dropped, [span(10, 20), span(30, 40), span(50, 60)], "the oldest first");
        holdings.doubt(span(60, 90));
        assert!(holdings.make_room(60, CACHE_LEN, Class::Doubtful, &mut dropped));
        assert_eq!(holdings.accounts().lost_len, 30);
        holdings.check(CACHE_LEN);
    }

    #[test]
    fn nothing_of_a_segment_is_no_part_of_it() {
        let mut holdings = Holdings::default();
        holdings.ask(FetchId(1), &[span(0, 40)], Class::Wanted);
        holdings.doubt(span(20, 20));
        holdings.read(span(20, 10));
        holdings.check(CACHE_LEN);
        assert_eq!(holdings.segments.len(), 1);
    }

    #[test]
    fn what_fails_is_as_if_it_had_not_been_asked_for() {
        let mut holdings = Holdings::default();
        holdings.ask(FetchId(1), &[span(0, 40)], Class::Wanted);
        holdings.ask(FetchId(2), &[span(40, 50)], Class::Spent);
        holdings.ask_through(FetchId(2), 7);
        holdings.read(span(5, 10));
        for fetch in [1, 2] {
            assert!(holdings.settle(FetchId(fetch), false));
            holdings.check(CACHE_LEN);
        }
        assert_eq!(holdings.accounts(), Accounts::default());
        assert_eq!(holdings.len(), 0);
    }
}
