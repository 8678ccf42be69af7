//! The first bytes of the columns that a reader wants, which follow their layout.

use layout::{Layout, Piece};
use wire::layouts::{ReadLayout, WINDOW_COUNT_MAX};
use wire::ranges::ReadRanges;

/// Where they lie. None if there is no window.
pub(super) fn pieces(request: &ReadLayout, layout: &Layout) -> Vec<Piece> {
    match request.window_len {
        0 => Vec::new(),
        len => layout.window(request.window_first, len, WINDOW_COUNT_MAX),
    }
}

/// What a request for them, or for the part of them that is wanted, would be, had the reader listed them.
pub(super) fn ranges(request: ReadLayout, pieces: &[Piece]) -> ReadRanges {
    let cut = request.part_of(request.in_blocks(pieces.iter().map(|piece| (piece.offset, piece.len))));
    request.into_ranges(&cut)
}
