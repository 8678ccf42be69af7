//! All that is kept: one owner of the index, of the accounts of memory and disk, and of what is on its way.
//!
//! In memory a clock goes round: an extent that was read since it came is spared once. On the disk the oldest segment
//! goes as a whole, and what was read of it since it was written is written anew, half of the segment at most. So what
//! is read once goes first, and nothing is ever written in the middle of a file.

mod extents;
mod part;
mod segments;
#[cfg(test)]
mod tests;

use crate::content::Content;
use crate::head::Head;
use crate::record::{self, EXTENT_LEN_MAX};
use bytes::Bytes;
use extents::{Extent, Extents, Flying};
pub use part::{DiskPart, FlightId, Part, Place, Source};
pub use segments::SEGMENT_NUMBER_MAX;
use segments::{SegmentMax, Segments};
use std::collections::{HashMap, VecDeque};
use std::ops::Range;

/// What the index takes for an extent, beside its bytes. Reckoned: the only extent of a content has a leaf of a tree to
/// itself, with room for eleven; of many each has 150 bytes of leaves. In two queues it takes up to 192.
const ENTRY_COST: u64 = 768;
/// What it takes for a content. Each extent may be the only one of its own.
const NAME_COST: u64 = 256;
pub const EXTENT_COST: u64 = ENTRY_COST + NAME_COST;

/// What is kept at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes in memory, with what the index takes for those that are only there.
    pub memory_len: u64,
    /// Bytes on the disk, heads and sums counted. 0: there is none.
    pub disk_len: u64,
    /// Bytes of a segment; what goes from the disk goes by so much.
    pub segment_len: u64,
    /// Extents on the disk.
    pub disk_extent_count: usize,
}

/// Of the extents on the disk a segment has this part at most: so much goes to make room.
const SEGMENT_EXTENTS_PART: usize = 16;

impl Limits {
    fn segment_max(&self) -> SegmentMax {
        let record_count = (self.disk_extent_count / SEGMENT_EXTENTS_PART).max(1);
        SegmentMax { len: self.segment_len, record_count: record_count as u64 }
    }
}

/// What a reader does.
#[derive(Debug)]
pub struct Plan<F> {
    /// The ranges in their order, each in one part or several.
    pub parts: Vec<Part<F>>,
    /// What the reader has to fetch, before it waits for anything: others may wait for it. In order, none longer than
    /// [`EXTENT_LEN_MAX`].
    pub fetch: Option<(FlightId, Vec<Range<u64>>)>,
}

/// Where the next record goes.
#[derive(Debug, PartialEq, Eq)]
pub enum Room {
    Here(Place),
    /// Once this is gone.
    After(Eviction),
    /// It is longer than a segment may be.
    Never,
}

/// A segment that is no more part of the index. Its files are to be deleted, once what is worth it was read.
#[derive(Debug, PartialEq, Eq)]
pub struct Eviction {
    pub segment: u64,
    /// What was read since it was written: to be written anew.
    pub worth: Vec<(Content, DiskPart)>,
}

/// How much there is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    pub memory_len: u64,
    pub disk_len: u64,
    pub segment_count: usize,
    pub extent_count: usize,
    pub content_count: usize,
}

/// `F`: by which a reader waits for what another one fetches.
#[derive(Debug)]
pub struct Shelf<F> {
    limits: Limits,
    contents: HashMap<Content, Extents<F>>,
    /// Extents that are in memory, in the order of the clock.
    clock: VecDeque<(Content, u64)>,
    /// With [`EXTENT_COST`] for each.
    memory_len: u64,
    segments: Segments,
    disk_extent_count: usize,
    flights: HashMap<FlightId, (Content, Vec<Range<u64>>)>,
    last_flight: u64,
}

impl<F: Clone> Shelf<F> {
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            contents: HashMap::new(),
            clock: VecDeque::new(),
            memory_len: 0,
            segments: Segments::default(),
            disk_extent_count: 0,
            flights: HashMap::new(),
            last_flight: 0,
        }
    }

    // ── readers ──

    /// How a reader comes to these ranges. What nobody has is on its way from now on, under this handle.
    pub fn plan(&mut self, content: Content, ranges: &[Range<u64>], handle: F) -> Plan<F> {
        let extents = self.contents.entry(content).or_default();
        let mut gaps = Vec::new();
        for range in united(ranges) {
            extents.gaps(range, &mut gaps);
        }
        let mut fetch = None;
        if !gaps.is_empty() {
            let pieces = cut(gaps);
            self.last_flight += 1;
            let id = FlightId(self.last_flight);
            for piece in &pieces {
                let flying = Flying { len: piece.end - piece.start, id, handle: handle.clone() };
                extents.flying.insert(piece.start, flying);
            }
            self.flights.insert(id, (content, pieces.clone()));
            fetch = Some((id, pieces));
        }
        let mut parts = Vec::with_capacity(ranges.len());
        for range in ranges {
            extents.cover(range.clone(), &mut parts);
        }
        self.tidy(content);
        Plan { parts, fetch }
    }

    /// What was fetched is here: the pieces of the flight, each by its offset. Others are passed over.
    pub fn land(&mut self, flight: FlightId, pieces: impl IntoIterator<Item = (u64, Bytes)>) {
        let Some((content, ranges)) = self.end(flight) else { return };
        for (offset, bytes) in pieces {
            let range = ranges.binary_search_by_key(&offset, |range| range.start).ok().and_then(|at| ranges.get(at));
            if range.is_some_and(|range| range.end - offset == bytes.len() as u64) {
                self.keep(content, offset, bytes);
            }
        }
        self.trim();
        self.tidy(content);
    }

    /// It does not come. Who waits asks anew.
    pub fn fail(&mut self, flight: FlightId) {
        if let Some((content, _)) = self.end(flight) {
            self.tidy(content);
        }
    }

    fn end(&mut self, flight: FlightId) -> Option<(Content, Vec<Range<u64>>)> {
        let (content, ranges) = self.flights.remove(&flight)?;
        let extents = self.contents.get_mut(&content).expect("a flight belongs to a content");
        for range in &ranges {
            let flying = extents.flying.remove(&range.start).expect("a flight has its ranges");
            assert_eq!(flying.id, flight, "a byte is fetched by one flight");
        }
        Some((content, ranges))
    }

    fn keep(&mut self, content: Content, offset: u64, bytes: Bytes) {
        let len = bytes.len() as u32;
        let extent = Extent { len, memory: Some(bytes), place: None, is_used: false };
        self.memory_len += u64::from(len) + EXTENT_COST;
        self.clock.push_back((content, offset));
        let before = self.contents.entry(content).or_default().kept.insert(offset, extent);
        assert!(before.is_none(), "what is kept is not fetched");
    }

    /// As much leaves the memory as has to.
    fn trim(&mut self) {
        while self.memory_len > self.limits.memory_len
            && let Some((content, offset)) = self.clock.pop_front()
        {
            let Some(extents) = self.contents.get_mut(&content) else { continue };
            let Some(extent) = extents.kept.get_mut(&offset).filter(|extent| extent.memory.is_some()) else { continue };
            // On the disk it is at hand as well: there its use counts for the segment.
            if extent.is_used && extent.place.is_none() {
                extent.is_used = false;
                self.clock.push_back((content, offset));
                continue;
            }
            extent.memory = None;
            self.memory_len -= u64::from(extent.len) + EXTENT_COST;
            if extent.place.is_none() {
                extents.kept.remove(&offset);
                self.tidy(content);
            }
        }
    }

    /// What was read of the disk is not what was written.
    pub fn damaged(&mut self, content: Content, part: &DiskPart) {
        let Some(extents) = self.contents.get_mut(&content) else { return };
        let Some(extent) = extents.kept.get_mut(&part.begin).filter(|extent| extent.place == Some(part.place)) else {
            return;
        };
        extent.place = None;
        self.disk_extent_count -= 1;
        if extent.memory.is_none() {
            extents.kept.remove(&part.begin);
        }
        self.tidy(content);
    }

    /// Nothing is remembered of a content of which nothing is kept.
    fn tidy(&mut self, content: Content) {
        if self.contents.get(&content).is_some_and(Extents::is_empty) {
            self.contents.remove(&content);
        }
    }

    // ── the disk ──

    /// A place for a record of so many bytes. It is taken, whatever becomes of the record.
    pub fn reserve(&mut self, data_len: u32) -> Room {
        let Limits { disk_len, segment_len, disk_extent_count, .. } = self.limits;
        let max = self.limits.segment_max();
        let alone = Segments::default().cost(data_len, max);
        if alone > segment_len || alone > disk_len || disk_extent_count == 0 {
            return Room::Never;
        }
        let is_full = self.segments.len() + self.segments.cost(data_len, max) > disk_len
            || self.disk_extent_count >= disk_extent_count;
        // Where nothing can go, nothing is in the way.
        match if is_full { self.evict() } else { None } {
            Some(eviction) => Room::After(eviction),
            None => Room::Here(self.segments.append(data_len, max)),
        }
    }

    /// What has to go because an earlier process was allowed more; nothing of it is worth a rescue.
    pub fn excess(&mut self) -> Option<Eviction> {
        if self.segments.len() <= self.limits.disk_len { None } else { self.evict() }
    }

    fn evict(&mut self) -> Option<Eviction> {
        let (number, segment) = self.segments.pop_oldest()?;
        let (mut worth, mut room) = (Vec::new(), self.limits.segment_len / 2);
        for (content, offset) in segment.records {
            let Some(extents) = self.contents.get_mut(&content) else { continue };
            let is_here = |extent: &&mut Extent| extent.place.is_some_and(|place| place.segment == number);
            let Some(extent) = extents.kept.get_mut(&offset).filter(is_here) else { continue };
            let (place, len) = (extent.place.take().expect("it was looked at"), record::len_of(extent.len));
            self.disk_extent_count -= 1;
            if extent.is_used && len <= room {
                // Spared once, until somebody reads it again.
                extent.is_used = false;
                room -= len;
                worth.push((content, DiskPart { begin: offset, place, extent_len: extent.len, skip: 0 }));
            }
            if extent.memory.is_none() {
                extents.kept.remove(&offset);
            }
            self.tidy(content);
        }
        Some(Eviction { segment: number, worth })
    }

    /// A record was written to the place that was reserved for it.
    pub fn written(&mut self, content: Content, offset: u64, len: u32, place: Place) {
        // Its segment may have gone meanwhile.
        if !self.segments.has(place) {
            return;
        }
        let extents = self.contents.entry(content).or_default();
        let is_free = !extents.overlaps(offset..offset + u64::from(len));
        match extents.kept.get_mut(&offset) {
            Some(extent) if extent.len == len && extent.place.is_none() => extent.place = Some(place),
            None if is_free => {
                let extent = Extent { len, memory: None, place: Some(place), is_used: false };
                extents.kept.insert(offset, extent);
            }
            // Others have it by now, or fetch it.
            _ => return self.tidy(content),
        }
        self.disk_extent_count += 1;
        self.segments.note(place, (content, offset));
    }

    /// A segment that an earlier process left, with what its list says. The newest comes first: of what is twice there
    /// it counts.
    pub fn restore(&mut self, segment: u64, bytes_len: u64, heads: &[Head]) {
        assert!(segment < SEGMENT_NUMBER_MAX, "whoever finds a segment looks at its number");
        self.segments.restore(segment, bytes_len, heads.len() as u64);
        for head in heads {
            let ends = head.at.checked_add(record::len_of(head.len)).is_some_and(|end| end <= bytes_len);
            if ends && self.disk_extent_count < self.limits.disk_extent_count {
                self.written(head.content, head.offset, head.len, Place { segment, at: head.at });
            }
        }
    }

    // ── accounts ──

    pub fn limits(&self) -> Limits {
        self.limits
    }

    pub fn usage(&self) -> Usage {
        Usage {
            memory_len: self.memory_len,
            disk_len: self.segments.len(),
            segment_count: self.segments.count(),
            extent_count: self.contents.values().map(|extents| extents.kept.len()).sum(),
            content_count: self.contents.len(),
        }
    }

    /// Every relation between the parts. For tests.
    pub fn check(&self) {
        self.segments.check();
        let (mut memory_len, mut disk_count, mut flying_count) = (0, 0, 0);
        for (content, extents) in &self.contents {
            assert!(!extents.is_empty(), "{content:?} has nothing");
            let kept = extents.kept.iter().map(|(begin, extent)| *begin..begin + u64::from(extent.len));
            let flying = extents.flying.iter().map(|(begin, flying)| *begin..begin + flying.len);
            let mut all: Vec<Range<u64>> = kept.chain(flying).collect();
            all.sort_by_key(|range| range.start);
            assert!(all.windows(2).all(|two| two[0].end <= two[1].start), "{all:?} overlap");
            assert!(all.iter().all(|range| !range.is_empty()), "{all:?}");
            for (begin, extent) in &extents.kept {
                assert!(extent.memory.is_some() || extent.place.is_some(), "an extent is somewhere");
                if let Some(bytes) = &extent.memory {
                    assert_eq!(bytes.len(), extent.len as usize);
                    memory_len += u64::from(extent.len) + EXTENT_COST;
                    assert!(self.clock.contains(&(*content, *begin)), "what is in memory has its turn");
                }
                if let Some(place) = extent.place {
                    assert!(self.segments.has(place), "{place:?} is in no segment");
                    disk_count += 1;
                }
            }
            flying_count += extents.flying.len();
        }
        assert_eq!((memory_len, disk_count), (self.memory_len, self.disk_extent_count), "accounts");
        assert!(self.memory_len <= self.limits.memory_len, "{} bytes in memory", self.memory_len);
        assert_eq!(flying_count, self.flights.values().map(|(_, ranges)| ranges.len()).sum::<usize>());
        assert!(self.segments.len() <= self.limits.disk_len, "{} bytes on the disk", self.segments.len());
        assert!(self.disk_extent_count <= self.limits.disk_extent_count);
    }
}

/// The same bytes in order, each once.
fn united(ranges: &[Range<u64>]) -> Vec<Range<u64>> {
    let mut sorted: Vec<Range<u64>> = ranges.iter().filter(|range| !range.is_empty()).cloned().collect();
    sorted.sort_by_key(|range| range.start);
    joined(sorted)
}

/// What touches in one.
fn joined(sorted: Vec<Range<u64>>) -> Vec<Range<u64>> {
    let mut out: Vec<Range<u64>> = Vec::with_capacity(sorted.len());
    for range in sorted {
        match out.last_mut() {
            Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
            _ => out.push(range),
        }
    }
    out
}

/// In order, joined where they touch, and cut where they are too long.
fn cut(gaps: Vec<Range<u64>>) -> Vec<Range<u64>> {
    let step = u64::from(EXTENT_LEN_MAX);
    let cut_one = |range: Range<u64>| {
        let count = (range.end - range.start).div_ceil(step);
        (0..count).map(move |part| {
            let begin = range.start + part * step;
            begin..(begin + step).min(range.end)
        })
    };
    joined(gaps).into_iter().flat_map(cut_one).collect()
}
