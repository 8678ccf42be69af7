//! The sum over leaves of a hash tree, which members of a container are compared by; how it is made is part of the
//! protocol between them.

/// How many leaves, and 128 bits that know no order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TreeSum {
    pub count: u64,
    pub high: u64,
    pub low: u64,
}
