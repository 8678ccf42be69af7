//! The block an operation names, freed of HDFS's clothes.

use crate::answer::Refusal;
use hdfs::proto;
use types::{BlockId, ChecksumKind, ChecksumSpec, Generation};
use wire::BlockScope;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Named {
    pub(crate) block: BlockId,
    pub(crate) generation: Generation,
    /// What it means depends on the operation.
    pub(crate) len: u64,
    /// Whose block it is, if its token tells.
    pub(crate) scope: Option<BlockScope>,
}

impl Named {
    /// `pool` is the block pool of this node, once it knows it.
    pub(crate) fn of(header: &proto::BaseHeaderProto, pool: Option<&str>) -> Result<Self, Refusal> {
        let block = &header.block;
        check_pool(block, pool)?;
        let identifier = header.token.as_ref().map_or(&[][..], |token| &token.identifier);
        let scope = BlockScope::decode(identifier).map_err(|error| Refusal::error(error.to_string()))?;
        Ok(Self {
            block: BlockId(block.block_id),
            generation: Generation(block.generation_stamp),
            len: block.num_bytes.unwrap_or(0),
            scope,
        })
    }
}

pub(crate) fn check_pool(block: &proto::ExtendedBlockProto, pool: Option<&str>) -> Result<(), Refusal> {
    if block.block_id >> 63 != 0 {
        return Err(Refusal::unsupported("erasure-coded blocks are not served"));
    }
    match pool {
        Some(pool) if pool != block.pool_id => {
            Err(Refusal::error(format!("block pool {:?} is not here, this node is of {pool:?}", block.pool_id)))
        }
        _ => Ok(()),
    }
}

pub(crate) fn checksum_spec(checksum: &proto::ChecksumProto) -> Result<ChecksumSpec, Refusal> {
    ChecksumKind::from_number(checksum.r#type)
        .and_then(|kind| ChecksumSpec::new(kind, checksum.bytes_per_checksum))
        .ok_or_else(|| Refusal::error(format!("checksum {checksum:?} is not known here")))
}

/// `ip:port` of a node, exactly as the client names it in its own list.
pub(crate) fn link_text(node: &proto::DatanodeInfoProto) -> String {
    format!("{}:{}", node.id.ip_addr, node.id.xfer_port)
}
