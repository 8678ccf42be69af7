//! Reading a block (op 81): header and checksums from a small buffer, data by sendfile.
//!
//! ```text
//! answer │ head · sums │ data (sendfile) │ head · sums │ data … │ head (last, empty)
//! └──── one send ──────┘                 └─ MSG_MORE ──┘
//! ```
//!
//! The checksums are those that were stored; the reader verifies. No data byte enters this process.

mod plan;
mod sender;

pub(crate) use plan::Plan;
pub(crate) use sender::send_packets;

use crate::answer::{Refusal, message_bytes, success};
use crate::block::{Named, checksum_proto};
use crate::inbox::Inbox;
use crate::node::Node;
use crate::telemetry::Operation;
use hdfs::proto;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpStream;
use types::ReplicaState;

/// How long a read waits for a replica that is being written to reach the length asked for: its node may acknowledge
/// a packet to those above before the reader's own node has written it. Hadoop waits as long.
const GROWTH_WAIT: Duration = Duration::from_secs(3);
const GROWTH_LOOK: Duration = Duration::from_millis(50);

/// Serves one read. `Ok(true)`: the reader took it all and said so, and the connection may carry another operation.
pub(crate) async fn serve(
    node: &Arc<Node>,
    socket: &mut TcpStream,
    inbox: &mut Inbox,
    op: proto::OpReadBlockProto,
) -> std::io::Result<Result<bool, Refusal>> {
    let counted = node.telemetry.operations.begin(Operation::Read, || node.now());
    let with_sums = op.send_checksums.unwrap_or(true);
    let (plan, first_sums) = match open(node, &op, with_sums).await {
        Ok(opened) => opened,
        Err(refusal) => {
            counted.refused();
            return Ok(Err(refusal));
        }
    };
    let Some(_memory) = node.budget.take(plan.memory_len()) else {
        counted.refused();
        return Ok(Err(Refusal::error("no memory left for another read; try another node")));
    };
    tracing::debug!(block = %plan.reader.identity().block, client = op.header.client_name, "a read begins");
    let info = proto::ReadOpChecksumInfoProto { checksum: checksum_proto(plan.spec), chunk_offset: plan.start };
    let answer = message_bytes(&proto::BlockOpResponseProto { read_op_checksum_info: Some(info), ..success() });
    let stalled = Duration::from_millis(node.config.limits.reader_stalled_ms);
    let share = node.disks.share(plan.reader.identity().block);
    let bytes = node.telemetry.operations.bytes(Operation::Read);
    send_packets(socket, &plan, share, answer, first_sums, stalled, bytes).await?;
    counted.done();
    // A reader that verified nothing, or went away, is as good as one that did; only the connection's fate differs.
    let limit = Duration::from_millis(node.config.limits.op_ms);
    let status = inbox.message::<proto::ClientReadStatusProto>(socket, "read status", 64);
    match tokio::time::timeout(limit, status).await {
        Ok(Ok(status)) => {
            if status.status == proto::Status::ErrorChecksum as i32 {
                tracing::warn!(block = %plan.reader.identity().block, "a reader found bytes that do not match");
            }
            Ok(Ok(true))
        }
        Ok(Err(_)) | Err(_) => Ok(Ok(false)),
    }
}

/// The replica, what of it is to be sent, and the checksums of the beginning.
async fn open(node: &Arc<Node>, op: &proto::OpReadBlockProto, with_sums: bool) -> Result<(Plan, Vec<u8>), Refusal> {
    let named = Named::of(&op.header.base_header, node.pool().as_deref())?;
    let (offset, len) = (op.offset, op.len);
    let started = node.now();
    loop {
        let opened = node.disks.for_block(named.block, move |disks| {
            let reader = disks.read(named.block, named.generation)?;
            match Plan::new(reader, offset, len, with_sums) {
                Ok(plan) => plan.sums(plan.start).map(|sums| Ok((plan, sums))),
                Err(short) => Ok(Err(short)),
            }
        });
        match opened.await?? {
            Ok(opened) => return Ok(opened),
            Err(short) if short.state == ReplicaState::Open && node.now() < started + GROWTH_WAIT => {
                tokio::time::sleep(GROWTH_LOOK).await;
            }
            Err(short) => {
                let Named { block, .. } = named;
                let message = format!("Offset {offset} and length {len} don't match {block} of {} bytes", short.len);
                return Err(Refusal::error(message));
            }
        }
    }
}
