//! The checksum of any part of a replica, from the stored ones of its chunks.
//!
//! ```text
//!        ┌─────────┬─────────┬─────────┬─────────┐   chunks, whose checksums are stored
//!             ╰────┴─────────┴─────╯                 the part
//!        ╰─edge────╯         ╰─edge────╯             chunks that must be read: a part of them is in it
//! ```
//!
//! An edge must match what is stored for it. So a byte that rotted does not get a checksum of its own.

use std::ops::Range;
use types::ChecksumSpec;
use types::checksum::Appender;

/// A chunk that does not match its stored checksum begins there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Unsound(pub(super) u64);

/// Chunks of one read that match their stored checksums. Thousands of parts may begin and end in the same two, which
/// are as long as the writer chose.
#[derive(Debug, Default)]
pub(super) struct Sound([Option<u64>; 2]);

impl Sound {
    fn has(&self, start: u64) -> bool {
        self.0.contains(&Some(start))
    }

    fn put(&mut self, start: u64) {
        self.0 = [Some(start), self.0[0]];
    }
}

/// Chunks of a replica of `len` bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Chunks {
    pub(super) spec: ChecksumSpec,
    pub(super) len: u64,
}

impl Chunks {
    /// The whole chunks that hold `part`.
    pub(super) fn around(self, part: &Range<u64>) -> Range<u64> {
        let chunk_len = u64::from(self.spec.chunk_len);
        let start = part.start - part.start % chunk_len;
        start..part.end.next_multiple_of(chunk_len).min(self.len).max(start)
    }

    /// The chunks of which `part` has some bytes and not all, at most two.
    pub(super) fn edges(self, part: &Range<u64>) -> impl Iterator<Item = Range<u64>> + use<> {
        let part = part.clone();
        let at = |byte: u64| self.around(&(byte..byte + 1));
        let (first, last) = (at(part.start), at(part.end.max(1) - 1));
        let is_edge = move |chunk: &Range<u64>| !part.is_empty() && (chunk.start < part.start || chunk.end > part.end);
        let other = (last != first).then(|| last.clone());
        [Some(first), other].into_iter().flatten().filter(is_edge)
    }

    /// The checksum of `part`. `edges`: the bytes of each of its edges; `sums`: of the chunks around it; `sound`: of
    /// the same read.
    pub(super) fn sum<'a>(
        self,
        part: &Range<u64>,
        edges: impl IntoIterator<Item = &'a [u8]>,
        sums: &[u8],
        appender: &Appender,
        sound: &mut Sound,
    ) -> Result<u32, Unsound> {
        let (kind, mut edges) = (self.spec.kind, edges.into_iter());
        let chunk_len = u64::from(self.spec.chunk_len);
        let first = self.around(part).start;
        let (mut total, mut at) = (0, first);
        for stored in sums.chunks_exact(ChecksumSpec::SUM_LEN) {
            let stored = u32::from_be_bytes([stored[0], stored[1], stored[2], stored[3]]);
            let chunk = at..(at + chunk_len).min(self.len);
            let inside = chunk.start.max(part.start)..chunk.end.min(part.end);
            if inside == chunk {
                let is_whole = chunk.end - chunk.start == chunk_len;
                total = if is_whole {
                    appender.append(total, stored)
                } else {
                    kind.append(total, stored, chunk.end - chunk.start)
                };
            } else {
                let bytes = edges.next().expect("an edge was read");
                // Once more for what is in the part: to compose it of pieces takes longer than to read a chunk.
                if !sound.has(chunk.start) {
                    if kind.of(bytes) != stored {
                        return Err(Unsound(chunk.start));
                    }
                    sound.put(chunk.start);
                }
                let own = &bytes[(inside.start - chunk.start) as usize..(inside.end - chunk.start) as usize];
                // What follows nothing is all of it.
                total = if at == first { kind.of(own) } else { kind.append(total, kind.of(own), own.len() as u64) };
            }
            at = chunk.end;
        }
        Ok(total)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use types::ChecksumKind;

    proptest! {
        #[test]
        fn a_part_has_the_checksum_of_its_bytes_unless_an_edge_rotted(
            data in proptest::collection::vec(any::<u8>(), 1..3000), chunk_len in 1u32..700, ends: (u16, u16), rot: u16,
        ) {
            let len = data.len() as u64;
            let mut ends = [u64::from(ends.0) % (len + 1), u64::from(ends.1) % (len + 1)];
            ends.sort_unstable();
            let part = ends[0]..ends[1];
            for kind in [ChecksumKind::Crc32, ChecksumKind::Crc32c] {
                let chunks = Chunks { spec: ChecksumSpec { kind, chunk_len }, len };
                let appender = Appender::new(kind, chunk_len.into());
                let around = chunks.around(&part);
                prop_assert!(around.start <= part.start && around.end >= part.end);
                let mut sums = Vec::new();
                chunks.spec.compute(&data[around.start as usize..around.end as usize], &mut sums);
                let edges: Vec<_> = chunks.edges(&part).collect();
                fn read<'a>(data: &'a [u8], edges: &[Range<u64>]) -> Vec<&'a [u8]> {
                    edges.iter().map(|edge| &data[edge.start as usize..edge.end as usize]).collect()
                }
                let want = kind.of(&data[part.start as usize..part.end as usize]);
                if part.is_empty() {
                    continue;
                }
                let sum = |data: &[u8]| chunks.sum(&part, read(data, &edges), &sums, &appender, &mut Sound::default());
                prop_assert_eq!(sum(&data), Ok(want));
                let mut rotten = data.clone();
                let at = usize::from(rot) % data.len();
                rotten[at] ^= 4;
                let found = sum(&rotten);
                match edges.iter().find(|edge| edge.contains(&(at as u64))) {
                    Some(edge) => prop_assert_eq!(found, Err(Unsound(edge.start))),
                    None => prop_assert_eq!(found, Ok(want)),
                }
            }
        }
    }

    /// A writer chose chunks of megabytes, and a reader asks for thousands of bytes of one, each by itself.
    #[test]
    fn an_edge_is_checked_once_for_each_read() {
        let spec = ChecksumSpec { chunk_len: 100, ..ChecksumSpec::DEFAULT };
        let (chunks, data, mut sums) = (Chunks { spec, len: 200 }, [7; 200], Vec::new());
        spec.compute(&data, &mut sums);
        let (appender, mut sound) = (Appender::new(spec.kind, 100), Sound::default());
        let sum = |edges: [&[u8]; 2], sound: &mut Sound| chunks.sum(&(90..110), edges, &sums, &appender, sound);
        let own = Ok(spec.kind.of(&[7; 20]));
        assert_eq!(sum([&data[..100], &data[100..]], &mut sound), own);
        let elsewhere = [[&[0], &data[1..100]].concat(), [&data[..99], &[0]].concat()];
        let rotten = [&*elsewhere[0], &*elsewhere[1]];
        assert_eq!(sum(rotten, &mut sound), own, "not again");
        assert_eq!(sum(rotten, &mut Sound::default()), Err(Unsound(0)));
    }

    #[test]
    fn only_what_a_part_cuts_is_read() {
        let chunks = Chunks { spec: ChecksumSpec { chunk_len: 10, ..ChecksumSpec::DEFAULT }, len: 35 };
        let edges = |part| chunks.edges(&part).map(|edge| (edge.start, edge.end)).collect::<Vec<_>>();
        assert_eq!(edges(0..35), []);
        assert_eq!(edges(10..30), []);
        assert_eq!(edges(30..35), []);
        assert_eq!(edges(5..30), [(0, 10)]);
        assert_eq!(edges(5..34), [(0, 10), (30, 35)]);
        assert_eq!(edges(12..18), [(10, 20)]);
        assert_eq!(edges(7..7), []);
    }
}
