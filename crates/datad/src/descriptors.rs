//! Replicas for readers on this machine, by descriptors over the Unix socket (operations 87 to 89).
//!
//! ```text
//!             data                              checksums
//! HDFS's      the replica's file, or a copy     a copy in HDFS's form, and a slot by which it learns of changes
//! ours        the replica's file                the replica's file, from where its header ends
//! ```
//!
//! Promise: what is passed can be read and not written, and holds nothing of another file: of what shares a file, a
//! copy goes out. Only finalized replicas are passed, after the same admission as over TCP. A client that gets none
//! reads over TCP, so what stands in the way there is said there.

use crate::connection::Connection;
use crate::copies::Copied;
use crate::data_service::DataService;
use crate::operations::Operation;
use crate::slots::{SegmentHold, SegmentId, SlotHold};
use container::Reader;
use hdfs::proto::{
    BlockOpResponseProto, LocalReplicaProto, OpRequestShortCircuitAccessProto, ReleaseShortCircuitAccessRequestProto,
    ReleaseShortCircuitAccessResponseProto, ShortCircuitShmIdProto, ShortCircuitShmResponseProto,
    ShortCircuitShmSlotProto,
};
use prost::Message;
use security::block_token::Mode;
use std::fs::File;
use std::io::{Error, ErrorKind, Result};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;
use types::ReplicaState;
use wire::{Status, delimited};
use xfer::answer::{self, Answered, Refusal, success};
use xfer::write::ANSWER_WAIT;

/// Of the checksum file in HDFS's form: `DataNode.CURRENT_BLOCK_FORMAT_VERSION`.
const FORMAT_VERSION: u32 = 1;
/// What the byte that carries descriptors says: `ShortCircuitFdResponse`.
const NO_RECEIPT: u8 = 0;
const RECEIPT: u8 = 1;

/// Asked for over TCP: a client of ours is told where the Unix socket is, if there is one.
pub(crate) fn elsewhere(service: &DataService, op: &OpRequestShortCircuitAccessProto) -> Option<Answered> {
    let socket_path = service.socket_path.get().filter(|_| op.as_stored())?;
    let local_replica = LocalReplicaProto { socket_path: Some(socket_path.clone()), ..Default::default() };
    Some(BlockOpResponseProto { local_replica: Some(local_replica), ..success() })
}

pub(crate) fn over_tcp() -> Refusal {
    Refusal::unsupported("no descriptors are passed over TCP")
}

/// What goes out.
struct Passed {
    data: Arc<File>,
    sums: Arc<File>,
    local_replica: Option<LocalReplicaProto>,
    slot: Option<SlotHold>,
}

/// Serves operation 87. The connection may carry another operation.
pub(crate) async fn serve(
    service: &Arc<DataService>,
    connection: &mut Connection,
    op: OpRequestShortCircuitAccessProto,
) -> Result<()> {
    let counted = service.operations.begin(Operation::Descriptors, || service.now());
    let receipt = op.supports_receipt_verification();
    let passed = match open(service, op).await {
        Ok(passed) => passed,
        Err(refusal) => {
            counted.refused();
            tracing::debug!(why = rpc::log_text(&refusal.message), "no descriptors are passed");
            return connection.send_within(&answer::encode(refused(refusal)), ANSWER_WAIT).await;
        }
    };
    let answer = BlockOpResponseProto {
        short_circuit_access_version: Some(FORMAT_VERSION),
        local_replica: passed.local_replica,
        ..success()
    };
    let say = if receipt { RECEIPT } else { NO_RECEIPT };
    let sending = async {
        connection.send_all(&answer::encode(answer), false).await?;
        connection.send_descriptors(say, &[passed.data.as_fd(), passed.sums.as_fd()]).await?;
        match receipt {
            true => connection.one_byte().await,
            false => Ok(()),
        }
    };
    within(sending, ANSWER_WAIT).await?;
    if let Some(slot) = passed.slot {
        slot.keep();
    }
    counted.done();
    Ok(())
}

/// HDFS's client reads this replica over TCP and asks for others. Any other status but that of a token has it ask for
/// none at all for ten minutes, and so does this one without the version.
fn refused(refusal: Refusal) -> Answered {
    let status = match refusal.status {
        Status::ERROR_ACCESS_TOKEN => refusal.status,
        _ => Status::ERROR_UNSUPPORTED,
    };
    let answer = Refusal { status, ..refusal }.into_answer();
    BlockOpResponseProto { short_circuit_access_version: Some(FORMAT_VERSION), ..answer }
}

async fn open(
    service: &Arc<DataService>,
    op: OpRequestShortCircuitAccessProto,
) -> std::result::Result<Passed, Refusal> {
    if op.max_version < FORMAT_VERSION && !op.as_stored() {
        return Err(Refusal::unsupported(format!("version {} is not served", op.max_version)));
    }
    let named = service.admission.block(&op.header, Mode::Read, false)?;
    let (block, generation) = (named.block(), named.generation());
    // Before it is looked at: if it changes behind that, the client is told. Without a slot HDFS's client could not be,
    // and it would use the descriptors for a younger generation, too; ours does not.
    let slot = match op.slot_id {
        _ if op.as_stored() => None,
        Some(slot) => Some(service.replicas.slots.take(segment_of(&slot.shm_id), index_of(&slot), block)?),
        None => return Err(Refusal::unsupported("descriptors without a slot are not passed")),
    };
    let (at, as_stored) = (Arc::clone(service), op.as_stored());
    let opened = service.replicas.disks.for_block(block, move |disks| {
        let reader = disks.read(block, generation)?;
        at.admission.must_cover(&named, reader.identity().file)?;
        if reader.state() != ReplicaState::Finalized {
            return Err(Refusal::unsupported(format!("{block} is being written")));
        }
        if as_stored { stored(&reader) } else { in_hdfs_form(&at, &reader) }
    });
    let passed = opened.await??;
    Ok(Passed { slot, ..passed })
}

/// As it lies on the disk.
fn stored(reader: &Reader) -> std::result::Result<Passed, Refusal> {
    let own = reader.own_files().ok_or_else(|| Refusal::unsupported("it shares its file with others"))?;
    let spec = reader.checksum();
    let local_replica = LocalReplicaProto {
        socket_path: None,
        len: Some(reader.len()),
        sums_offset: Some(own.sums_offset),
        last_sum: own.last_sum,
        checksum_kind: Some(spec.kind as u32),
        chunk_len: Some(spec.chunk_len),
    };
    let (data, sums) = (Arc::clone(own.data), Arc::clone(own.sums));
    Ok(Passed { data, sums, local_replica: Some(local_replica), slot: None })
}

fn in_hdfs_form(service: &DataService, reader: &Reader) -> std::result::Result<Passed, Refusal> {
    let Copied { data, sums } = service.replicas.copies.of(reader, &service.budget)?;
    let data = data.map_or_else(|| Arc::clone(reader.data()), Arc::new);
    Ok(Passed { data, sums: Arc::new(sums), local_replica: None, slot: None })
}

/// Serves operation 88.
pub(crate) async fn release(
    service: &DataService,
    connection: &mut Connection,
    request: &ReleaseShortCircuitAccessRequestProto,
) -> Result<()> {
    let slot = &request.slot_id;
    let released = service.replicas.slots.release(segment_of(&slot.shm_id), index_of(slot));
    let (status, error) = match released {
        Ok(()) => (Status::SUCCESS, None),
        Err(refusal) => (Status::ERROR_INVALID, Some(refusal.message)),
    };
    let answer = ReleaseShortCircuitAccessResponseProto { status: status.0.into(), error };
    connection.send_within(&encode(&answer), ANSWER_WAIT).await
}

/// Serves operation 89. The segment is the client's for as long as the connection stands, on which nothing else comes.
pub(crate) async fn share(service: &DataService, connection: &mut Connection) -> Result<()> {
    let segment = match service.replicas.slots.segment() {
        Ok(segment) => segment,
        Err(refusal) => {
            let (status, error) = (i32::from(Status::ERROR.0), Some(refusal.message));
            let answer = ShortCircuitShmResponseProto { status, error, id: None };
            return connection.send_within(&encode(&answer), ANSWER_WAIT).await;
        }
    };
    within(send_segment(connection, &segment), ANSWER_WAIT).await?;
    connection.ended().await
}

async fn send_segment(connection: &mut Connection, segment: &SegmentHold) -> Result<()> {
    let SegmentId(hi, lo) = segment.id();
    let id = ShortCircuitShmIdProto { hi: hi.cast_signed(), lo: lo.cast_signed() };
    let answer = ShortCircuitShmResponseProto { status: Status::SUCCESS.0.into(), error: None, id: Some(id) };
    connection.send_all(&encode(&answer), false).await?;
    connection.send_descriptors(NO_RECEIPT, &[segment.file().as_fd()]).await
}

fn segment_of(id: &ShortCircuitShmIdProto) -> SegmentId {
    SegmentId(id.hi.cast_unsigned(), id.lo.cast_unsigned())
}

/// A negative one is beyond any segment.
fn index_of(slot: &ShortCircuitShmSlotProto) -> u32 {
    slot.slot_idx.cast_unsigned()
}

fn encode(message: &impl Message) -> Vec<u8> {
    let mut bytes = Vec::new();
    delimited::put(message, &mut bytes);
    bytes
}

async fn within<T>(doing: impl Future<Output = Result<T>>, limit: Duration) -> Result<T> {
    tokio::time::timeout(limit, doing).await.map_err(|_| Error::from(ErrorKind::TimedOut))?
}
