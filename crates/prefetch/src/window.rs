//! What is fetched next of some columns, by ranges and by names.

use crate::index::ColumnId;
use crate::span::Span;

/// Pieces of one column in a fetch, in place of a list of ranges: what a store that knows the layout can be asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    pub column: ColumnId,
    pub first: u32,
    pub count: u32,
    /// Bytes of each piece, from its beginning; `u32::MAX`: all.
    pub reach: u32,
}

/// What comes next of some columns.
#[derive(Debug, Default)]
pub(crate) struct Window {
    pub(crate) missing: Vec<Span>,
    /// The same by names; empty if some of it is there already, since names would bring it again.
    pub(crate) runs: Vec<Run>,
}
