//! Copying a replica to another node (op 86), for a client that repairs its chain: the read path, with the head of a
//! write in front of it.

use crate::admission::Transfer;
use crate::block::link_text;
use crate::connection::Connection;
use crate::data_service::DataService;
use crate::operations::Operation;
use crate::outward::secret_of;
use crate::read::{Source, receive_word, send_packets, stored, sums};
use container::{Reader, ReplicaError};
use hdfs::proto;
use sasl::Secret;
use security::block_token::Mode;
use std::sync::Arc;
use std::time::Duration;
use xfer::answer::{Refusal, success};
use xfer::read::{CopyTarget, Limits, Next, Outcome, Plan, Sender, copy_request};

pub(crate) async fn serve(
    service: &DataService,
    op: proto::OpTransferBlockProto,
    place: &Transfer,
) -> Result<proto::BlockOpResponseProto, Refusal> {
    let counted = service.operations.begin(Operation::Transfer, || service.now());
    counted.answered(copy_to_all(service, op, place).await)
}

async fn copy_to_all(
    service: &DataService,
    op: proto::OpTransferBlockProto,
    place: &Transfer,
) -> Result<proto::BlockOpResponseProto, Refusal> {
    // The same token goes on to the targets, which ask it for leave to make a replica.
    let named = service.admission.block(&op.header.base_header, Mode::Copy, false)?;
    if op.targets.is_empty() {
        return Err(Refusal::error("no target is named"));
    }
    let admission = Arc::clone(&service.admission);
    let found = service.replicas.disks.for_block(named.block(), move |disks| -> Result<_, Refusal> {
        // The length that is named says nothing: hdfs-native counts what it has not sent yet. Whether the copy is long
        // enough is asked when the chain is joined. All of it, a little more than was acknowledged perhaps: up to there
        // the stored checksums hold.
        let reader = match disks.read(named.block(), named.generation()) {
            Err(ReplicaError::NotFound { .. }) => return Ok(None),
            read => read?,
        };
        admission.must_cover(&named, reader.identity().file)?;
        let plan = Plan::whole(stored(&reader));
        let sums = sums(&reader, plan.sums_window(plan.start))?;
        Ok(Some((reader, plan, sums)))
    });
    // The chain broke before it reached this node. There is nothing to copy; if anything was acknowledged, the target
    // says so when it is to join the chain.
    let Some((reader, plan, sums)) = found.await?? else { return Ok(success()) };
    for (number, target) in op.targets.iter().enumerate() {
        let (storage_type, storage_id) = (op.target_storage_types.get(number), op.target_storage_ids.get(number));
        let storage = CopyTarget { storage_type: storage_type.copied(), storage_id: storage_id.cloned() };
        let request = copy_request(&op.header, stored(&reader), storage)?;
        let limits = &service.limits;
        let limits = Limits {
            packet: Duration::from_millis(limits.below_silent_ms),
            word: Duration::from_millis(limits.setup_ms),
        };
        let sender = Sender::to_node(plan, sums.clone(), limits, request);
        let secret = secret_of(op.header.base_header.token.as_ref());
        let copied = copy(service, &reader, sender, (target, secret), place).await;
        copied.map_err(|why| Refusal::error(format!("copying {} to {}: {why}", named.block(), link_text(target))))?;
    }
    Ok(success())
}

async fn copy(
    service: &DataService,
    reader: &Reader,
    mut sender: Sender,
    (target, secret): (&proto::DatanodeInfoProto, Secret<'_>),
    place: &Transfer,
) -> Result<(), String> {
    let text = |error: std::io::Error| error.to_string();
    let (outside, named) = (Arc::clone(&service.outside), target.clone());
    let addr = io::task::blocking(move || outside.addr(&named)).await?;
    let connect = Duration::from_millis(service.limits.connect_ms);
    let connecting = tokio::time::timeout(connect, Connection::connect(addr));
    let connection = connecting.await.map_err(|_| "does not accept a connection")?.map_err(text)?;
    service.set_options(&connection);
    let protecting = tokio::time::timeout(connect, connection.protected(&service.outward, secret));
    let mut connection = protecting.await.map_err(|_| "does not end the handshake")?.map_err(text)?;
    let quota = service.replicas.disks.quota_of(reader.identity().block);
    let bytes = service.operations.bytes(Operation::Transfer);
    let source = Source { reader, quota, bytes, place, now: &|| service.now() };
    send_packets(&mut connection, &mut sender, &source).await.map_err(text)?;
    let heard = receive_word(&mut connection, &mut sender, &source).await;
    heard.map_err(|error| error.to_string())?;
    match sender.next(service.now()) {
        Next::Done(Outcome::Refused(refused)) => Err(refused.message),
        Next::Done(_) => Ok(()),
        Next::Sums(_) | Next::Packet(_) | Next::Receive => Err("has not answered".to_owned()),
    }
}
