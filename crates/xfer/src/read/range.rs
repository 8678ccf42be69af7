//! Which bytes of a block are read, and where in memory they go.

/// What to read of one block. Offsets are those of the block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    pub from: u64,
    pub end: u64,
}

/// Where a read ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// At the range's end.
    Exact,
    /// At the end of the range's last chunk, as far as the replica has it: whoever stores what he reads needs bytes
    /// that the checksums cover.
    WholeChunks,
}

/// Where the next bytes of the connection go: into `dest` first, what is more into `ahead`.
#[derive(Debug)]
pub struct Room<'a> {
    pub dest: &'a mut [u8],
    pub ahead: &'a mut [u8],
}
