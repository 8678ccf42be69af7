//! Where HDFS's words and ours meet: small conversions between its messages and `types`.

use crate::proto::{
    ChecksumProto, ChecksumTypeProto, DataEncryptionKeyProto, DatanodeIdProto, ExtendedBlockProto, TokenProto,
};
use std::fmt;
use types::{BlockId, ChecksumKind, ChecksumSpec, Generation};

impl From<ChecksumKind> for ChecksumTypeProto {
    fn from(kind: ChecksumKind) -> Self {
        match kind {
            ChecksumKind::Null => Self::ChecksumNull,
            ChecksumKind::Crc32 => Self::ChecksumCrc32,
            ChecksumKind::Crc32c => Self::ChecksumCrc32c,
        }
    }
}

impl From<ChecksumTypeProto> for ChecksumKind {
    fn from(kind: ChecksumTypeProto) -> Self {
        match kind {
            ChecksumTypeProto::ChecksumNull => Self::Null,
            ChecksumTypeProto::ChecksumCrc32 => Self::Crc32,
            ChecksumTypeProto::ChecksumCrc32c => Self::Crc32c,
        }
    }
}

impl From<ChecksumSpec> for ChecksumProto {
    fn from(spec: ChecksumSpec) -> Self {
        Self { r#type: ChecksumTypeProto::from(spec.kind).into(), bytes_per_checksum: spec.chunk_len }
    }
}

impl ChecksumProto {
    /// `None`: a kind we do not know, or chunks of a length nobody can send.
    pub fn spec(&self) -> Option<ChecksumSpec> {
        ChecksumSpec::new(ChecksumKind::from_number(self.r#type)?, self.bytes_per_checksum)
    }
}

impl ExtendedBlockProto {
    pub fn of(pool: &str, block: BlockId, generation: Generation, len: u64) -> Self {
        Self { pool_id: pool.to_owned(), block_id: block.0, generation_stamp: generation.0, num_bytes: Some(len) }
    }

    pub fn block(&self) -> BlockId {
        BlockId(self.block_id)
    }

    pub fn generation(&self) -> Generation {
        Generation(self.generation_stamp)
    }
}

impl DatanodeIdProto {
    /// `ip:port` of data transfer, which is also how the nodes of a chain name each other.
    pub fn xfer_addr(&self) -> String {
        format!("{}:{}", self.ip_addr, self.xfer_port)
    }

    /// `ip:port` of its RPC.
    pub fn ipc_addr(&self) -> String {
        format!("{}:{}", self.ip_addr, self.ipc_port)
    }
}

impl TokenProto {
    /// What stands where a token is required and there is none: four empty fields.
    pub fn none() -> Self {
        Self {
            identifier: Default::default(),
            password: Default::default(),
            kind: String::new(),
            service: String::new(),
        }
    }
}

/// Its identifier and its password admit whoever has them.
impl fmt::Debug for TokenProto {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TokenProto").field("kind", &self.kind).field("service", &self.service).finish_non_exhaustive()
    }
}

impl fmt::Debug for DataEncryptionKeyProto {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DataEncryptionKeyProto").field("key_id", &self.key_id).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_checksum_of_a_stranger_is_looked_at() {
        for kind in [ChecksumKind::Null, ChecksumKind::Crc32, ChecksumKind::Crc32c] {
            let spec = ChecksumSpec::new(kind, 512).unwrap();
            assert_eq!(ChecksumProto::from(spec).spec(), Some(spec));
            assert_eq!(ChecksumTypeProto::from(kind) as i32, kind as i32);
            assert_eq!(ChecksumKind::from(ChecksumTypeProto::from(kind)), kind);
        }
        assert_eq!(ChecksumProto { r#type: 3, bytes_per_checksum: 512 }.spec(), None);
        assert_eq!(ChecksumProto { r#type: 2, bytes_per_checksum: 0 }.spec(), None);
        assert_eq!(ChecksumProto { r#type: 2, bytes_per_checksum: u32::MAX }.spec(), None);
    }
}
