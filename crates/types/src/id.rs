//! Identifiers. Each is a type of its own, so that a file's number is never taken for a block's.

use serde::{Deserialize, Serialize};
use std::fmt;

macro_rules! number {
    ($(#[$doc:meta])* $name:ident, $prefix:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub struct $name(pub u64);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!($prefix, "{}"), self.0)
            }
        }
    };
}

number!(
    /// A file or directory, for ever: ids are not reused, and a rename keeps them.
    InodeId, "inode "
);
number!(
    /// A set of replicas placed, repaired and balanced as one. At most 43 bits, so that a block id stays positive.
    ContainerId, "container "
);
number!(
    /// Rises at each recovery of a block; a replica with a lower one is stale.
    Generation, "generation "
);
number!(
    /// A set of datanodes that hold the same containers.
    PipelineId, "pipeline "
);
number!(
    /// Rises whenever the members of a pipeline change.
    Epoch, "epoch "
);

/// The inode of a file, where only a file can be meant.
pub type FileId = InodeId;

/// A block's id carries the container it was born in: `container << 20 | index`.
///
/// ```text
/// 63  62                    20 19            0
/// ┌──┬────────────────────────┬───────────────┐
/// │ 0│ container     (43 bit) │ index (20 bit)│   bit 63 stays 0: HDFS clients read 1 as erasure coded
/// └──┴────────────────────────┴───────────────┘
/// ```
///
/// A block that moves keeps its id, so the container inside the id is its birthplace, not always its home.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct BlockId(pub u64);

impl BlockId {
    pub const INDEX_BITS: u32 = 20;
    /// Blocks one container can ever hold.
    pub const INDEX_COUNT: u32 = 1 << Self::INDEX_BITS;

    pub fn new(born_in: ContainerId, index: u32) -> Self {
        assert!(index < Self::INDEX_COUNT && born_in.0 < ContainerId::END.0, "{born_in} index {index} out of range");
        Self(born_in.0 << Self::INDEX_BITS | u64::from(index))
    }

    pub fn born_in(self) -> ContainerId {
        ContainerId(self.0 >> Self::INDEX_BITS)
    }

    pub fn index(self) -> u32 {
        (self.0 & u64::from(Self::INDEX_COUNT - 1)) as u32
    }
}

impl ContainerId {
    /// First number that no container may have.
    pub const END: Self = Self(1 << 43);
}

impl fmt::Display for BlockId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "blk_{}", self.0)
    }
}

impl fmt::Debug for BlockId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "blk_{}({}/{})", self.0, self.born_in().0, self.index())
    }
}

/// A datanode, chosen at random when its directory is made. Shown and sent as a UUID.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct NodeId(pub [u8; 16]);

impl NodeId {
    /// Reads the hyphenated form, case-insensitively.
    pub fn parse(text: &str) -> Option<Self> {
        let mut bytes = [0; 16];
        let mut digits = text.bytes().filter(|byte| *byte != b'-').map(|byte| (byte as char).to_digit(16));
        for byte in &mut bytes {
            *byte = (digits.next()?? << 4 | digits.next()??) as u8;
        }
        (text.len() == 36 && digits.next().is_none()).then_some(Self(bytes))
    }
}

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, byte) in self.0.iter().enumerate() {
            let hyphen = if matches!(place, 4 | 6 | 8 | 10) { "-" } else { "" };
            write!(f, "{hyphen}{byte:02x}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_id_tells_where_it_was_born() {
        let block = BlockId::new(ContainerId(77), 12_345);
        assert_eq!((block.born_in(), block.index()), (ContainerId(77), 12_345));
        let last = BlockId::new(ContainerId(ContainerId::END.0 - 1), BlockId::INDEX_COUNT - 1);
        assert_eq!(last.0 >> 63, 0, "the top bit means erasure coding to stock clients");
    }

    #[test]
    fn a_node_id_survives_its_text() {
        let text = "00112233-4455-6677-8899-aabbccddeeff";
        assert_eq!(NodeId::parse(text).unwrap().to_string(), text);
        for bad in ["", "0011", "00112233-4455-6677-8899-aabbccddeefg", "00112233445566778899aabbccddeeff00112"] {
            assert_eq!(NodeId::parse(bad), None, "{bad}");
        }
    }
}
