//! Copying a replica to another node (op 86), for a client that repairs its chain: the read path, with the head of a
//! write in front of it.

use crate::answer::{Refusal, success};
use crate::block::{Named, checksum_proto, link_text};
use crate::inbox::Inbox;
use crate::node::Node;
use crate::read::{Plan, send_packets};
use crate::telemetry::Operation;
use crate::write::node_addr;
use container::ReplicaError;
use hdfs::proto::{self, BlockConstructionStage as Stage};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpStream;
use types::ReplicaState;
use wire::{Op, OpHeader, Status, delimited};

pub(crate) async fn serve(
    node: &Arc<Node>,
    op: proto::OpTransferBlockProto,
) -> Result<proto::BlockOpResponseProto, Refusal> {
    let counted = node.telemetry.operations.begin(Operation::Transfer, || node.now());
    counted.answered(copy_to_all(node, op).await)
}

async fn copy_to_all(
    node: &Arc<Node>,
    op: proto::OpTransferBlockProto,
) -> Result<proto::BlockOpResponseProto, Refusal> {
    let named = Named::of(&op.header.base_header, node.pool().as_deref())?;
    if op.targets.is_empty() {
        return Err(Refusal::error("no target is named"));
    }
    let found = node.disks.for_block(named.block, move |disks| -> Result<_, Refusal> {
        // The length that is named says nothing: hdfs-native counts what it has not sent yet. Whether the copy is long
        // enough is asked when the chain is joined. All of it, a little more than was acknowledged perhaps: up to there
        // the stored checksums hold.
        let reader = match disks.read(named.block, named.generation) {
            Err(ReplicaError::NotFound { .. }) => return Ok(None),
            read => read?,
        };
        let plan = Plan::whole(reader);
        let sums = plan.sums(plan.start)?;
        Ok(Some((plan, sums)))
    });
    // The chain broke before it reached this node. There is nothing to copy; if anything was acknowledged, the target
    // says so when it is to join the chain.
    let Some((plan, sums)) = found.await?? else { return Ok(success()) };
    for (place, target) in op.targets.iter().enumerate() {
        let storage = (op.target_storage_types.get(place).copied(), op.target_storage_ids.get(place).cloned());
        let copied = copy(node, &plan, sums.clone(), &op, target, storage).await;
        copied.map_err(|why| Refusal::error(format!("copying {} to {}: {why}", named.block, link_text(target))))?;
    }
    Ok(success())
}

async fn copy(
    node: &Arc<Node>,
    plan: &Plan,
    sums: Vec<u8>,
    op: &proto::OpTransferBlockProto,
    target: &proto::DatanodeInfoProto,
    (storage_type, storage_id): (Option<i32>, Option<String>),
) -> Result<(), String> {
    let limits = &node.config.limits;
    let text = |error: std::io::Error| error.to_string();
    let addr = node_addr(target).ok_or("is no address")?;
    let connecting = tokio::time::timeout(Duration::from_millis(limits.connect_ms), TcpStream::connect(addr));
    let mut socket = connecting.await.map_err(|_| "does not accept a connection")?.map_err(text)?;
    node.set_options(&socket);
    let identity = plan.reader.identity();
    let mut header = op.header.clone();
    header.base_header.block.generation_stamp = identity.generation.0;
    header.base_header.block.num_bytes = Some(plan.end);
    let whole = plan.reader.state() == ReplicaState::Finalized;
    let write = proto::OpWriteBlockProto {
        header,
        stage: if whole { Stage::TransferFinalized } else { Stage::TransferRbw } as i32,
        pipeline_size: 1,
        requested_checksum: checksum_proto(identity.checksum),
        storage_type,
        storage_id,
        ..Default::default()
    };
    let mut front = OpHeader { op: Op::WriteBlock }.encode().to_vec();
    delimited::put(&write, &mut front);
    let stalled = limits.with_nodes(limits.below_silent_ms, 0);
    let share = node.disks.share(identity.block);
    let bytes = node.telemetry.operations.bytes(Operation::Transfer);
    send_packets(&socket, plan, share, front, sums, stalled, bytes).await.map_err(text)?;
    let answer = Inbox::default().answer(&mut socket, limits.with_nodes(limits.setup_ms, 0)).await?;
    if answer.status == i32::from(Status::SUCCESS.0) { Ok(()) } else { Err(answer.message().to_owned()) }
}
