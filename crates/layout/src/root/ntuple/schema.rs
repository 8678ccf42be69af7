//! The fields of an ntuple, within each other, and the columns in which their values are stored.

use super::frame::Frame;
use crate::error::{LayoutError, Result};
use crate::limits::{Budget, name};
use crate::tables::Column;

#[derive(Debug, Default)]
pub(crate) struct Schema {
    fields: Vec<Field>,
    /// Of each physical column: its column of the table.
    pub(crate) columns: Vec<usize>,
    /// Of each column of the table: whether every entry has as many elements.
    pub(crate) is_even: Vec<bool>,
}

#[derive(Debug)]
struct Field {
    path: String,
    /// What it has is within something of varying length.
    is_varying: bool,
    /// What is within it is.
    has_varying: bool,
    /// Its column of the table, if it has one.
    column: Option<usize>,
}

/// What kind a field is: of a leaf and a record what is within it is as often as itself.
const COLLECTION: u16 = 1;
const VARIANT: u16 = 3;

const DAMAGED: LayoutError = LayoutError::Damaged("the fields of an ntuple do not fit together");

impl Schema {
    /// Fields and columns, from the header or from what the footer adds.
    pub(crate) fn add(&mut self, frame: &mut Frame<'_>, columns: &mut Vec<Column>, budget: &mut Budget) -> Result<()> {
        let (count, mut fields) = frame.list()?;
        for _ in 0..count {
            self.field(fields.record()?, budget)?;
        }
        let (count, mut list) = frame.list()?;
        for _ in 0..count {
            self.column(list.record()?, columns)?;
        }
        Ok(())
    }

    fn field(&mut self, mut record: Frame<'_>, budget: &mut Budget) -> Result<()> {
        record.u64()?;
        let (parent, role) = (record.u32()? as usize, record.u16()?);
        record.u16()?;
        let name = name(record.text()?)?;
        // A field of the first level is its own parent; any other comes after it.
        let parent = if parent == self.fields.len() { None } else { Some(self.fields.get(parent).ok_or(DAMAGED)?) };
        let is_varying = parent.is_some_and(|parent| parent.has_varying);
        let path = parent.map_or_else(|| name.to_string(), |parent| format!("{}.{name}", parent.path));
        budget.name(&path)?;
        let has_varying = is_varying || matches!(role, COLLECTION | VARIANT);
        self.fields.push(Field { path, is_varying, has_varying, column: None });
        Ok(())
    }

    fn column(&mut self, mut record: Frame<'_>, columns: &mut Vec<Column>) -> Result<()> {
        record.u32()?;
        let field = self.fields.get_mut(record.u32()? as usize).ok_or(DAMAGED)?;
        let column = match field.column {
            // Such as texts: where each ends, and all their letters.
            Some(column) => {
                *self.is_even.get_mut(column).ok_or(DAMAGED)? = false;
                column
            }
            None => {
                columns.push(Column { name: field.path.clone(), pieces: Vec::new() });
                self.is_even.push(!field.is_varying);
                *field.column.insert(columns.len() - 1)
            }
        };
        self.columns.push(column);
        Ok(())
    }
}
