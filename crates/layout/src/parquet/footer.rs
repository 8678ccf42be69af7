//! The footer of a Parquet file: the names of its columns, and where each row group has their chunks.

use super::thrift::{BINARY, I32, I64, LIST, STRUCT, Thrift};
use crate::error::{LayoutError, Result};
use crate::limits::{self, Budget};
use crate::tables::{Column, Piece, Table};
use crate::want::Want;

/// A column's bytes of one row group.
#[derive(Debug)]
pub(crate) struct Chunk {
    /// Its number, in the order of the schema.
    pub(crate) column: u32,
    pub(crate) first: u64,
    pub(crate) row_count: u64,
    /// With the dictionary, where it has one.
    pub(crate) span: Want,
    /// Where the list of its pages is.
    pub(crate) index: Option<Want>,
}

#[derive(Debug)]
pub(crate) struct Footer {
    /// Without pieces.
    pub(crate) table: Table,
    /// Row group by row group.
    pub(crate) chunks: Vec<Chunk>,
}

/// `data_len`: what lies before the footer, and holds all that it points to.
pub(crate) fn read(bytes: &[u8], data_len: u64, budget: &mut Budget) -> Result<Footer> {
    let (mut table, mut chunks) = (Table::default(), Vec::new());
    Thrift::new(bytes).fields(&mut |field, id, kind| match (id, kind) {
        (2, LIST) => {
            table.columns = schema(field, budget)?;
            Ok(())
        }
        (4, LIST) => field.structs(&mut |group| {
            let begin = chunks.len();
            let row_count = row_group(group, table.columns.len(), table.entries, &mut chunks, budget)?;
            chunks.iter_mut().skip(begin).for_each(|chunk| chunk.row_count = row_count);
            table.entries = table.entries.checked_add(row_count).ok_or(DAMAGED_ROWS)?;
            Ok(())
        }),
        _ => field.skip(kind),
    })?;
    let within = |span: Want| span.end().is_some_and(|end| end <= data_len);
    if !chunks.iter().all(|chunk| within(chunk.span) && chunk.index.is_none_or(within)) {
        return Err(LayoutError::Damaged("its footer points behind the data"));
    }
    Ok(Footer { table, chunks })
}

const DAMAGED_ROWS: LayoutError = LayoutError::Damaged("its row groups have more rows than can be counted");
const DAMAGED_SCHEMA: LayoutError = LayoutError::Damaged("its schema does not fit together");

/// The leaves of the schema, which is a tree in depth-first order: each node says how many children follow.
fn schema(field: &mut Thrift<'_>, budget: &mut Budget) -> Result<Vec<Column>> {
    /// The schemas of lists in lists have two for each; a guess, far above.
    const DEPTH_MAX: usize = 128;

    let mut columns = Vec::new();
    // Of each group above: how many children are to come, and how long the path is that leads to it.
    let mut above: Vec<(u64, usize)> = Vec::new();
    let (mut path, mut is_begun) = (String::new(), false);
    field.structs(&mut |element| {
        let (mut name, mut child_count) = (&[][..], None);
        element.fields(&mut |field, id, kind| {
            match (id, kind) {
                (4, BINARY) => name = field.text()?,
                (5, I32) => child_count = Some(field.count()?).filter(|count| *count > 0),
                _ => field.skip(kind)?,
            }
            Ok(())
        })?;
        if !is_begun {
            // The root, whose name is no part of the paths. A table of no columns has no children.
            is_begun = true;
            above.extend(child_count.map(|count| (count, 0)));
            return Ok(());
        }
        while above.pop_if(|(left, _)| *left == 0).is_some() {}
        let Some((left, len)) = above.last_mut() else { return Err(DAMAGED_SCHEMA) };
        *left -= 1;
        path.truncate(*len);
        if !path.is_empty() {
            path.push('.');
        }
        path.push_str(&limits::name(name)?);
        match child_count {
            Some(count) if above.len() < DEPTH_MAX => above.push((count, path.len())),
            Some(_) => return Err(DAMAGED_SCHEMA),
            None => {
                budget.name(&path)?;
                columns.push(Column { name: path.clone(), pieces: Vec::new() });
            }
        }
        Ok(())
    })?;
    if above.iter().any(|(left, _)| *left > 0) {
        return Err(DAMAGED_SCHEMA);
    }
    Ok(columns)
}

/// How many rows it has.
fn row_group(
    group: &mut Thrift<'_>,
    column_count: usize,
    first: u64,
    chunks: &mut Vec<Chunk>,
    budget: &mut Budget,
) -> Result<u64> {
    let (mut row_count, mut column) = (None, 0);
    group.fields(&mut |field, id, kind| {
        match (id, kind) {
            (1, LIST) => field.structs(&mut |chunk| {
                let (span, index) = column_chunk(chunk)?;
                // Beside its pieces: until these are known, a chunk takes more than they do.
                budget.pieces(1)?;
                budget.list::<(Chunk, Vec<Piece>)>(1)?;
                chunks.push(Chunk { column, first, row_count: 0, span, index });
                column = column.checked_add(1).ok_or(DAMAGED_SCHEMA)?;
                Ok(())
            })?,
            (3, I64) => row_count = Some(field.count()?),
            _ => field.skip(kind)?,
        }
        Ok(())
    })?;
    if column as usize != column_count {
        return Err(LayoutError::Damaged("a row group has not the columns of the schema"));
    }
    row_count.ok_or(LayoutError::Damaged("a row group does not say how many rows it has"))
}

/// Where it lies, and where the list of its pages does.
fn column_chunk(chunk: &mut Thrift<'_>) -> Result<(Want, Option<Want>)> {
    let (mut len, mut data, mut dictionary, mut index_offset, mut index_len) = (None, None, None, None, None);
    chunk.fields(&mut |field, id, kind| {
        match (id, kind) {
            (1, BINARY) if field.text()?.is_empty() => {}
            (1, _) => return Err(LayoutError::Unknown("its columns are in other files")),
            (3, STRUCT) => field.fields(&mut |field, id, kind| {
                match (id, kind) {
                    (7, I64) => len = Some(field.count()?),
                    (9, I64) => data = Some(field.count()?),
                    // Some writers say 0 where there is no dictionary.
                    (11, I64) => dictionary = Some(field.count()?).filter(|offset| *offset > 0),
                    _ => field.skip(kind)?,
                }
                Ok(())
            })?,
            (4, I64) => index_offset = Some(field.count()?),
            (5, I32) => index_len = Some(field.count()?).filter(|len| *len > 0),
            (8 | 9, _) => return Err(LayoutError::Unknown("its columns are encrypted")),
            _ => field.skip(kind)?,
        }
        Ok(())
    })?;
    let offset = dictionary.into_iter().chain(data).min();
    let (Some(offset), Some(len)) = (offset, len) else {
        return Err(LayoutError::Damaged("a column chunk does not say where it is"));
    };
    let index = index_offset.zip(index_len).map(|(offset, len)| Want { offset, len });
    Ok((Want { offset, len }, index))
}
