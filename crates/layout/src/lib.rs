//! Where the columns of a file lie: which bytes hold which entries of which column. Pure.
//!
//! A reader far away who knows this asks for "columns rawtr and E33, entries 0 to 10,000" in one packet, instead of
//! moving headers of megabytes and lists of ranges.

mod arrow;
mod decoders;
mod error;
pub mod fuzz;
mod inquiry;
mod limits;
mod long_pieces;
mod orc;
mod parquet;
mod record;
mod room;
mod root;
mod tables;
mod want;
mod wanted;
mod what;
mod window;

pub use error::LayoutError;
pub use inquiry::{
    Answer, Format, HEAD_LEN, Inquiry, begin, begin_at_end, begin_in_room, begin_within, of_bytes, of_bytes_within,
};
pub use limits::Limits;
pub use record::{RecordError, decode, decode_in_room, encode};
pub use room::{Boundless, Room};
pub use tables::{Column, Layout, Piece, Table};
pub use want::Want;
pub use wanted::Wanted;
pub use what::What;

/// Which formats are read, and how far: raised with every parser that reads more or otherwise, so that what was said of
/// a file before does not count any more.
pub const READS: u8 = 2;
