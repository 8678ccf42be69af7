//! Where the pieces of a Parquet file's columns lie: pages where it lists them, else column chunks.
//!
//! ```text
//! ┌──────┬─────────── row group ───────────┬ … ┬───────────────┬────────┬─────┬──────┐
//! │ PAR1 │ chunk of column 0 │ of column 1 │   │ lists of pages │ footer │ len │ PAR1 │
//! └──────┴───────────────────┴─────────────┴   ┴───────────────┴────────┴─────┴──────┘
//!          └ dictionary, page, page …
//! ```
//!
//! Footer and lists are structs in Thrift's compact protocol; what is of no interest in them is passed over.

mod footer;
mod pages;
mod thrift;

use crate::error::{LayoutError, Result};
use crate::limits::Budget;
use crate::tables::{Layout, Piece};
use crate::want::{Next, Want};
use footer::Footer;

/// Bytes at the end that say how long the footer is.
const TRAILER_LEN: u64 = 8;

#[derive(Debug)]
pub(crate) enum Reading {
    Trailer {
        file_len: u64,
        has_pages: bool,
    },
    Footer {
        data_len: u64,
        has_pages: bool,
    },
    Pages {
        footer: Footer,
        /// Of each chunk.
        pages: Vec<Vec<Piece>>,
        span: pages::Span,
        left: Vec<pages::Span>,
    },
}

pub(crate) fn begin(file_len: u64) -> Result<Next<Reading, Layout>> {
    begin_with(file_len, true)
}

/// Whose pieces are column chunks, whatever it says of pages.
pub(crate) fn begin_of_chunks(file_len: u64) -> Result<Next<Reading, Layout>> {
    begin_with(file_len, false)
}

fn begin_with(file_len: u64, has_pages: bool) -> Result<Next<Reading, Layout>> {
    let offset = file_len.checked_sub(TRAILER_LEN).ok_or(LayoutError::Damaged("it ends within its first bytes"))?;
    Ok(Next::Ask(Want { offset, len: TRAILER_LEN }, Reading::Trailer { file_len, has_pages }))
}

impl Reading {
    pub(crate) fn give(self, bytes: &[u8], budget: &mut Budget) -> Result<Next<Self, Layout>> {
        match self {
            Self::Trailer { file_len, has_pages } => {
                let [a, b, c, d, magic @ ..] = bytes else {
                    return Err(LayoutError::Damaged("it ends within its trailer"));
                };
                match magic {
                    b"PAR1" => {}
                    b"PARE" => return Err(LayoutError::Unknown("its footer is encrypted")),
                    _ => return Err(LayoutError::Damaged("it begins as a Parquet file and does not end as one")),
                }
                let len = u64::from(u32::from_le_bytes([*a, *b, *c, *d]));
                let data_len = (file_len - TRAILER_LEN).checked_sub(len);
                let data_len = data_len.ok_or(LayoutError::Damaged("its footer is longer than the file"))?;
                Ok(Next::Ask(Want { offset: data_len, len }, Self::Footer { data_len, has_pages }))
            }
            Self::Footer { data_len, has_pages } => {
                let footer = footer::read(bytes, data_len, budget)?;
                let pages = footer.chunks.iter().map(|_| Vec::new()).collect();
                let left = if has_pages { pages::spans(&footer.chunks) } else { Vec::new() };
                next(footer, pages, left, budget)
            }
            Self::Pages { footer, mut pages, span, left } => {
                pages::read(&span, bytes, &footer.chunks, &mut pages, budget)?;
                next(footer, pages, left, budget)
            }
        }
    }
}

fn next(
    footer: Footer,
    pages: Vec<Vec<Piece>>,
    mut left: Vec<pages::Span>,
    budget: &mut Budget,
) -> Result<Next<Reading, Layout>> {
    Ok(match left.pop() {
        Some(span) => Next::Ask(span.want, Reading::Pages { footer, pages, span, left }),
        None => Next::Done(layout(footer, pages, budget)?),
    })
}

fn layout(footer: Footer, pages: Vec<Vec<Piece>>, budget: &mut Budget) -> Result<Layout> {
    let Footer { mut table, chunks } = footer;
    for (chunk, mut pages) in chunks.into_iter().zip(pages) {
        let Some(column) = table.columns.get_mut(chunk.column as usize) else { continue };
        if chunk.row_count == 0 {
            continue;
        }
        match pages.is_empty() {
            true => Piece::add(&mut column.pieces, chunk.first, chunk.span, budget)?,
            false => column.pieces.append(&mut pages),
        }
    }
    Ok(Layout { tables: vec![table] })
}
