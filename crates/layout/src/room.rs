//! Memory of what is made of a file, as who asks the file counts it: its owner chose how much that is.

use std::fmt::Debug;

/// Memory that is left for one file.
pub trait Room: Debug + Send {
    /// Takes so many bytes more, until what was made of the file is not needed any more; false if there are not so
    /// many.
    fn take(&mut self, len: u64) -> bool;
}

/// Where nobody counts.
#[derive(Debug)]
pub struct Boundless;

impl Room for Boundless {
    fn take(&mut self, _len: u64) -> bool {
        true
    }
}
