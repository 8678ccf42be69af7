//! The first bytes of the columns that a reader wants, which follow their layout.

use layout::{Layout, Piece};
use wire::layouts::{ReadLayout, WINDOW_COUNT_MAX};
use wire::ranges::{Asked, RangesBlock, ReadRanges, put_ranges};

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
    let (mut blocks, mut ranges) = (Vec::new(), Vec::new());
    for of_block in cut.chunk_by(|(one, _), (next, _)| one == next) {
        let Some(block) = of_block.first().and_then(|(place, _)| request.blocks.get(*place)) else { continue };
        let asked: Vec<Asked> = of_block.iter().map(|(_, asked)| *asked).collect();
        put_ranges(&asked, &mut ranges);
        let (block, generation, token) = (block.block, block.generation, block.token);
        blocks.push(RangesBlock { block, generation, token, range_count: asked.len() as u32 });
    }
    let ReadLayout { pool, client, tokens, .. } = request;
    ReadRanges { pool, client, tokens, blocks, ranges: ranges.into() }
}
