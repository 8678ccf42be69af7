//! One reader's way through the entries of a table: for each column in use, how far it was read and how far fetched.
//!
//! ```text
//!   pieces of a column   ├──────── read ────────┼── backlog: fetched, unread ──┼── not listed ──────┤
//!                      begin                 position                        next
//! ```

/// A reader that comes back so few pieces takes them out of order; one that comes back further has gone back.
pub(crate) const OUT_OF_ORDER_PIECES: u32 = 16;

/// Or one that misses what is near so often: tables of Parquet have few pieces.
const MISSES_BEHIND_MIN: u32 = 2;

/// Pieces of one column.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Cursor {
    /// A window or a read has set it.
    pub(crate) is_set: bool,
    pub(crate) begin: u32,
    pub(crate) position: u32,
    pub(crate) next: u32,
    /// Bytes of the pieces from `position` to `next`, as they were listed.
    pub(crate) backlog: u64,
    /// The reader went on without it: it is not part of the next window.
    pub(crate) is_idle: bool,
    /// Of the pieces right before `position`, the nearest in the lowest bit: those that were fetched and passed over.
    /// They may still be read.
    passed_over: u16,
    /// Reads behind that missed, since one that missed and was not behind. Those that hit say nothing: another reader
    /// may have made them.
    misses_behind: u32,
}

/// How a piece fits a cursor; the better, the smaller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Nearness {
    /// The one that is expected, or the one that was read last.
    Expected,
    /// Within the window, or near it.
    Window,
    /// The column was not read here, and the lane has been at these entries.
    NewColumn,
    /// Behind the reader, where this lane has been.
    Behind,
}

impl Cursor {
    /// Nothing was read of it; a window begins at `piece`.
    pub(crate) fn set(&mut self, piece: u32) {
        *self = Self { is_set: true, begin: piece, position: piece, next: piece, ..Self::default() };
    }

    /// The reader comes to `piece`, at `position` or behind it. Answers how many of the pieces that were fetched it
    /// will not come back to.
    pub(crate) fn pass_to(&mut self, piece: u32) -> u32 {
        let listed_end = self.next.clamp(self.position, piece);
        let advance = piece + 1 - self.position;
        let kept = 1u32.checked_shl(u16::BITS.saturating_sub(advance)).map_or(0, |bit| bit - 1) as u16;
        let mut given_up = (self.passed_over & !kept).count_ones();
        let near = piece.saturating_sub(OUT_OF_ORDER_PIECES - 1).max(self.position);
        given_up += near.min(listed_end) - self.position;
        let mut passed_over = (u32::from(self.passed_over & kept)).checked_shl(advance).unwrap_or(0) as u16;
        for passed in near..listed_end {
            passed_over |= 1 << (piece - passed);
        }
        self.passed_over = passed_over;
        self.position = piece + 1;
        self.next = self.next.max(self.position);
        given_up
    }

    /// The reader comes to a piece before `position`. True: it had passed it over.
    pub(crate) fn come_back_to(&mut self, piece: u32) -> bool {
        let back = self.position.saturating_sub(1).saturating_sub(piece);
        let bit = 1u16.checked_shl(back).unwrap_or(0);
        let was_passed = self.passed_over & bit != 0;
        self.passed_over &= !bit;
        was_passed
    }

    pub(crate) fn nearness(&self, piece: u32) -> Option<Nearness> {
        let behind = self.position.saturating_sub(1);
        if piece == self.position || piece == behind {
            Some(Nearness::Expected)
        } else if piece >= behind.saturating_sub(OUT_OF_ORDER_PIECES)
            && piece <= self.next.saturating_add(OUT_OF_ORDER_PIECES)
        {
            Some(Nearness::Window)
        } else {
            (piece >= self.begin && piece < self.next).then_some(Nearness::Behind)
        }
    }

    /// Whether a read of a piece that is not in the cache means that the reader went back: far, or twice.
    pub(crate) fn goes_back(&mut self, piece: u32) -> bool {
        if !self.is_ahead_of(piece) {
            self.misses_behind = 0;
            return false;
        }
        self.misses_behind = self.misses_behind.saturating_add(1);
        self.misses_behind >= MISSES_BEHIND_MIN || piece.saturating_add(OUT_OF_ORDER_PIECES) < self.position
    }

    pub(crate) fn is_ahead_of(&self, piece: u32) -> bool {
        piece.saturating_add(1) < self.position
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Lane {
    pub(crate) table: u32,
    /// As the table's marks; those behind the end are not set.
    pub(crate) cursors: Vec<Cursor>,
    /// Entries it has been at, from where it began to the furthest window.
    pub(crate) entry_begin: u64,
    pub(crate) entry_end: u64,
    /// Where it read last.
    pub(crate) entry: u64,
    /// The backlogs of all cursors that are not idle.
    pub(crate) backlog: u64,
    /// The backlog when a window was listed last; what comes next is looked for when half of it was read.
    pub(crate) listed_backlog: u64,
    pub(crate) used_at: u64,
    /// Pieces of columns that came later, before the first that was read: other threads will read them.
    pub(crate) behind: Vec<(usize, std::ops::Range<u32>)>,
}

impl Lane {
    pub(crate) fn new(table: u32, entry: u64, used_at: u64) -> Self {
        let (cursors, behind) = (Vec::new(), Vec::new());
        let (entry_begin, entry_end) = (entry, entry);
        Self { table, cursors, entry_begin, entry_end, entry, backlog: 0, listed_backlog: 0, used_at, behind }
    }

    pub(crate) fn cursor(&mut self, mark: usize) -> &mut Cursor {
        if self.cursors.len() <= mark {
            self.cursors.resize(mark + 1, Cursor::default());
        }
        &mut self.cursors[mark]
    }

    /// A part of a backlog is no longer one.
    pub(crate) fn settle_backlog(&mut self, mark: usize, len: u64) {
        let cursor = self.cursor(mark);
        let len = len.min(cursor.backlog);
        cursor.backlog -= len;
        if !cursor.is_idle {
            self.backlog = self.backlog.saturating_sub(len);
        }
    }

    /// The reader went on without it.
    pub(crate) fn rest(&mut self, mark: usize) {
        let cursor = self.cursor(mark);
        if !cursor.is_idle {
            cursor.is_idle = true;
            let backlog = cursor.backlog;
            self.backlog = self.backlog.saturating_sub(backlog);
        }
    }

    /// It was read, so windows are listed for it.
    pub(crate) fn wake(&mut self, mark: usize) {
        let cursor = self.cursor(mark);
        if cursor.is_idle {
            cursor.is_idle = false;
            let backlog = cursor.backlog;
            self.backlog = self.backlog.saturating_add(backlog);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_read_out_of_order_was_not_skipped() {
        let mut cursor = Cursor::default();
        cursor.set(0);
        cursor.next = 100;
        assert_eq!((cursor.pass_to(0), cursor.pass_to(3)), (0, 0));
        assert!(cursor.come_back_to(2) && !cursor.come_back_to(2) && !cursor.come_back_to(0));
        // Piece 1 is given up when it is 16 behind.
        assert_eq!((cursor.pass_to(4), cursor.position), (0, 5));
        let given_up: u32 = (5..16).map(|piece| cursor.pass_to(piece)).sum();
        assert_eq!((given_up, cursor.pass_to(17), cursor.pass_to(18)), (0, 1, 0));
        assert!(cursor.come_back_to(16));
        assert_eq!(cursor.pass_to(60), 60 - 19 - 15, "those that are far behind at once");
        assert_eq!(cursor.pass_to(200), 15 + 100 - 61, "what was not fetched is not missed");
    }
}
