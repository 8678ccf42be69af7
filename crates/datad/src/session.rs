//! One connection to the transfer port: operation after operation, until one of the two has enough.

use crate::answer::{Refusal, message_bytes};
use crate::budget::Reservation;
use crate::checksum;
use crate::inbox::{Inbox, InboxError, is_hang_up};
use crate::node::{Node, Transfer};
use crate::telemetry::Operation;
use crate::{read, small, transfer, write};
use hdfs::proto;
use io::{Seat, Work};
use std::io::Result;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpStream;
use types::BlockId;
use wire::Op;

/// Serves a connection to its end. Whatever goes wrong on it stays on it.
pub(crate) async fn serve(node: Arc<Node>, socket: TcpStream, peer: SocketAddr, seat: Arc<Seat>) {
    let ended = tokio::select! {
        ended = run(&node, socket, &seat) => ended,
        () = seat.evicted() => return tracing::debug!(%peer, "idle connection closed to make room for another"),
        () = node.stop.wait() => return,
    };
    match ended {
        Ok(()) => {}
        Err(error) if error.is_hang_up() => tracing::debug!(%peer, %error, "client disconnected"),
        Err(error) => tracing::info!(%peer, %error, "a connection is closed"),
    }
}

async fn run(node: &Arc<Node>, mut socket: TcpStream, seat: &Arc<Seat>) -> std::result::Result<(), InboxError> {
    node.set_options(&socket);
    let limits = &node.config.limits;
    let mut inbox = Inbox::default();
    let mut patience = Duration::from_millis(limits.op_ms);
    loop {
        let Ok(header) = tokio::time::timeout(patience, inbox.op_header(&mut socket)).await else {
            return Ok(()); // idle for too long, as most connections end
        };
        let Some(header) = header? else { return Ok(()) };
        let limit = Duration::from_millis(limits.op_ms);
        // Each takes its place when all of the question is here: who says only that it will ask something holds up
        // nobody.
        let served = match header.op {
            Op::ReadBlock => {
                let (op, _memory) = op(node, &mut inbox, &mut socket, limit).await?;
                let Some(_under_way) = begin(node, seat) else { return busy(node, &socket).await };
                read::serve(node, &mut socket, &mut inbox, op).await?
            }
            Op::WriteBlock => {
                let (op, memory) = op(node, &mut inbox, &mut socket, limit).await?;
                let Some((place, _)) = begin(node, seat) else { return busy(node, &socket).await };
                return Ok(hand_over(node, socket, op, inbox.into_rest(), (place, memory))?);
            }
            Op::BlockChecksum => {
                let (op, _memory) = op::<proto::OpBlockChecksumProto>(node, &mut inbox, &mut socket, limit).await?;
                let Some(_under_way) = begin(node, seat) else { return busy(node, &socket).await };
                let its_node = Arc::clone(node);
                let block = BlockId(op.header.block.block_id);
                let counted = node.telemetry.operations.begin(Operation::Checksum, || node.now());
                let answer = node.disks.for_block(block, move |_| checksum::answer(&its_node, &op)).await;
                let answer = counted.answered(answer.map_err(Refusal::from).flatten());
                send(&socket, answer).await?
            }
            Op::TransferBlock => {
                let (op, _memory) = op(node, &mut inbox, &mut socket, limit).await?;
                let Some(_under_way) = begin(node, seat) else { return busy(node, &socket).await };
                send(&socket, transfer::serve(node, op).await).await?
            }
            Op::RequestShortCircuitFds => Err(Refusal::unsupported("no descriptors are passed over TCP")),
            Op::WriteSmall => {
                let came = [&header.encode()[..], &inbox.into_rest()].concat();
                return small::serve(node, socket, came, seat).await; // each request takes a place of its own
            }
            Op::Other(number) => Err(Refusal::unsupported(format!("operation {number} is not served"))),
        };
        match served {
            Ok(true) => patience = Duration::from_millis(limits.keepalive_ms),
            Ok(false) => return Ok(()),
            Err(refusal) => {
                tracing::debug!(why = refusal.message, "an operation was refused");
                return Ok(io::transfer::send_all(&socket, &refusal.bytes(), false).await?);
            }
        }
    }
}

async fn op<M: prost::Message + Default>(
    node: &Node,
    inbox: &mut Inbox,
    socket: &mut TcpStream,
    limit: Duration,
) -> std::result::Result<(M, Option<Reservation>), InboxError> {
    let operation = inbox.operation(socket, &node.budget);
    tokio::time::timeout(limit, operation).await.map_err(|_| InboxError::Torn)?
}

/// A place among the operations under way, and one among the connections that nobody takes away.
fn begin(node: &Node, seat: &Arc<Seat>) -> Option<(Transfer, Work)> {
    node.transfer().map(|place| (place, seat.work()))
}

async fn busy(node: &Node, socket: &TcpStream) -> std::result::Result<(), InboxError> {
    let max = node.config.limits.transfer_count_max;
    tracing::warn!(max, "too many transfers are under way; another one is refused");
    let busy = Refusal::error("this node has as many transfers as it allows; try another node");
    Ok(io::transfer::send_all(socket, &busy.bytes(), false).await?)
}

/// Sends the answer of an operation that consists of nothing else.
async fn send(
    socket: &TcpStream,
    answer: std::result::Result<proto::BlockOpResponseProto, Refusal>,
) -> Result<std::result::Result<bool, Refusal>> {
    match answer {
        Ok(answer) => io::transfer::send_all(socket, &message_bytes(&answer), false).await.map(|()| Ok(true)),
        Err(refusal) => Ok(Err(refusal)),
    }
}

/// A write gets a thread of its own, and the connection with it: it carries nothing else afterwards.
fn hand_over(
    node: &Arc<Node>,
    socket: TcpStream,
    op: proto::OpWriteBlockProto,
    came: Vec<u8>,
    held: (Transfer, Option<Reservation>),
) -> Result<()> {
    let socket = socket.into_std()?;
    let its_node = Arc::clone(node);
    node.streams.run(move || {
        let _held = held;
        write::serve(&its_node, socket, &op, &came);
    })
}

impl InboxError {
    /// The peer left, as clients do all the time.
    fn is_hang_up(&self) -> bool {
        match self {
            Self::Torn => true,
            Self::Io(error) => is_hang_up(error),
            Self::Wire(_) | Self::Memory(_) => false,
        }
    }
}
