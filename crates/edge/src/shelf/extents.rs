//! What is kept of one content, and what is on its way: no byte of it twice.

use super::part::{DiskPart, FlightId, Part, Place, Source};
use bytes::Bytes;
use std::collections::BTreeMap;
use std::ops::Range;

/// Bytes that came together. It is in memory, on the disk, or both.
#[derive(Debug)]
pub(super) struct Extent {
    pub(super) len: u32,
    pub(super) memory: Option<Bytes>,
    pub(super) place: Option<Place>,
    /// Somebody has read it since it came, or since it was spared.
    pub(super) is_used: bool,
}

#[derive(Debug)]
pub(super) struct Flying<F> {
    pub(super) len: u64,
    pub(super) id: FlightId,
    pub(super) handle: F,
}

/// Of one content. Extents and flights, all together, do not overlap.
#[derive(Debug)]
pub(super) struct Extents<F> {
    pub(super) kept: BTreeMap<u64, Extent>,
    pub(super) flying: BTreeMap<u64, Flying<F>>,
}

impl<F> Default for Extents<F> {
    fn default() -> Self {
        Self { kept: BTreeMap::new(), flying: BTreeMap::new() }
    }
}

impl<F: Clone> Extents<F> {
    pub(super) fn is_empty(&self) -> bool {
        self.kept.is_empty() && self.flying.is_empty()
    }

    /// What of `range` is neither kept nor on its way.
    pub(super) fn gaps(&self, range: Range<u64>, gaps: &mut Vec<Range<u64>>) {
        let mut at = range.start;
        while at < range.end {
            match self.covering(at) {
                Some(end) => at = end,
                None => {
                    let end = self.next_begin(at).unwrap_or(range.end).min(range.end);
                    gaps.push(at..end);
                    at = end;
                }
            }
        }
    }

    pub(super) fn overlaps(&self, range: Range<u64>) -> bool {
        self.covering(range.start).is_some() || self.next_begin(range.start).is_some_and(|begin| begin < range.end)
    }

    /// The end of what covers this byte.
    fn covering(&self, at: u64) -> Option<u64> {
        let kept = self.kept.range(..=at).next_back().map(|(begin, extent)| begin + u64::from(extent.len));
        let flying = self.flying.range(..=at).next_back().map(|(begin, flying)| begin + flying.len);
        kept.into_iter().chain(flying).filter(|end| *end > at).max()
    }

    /// Where the next begins behind this byte, which nothing covers.
    fn next_begin(&self, at: u64) -> Option<u64> {
        let kept = self.kept.range(at..).next().map(|(begin, _)| *begin);
        let flying = self.flying.range(at..).next().map(|(begin, _)| *begin);
        kept.into_iter().chain(flying).min()
    }

    /// All of `range`, each byte of which is kept or on its way.
    pub(super) fn cover(&mut self, range: Range<u64>, parts: &mut Vec<Part<F>>) {
        let mut at = range.start;
        while at < range.end {
            let kept =
                self.kept.range_mut(..=at).next_back().filter(|(begin, extent)| *begin + u64::from(extent.len) > at);
            if let Some((begin, extent)) = kept {
                extent.is_used = true;
                let end = (begin + u64::from(extent.len)).min(range.end);
                let (skip, len) = ((at - begin) as u32, (end - at) as u32);
                let source = match (&extent.memory, extent.place) {
                    (Some(bytes), _) => Source::Memory(bytes.slice(skip as usize..(skip + len) as usize)),
                    (None, Some(place)) => {
                        Source::Disk(DiskPart { begin: *begin, place, extent_len: extent.len, skip })
                    }
                    (None, None) => unreachable!("an extent is somewhere"),
                };
                parts.push(Part { range: at..end, source });
                at = end;
                continue;
            }
            let flying = self.flying.range(..=at).next_back().filter(|(begin, flying)| *begin + flying.len > at);
            let (begin, flying) = flying.expect("what is missing was put on its way before");
            let end = (begin + flying.len).min(range.end);
            parts.push(Part { range: at..end, source: Source::Flight(flying.handle.clone()) });
            at = end;
        }
    }
}
