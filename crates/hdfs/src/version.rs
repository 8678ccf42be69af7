//! The version of Hadoop RPC: in the preamble, and in what refuses another one.

pub const VERSION: u8 = 9;
