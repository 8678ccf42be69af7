//! What the machine has its shell do.

use crate::decision::{Decision, Why};
use crate::id::FetchId;
use crate::span::Span;
use crate::window::Run;

/// What the shell is to do, in this order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    Fetch(Fetch),
    /// It may leave the memory.
    Drop(Span),
    Decided(Decision),
}

/// One vectored read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fetch {
    pub id: FetchId,
    /// In the order of the file, without overlaps.
    pub ranges: Vec<Span>,
    pub len: u64,
    pub why: Why,
    /// False: it goes to the reader alone, past the cache.
    pub is_kept: bool,
    /// The same by names, for a store that knows the layout. Empty: it goes by ranges.
    pub runs: Vec<Run>,
}
