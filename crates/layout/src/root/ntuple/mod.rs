//! Where the pages of an ntuple lie: ROOT's format of columns after trees, version 1.
//!
//! ```text
//!  anchor ─▶ header: fields, columns ─▶ footer: more of them, groups of clusters ─▶ each group's list of pages
//! ```

mod frame;
mod pages;
mod schema;

use super::cursor::Cursor;
use super::unzip::unzip;
use crate::error::{LayoutError, Result};
use crate::limits::Budget;
use crate::tables::Table;
use crate::want::{Next, Want};
use frame::{Envelope, Frame};
use schema::Schema;

/// The class of an anchor.
pub(crate) const CLASS: &str = "ROOT::RNTuple";
/// Of the format: what comes before was never promised to stay.
const EPOCH: u16 = 1;

#[derive(Debug)]
pub(crate) struct Ntuple {
    table: Table,
    schema: Schema,
    state: State,
    /// How long it is decompressed what is wanted.
    len: u64,
    file_len: u64,
}

#[derive(Debug)]
enum State {
    Header {
        footer: (u64, Want),
    },
    Footer,
    /// The groups to come, the last one first.
    Pages(Vec<(u64, Want)>),
}

pub(crate) fn begin(anchor: &[u8], name: String, file_len: u64) -> Result<(Want, Ntuple)> {
    let (_, mut anchor) = Cursor::new(anchor, 0).object()?;
    if anchor.u16()? != EPOCH {
        return Err(LayoutError::Unknown("it has ntuples of another version"));
    }
    anchor.take(6)?;
    let mut part = || {
        let span = Want { offset: anchor.place(true)?, len: anchor.place(true)? };
        Ok((anchor.place(true)?, span))
    };
    let ((len, want), footer) = (part()?, part()?);
    let table = Table { name, ..Table::default() };
    Ok((want, Ntuple { table, schema: Schema::default(), state: State::Header { footer }, len, file_len }))
}

impl Ntuple {
    pub(crate) fn give(mut self, bytes: &[u8], budget: &mut Budget) -> Result<Next<Self, Table>> {
        let plain = unzip(bytes, self.len, budget)?;
        match self.state {
            State::Header { footer: (len, want) } => {
                let mut frame = Frame::envelope(&plain, Envelope::Header)?;
                frame.features()?;
                for _ in 0..3 {
                    frame.text()?;
                }
                self.schema.add(&mut frame, &mut self.table.columns, budget)?;
                Ok(Next::Ask(want, Self { len, state: State::Footer, ..self }))
            }
            State::Footer => {
                let mut frame = Frame::envelope(&plain, Envelope::Footer)?;
                frame.features()?;
                frame.u64()?;
                self.schema.add(&mut frame.record()?, &mut self.table.columns, budget)?;
                let (count, mut groups) = frame.list()?;
                let mut left = Vec::new();
                for _ in 0..count {
                    let mut group = groups.record()?;
                    let end = group.u64()?.checked_add(group.u64()?);
                    let end = end.ok_or(LayoutError::Damaged("an ntuple has more entries than can be counted"))?;
                    self.table.entries = self.table.entries.max(end);
                    group.u32()?;
                    left.push(group.link()?);
                }
                left.reverse();
                Ok(self.next(left))
            }
            State::Pages(left) => {
                let frame = Frame::envelope(&plain, Envelope::Pages)?;
                pages::read(frame, &self.schema, &mut self.table.columns, self.file_len, budget)?;
                Ok(Self { state: State::Footer, ..self }.next(left))
            }
        }
    }

    fn next(self, mut left: Vec<(u64, Want)>) -> Next<Self, Table> {
        match left.pop() {
            Some((len, want)) => Next::Ask(want, Self { len, state: State::Pages(left), ..self }),
            None => Next::Done(self.table),
        }
    }
}
