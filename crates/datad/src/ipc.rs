//! What is asked of a datanode by RPC: clients ask how much of a replica can be seen, the metadata server recovers.

use crate::block::check_pool;
use crate::compare;
use crate::node::{Node, report};
use bytes::Bytes;
use container::{ReplicaError, ReplicaState};
use hdfs::exception::{Exception, REPLICA_NOT_FOUND};
use hdfs::proto;
use hdfs::protocol::CLIENT_DATANODE;
use prost::Message;
use std::sync::Arc;
use types::{BlockId, Generation};
use wire::meter::METER_PROTOCOL;
use wire::node::{self, REPLICA_PROTOCOL};

/// Requests and answers name a block and a number; the memory is for blocks.
pub(crate) fn options() -> rpc::ServerOptions {
    rpc::ServerOptions { frame_len_max: 1 << 20, held_len_max: 16 << 20, ..rpc::ServerOptions::default() }
}

#[derive(Debug)]
pub(crate) struct Ipc {
    pub(crate) node: Arc<Node>,
}

impl rpc::Service for Ipc {
    async fn call(&self, call: rpc::Call) -> Result<Bytes, Exception> {
        let node = Arc::clone(&self.node);
        match (call.protocol.as_str(), call.method.as_str()) {
            (CLIENT_DATANODE, "getReplicaVisibleLength") => {
                let request: proto::GetReplicaVisibleLengthRequestProto = call.request()?;
                io::task::blocking(move || visible_len(&node, &request)).await
            }
            (REPLICA_PROTOCOL, node::BEGIN_RECOVERY) => {
                let request = call.request()?;
                io::task::blocking(move || begin_recovery(&node, &request)).await
            }
            (REPLICA_PROTOCOL, node::FINISH_RECOVERY) => {
                let request = call.request()?;
                io::task::blocking(move || finish_recovery(&node, &request)).await
            }
            (METER_PROTOCOL, _) => crate::meter::call(&call),
            (REPLICA_PROTOCOL, node::COMPARE) => {
                let request = call.request()?;
                io::task::blocking(move || encode(&compare::compare(&node, &request).map_err(exception)?)).await
            }
            (REPLICA_PROTOCOL, node::VERIFY) => {
                let request = call.request()?;
                io::task::blocking(move || encode(&compare::verify(&node, &request))).await
            }
            (CLIENT_DATANODE | REPLICA_PROTOCOL, _) => Err(call.no_such_method()),
            _ => Err(call.no_such_protocol()),
        }
    }
}

/// The length that this node and all below it in the chain have acknowledged.
fn visible_len(node: &Node, request: &proto::GetReplicaVisibleLengthRequestProto) -> Result<Bytes, Exception> {
    check_pool(&request.block, node.pool().as_deref()).map_err(|refusal| Exception::io(refusal.message))?;
    let block = BlockId(request.block.block_id);
    let wanted = Generation(request.block.generation_stamp);
    let info = node.volume.find(block).map_err(exception)?;
    let info = info.ok_or_else(|| exception(ReplicaError::NotFound { block }))?;
    if info.identity.generation < wanted {
        return Err(exception(ReplicaError::Stale { block, have: info.identity.generation, want: wanted }));
    }
    match info.state {
        ReplicaState::Open | ReplicaState::Finalized => {}
        // Not "nothing": the client must ask the next node.
        state => return Err(exception(ReplicaError::State { block, state, needed: "readable" })),
    }
    encode(&proto::GetReplicaVisibleLengthResponseProto { length: info.visible_len })
}

fn begin_recovery(node: &Node, request: &node::BeginRecoveryRequest) -> Result<Bytes, Exception> {
    let block = BlockId(request.block);
    let replica = match node.volume.begin_recovery(block, Generation(request.generation)) {
        Ok(info) => Some(report(&info)),
        Err(ReplicaError::NotFound { .. }) => None,
        Err(error) => return Err(exception(error)),
    };
    encode(&node::BeginRecoveryResponse { replica })
}

fn finish_recovery(node: &Node, request: &node::FinishRecoveryRequest) -> Result<Bytes, Exception> {
    let block = BlockId(request.block);
    node.volume.finish_recovery(block, Generation(request.generation), request.len).map_err(exception)?;
    node.was_put(block);
    encode(&node::FinishRecoveryResponse {})
}

fn exception(error: ReplicaError) -> Exception {
    match error {
        ReplicaError::NotFound { .. } => Exception::new(REPLICA_NOT_FOUND, error.to_string()),
        error => Exception::io(error.to_string()),
    }
}

fn encode(message: &impl Message) -> Result<Bytes, Exception> {
    Ok(message.encode_to_vec().into())
}
