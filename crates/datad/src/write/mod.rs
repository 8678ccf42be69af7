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
use stream::{Mode, Stream};
use types::Generation;

/// Serves one write to its end. Blocks: call it on a thread of its own. `came` is what followed the operation already.
pub(crate) fn serve(node: &Arc<Node>, socket: TcpStream, op: &OpWriteBlockProto, came: &[u8], _transfer: Transfer) {
    let limits = &node.config.limits;
    let setup = limits.with_nodes(limits.setup_ms, op.targets.len());
    if socket.set_nonblocking(false).and_then(|()| socket.set_write_timeout(Some(setup))).is_err() {
        return; // the client is gone
    }
    match set_up(node, &socket, op, came) {
        Ok(Some((mut stream, buffer))) => {
            let block = stream.block;
            let _writing = node.writing(block);
            let ending = stream.run(buffer);
            tracing::debug!(%block, ?ending, "a write stream ended");
            finish(node, stream, ending);
        }
        Ok(None) => {}
        Err(refusal) => {
            tracing::info!(block = op.header.base_header.block.block_id, why = refusal.message, "a write was refused");
            let _gone = (&socket).write_all(&refusal.bytes());
        }
    }
}

/// Opens the replica, joins the node below and answers. `None`: nothing is to be streamed.
fn set_up(
    node: &Arc<Node>,
    socket: &TcpStream,
    op: &OpWriteBlockProto,
    came: &[u8],
) -> Result<Option<(Stream, PacketBuffer)>, Refusal> {
    let named = Named::of(&op.header.base_header, node.pool().as_deref())?;
    let stage = Stage::try_from(op.stage).map_err(|_| Refusal::error(format!("stage {} is not known", op.stage)))?;
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
    let writer = open(node, op, &named, stage)?;
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
    } else {
        let spec = writer.identity().checksum;
        if mode == Mode::Chain {
            answer(socket)?;
        }
        let link = Link::new(spec, op.targets.len(), writer.received());
        return Ok(Some((stream(node, socket, named, link, writer, below, mode)?, buffer)));
    }
    answer(socket)?;
    Ok(None)
}

fn answer(mut socket: &TcpStream) -> Result<(), Refusal> {
    socket.write_all(&message_bytes(&success())).map_err(|error| Refusal::error(error.to_string()))
}

fn stream(
    node: &Arc<Node>,
    socket: &TcpStream,
    named: Named,
    link: Link,
    writer: Writer,
    below: Option<stream::Below>,
    mode: Mode,
) -> Result<Stream, Refusal> {
    let gone = |error: std::io::Error| Refusal::error(error.to_string());
    let above = socket.try_clone().map_err(gone)?;
    above.set_nonblocking(true).map_err(gone)?;
    Ok(Stream {
        node: Arc::clone(node),
        block: named.block,
        spec: writer.identity().checksum,
        link,
        writer: Some(writer),
        above,
        acks: Vec::new(),
        below,
        mode,
        above_heard: node.now(),
        writer_silent: Duration::from_millis(node.config.limits.writer_silent_ms),
        ending: None,
    })
}

/// The replica as the stage wants it.
fn open(node: &Node, op: &OpWriteBlockProto, named: &Named, stage: Stage) -> Result<Writer, Refusal> {
    let checksum = checksum_spec(&op.requested_checksum)?;
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
