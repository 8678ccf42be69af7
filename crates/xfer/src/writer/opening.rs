//! One attempt to open a stream: whom to connect to, and the request that names block and nodes.

use super::nodes::{Member, Shape};
use hdfs::proto::{self, op_write_block_proto::BlockConstructionStage as Stage};
use types::{BlockId, ChecksumSpec, Generation};
use wire::{Abilities, Routing};

/// What names a block under one generation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    pub pool: String,
    pub block: BlockId,
    pub generation: Generation,
    /// As the metadata server knows it.
    pub len: u64,
}

impl Identity {
    pub fn message(&self) -> proto::ExtendedBlockProto {
        proto::ExtendedBlockProto {
            pool_id: self.pool.clone(),
            block_id: self.block.0,
            generation_stamp: self.generation.0,
            num_bytes: Some(self.len),
        }
    }
}

impl From<proto::ExtendedBlockProto> for Identity {
    fn from(message: proto::ExtendedBlockProto) -> Self {
        Self {
            pool: message.pool_id,
            block: BlockId(message.block_id),
            generation: Generation(message.generation_stamp),
            len: message.num_bytes.unwrap_or(0),
        }
    }
}

/// How a block is written.
#[derive(Clone, Debug)]
pub struct Manner {
    /// The client's name.
    pub holder: String,
    pub spec: ChecksumSpec,
    pub shape: Shape,
    /// Bytes of the longest packet, all of it.
    pub packet_len: u32,
    /// How often the same packet may be the first that does not get through.
    pub recoveries_max: u32,
}

/// How nodes come to a stream: with a new block, or with what they have of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Joining {
    pub(super) stage: Stage,
    /// The new one, in recovery.
    pub(super) generation: Generation,
    /// All of them have the block up to the first; none has more than the second.
    pub(super) acked_len: u64,
    pub(super) sent_len: u64,
}

/// One attempt.
#[derive(Clone, Debug)]
pub struct Opening {
    pub request: proto::OpWriteBlockProto,
    /// `ip:port` of all nodes, as they name each other. Connect to the first.
    pub nodes: Vec<String>,
    /// A node that stands still may be given up for others.
    pub spare: bool,
}

impl Opening {
    /// With a routing table for nodes of ours, which know of it; without one for those of HDFS.
    pub(super) fn new(
        manner: &Manner,
        identity: &Identity,
        token: &proto::TokenProto,
        members: &[Member],
        table: Option<Routing>,
        joining: Joining,
    ) -> Self {
        let (first, targets) = members.split_first().expect("a block without nodes has failed");
        let stream = table.map(|table| proto::StreamProto {
            parents: table.encode(),
            abilities: Some(Abilities::OF_STREAM.bits()),
            packet_len: Some(manner.packet_len),
        });
        let base_header =
            proto::BaseHeaderProto { block: identity.message(), token: Some(token.clone()), trace_info: None };
        let request = proto::OpWriteBlockProto {
            header: proto::ClientOperationHeaderProto { base_header, client_name: manner.holder.clone() },
            targets: targets.iter().map(|member| member.info.clone()).collect(),
            stage: joining.stage.into(),
            pipeline_size: members.len() as u32,
            min_bytes_rcvd: joining.acked_len,
            max_bytes_rcvd: joining.sent_len,
            latest_generation_stamp: joining.generation.0,
            requested_checksum: manner.spec.into(),
            storage_type: Some(first.storage_type),
            storage_id: Some(first.storage.clone()),
            target_storage_types: targets.iter().map(|member| member.storage_type).collect(),
            target_storage_ids: targets.iter().map(|member| member.storage.clone()).collect(),
            stream,
            ..Default::default()
        };
        // A block that is only begun can be begun elsewhere; one that has bytes needs a node that has them.
        let spare = joining.stage == Stage::PipelineSetupCreate || members.len() > 1;
        Self { request, nodes: members.iter().map(Member::addr).collect(), spare }
    }
}
