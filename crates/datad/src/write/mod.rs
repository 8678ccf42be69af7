//! Writing a block (op 80): the setup of the chain, then the stream.
//!
//! ```text
//! op comes ─▶ open the replica ─▶ join the nodes below ─▶ answer ─▶ stream        all on a thread of its own
//! ```

mod above;
mod disk;
mod join;
mod keepalive;
mod refused;
mod stream;
mod writes;

pub(crate) use writes::Writes;

use crate::admission::Named;
use crate::budget::Reservation;
use crate::data_service::DataService;
use crate::operations::Operation;
use crate::socket::Socket;
use above::Above;
use container::{Identity, ReopenAsk, ReopenKind, ReplicaError};
use disk::Disk;
use disks::Writer;
use hdfs::proto::{BlockConstructionStage as Stage, OpWriteBlockProto};
use security::block_token::Mode as TokenMode;
use std::sync::Arc;
use std::time::Duration;
use stream::{Stream, flush_within};
use types::{BlockId, ChecksumSpec, Generation};
use wire::{Abilities, Routing};
use xfer::answer::{Refusal, success};
use xfer::write::{ANSWER_WAIT, Begin, Ending, Gather, Joined, Mode, Relay, buffer_len};

/// A metadata server that takes longer to hear that a disk is full is not waited for.
const TELL_WAIT: Duration = Duration::from_millis(500);

/// What a stream begins with.
struct Begun {
    block: BlockId,
    mode: Mode,
    /// What covers the packets to come.
    spec: ChecksumSpec,
    writer: Writer,
    below: Vec<Socket>,
    joined: Vec<Joined>,
    memory: Reservation,
}

/// Serves one write to its end. Blocks: call it on a thread of its own. `came` is what followed the operation already.
pub(crate) fn serve(writes: &Arc<Writes>, socket: Socket, op: &OpWriteBlockProto, came: &[u8]) {
    let service = &*writes.service;
    let counted = service.operations.begin(operation_of(op), || service.now());
    let takes_keepalives =
        op.stream.as_ref().is_some_and(|stream| Abilities::of(stream.abilities).has(Abilities::KEEPALIVES));
    let above = Arc::new(Above::new(socket, takes_keepalives, service.now()));
    let begun = {
        let _busy = writes.keepalive.busy(&above, service.now());
        set_up(service, &above, op, came)
    };
    let begun = match begun {
        Ok(Some(begun)) => begun,
        Ok(None) => {
            counted.done();
            return flush_within(service, &above, ANSWER_WAIT);
        }
        Err(refusal) => {
            counted.refused();
            if let Some(passed_over) = service.log_limits.write_refused.due() {
                let (block, why) = (op.header.base_header.block.block_id, rpc::log_text(&refusal.message));
                tracing::info!(block, why, passed_over, "a write was refused");
            }
            let blame = refused::blame(op, &refusal).filter(|_| !takes_keepalives); // our own read the answer
            above.put_answer(&refusal.into_answer());
            if let Some(ack) = blame {
                above.put_ack(&ack);
            }
            return flush_within(service, &above, ANSWER_WAIT);
        }
    };
    let Begun { block, mode, spec, writer, below, joined, memory } = begun;
    let _writing = service.replicas.writing(block);
    let client = rpc::log_text(&op.header.client_name);
    tracing::debug!(%block, ?mode, behind = op.targets.len(), client, "a write stream begins");
    let limits = service.limits.of_writes();
    let begin = Begin { mode, spec, limits, received: writer.received(), below: joined, came, memory };
    let mut stream = Stream {
        writes: Arc::clone(writes),
        block,
        relay: Relay::new(begin, service.now()),
        above,
        below: below.into_iter().map(Some).collect(),
        gather: Gather::default(),
        disk: Disk { block, mode, own_sums: writer.identity().checksum != spec, writer: Some(writer) },
    };
    let ending = stream.run();
    if ending == Some(Ending::Complete) {
        counted.done();
    }
    tracing::debug!(%block, ?ending, "a write stream ended");
    finish(service, stream, ending);
}

fn operation_of(op: &OpWriteBlockProto) -> Operation {
    match Stage::try_from(op.stage) {
        Ok(Stage::TransferRbw | Stage::TransferFinalized) => Operation::CopyIn,
        _ => Operation::Write,
    }
}

/// A chain of more nodes waits for memory no longer than one of so many.
const CROWDED_COUNT_MAX: u32 = 3;

/// Opens the replica, joins the nodes below and answers. `None`: nothing is to be streamed.
fn set_up(service: &DataService, above: &Above, op: &OpWriteBlockProto, came: &[u8]) -> Result<Option<Begun>, Refusal> {
    // Each stage may make a replica, or goes on with one that this writer has made: such tokens name their block.
    let named = service.admission.block(&op.header.base_header, TokenMode::Write, true)?;
    let stage = Stage::try_from(op.stage).map_err(|_| Refusal::error(format!("stage {} is not known", op.stage)))?;
    let spec = op
        .requested_checksum
        .spec()
        .ok_or_else(|| Refusal::error(format!("checksum {:?} is not known here", op.requested_checksum)))?;
    let mode = match stage {
        Stage::TransferRbw => Mode::CopyOpen,
        Stage::TransferFinalized => Mode::CopyWhole,
        Stage::DataStreaming | Stage::PipelineClose => {
            return Err(Refusal::error(format!("{} is no stage to begin with", stage.as_str_name())));
        }
        _ => Mode::Chain,
    };
    if op.header.client_name.is_empty() {
        return Err(Refusal::unsupported("copies between nodes are made by reading; name the client this one is for"));
    }
    if mode != Mode::Chain && !op.targets.is_empty() {
        return Err(Refusal::unsupported("a replica is copied to one node at a time"));
    }
    let parents = op.stream.as_ref().map_or(&[][..], |stream| &stream.parents);
    let routing = Routing::decode(parents, op.targets.len())?;
    let packet_len = op.stream.as_ref().and_then(|stream| stream.packet_len);
    let patience = service.crowded() * (op.targets.len() as u32 + 1).min(CROWDED_COUNT_MAX);
    let memory = service.room_for_stream(buffer_len(came, packet_len), op.targets.len(), patience);
    let memory = memory.ok_or_else(|| {
        let len = service.budget.len();
        Refusal::error(format!(
            "other writes have all of the {len} bytes of memory that this node has for them; try another node, or later"
        ))
    })?;
    let writer = open(service, op, &named, spec, stage)?;
    let (below, joined) = match join::join(service, op, &routing) {
        Ok(joined) => joined,
        Err(refusal) => {
            drop(writer);
            if stage == Stage::PipelineSetupCreate {
                discard(service, &named); // the client abandons the block and takes another
            } else {
                service.replicas.was_left(named.block());
            }
            return Err(refusal);
        }
    };
    if stage == Stage::PipelineCloseRecovery {
        // The writer may have wanted its bytes on disk, and nothing of this request would say so.
        let len = writer.received();
        writer.put_synced(len).inspect_err(|_| service.replicas.was_left(named.block()))?;
        service.replicas.was_put(named.block());
        above.put_ready();
        return Ok(None);
    }
    if mode == Mode::Chain {
        // Leaves with the stream's first round; if nobody is there any more, that finds out.
        above.put_ready();
    }
    Ok(Some(Begun { block: named.block(), mode, spec, writer, below, joined, memory }))
}

/// The replica as the stage wants it.
fn open(
    service: &DataService,
    op: &OpWriteBlockProto,
    named: &Named,
    checksum: ChecksumSpec,
    stage: Stage,
) -> Result<Writer, Refusal> {
    let scope = named.scope();
    let identity = |generation| Identity {
        block: named.block(),
        generation,
        file: scope.map_or(Default::default(), |scope| scope.file),
        home: scope.map_or(Default::default(), |scope| scope.home),
        checksum,
    };
    let reopen = |kind| {
        let generation = Generation(op.latest_generation_stamp).max(named.generation());
        let ask = ReopenAsk {
            old: named.generation(),
            new: generation,
            min_len: op.min_bytes_rcvd,
            max_len: op.max_bytes_rcvd,
            kind,
        };
        let reopened = service.replicas.disks.reopen(named.block(), ask);
        reopened.inspect(|_| service.replicas.changed(named.block()))
    };
    let makes = matches!(stage, Stage::PipelineSetupCreate | Stage::TransferRbw | Stage::TransferFinalized);
    if !makes && let Some(info) = service.replicas.disks.find(named.block())? {
        service.admission.must_cover(named, info.identity.file)?;
    }
    let begin = || match stage {
        // The block's own stamp is the one it is written under; Java and HBase leave the other at 0.
        Stage::PipelineSetupCreate => service.replicas.disks.create(identity(named.generation())),
        Stage::TransferRbw | Stage::TransferFinalized => {
            service.replicas.disks.create_copy(identity(named.generation()))
        }
        Stage::PipelineSetupAppend => reopen(ReopenKind::Append),
        Stage::PipelineSetupAppendRecovery => reopen(ReopenKind::AppendRecovery),
        Stage::PipelineSetupStreamingRecovery => match reopen(ReopenKind::StreamingRecovery) {
            // The chain broke before it stood, and this node forgot its empty replica, or never heard of it. Nothing
            // was acknowledged, so nothing can be missing.
            Err(ReplicaError::NotFound { .. }) if op.min_bytes_rcvd == 0 => {
                service.replicas.disks.create(identity(Generation(op.latest_generation_stamp).max(named.generation())))
            }
            reopened => reopened,
        },
        Stage::PipelineCloseRecovery => reopen(ReopenKind::CloseRecovery),
        Stage::DataStreaming | Stage::PipelineClose => unreachable!("no stream is set up for it"),
    };
    let opened = service.patiently(begin, ReplicaError::is_momentary);
    if opened.as_ref().is_err_and(ReplicaError::is_disk_full) {
        // Who is refused now asks the metadata server for another node, and if there is none, it is to know why.
        if !service.replicas.node.report_within(TELL_WAIT) {
            tracing::debug!("the metadata server has not acknowledged yet that there is no space");
        }
    }
    Ok(opened?)
}

/// Forgets the empty replica of a chain that did not come about.
fn discard(service: &DataService, named: &Named) {
    match service.replicas.disks.delete(named.block(), named.generation()) {
        Ok(_) => {}
        Err(error) => tracing::warn!(block = %named.block(), %error, "the replica of a chain that failed stays"),
    }
}

fn finish(service: &DataService, mut stream: Stream, ending: Option<Ending>) {
    let block = stream.block;
    let mode = stream.disk.mode;
    let whole = ending == Some(Ending::Complete);
    if mode == Mode::CopyOpen
        && whole
        && let Some(writer) = stream.disk.writer.take()
        && let Err(error) = writer.keep()
    {
        tracing::error!(%block, %error, "a copy could not be kept");
        return;
    }
    if mode != Mode::Chain {
        if whole {
            stream.above.put_answer(&success()); // read as DNTransferAckProto
            flush_within(service, &stream.above, ANSWER_WAIT);
        }
        return;
    }
    drop(stream);
    if !whole {
        // Told now that nobody is at the block: a writer may have been listened to for long after it was told of a
        // failure. On a full disk nobody else would free the room for minutes.
        service.replicas.was_left(block);
    }
}
