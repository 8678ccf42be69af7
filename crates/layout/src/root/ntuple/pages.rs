//! The pages of a group of clusters, each of which has some entries of all columns.
//!
//! ```text
//!  clusters ─▶ physical columns ─▶ pages: how many elements, where
//! ```
//!
//! Where each entry has as many elements, a page is a piece. Else nobody knows without reading which entries a page
//! has: then what a cluster has of a column is needed together.

use super::frame::Frame;
use super::schema::Schema;
use crate::error::{LayoutError, Result};
use crate::limits::Budget;
use crate::tables::{Column, Piece};
use crate::want::Want;

const DAMAGED: LayoutError = LayoutError::Damaged("the pages of an ntuple do not fit together");
/// Behind each page that has one.
const CHECKSUM_LEN: u64 = 8;
/// The highest byte of a number of entries has flags.
const ENTRIES: u64 = (1 << 56) - 1;

/// A page, and how many elements stand before it in its cluster.
#[derive(Clone, Copy, Debug)]
struct Page {
    before: u64,
    count: u64,
    span: Want,
}

pub(crate) fn read(
    mut frame: Frame<'_>,
    schema: &Schema,
    columns: &mut [Column],
    file_len: u64,
    budget: &mut Budget,
) -> Result<()> {
    frame.u64()?;
    let (count, mut summaries) = frame.list()?;
    let mut clusters = Vec::new();
    for _ in 0..count {
        let mut summary = summaries.record()?;
        clusters.push((summary.u64()?, summary.u64()? & ENTRIES));
    }
    let (_, mut lists) = frame.list()?;
    // Of each group, though its list be empty and that of the group before.
    budget.work(columns.len() as u64)?;
    let mut of_columns: Vec<Vec<Page>> = columns.iter().map(|_| Vec::new()).collect();
    for (first, entries) in clusters {
        let (count, mut list) = lists.list()?;
        let physical = schema.columns.get(..count as usize).ok_or(DAMAGED)?;
        // Those that were added later are not in the clusters before.
        for column in physical {
            pages(&mut list, of_columns.get_mut(*column).ok_or(DAMAGED)?, file_len, budget)?;
        }
        for at in physical {
            let parts = (columns.get_mut(*at), of_columns.get_mut(*at), schema.is_even.get(*at));
            let (Some(column), Some(pages), Some(is_even)) = parts else { return Err(DAMAGED) };
            add(column, pages, first, entries, *is_even, budget)?;
            // A column may have more than one physical one.
            pages.clear();
        }
    }
    Ok(())
}

/// Of one physical column.
fn pages(list: &mut Frame<'_>, pages: &mut Vec<Page>, file_len: u64, budget: &mut Budget) -> Result<()> {
    let (count, mut items) = list.list()?;
    let mut before = 0_u64;
    for _ in 0..count {
        let element_count = items.i32()?;
        let mut span = items.locator()?;
        // A sign tells of a checksum.
        if element_count < 0 {
            span.len = span.len.checked_add(CHECKSUM_LEN).ok_or(DAMAGED)?;
        }
        if span.end().is_none_or(|end| end > file_len) {
            return Err(DAMAGED);
        }
        let count = element_count.unsigned_abs().into();
        // The list is kept for the next cluster.
        if pages.len() == pages.capacity() {
            budget.list::<Page>(pages.len().max(4) as u64)?;
        }
        pages.push(Page { before, count, span });
        before = before.checked_add(count).ok_or(DAMAGED)?;
    }
    Ok(())
}

/// What one cluster has of a column.
fn add(
    column: &mut Column,
    pages: &mut [Page],
    first: u64,
    entries: u64,
    is_even: bool,
    budget: &mut Budget,
) -> Result<()> {
    if entries == 0 || pages.is_empty() {
        return Ok(());
    }
    if column.pieces.last().is_some_and(|last| last.first >= first) {
        return Err(LayoutError::Damaged("the clusters of an ntuple are out of order"));
    }
    let element_count = pages.last().map_or(0, |last| last.before + last.count);
    let of_entry = element_count / entries;
    let is_whole = |number: u64| number.is_multiple_of(of_entry);
    if is_even
        && of_entry > 0
        && element_count.is_multiple_of(entries)
        && pages.iter().all(|page| is_whole(page.before))
    {
        for page in pages.iter().filter(|page| page.count > 0) {
            let first = first.checked_add(page.before / of_entry).ok_or(DAMAGED)?;
            Piece::add(&mut column.pieces, first, page.span, budget)?;
        }
        return Ok(());
    }
    pages.sort_unstable_by_key(|page| page.span.offset);
    let mut spans: Vec<Want> = Vec::new();
    for Page { span, .. } in pages.iter().filter(|page| page.count > 0) {
        match spans.last_mut() {
            Some(last) if last.end() == Some(span.offset) => last.len = last.len.saturating_add(span.len),
            _ => spans.push(*span),
        }
    }
    for span in spans {
        Piece::add(&mut column.pieces, first, span, budget)?;
    }
    Ok(())
}
