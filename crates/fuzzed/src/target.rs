//! A parser that is fuzzed.

/// A parser, by name.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    pub name: &'static str,
    pub run: fn(&[u8]),
    /// Golden bytes to begin with, below `crates/`: directories of files, or a text with a line of hexadecimal digits
    /// each.
    pub golden: &'static [&'static str],
}
