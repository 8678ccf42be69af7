//! Sets of rights.

/// Read 4, write 2, execute 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access(u8);

impl Access {
    pub const READ: Self = Self(4);
    pub const WRITE: Self = Self(2);
    pub const EXECUTE: Self = Self(1);
    pub const READ_EXECUTE: Self = Self(5);
    pub const ALL: Self = Self(7);

    /// As HDFS numbers them (`FsActionProto`); higher bits are ignored.
    pub fn from_bits(bits: u8) -> Self {
        Self(bits & 7)
    }

    pub fn bits(self) -> u8 {
        self.0
    }
}
