//! A column in use: how much of its pieces is read, and whether each is.

use crate::reach::Reach;

/// Pieces that are looked at before a column is called sparse, or dense again.
const PIECES_JUDGED: u32 = 16;
/// After so many, the older ones count half.
const PIECES_REMEMBERED: u32 = 64;

#[derive(Clone, Debug)]
pub(crate) struct Mark {
    /// How much of a piece is read.
    pub(crate) reach: Reach,
    /// The piece that was read last, and how far: its reader may go on.
    latest: Option<(u32, u32)>,
    /// The longest head of any piece that was read by itself.
    head_len: u32,
    /// Of the pieces fetched ahead, those that were read and those that were passed over.
    taken: u32,
    skipped: u32,
    /// Pieces read one after the other.
    in_order: u32,
    pub(crate) is_sparse: bool,
    /// Pieces that were begun, those read twice counted once unless the cache had lost them, and from which to which.
    begun: u32,
    first: u32,
    last: u32,
    /// Read in this run, not only known from a profile.
    pub(crate) was_read: bool,
}

/// What a read changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Judgement {
    Same,
    Sparse { taken: u32, skipped: u32 },
    Dense,
}

impl Mark {
    pub(crate) fn new() -> Self {
        Self {
            reach: Reach::default(),
            latest: None,
            head_len: 0,
            taken: 0,
            skipped: 0,
            in_order: 0,
            is_sparse: false,
            begun: 0,
            first: u32::MAX,
            last: 0,
            was_read: false,
        }
    }

    pub(crate) fn known(reach: Reach) -> Self {
        Self { reach, ..Self::new() }
    }

    /// A read covers `start..end` of a piece of `len` bytes, and may go on past it. True: more of each piece is needed
    /// than was known.
    ///
    /// Who reads a piece in parts begins with its head. So a head is one when its reader has gone on to another piece.
    pub(crate) fn reaches(&mut self, piece: u32, start: u64, end: u64, len: u64) -> bool {
        self.was_read = true;
        let latest = self.latest.filter(|(of, _)| *of == piece).map_or(0, |(_, reach)| reach);
        let before = self.reach;
        if end >= len {
            // What lies past it, the last one who came there says.
            self.reach.past = if end > len { Reach::past_of(end) } else { 0 };
        }
        if start > u64::from(latest.max(self.reach.within)) || end > len / 2 {
            self.reach.within = u32::MAX;
        } else if let Some((_, reach)) = self.latest.filter(|(of, _)| *of != piece) {
            self.reach.within = self.reach.within.max(reach);
        }
        if start == 0 && end <= len / 2 {
            self.head_len = self.head_len.max(u32::try_from(end).unwrap_or(u32::MAX));
        }
        self.latest = Some((piece, latest.max(u32::try_from(end.min(len)).unwrap_or(u32::MAX))));
        self.reach.within > before.within || self.reach.past > before.past
    }

    /// How far this piece may have been read from its beginning, before its reader goes on. Several threads read pieces
    /// side by side, but all of them heads of the same length.
    pub(crate) fn read_to(&self, piece: u32) -> u32 {
        self.latest.filter(|(of, _)| *of == piece).map_or(0, |(_, reach)| reach).max(self.head_len)
    }

    /// Only heads are read, as far as is known.
    pub(crate) fn is_head_only(&self) -> bool {
        self.was_read && self.reach.within != u32::MAX && self.reach.within > 0
    }

    /// What this run has read of a piece: of one that is still being read, what was read so far.
    pub(crate) fn reach_so_far(&self) -> Reach {
        Reach { within: self.reach.within.max(self.latest.map_or(0, |(_, reach)| reach)), ..self.reach }
    }

    /// A piece is read from its beginning, for the first time.
    pub(crate) fn begins(&mut self, piece: u32) {
        self.begun = self.begun.saturating_add(1);
        (self.first, self.last) = (self.first.min(piece), self.last.max(piece));
    }

    /// Whether later runs should fetch it. Threads read row groups in any order, and what looks skipped on the way may
    /// be read in the end.
    pub(crate) fn is_worth_knowing(&self, waste_percent: u32) -> bool {
        let skipped = self.last.saturating_sub(self.first).saturating_add(1).saturating_sub(self.begun);
        self.was_read && (!self.is_sparse || !exceeds(skipped, self.begun, waste_percent))
    }

    /// A piece was read, after `skipped` ones that had been fetched; `follows`: right behind the one before.
    pub(crate) fn passes(&mut self, skipped: u32, follows: bool, waste_percent: u32) -> Judgement {
        self.in_order = if follows { self.in_order.saturating_add(1) } else { 0 };
        if self.is_sparse {
            if self.in_order < PIECES_JUDGED {
                return Judgement::Same;
            }
            (self.is_sparse, self.taken, self.skipped) = (false, 0, 0);
            return Judgement::Dense;
        }
        self.taken += 1;
        self.skipped = self.skipped.saturating_add(skipped);
        let total = self.taken.saturating_add(self.skipped);
        if total < PIECES_JUDGED {
            return Judgement::Same;
        }
        if exceeds(self.skipped, self.taken, waste_percent) {
            self.is_sparse = true;
            return Judgement::Sparse { taken: self.taken, skipped: self.skipped };
        }
        if total >= PIECES_REMEMBERED {
            self.taken /= 2;
            self.skipped /= 2;
        }
        Judgement::Same
    }
}

fn exceeds(skipped: u32, taken: u32, waste_percent: u32) -> bool {
    u64::from(skipped) * 100 > u64::from(taken) * u64::from(waste_percent)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_are_told_from_whole_pieces() {
        let mut mark = Mark::new();
        assert!(!mark.reaches(0, 0, 34, 1400), "more of it may follow");
        let so_far = Reach { within: 34, past: 0 };
        assert_eq!((mark.reach, mark.reach_so_far(), mark.is_head_only()), (Reach::default(), so_far, false));
        assert!(mark.reaches(1, 0, 34, 1400) && !mark.reaches(2, 0, 34, 1400));
        assert_eq!((mark.reach, mark.is_head_only()), (so_far, true));
        assert!(mark.reaches(2, 34, 1400, 1400), "and then the rest");
        assert_eq!((mark.reach, mark.is_head_only()), (Reach::WHOLE, false));
        assert!(Mark::new().reaches(0, 100, 110, 1400), "from the middle: anything may follow");
    }

    #[test]
    fn a_piece_read_in_parts_has_no_head() {
        let mut mark = Mark::new();
        let grows: Vec<bool> = (0..10).map(|part| mark.reaches(0, part * 100, part * 100 + 100, 1000)).collect();
        assert_eq!(grows.iter().position(|grows| *grows), Some(5), "past the middle");
        assert_eq!(mark.reach, Reach::WHOLE);
    }

    #[test]
    fn what_is_read_past_a_piece_is_known_as_long_as_it_is_read() {
        let mut mark = Mark::new();
        assert!(!mark.reaches(0, 0, 256, 136_001));
        assert_eq!((mark.read_to(0), mark.read_to(1)), (256, 256));
        assert!(mark.reaches(0, 20, 1_000_020, 136_001));
        assert_eq!((mark.reach, mark.read_to(0)), (Reach { within: u32::MAX, past: 1_000_020 }, 136_001));
        assert!(!mark.reaches(1, 0, 256, 135_988) && !mark.reaches(1, 20, 1_000_020, 135_988));
        assert!(!mark.reaches(2, 0, 140_000, 140_000));
        assert_eq!(mark.reach, Reach::WHOLE, "another reader, which stops at the end");
    }

    #[test]
    fn a_column_read_for_some_entries_is_sparse_until_it_is_read_for_each() {
        let mut mark = Mark::new();
        let judged: Vec<Judgement> = (0..8).map(|_| mark.passes(3, false, 10)).collect();
        assert!(judged.contains(&Judgement::Sparse { taken: 4, skipped: 12 }) && mark.is_sparse);
        let judged: Vec<Judgement> = (0..16).map(|_| mark.passes(0, true, 10)).collect();
        assert_eq!(judged.last(), Some(&Judgement::Dense));
        for _ in 0..1000 {
            assert_eq!(mark.passes(0, true, 10), Judgement::Same);
        }
    }
}
