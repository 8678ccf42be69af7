//! What a connection of small writes asks of the node that it leads to.
//!
//! Promise: nothing of a request's body gets memory before the node has admitted what its header says.

use super::request::Checked;
use crate::answer::Refusal;
use crate::memory::Held;
use wire::small::SmallWrite;

pub trait Node {
    /// Memory of a request.
    type Held: Held;
    /// Memory of a header that is not whole.
    type Front: Held;

    /// What the header asks for, if it may be done: its token is right, and so is all that can be seen before its bytes
    /// are here (see [`Checked::of`]).
    fn admit(&self, header: &SmallWrite) -> Result<Checked, Refusal>;

    /// For a request that was admitted. `None`: there is not so much now.
    fn take(&self, len: u64) -> Option<Self::Held>;

    /// For a header of which nobody knows yet whose it is. `None`: there is not so much now.
    fn take_for_front(&self, len: u64) -> Option<Self::Front>;
}
