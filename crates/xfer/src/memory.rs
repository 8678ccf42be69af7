//! Memory that streams and requests take, as who has it counts it.

use std::fmt::Debug;

/// What all connections of a node have together.
pub trait Memory {
    type Held: Held;

    /// `None`: there is not so much now.
    fn take(&self, len: u64) -> Option<Self::Held>;
}

/// Bytes put by for one stream or request. They go back when this is dropped.
pub trait Held: Debug {
    /// How many there are.
    fn held_len(&self) -> u64;

    /// Takes more, so that there are `len` bytes; says whether there was room.
    fn grow_to(&mut self, len: u64) -> bool;

    /// Gives back what is above `len`. Where nobody counts, nothing goes back.
    fn shrink_to(&mut self, _len: u64) {}

    /// The same as [`Held::grow_to`], but only if there is plenty for others, too.
    fn grow_to_if_plenty(&mut self, len: u64) -> bool {
        self.grow_to(len)
    }
}
