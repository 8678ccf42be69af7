//! The operation that a chain begins with, as the simulation has it and as it goes over the wire.

use crate::world::World;
use hdfs::proto::{self, BlockConstructionStage};
use types::{BlockId, ContainerId, FileId, Generation, NodeId};
use wire::{BlockScope, Routing};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    Create,
    StreamingRecovery,
    CloseRecovery,
}

#[derive(Clone, Debug)]
pub(crate) struct WriteOp {
    pub(crate) block: BlockId,
    pub(crate) generation: Generation,
    pub(crate) file: FileId,
    pub(crate) home: ContainerId,
    pub(crate) targets: Vec<NodeId>,
    /// Who of them sends to whom.
    pub(crate) routing: Routing,
    pub(crate) stage: Stage,
    /// The new generation, in recovery.
    pub(crate) latest: Generation,
    pub(crate) min: usize,
    pub(crate) max: usize,
}

impl WriteOp {
    pub(crate) fn decode(op: &proto::OpWriteBlockProto) -> Self {
        let base = &op.header.base_header;
        let token = base.token.as_ref().map_or(&[][..], |token| &token.identifier);
        let scope = BlockScope::decode(token).expect("a token of ours").expect("it tells whose the block is");
        let parents = op.stream.as_ref().map_or(&[][..], |stream| &stream.parents);
        Self {
            block: BlockId(base.block.block_id),
            generation: Generation(base.block.generation_stamp),
            file: scope.file,
            home: scope.home,
            targets: op.targets.iter().map(|target| World::node_of_addr(&link_text(target))).collect(),
            routing: Routing::decode(parents, op.targets.len()).expect("a table of ours"),
            stage: match BlockConstructionStage::try_from(op.stage) {
                Ok(BlockConstructionStage::PipelineSetupCreate) => Stage::Create,
                Ok(BlockConstructionStage::PipelineSetupStreamingRecovery) => Stage::StreamingRecovery,
                Ok(BlockConstructionStage::PipelineCloseRecovery) => Stage::CloseRecovery,
                other => panic!("no writer of ours begins with {other:?}"),
            },
            latest: Generation(op.latest_generation_stamp),
            min: op.min_bytes_rcvd as usize,
            max: op.max_bytes_rcvd as usize,
        }
    }
}

/// `ip:port` of a node.
pub(crate) fn link_text(node: &proto::DatanodeInfoProto) -> String {
    format!("{}:{}", node.id.ip_addr, node.id.xfer_port)
}
