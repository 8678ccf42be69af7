//! Writing a block (op 80): the setup of the chain, then the stream.
//!
//! ```text
//! op comes ─▶ open the replica ─▶ join the node below ─▶ answer ─▶ stream        all on a thread of its own
//! ```

mod below;
mod buffer;
mod stream;

pub(crate) use below::node_addr;

use crate::answer::{Refusal, message_bytes, success};
use crate::block::{Named, checksum_spec};
use crate::node::{Node, Transfer};
use buffer::PacketBuffer;
use chain::{Ending, Link};
use container::{Identity, ReopenAsk, ReopenKind, Writer};
use hdfs::proto::{BlockConstructionStage as Stage, OpWriteBlockProto};
use std::io::Write;
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;
use stream::{Below, Mode, Stream};
use types::{BlockId, ChecksumSpec, Generation};

/// What a stream begins with.
struct Begun {
    block: BlockId,
    mode: Mode,
    /// What covers the packets to come.
    spec: ChecksumSpec,
    writer: Writer,
    below: Option<Below>,
    buffer: PacketBuffer,
}

/// Serves one write to its end. Blocks: call it on a thread of its own. `came` is what followed the operation already.
pub(crate) fn serve(node: &Arc<Node>, socket: TcpStream, op: &OpWriteBlockProto, came: &[u8], _transfer: Transfer) {
    let limits = &node.config.limits;
    let setup = limits.with_nodes(limits.setup_ms, op.targets.len());
    if socket.set_nonblocking(false).and_then(|()| socket.set_write_timeout(Some(setup))).is_err() {
        return; // the client is gone
    }
    let begun = match set_up(node, &socket, op, came) {
        Ok(Some(begun)) => begun,
        Ok(None) => return,
        Err(refusal) => {
            tracing::info!(block = op.header.base_header.block.block_id, why = refusal.message, "a write was refused");
            let _gone = (&socket).write_all(&refusal.bytes());
            return;
        }
    };
    let Begun { block, mode, spec, writer, below, buffer } = begun;
    if socket.set_nonblocking(true).is_err() {
        return node.was_left(block);
    }
    let _writing = node.writing(block);
    let mut stream = Stream {
        node: Arc::clone(node),
        block,
        spec,
        own_sums: writer.identity().checksum != spec,
        link: Link::new(spec, op.targets.len(), writer.received()),
        writer: Some(writer),
        above: socket,
        acks: Vec::new(),
        below,
        mode,
        above_heard: node.now(),
        writer_silent: Duration::from_millis(limits.writer_silent_ms),
        ending: None,
    };
    let ending = stream.run(buffer);
    tracing::debug!(%block, ?ending, "a write stream ended");
    finish(node, stream, ending);
}

/// Opens the replica, joins the node below and answers. `None`: nothing is to be streamed.
fn set_up(node: &Arc<Node>, socket: &TcpStream, op: &OpWriteBlockProto, came: &[u8]) -> Result<Option<Begun>, Refusal> {
    let named = Named::of(&op.header.base_header, node.pool().as_deref())?;
    let stage = Stage::try_from(op.stage).map_err(|_| Refusal::error(format!("stage {} is not known", op.stage)))?;
    let spec = checksum_spec(&op.requested_checksum)?;
    let mode = match stage {
        Stage::TransferRbw => Mode::CopyOpen,
        Stage::TransferFinalized => Mode::CopyWhole,
        _ => Mode::Chain,
    };
    if op.header.client_name.is_empty() {
        return Err(Refusal::unsupported("copies between nodes are made by reading; name the client this one is for"));
    }
    if mode != Mode::Chain && !op.targets.is_empty() {
        return Err(Refusal::unsupported("a replica is copied to one node at a time"));
    }
    let buffer = PacketBuffer::new(came, &node.budget)
        .ok_or_else(|| Refusal::error("no memory left for another write; try another node"))?;
    let writer = open(node, op, &named, spec, stage)?;
    let below = match below::join(node, op) {
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
        answer(socket)?;
        return Ok(None);
    }
    if mode == Mode::Chain {
        answer(socket).inspect_err(|_| node.was_left(named.block))?;
    }
    Ok(Some(Begun { block: named.block, mode, spec, writer, below, buffer }))
}

fn answer(mut socket: &TcpStream) -> Result<(), Refusal> {
    socket.write_all(&message_bytes(&success())).map_err(|error| Refusal::error(error.to_string()))
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
        node.volume.reopen(named.block, ask)
    };
    let writer = match stage {
        // The block's own stamp is the one it is written under; Java and HBase leave the other at 0.
        Stage::PipelineSetupCreate => node.volume.create(identity(named.generation)),
        Stage::TransferRbw | Stage::TransferFinalized => node.volume.create_copy(identity(named.generation)),
        Stage::PipelineSetupAppend => reopen(ReopenKind::Append),
        Stage::PipelineSetupAppendRecovery => reopen(ReopenKind::AppendRecovery),
        Stage::PipelineSetupStreamingRecovery => reopen(ReopenKind::StreamingRecovery),
        Stage::PipelineCloseRecovery => reopen(ReopenKind::CloseRecovery),
        Stage::DataStreaming | Stage::PipelineClose => {
            return Err(Refusal::error(format!("{} is no stage to begin with", stage.as_str_name())));
        }
    };
    Ok(writer?)
}

/// Forgets the empty replica of a chain that did not come about.
fn discard(node: &Node, named: &Named) {
    match node.volume.delete(named.block, named.generation) {
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
            let _gone = stream.above.set_nonblocking(false).and_then(|()| {
                (&stream.above).write_all(&message_bytes(&success())) // read as DNTransferAckProto
            });
        }
        return;
    }
    if stream.writer.take().is_some() {
        node.was_left(block);
    }
}
