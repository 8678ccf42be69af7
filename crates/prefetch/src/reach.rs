//! How far from the beginning of a column's pieces its readers come: not to the end, to it, or past it.
//!
//! ```text
//!   a head      ├──▒▒──┤                        uproot looks at 34 bytes before it iterates
//!   a piece     ├▒▒▒▒▒▒┤
//!   past it     ├▒▒▒▒▒▒┤▒▒▒▒▒▒▒▒▒▒▒▒▒▒┆         DuckDB reads a megabyte from where a list begins, whatever its length
//! ```

use crate::span::Span;

/// Who reads further past a piece reads the file rather than a column. Four times what DuckDB does.
pub(crate) const PAST_LEN_MAX: u64 = 4 << 20;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Reach {
    /// Bytes of a piece, from its beginning; `u32::MAX`: all; 0: not known so far.
    pub(crate) within: u32,
    /// Bytes from the beginning of a piece on where that is past its end; 0: its readers stop there.
    pub(crate) past: u32,
}

impl Reach {
    pub(crate) const WHOLE: Self = Self { within: u32::MAX, past: 0 };

    pub(crate) fn is_whole(self) -> bool {
        self == Self::WHOLE
    }

    /// What of `piece`, and past it, will be read.
    pub(crate) fn of(self, piece: Span) -> Span {
        if piece.is_empty() {
            return piece;
        }
        Span::new(piece.offset, piece.len.min(self.within.into()).max(self.past.into()))
    }

    /// Of a read that ends so far from the beginning of its piece, past the piece's end.
    pub(crate) fn past_of(len: u64) -> u32 {
        u32::try_from(len.min(PAST_LEN_MAX)).unwrap_or(u32::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reach_is_of_the_head_or_all_or_more() {
        let piece = Span::new(100, 50);
        let reach = |within, past| Reach { within, past }.of(piece);
        assert_eq!(reach(34, 0), Span::new(100, 34));
        assert_eq!((reach(u32::MAX, 0), Reach::WHOLE.of(piece)), (piece, piece));
        assert_eq!(reach(u32::MAX, 80), Span::new(100, 80));
        assert_eq!(reach(u32::MAX, 20), piece, "another piece may be longer than what was read past this one");
        assert!(Reach { within: 9, past: 9 }.of(Span::default()).is_empty());
        assert_eq!(u64::from(Reach::past_of(u64::MAX)), PAST_LEN_MAX);
    }
}
