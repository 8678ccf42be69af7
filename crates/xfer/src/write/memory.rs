//! The memory that streams share, as one of them sees it.

use std::fmt::Debug;

/// Bytes that were put by for one stream. They go back when this is dropped.
pub trait Memory: Debug {
    /// How many there are.
    fn reserved_len(&self) -> u64;

    /// Takes more, so that there are `len` bytes; says whether there was room.
    fn grow_to(&mut self, len: u64) -> bool;

    /// The same, but only if there is plenty for others, too.
    fn grow_to_if_plenty(&mut self, len: u64) -> bool;
}
