//! The columns of an Arrow file, and how many buffers each has in a batch: that depends on the type.

use super::flat::Flat;
use crate::error::{LayoutError, Result};
use crate::limits::{Budget, name};

/// Types within each other; Arrow's own limit is 64.
const DEPTH_MAX: u32 = 64;
/// Fields of a schema, since the places in a flatbuffer may lead to the same field again and again. As
/// many as columns in all.
const FIELD_COUNT_MAX: u32 = 256 << 10;

/// A column of the table, with all that is within it.
#[derive(Debug, Default)]
pub(crate) struct Field {
    pub(crate) name: String,
    /// In the order of the buffers. Buffers come in runs that end in a view, whose number each batch tells.
    pub(crate) buffer_count: u64,
    pub(crate) view_count: u64,
    /// Each had one more buffer until 2020.
    pub(crate) union_count: u64,
    /// The numbers of the dictionaries it needs.
    pub(crate) dictionaries: Vec<i64>,
}

pub(crate) fn read(schema: &Flat<'_>, budget: &mut Budget) -> Result<Vec<Field>> {
    let mut left = FIELD_COUNT_MAX;
    schema
        .tables(1)?
        .map(|column| {
            let column = column?;
            let name = name(column.text(0)?)?.into_owned();
            budget.name(&name)?;
            let mut field = Field { name, ..Field::default() };
            add(&column, &mut field, 0, &mut left)?;
            Ok(field)
        })
        .collect()
}

fn add(column: &Flat<'_>, field: &mut Field, depth: u32, left: &mut u32) -> Result<()> {
    *left = left.checked_sub(1).filter(|_| depth <= DEPTH_MAX).ok_or(LayoutError::Damaged("its schema has no end"))?;
    if let Some(dictionary) = column.table(4)? {
        // Numbers stand for the values, whatever these are.
        field.dictionaries.push(dictionary.i64(0)?);
        field.buffer_count += 2;
        return Ok(());
    }
    let is_dense_union = || Ok(column.table(3)?.map_or(Ok(0), |union| union.u16(0))? == 1);
    field.buffer_count += match column.u8(2)? {
        // Nulls, and runs, whose ends and values are children.
        1 | 22 => 0,
        // Structs, and lists of a fixed length.
        13 | 16 => 1,
        14 => {
            field.union_count += 1;
            if is_dense_union()? { 2 } else { 1 }
        }
        // Texts and bytes.
        4 | 5 | 19 | 20 => 3,
        // Views of texts and bytes: some more buffers, as each batch tells.
        23 | 24 => {
            field.view_count += 1;
            2
        }
        25 | 26 => 3,
        // Numbers, times, lists, maps.
        2 | 3 | 6..=12 | 15 | 17 | 18 | 21 => 2,
        _ => return Err(LayoutError::Unknown("it has columns of an unknown type")),
    };
    for child in column.tables(5)? {
        add(&child?, field, depth + 1, left)?;
    }
    Ok(())
}
