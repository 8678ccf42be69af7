//! Writing a block (op 80): the setup of the chain, then the stream.
//!
//! ```text
//! op comes ─▶ open the replica ─▶ join the nodes below ─▶ answer ─▶ stream        all on a thread of its own
//! ```

mod above;
mod below;
mod buffer;
mod join;
mod lost;
mod refused;
mod stream;

pub(crate) use above::Above;
pub(crate) use join::node_addr;

use crate::answer::{Refusal, message_bytes, success};
use crate::block::{Named, checksum_spec};
use crate::disks::Writer;
use crate::node::Node;
use crate::telemetry::Operation;
use below::Below;
use buffer::{PacketBuffer, buffer_len};
use container::{Identity, ReopenAsk, ReopenKind, ReplicaError};
use hdfs::proto::{BlockConstructionStage as Stage, BlockOpResponseProto, OpWriteBlockProto};
use std::net::TcpStream;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;
use stream::{Mode, Stream, flush_within};
use types::{BlockId, ChecksumSpec, Generation};
use wire::{Abilities, Routing};
use xfer::write::{Ending, Link};

/// What a stream begins with.
struct Begun {
    block: BlockId,
    mode: Mode,
    /// What covers the packets to come.
    spec: ChecksumSpec,
    writer: Writer,
    below: Vec<Below>,
    /// How many nodes there are from each of those on.
    node_counts: Vec<usize>,
    buffer: PacketBuffer,
}

/// Serves one write to its end. Blocks: call it on a thread of its own. `came` is what followed the operation already.
pub(crate) fn serve(node: &Arc<Node>, socket: TcpStream, op: &OpWriteBlockProto, came: &[u8]) {
    if socket.set_nonblocking(true).is_err() {
        return; // the client is gone
    }
    let counted = node.telemetry.operations.begin(operation_of(op), || node.now());
    let takes_signs = op.stream.as_ref().is_some_and(|stream| Abilities::of(stream.abilities).has(Abilities::SIGNS));
    let above = Arc::new(Above::new(socket, takes_signs, node.now()));
    let begun = {
        let _busy = node.beacon.busy(&above, node.now());
        set_up(node, &above, op, came)
    };
    let begun = match begun {
        Ok(Some(begun)) => begun,
        Ok(None) => {
            counted.done();
            return flush_within(node, &above, ANSWER_WAIT);
        }
        Err(refusal) => {
            counted.refused();
            tracing::info!(block = op.header.base_header.block.block_id, why = refusal.message, "a write was refused");
            let blame = refused::blame(op, &refusal).filter(|_| !takes_signs); // our own read the answer
            above.put_answer(&refusal.bytes());
            if let Some(ack) = blame {
                above.put_ack(&ack);
            }
            return flush_within(node, &above, ANSWER_WAIT);
        }
    };
    let Begun { block, mode, spec, writer, below, node_counts, buffer } = begun;
    let _writing = node.writing(block);
    tracing::debug!(%block, ?mode, behind = op.targets.len(), client = op.header.client_name, "a write stream begins");
    let mut stream = Stream {
        node: Arc::clone(node),
        block,
        spec,
        own_sums: writer.identity().checksum != spec,
        link: Link::new(spec, &node_counts, writer.received()),
        writer: Some(writer),
        above,
        below: below.into_iter().map(Some).collect(),
        mode,
        above_heard: node.now(),
        writer_silent: Duration::from_millis(node.config.limits.writer_silent_ms),
        ending: None,
    };
    let ending = stream.run(buffer);
    if ending == Some(Ending::Complete) {
        counted.done();
    }
    tracing::debug!(%block, ?ending, "a write stream ended");
    finish(node, stream, ending);
}

fn operation_of(op: &OpWriteBlockProto) -> Operation {
    match Stage::try_from(op.stage) {
        Ok(Stage::TransferRbw | Stage::TransferFinalized) => Operation::CopyIn,
        _ => Operation::Write,
    }
}

/// A chain of more nodes waits for memory no longer than one of so many.
const CROWDED_COUNT_MAX: u32 = 3;

/// How long an answer may take to leave. It is small, and the first thing that goes there.
const ANSWER_WAIT: Duration = Duration::from_secs(10);

/// Opens the replica, joins the nodes below and answers. `None`: nothing is to be streamed.
fn set_up(node: &Arc<Node>, above: &Above, op: &OpWriteBlockProto, came: &[u8]) -> Result<Option<Begun>, Refusal> {
    let named = Named::of(&op.header.base_header, node.pool().as_deref())?;
    let stage = Stage::try_from(op.stage).map_err(|_| Refusal::error(format!("stage {} is not known", op.stage)))?;
    let spec = checksum_spec(&op.requested_checksum)?;
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
    let routing = Routing::decode(parents, op.targets.len()).map_err(|error| Refusal::error(error.to_string()))?;
    let packet_len = op.stream.as_ref().and_then(|stream| stream.packet_len);
    let patience = node.crowded() * (op.targets.len() as u32 + 1).min(CROWDED_COUNT_MAX);
    let memory = node.budget.take_within(buffer_len(came, packet_len), op.targets.len(), patience);
    let memory = memory.ok_or_else(|| {
        let len = node.config.memory;
        Refusal::error(format!(
            "other writes have all of the {len} bytes of memory that this node has for them; try another node, or later"
        ))
    })?;
    let buffer = PacketBuffer::new(came, memory);
    let writer = open(node, op, &named, spec, stage)?;
    let below = match join::join(node, op, &routing) {
        Ok(below) => below,
        Err(refusal) => {
            drop(writer);
            if stage == Stage::PipelineSetupCreate {
                discard(node, &named); // the client abandons the block and takes another
            }
            return Err(refusal);
        }
    };
    if stage == Stage::PipelineCloseRecovery {
        let len = writer.received();
        writer.put(len)?;
        node.was_put(named.block);
        above.put_answer(&answer(above));
        return Ok(None);
    }
    if mode == Mode::Chain {
        // Leaves with the stream's first round; if nobody is there any more, that finds out.
        above.put_answer(&answer(above));
    }
    let node_counts = routing.children().iter().map(Range::len).collect();
    Ok(Some(Begun { block: named.block, mode, spec, writer, below, node_counts, buffer }))
}

fn answer(above: &Above) -> Vec<u8> {
    // HDFS's own clients get no field that they do not know.
    let abilities = above.takes_signs().then_some(Abilities::OF_STREAM.bits());
    message_bytes(&BlockOpResponseProto { abilities, ..success() })
}

/// The replica as the stage wants it.
fn open(
    node: &Node,
    op: &OpWriteBlockProto,
    named: &Named,
    checksum: ChecksumSpec,
    stage: Stage,
) -> Result<Writer, Refusal> {
    let scope = named.scope;
    let identity = |generation| Identity {
        block: named.block,
        generation,
        file: scope.map_or(Default::default(), |scope| scope.file),
        home: scope.map_or(Default::default(), |scope| scope.home),
        checksum,
    };
    let reopen = |kind| {
        let generation = Generation(op.latest_generation_stamp).max(named.generation);
        let ask = ReopenAsk {
            old: named.generation,
            new: generation,
            min_len: op.min_bytes_rcvd,
            max_len: op.max_bytes_rcvd,
            kind,
        };
        node.disks.reopen(named.block, ask)
    };
    let begin = || match stage {
        // The block's own stamp is the one it is written under; Java and HBase leave the other at 0.
        Stage::PipelineSetupCreate => node.disks.create(identity(named.generation)),
        Stage::TransferRbw | Stage::TransferFinalized => node.disks.create_copy(identity(named.generation)),
        Stage::PipelineSetupAppend => reopen(ReopenKind::Append),
        Stage::PipelineSetupAppendRecovery => reopen(ReopenKind::AppendRecovery),
        Stage::PipelineSetupStreamingRecovery => match reopen(ReopenKind::StreamingRecovery) {
            // The chain broke before it stood, and this node forgot its empty replica, or never heard of it. Nothing
            // was acknowledged, so nothing can be missing.
            Err(ReplicaError::NotFound { .. }) if op.min_bytes_rcvd == 0 => {
                node.disks.create(identity(Generation(op.latest_generation_stamp).max(named.generation)))
            }
            reopened => reopened,
        },
        Stage::PipelineCloseRecovery => reopen(ReopenKind::CloseRecovery),
        Stage::DataStreaming | Stage::PipelineClose => unreachable!("no stream is set up for it"),
    };
    let opened = node.patiently(begin, ReplicaError::is_momentary);
    if opened.as_ref().is_err_and(ReplicaError::is_disk_full) {
        node.report_full();
    }
    Ok(opened?)
}

/// Forgets the empty replica of a chain that did not come about.
fn discard(node: &Node, named: &Named) {
    match node.disks.delete(named.block, named.generation) {
        Ok(_) => {}
        Err(error) => tracing::warn!(block = %named.block, %error, "the replica of a chain that failed stays"),
    }
}

fn finish(node: &Node, mut stream: Stream, ending: Option<Ending>) {
    let block = stream.block;
    let whole = ending == Some(Ending::Complete);
    if stream.mode == Mode::CopyOpen
        && whole
        && let Some(writer) = stream.writer.take()
        && let Err(error) = writer.keep()
    {
        tracing::error!(%block, %error, "a copy could not be kept");
        return;
    }
    if stream.mode != Mode::Chain {
        if whole {
            stream.above.put_answer(&message_bytes(&success())); // read as DNTransferAckProto
            flush_within(node, &stream.above, ANSWER_WAIT);
        }
        return;
    }
    if stream.writer.take().is_some() {
        node.was_left(block);
    }
}
