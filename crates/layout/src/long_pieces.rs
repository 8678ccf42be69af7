//! Pieces of any length.

use crate::error::LayoutError;
use crate::limits::Budget;
use crate::tables::Piece;
use crate::want::Want;

impl Piece {
    /// Adds what may be of any length: too long for one, it is cut, and its last part holds the entries.
    pub(crate) fn add(pieces: &mut Vec<Self>, first: u64, span: Want, budget: &mut Budget) -> Result<(), LayoutError> {
        let Want { mut offset, len: mut left } = span;
        // A file of holes is as long as its writer likes: each cut costs memory.
        budget.pieces(left.div_ceil(u32::MAX.into()).max(1))?;
        while let Some(more) = left.checked_sub(u64::from(u32::MAX)).filter(|more| *more > 0) {
            pieces.push(Self { first, offset, len: u32::MAX });
            (offset, left) = (offset.saturating_add(u32::MAX.into()), more);
        }
        pieces.push(Self { first, offset, len: left as u32 });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::Limits;
    use crate::tables::Column;
    use crate::what::What;
    use std::ops::Range;

    fn offsets(column: &Column, entries: Range<u64>) -> Vec<u64> {
        column.pieces_of(entries).map(|piece| piece.offset).collect()
    }

    #[test]
    fn what_is_long_is_cut_and_comes_together() {
        let mut long = Column { name: "x".into(), pieces: Vec::new() };
        let mut budget = Budget::new(Limits { piece_count_max: 5, ..Limits::default() });
        Piece::add(&mut long.pieces, 0, Want { offset: 4, len: 3 * u64::from(u32::MAX) }, &mut budget).unwrap();
        Piece::add(&mut long.pieces, 7, Want { offset: 1 << 40, len: 5 }, &mut budget).unwrap();
        assert_eq!(long.pieces.len(), 4);
        assert_eq!(offsets(&long, 3..4), [4, 4 + 0xffff_ffff, 4 + 2 * 0xffff_ffff]);
        // What belongs to the piece before costs bytes and no mistake.
        assert_eq!(offsets(&long, 7..8).last(), Some(&(1 << 40)));
        // One is left, and this takes two.
        let more = Piece::add(&mut long.pieces, 8, Want { offset: 0, len: 1 << 32 }, &mut budget);
        assert!(matches!(more, Err(LayoutError::TooLarge { what: What::Pieces, .. })));
    }
}
