//! The places of a column's pieces, each as its distance from where it is expected. There are three ways to expect
//! them; a column takes the one that costs least.

use super::varint;
use crate::tables::Piece;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Expect {
    /// Behind the piece before: pages of a chunk.
    Behind = 0,
    /// Behind the same piece of the column before: rows that were written together.
    Beside = 1,
    /// As far from the piece before as that from the one before it: the first of many columns.
    Stride = 2,
}

impl Expect {
    pub(crate) const ALL: [Self; 3] = [Self::Behind, Self::Beside, Self::Stride];

    /// Where the next piece is expected. `before`: the pieces of the column before.
    pub(crate) fn place(self, pieces: &[Piece], before: &[Piece]) -> u64 {
        let behind = |piece: Option<&Piece>| piece.map_or(0, |piece| piece.offset.wrapping_add(piece.len.into()));
        match self {
            Self::Behind => behind(pieces.last()),
            Self::Beside => behind(before.get(pieces.len())),
            Self::Stride => match pieces {
                [.., one, two] => two.offset.wrapping_add(two.offset.wrapping_sub(one.offset)),
                _ => behind(pieces.last()),
            },
        }
    }

    /// The way that costs least, and the places in it.
    pub(crate) fn cheapest(pieces: &[Piece], before: &[Piece]) -> (Self, Vec<u8>) {
        let written = |expect: Self| {
            let mut out = Vec::new();
            for (at, piece) in pieces.iter().enumerate() {
                let known = pieces.get(..at).unwrap_or_default();
                varint::put_difference(&mut out, expect.place(known, before), piece.offset);
            }
            (expect, out)
        };
        let [behind, beside, stride] = Self::ALL.map(written);
        let cheaper = if beside.1.len() < behind.1.len() { beside } else { behind };
        if stride.1.len() < cheaper.1.len() { stride } else { cheaper }
    }
}
