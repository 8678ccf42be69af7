//! The first bytes of the columns that a reader wants, which follow their layout.

use layout::Layout;
use wire::layouts::{ReadLayout, WINDOW_COUNT_MAX};
use wire::ranges::{Asked, RangesBlock, ReadRanges, put_ranges};

/// What a request for them would be, had the reader listed them.
pub(super) fn ranges(request: ReadLayout, layout: &Layout) -> ReadRanges {
    let pieces = layout.window(request.window_first, request.window_len, WINDOW_COUNT_MAX);
    let cut = request.in_blocks(pieces.iter().map(|piece| (piece.offset, piece.len)));
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
