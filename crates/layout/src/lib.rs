//! Where the columns of a file lie: which bytes hold which entries of which column. Pure.
//!
//! A reader far away who knows this asks for "columns rawtr and E33, entries 0 to 10,000" in one packet, instead of
//! moving headers of megabytes and lists of ranges.

/// What a file holds, as far as its reader cares where.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Layout {
    /// The tables of the file: one for Parquet, any number of trees for ROOT.
    pub tables: Vec<Table>,
}

/// Rows of the same columns.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Table {
    /// Empty where the format knows but one.
    pub name: String,
    /// How many entries (rows) it has.
    pub entries: u64,
    pub columns: Vec<Column>,
}

/// Values of one kind, one or some for each entry.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Column {
    /// Its path, with dots between the parts.
    pub name: String,
    /// In the order of their entries, which is not always that of the file.
    pub pieces: Vec<Piece>,
}

/// The smallest bytes that can be decoded alone: a basket, a page, a column chunk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Piece {
    /// The first entry it holds; the next piece's is its end.
    pub first: u64,
    /// Bytes from the start of the file.
    pub offset: u64,
    pub len: u32,
}
