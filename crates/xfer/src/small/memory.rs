//! Memory that requests take, as who has it counts it.

/// What all connections have together.
pub trait Memory {
    type Held: Held;

    /// `None`: there is not so much now.
    fn take(&self, len: u64) -> Option<Self::Held>;
}

/// What one request holds; it goes back when this is dropped.
pub trait Held {
    /// Takes more, so that it has `len` bytes; says whether there was room.
    fn grow_to(&mut self, len: u64) -> bool;
}
