//! Where the columns of an ORC file lie: a piece is what one stripe has of one column, and what each stripe says of
//! itself are the pieces of the first.
//!
//! ```text
//! ┌─────┬──────────────── stripe ────────────────┬ … ┬────────────┬────────┬────────────┬──────────┐
//! │ ORC │ indices │ streams of column 1, of 2 … │ footer │ statistics │ footer │ postscript │ its len  │
//! └─────┴─────────┴─────────────────────────────┴────────┴────────────┴────────┴────────────┴──────────┘
//!                                                    │                    │          └ codec, lengths
//!                                                    │                    └ columns, where stripes are
//!                                                    └ of each stream: its column, kind and length
//! ```
//!
//! Columns have ORC's own numbers, the root first. Its footer says where the streams of a stripe are, so each stripe is
//! asked: all of them can be asked at once ([`Reading::coming`]). And whoever reads columns reads these footers, too:
//! so they are pieces of a column of their own, [`footer::ROOT_NAME`].

mod codec;
mod footer;
mod proto;
mod snappy;
mod stripe;

use crate::error::{LayoutError, Result};
use crate::limits::Budget;
use crate::tables::{Layout, Table};
use crate::want::{Next, Want};
use codec::Codec;
use stripe::Stripe;

/// What readers ask for at first, too, so it is there when the program has it: with the footer of most files.
const TAIL_LEN: u64 = 16 << 10;

#[derive(Debug)]
pub(crate) enum Reading {
    Tail { file_len: u64 },
    Footer { codec: Codec, data_len: u64 },
    Stripes(Stripes),
}

#[derive(Debug)]
pub(crate) struct Stripes {
    codec: Codec,
    table: Table,
    now: Stripe,
    /// The last one first.
    left: Vec<Stripe>,
    /// So far reach all footers.
    end: u64,
}

pub(crate) fn begin(file_len: u64) -> Result<Next<Reading, Layout>> {
    let len = TAIL_LEN.min(file_len);
    Ok(Next::Ask(Want { offset: file_len - len, len }, Reading::Tail { file_len }))
}

impl Reading {
    pub(crate) fn give(self, bytes: &[u8], budget: &mut Budget) -> Result<Next<Self, Layout>> {
        match self {
            Self::Tail { file_len } => tail(bytes, file_len, budget),
            Self::Footer { codec, data_len } => of_footer(bytes, codec, data_len, budget),
            Self::Stripes(mut stripes) => {
                stripes.give(bytes, budget)?;
                Ok(stripes.next())
            }
        }
    }

    /// What will be wanted next, as far as it is known.
    pub(crate) fn coming(&self) -> impl Iterator<Item = Want> {
        let left = if let Self::Stripes(stripes) = self { &stripes.left[..] } else { &[] };
        left.iter().rev().map(|stripe| stripe.footer)
    }

    /// So far reaches what will be wanted, as far as it is known: one look, however many that are.
    pub(crate) fn coming_end(&self) -> u64 {
        if let Self::Stripes(stripes) = self { stripes.end } else { 0 }
    }
}

/// What the postscript says.
#[derive(Debug, Default)]
struct Postscript {
    footer_len: u64,
    codec: u64,
    block_len: u64,
    statistics_len: u64,
}

impl Postscript {
    fn read(bytes: &[u8]) -> Result<Self> {
        let mut found = Self::default();
        let mut more_len = 0;
        for field in proto::fields(bytes) {
            match field? {
                (1, value) => found.footer_len = value.number()?,
                (2, value) => found.codec = value.number()?,
                (3, value) => found.block_len = value.number()?,
                (5, value) => found.statistics_len = value.number()?,
                // What is known of stripes, by itself in newer files.
                (7, value) => more_len = value.number()?,
                (8000, value) if value.bytes()? != b"ORC" => return Err(NOT_ORC),
                _ => {}
            }
        }
        found.statistics_len = found.statistics_len.checked_add(more_len).ok_or(NOT_ORC)?;
        Ok(found)
    }
}

const NOT_ORC: LayoutError = LayoutError::Damaged("it begins as an ORC file and does not end as one");

/// The end of the file, as much as there is of it, mostly with the footer.
fn tail(bytes: &[u8], file_len: u64, budget: &mut Budget) -> Result<Next<Reading, Layout>> {
    let (len, bytes) = bytes.split_last().ok_or(NOT_ORC)?;
    let (bytes, postscript) = bytes.split_at_checked(bytes.len().wrapping_sub(usize::from(*len))).ok_or(NOT_ORC)?;
    let Postscript { footer_len, codec, block_len, statistics_len } = Postscript::read(postscript)?;
    let codec = Codec::of(codec, block_len)?;
    let footer_end = file_len.checked_sub(1 + u64::from(*len));
    let offset = footer_end.and_then(|end| end.checked_sub(footer_len));
    let offset = offset.ok_or(LayoutError::Damaged("its footer is longer than the file"))?;
    let data_len = offset.checked_sub(statistics_len);
    let data_len = data_len.ok_or(LayoutError::Damaged("its statistics are longer than the file"))?;
    let before = usize::try_from(footer_len).ok().and_then(|len| bytes.len().checked_sub(len));
    match before.and_then(|before| bytes.get(before..)) {
        Some(footer) => of_footer(footer, codec, data_len, budget),
        None => Ok(Next::Ask(Want { offset, len: footer_len }, Reading::Footer { codec, data_len })),
    }
}

fn of_footer(stored: &[u8], codec: Codec, data_len: u64, budget: &mut Budget) -> Result<Next<Reading, Layout>> {
    let plain = codec.unpack(stored, budget)?;
    let (table, mut left) = footer::read(&plain, data_len, budget)?;
    left.reverse();
    let end = left.iter().filter_map(|stripe| stripe.footer.end()).max().unwrap_or_default();
    Ok(Stripes { codec, table, now: Stripe::default(), left, end }.next())
}

impl Stripes {
    fn next(mut self) -> Next<Reading, Layout> {
        match self.left.pop() {
            Some(stripe) => {
                self.now = stripe;
                Next::Ask(stripe.footer, Reading::Stripes(self))
            }
            None => Next::Done(Layout { tables: vec![self.table] }),
        }
    }

    fn give(&mut self, stored: &[u8], budget: &mut Budget) -> Result<()> {
        let plain = self.codec.unpack(stored, budget)?;
        self.now.read(&plain, &mut self.table.columns, budget)
    }
}
