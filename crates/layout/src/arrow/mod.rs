//! Where the columns of an Arrow IPC file (Feather, version 2) lie: a piece is what one batch has of one column, with
//! all that is within it.
//!
//! ```text
//! ┌ "ARROW1" ┬ message ┬ body: buffers of column 0, of column 1 … ┬ message ┬ body … ┬ footer ┬ len ─ i32 ┬ "ARROW1" ┐
//!              └ rows of the batch, places of the buffers                             └ schema, places of the messages
//! ```
//!
//! A dictionary is a piece without entries, before those of each column that needs it.

mod flat;
mod schema;

use crate::error::{LayoutError, Result};
use crate::limits::Budget;
use crate::tables::{Column, Layout, Piece, Table};
use crate::want::{Next, Want};
use flat::Flat;
use schema::Field;

const TRAILER_LEN: u64 = 10;
const MAGIC: &[u8] = b"ARROW1";

/// Number of the version of 2020, V5. Before it unions had nulls of their own. The footer does not tell: pyarrow writes
/// the newest there, whatever its messages have.
const UNIONS_WITHOUT_NULLS: u16 = 4;

const DAMAGED: LayoutError = LayoutError::Damaged("a batch does not fit the schema");

#[derive(Debug)]
pub(crate) enum Reading {
    Trailer { file_len: u64 },
    Footer { data_len: u64 },
    Messages(Messages),
}

#[derive(Debug)]
pub(crate) struct Messages {
    data_len: u64,
    fields: Vec<Field>,
    table: Table,
    now: Block,
    /// The last one first, the dictionaries before all others.
    left: Vec<Block>,
}

/// Where a message is, and its body behind it.
#[derive(Clone, Copy, Debug)]
struct Block {
    message: Want,
    body_len: u64,
    is_dictionary: bool,
}

pub(crate) fn begin(file_len: u64) -> Result<Next<Reading, Layout>> {
    let offset = file_len.checked_sub(TRAILER_LEN).ok_or(LayoutError::Damaged("it ends within its first bytes"))?;
    Ok(Next::Ask(Want { offset, len: TRAILER_LEN }, Reading::Trailer { file_len }))
}

impl Reading {
    pub(crate) fn give(self, bytes: &[u8], budget: &mut Budget) -> Result<Next<Self, Layout>> {
        match self {
            Self::Trailer { file_len } => {
                let Some((len, MAGIC)) = bytes.split_first_chunk() else {
                    return Err(LayoutError::Damaged("it begins as an Arrow file and does not end as one"));
                };
                let len = u64::from(u32::from_le_bytes(*len));
                let data_len = (file_len - TRAILER_LEN).checked_sub(len);
                let data_len = data_len.ok_or(LayoutError::Damaged("its footer is longer than the file"))?;
                Ok(Next::Ask(Want { offset: data_len, len }, Self::Footer { data_len }))
            }
            Self::Footer { data_len } => footer(bytes, data_len, budget),
            Self::Messages(mut messages) => {
                messages.give(bytes, budget)?;
                Ok(messages.next())
            }
        }
    }
}

fn footer(bytes: &[u8], data_len: u64, budget: &mut Budget) -> Result<Next<Reading, Layout>> {
    let footer = Flat::start(bytes)?;
    let Some(schema) = footer.table(1)? else { return Err(LayoutError::Damaged("its footer has no schema")) };
    let fields = schema::read(&schema, budget)?;
    let mut table = Table::default();
    for field in &fields {
        table.columns.push(Column { name: field.name.clone(), pieces: Vec::new() });
    }
    let block = |parts: &[u8; 24], is_dictionary| {
        let [offset, message_len, body_len] = numbers(parts)?;
        // Four bytes for alignment come behind it, whose value nobody promises.
        let message = Want { offset, len: message_len & 0xffff_ffff };
        Ok(Block { message, body_len, is_dictionary })
    };
    let (dictionaries, batches) = (footer.structs::<24>(2)?, footer.structs::<24>(3)?);
    budget.list::<Block>((dictionaries.len() + batches.len()) as u64)?;
    let dictionaries = dictionaries.iter().map(|parts| block(parts, true));
    let batches = batches.iter().map(|parts| block(parts, false));
    let mut left = dictionaries.chain(batches).collect::<Result<Vec<_>>>()?;
    left.reverse();
    let now = Block { message: Want { offset: 0, len: 0 }, body_len: 0, is_dictionary: false };
    Ok(Messages { data_len, fields, table, now, left }.next())
}

/// Numbers of eight bytes that are not below zero.
fn numbers<const N: usize>(bytes: &[u8]) -> Result<[u64; N]> {
    let (words, _) = bytes.as_chunks::<8>();
    let mut numbers = [0; N];
    for (number, word) in numbers.iter_mut().zip(words) {
        *number = u64::try_from(i64::from_le_bytes(*word)).map_err(|_| DAMAGED)?;
    }
    Ok(numbers)
}

impl Messages {
    fn next(mut self) -> Next<Reading, Layout> {
        match self.left.pop() {
            Some(block) => {
                self.now = block;
                Next::Ask(block.message, Reading::Messages(self))
            }
            None => Next::Done(Layout { tables: vec![self.table] }),
        }
    }

    fn give(&mut self, bytes: &[u8], budget: &mut Budget) -> Result<()> {
        let Block { message, body_len, is_dictionary } = self.now;
        let body = message.end().filter(|body| body.checked_add(body_len).is_some_and(|end| end <= self.data_len));
        let body = body.ok_or(LayoutError::Damaged("a batch lies outside of the data"))?;
        // Since 2019 a mark stands before the length.
        let flat = match bytes {
            [0xff, 0xff, 0xff, 0xff, _, _, _, _, rest @ ..] | [_, _, _, _, rest @ ..] => Flat::start(rest)?,
            _ => return Err(DAMAGED),
        };
        let header = flat.table(2)?.ok_or(DAMAGED)?;
        // Each message is short and named as often as its writer liked, and all columns are looked at for it.
        budget.work(self.fields.len() as u64)?;
        match (flat.u8(1)?, is_dictionary) {
            (2, true) => self.dictionary(&header, Want { offset: message.offset, len: message.len + body_len }, budget),
            (3, false) => {
                let has_nulls_of_unions = flat.u16(0)? < UNIONS_WITHOUT_NULLS;
                self.batch(&header, Want { offset: body, len: body_len }, has_nulls_of_unions, budget)
            }
            _ => Err(DAMAGED),
        }
    }

    fn dictionary(&mut self, header: &Flat<'_>, span: Want, budget: &mut Budget) -> Result<()> {
        let id = header.i64(0)?;
        for (field, column) in self.fields.iter().zip(&mut self.table.columns) {
            budget.work(field.dictionaries.len() as u64)?;
            if field.dictionaries.contains(&id) {
                Piece::add(&mut column.pieces, 0, span, budget)?;
            }
        }
        Ok(())
    }

    fn batch(&mut self, header: &Flat<'_>, body: Want, has_nulls_of_unions: bool, budget: &mut Budget) -> Result<()> {
        let rows = u64::try_from(header.i64(0)?).map_err(|_| DAMAGED)?;
        let (first, end) = (self.table.entries, self.table.entries.checked_add(rows).ok_or(DAMAGED)?);
        self.table.entries = end;
        let (mut buffers, mut views) = (header.structs::<16>(2)?, header.structs::<8>(4)?);
        for (field, column) in self.fields.iter().zip(&mut self.table.columns) {
            let view_count = usize::try_from(field.view_count).map_err(|_| DAMAGED)?;
            let (of_views, rest) = views.split_at_checked(view_count).ok_or(DAMAGED)?;
            views = rest;
            let mut count = field.buffer_count + if has_nulls_of_unions { field.union_count } else { 0 };
            for more in of_views {
                let [more] = numbers(more)?;
                count = count.checked_add(more).ok_or(DAMAGED)?;
            }
            let count = usize::try_from(count).map_err(|_| DAMAGED)?;
            let (own, rest) = buffers.split_at_checked(count).ok_or(DAMAGED)?;
            buffers = rest;
            let Some(span) = around(own)? else { continue };
            if span.end().is_none_or(|end| end > body.len) {
                return Err(DAMAGED);
            }
            if rows > 0 {
                let span = Want { offset: body.offset + span.offset, ..span };
                Piece::add(&mut column.pieces, first, span, budget)?;
            }
        }
        Ok(())
    }
}

/// What holds all buffers that are not empty. They lie behind each other.
fn around(buffers: &[[u8; 16]]) -> Result<Option<Want>> {
    let (mut begin, mut end) = (u64::MAX, 0);
    for buffer in buffers {
        let [offset, len] = numbers(buffer)?;
        if len > 0 {
            (begin, end) = (begin.min(offset), end.max(offset.checked_add(len).ok_or(DAMAGED)?));
        }
    }
    Ok((begin < end).then(|| Want { offset: begin, len: end - begin }))
}
