//! The lists of pages of a Parquet file, one a column chunk: often together before the footer, so they are wanted in
//! few spans.

use super::footer::Chunk;
use super::thrift::{I32, I64, LIST, Thrift};
use crate::error::{LayoutError, Result};
use crate::limits::Budget;
use crate::tables::Piece;
use crate::want::Want;

/// Bytes between two lists that are read rather than asked around. The statistics of pages may lie there; a guess.
const GAP_LEN_MAX: u64 = 64 << 10;
/// A span of lists that is in memory at a time, unless one alone is longer.
const SPAN_LEN_MAX: u64 = 8 << 20;

/// Which chunks have their lists in one span, by their places among all chunks.
#[derive(Debug)]
pub(crate) struct Span {
    pub(crate) want: Want,
    chunks: Vec<usize>,
}

/// The last one first.
pub(crate) fn spans(chunks: &[Chunk]) -> Vec<Span> {
    let mut lists: Vec<(Want, usize)> =
        chunks.iter().enumerate().filter_map(|(at, chunk)| Some((chunk.index?, at))).collect();
    lists.sort_unstable_by_key(|(want, at)| (want.offset, *at));
    let mut spans: Vec<Span> = Vec::new();
    for (want, at) in lists {
        // Within the file, as the footer has seen to.
        let end = want.end().unwrap_or(u64::MAX);
        if let Some(last) = spans.last_mut() {
            let last_end = last.want.end().unwrap_or(u64::MAX);
            let len = end.max(last_end) - last.want.offset;
            if want.offset <= last_end.saturating_add(GAP_LEN_MAX) && len <= SPAN_LEN_MAX {
                last.want.len = len;
                last.chunks.push(at);
                continue;
            }
        }
        spans.push(Span { want, chunks: vec![at] });
    }
    spans.reverse();
    spans
}

/// The pages of the chunks whose lists these bytes are, by the places of the chunks.
pub(crate) fn read(
    span: &Span,
    bytes: &[u8],
    chunks: &[Chunk],
    pages: &mut [Vec<Piece>],
    budget: &mut Budget,
) -> Result<()> {
    for at in &span.chunks {
        let Some((chunk, pages)) = chunks.get(*at).zip(pages.get_mut(*at)) else { continue };
        let Some(index) = chunk.index else { continue };
        let start = index.offset.checked_sub(span.want.offset).and_then(|start| usize::try_from(start).ok());
        let list = start.and_then(|start| bytes.get(start..)?.get(..index.len as usize));
        // Lists may overlap, so that their bytes are read again and again.
        budget.object(index.len)?;
        list_of(list.unwrap_or_default(), chunk, pages, budget)?;
    }
    Ok(())
}

fn list_of(list: &[u8], chunk: &Chunk, pages: &mut Vec<Piece>, budget: &mut Budget) -> Result<()> {
    Thrift::new(list).fields(&mut |field, id, kind| match (id, kind) {
        (1, LIST) => field.structs(&mut |page| {
            let (span, first) = location(page)?;
            if !is_within(span, chunk.span) || first >= chunk.row_count.max(1) {
                return Err(LayoutError::Damaged("a page lies outside of its column chunk"));
            }
            let first = chunk.first.saturating_add(first);
            match pages.last() {
                Some(last) if last.first > first => {
                    return Err(LayoutError::Damaged("the rows of pages are out of order"));
                }
                None if first > chunk.first => {
                    return Err(LayoutError::Damaged("the first page does not begin with the first row"));
                }
                // What lies before the first page is the dictionary.
                None if span.offset > chunk.span.offset => {
                    let Want { offset, .. } = chunk.span;
                    Piece::add(pages, first, Want { offset, len: span.offset - offset }, budget)?;
                }
                _ => {}
            }
            Piece::add(pages, first, span, budget)
        }),
        _ => field.skip(kind),
    })
}

/// Where a page lies, and its first row in the row group.
fn location(page: &mut Thrift<'_>) -> Result<(Want, u64)> {
    let (mut offset, mut len, mut first) = (None, None, None);
    page.fields(&mut |field, id, kind| {
        let number = match (id, kind) {
            (1, I64) => &mut offset,
            (2, I32) => &mut len,
            (3, I64) => &mut first,
            _ => return field.skip(kind),
        };
        *number = Some(field.count()?);
        Ok(())
    })?;
    match (offset, len, first) {
        (Some(offset), Some(len), Some(first)) => Ok((Want { offset, len }, first)),
        _ => Err(LayoutError::Damaged("a page does not say where it is")),
    }
}

fn is_within(inner: Want, outer: Want) -> bool {
    inner.offset >= outer.offset && inner.end().zip(outer.end()).is_some_and(|(inner, outer)| inner <= outer)
}
