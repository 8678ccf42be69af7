//! The transfer port and the Unix socket beside it: each connection, operation after operation, until one of the two
//! has enough.

use crate::admission::Transfer;
use crate::budget::Reservation;
use crate::checksum;
use crate::connection::Connection;
use crate::data_service::DataService;
use crate::handshake::Admitted;
use crate::layouts::Layouts;
use crate::local_socket::{Listener, Peer};
use crate::read_buffer::ReadError;
use crate::small::SmallWrites;
use crate::socket::Socket;
use crate::write::Writes;
use crate::{descriptors, handshake, layouts, ranges, read, small, transfer, write};
use hdfs::proto;
use io::{ConnectionLimit, ConnectionPermit, RequestGuard};
use std::io::Result;
use std::sync::Arc;
use std::time::Duration;
use wire::Op;
use xfer::answer::{self, Answered, Refusal};
use xfer::write::ANSWER_WAIT;

#[derive(Debug)]
pub(crate) struct DataPort {
    pub(crate) service: Arc<DataService>,
    pub(crate) writes: Arc<Writes>,
    pub(crate) small: Arc<SmallWrites>,
    pub(crate) layouts: Layouts,
    /// Of the connections of both listeners.
    pub(crate) connection_limit: Arc<ConnectionLimit>,
}

/// Takes connections for ever; each is served by a task of its own.
pub(crate) async fn accept(port: Arc<DataPort>, listener: Listener) {
    let (max, limits) = (port.service.limits.connection_count_max, &port.service.log_limits);
    loop {
        let (connection, peer) = io::accepted(|| listener.accept()).await;
        let Some(permit) = port.connection_limit.admit() else {
            if let Some(passed_over) = limits.connection_refused.due() {
                tracing::warn!(%peer, max, passed_over, "connection refused: all others are being answered");
            }
            continue;
        };
        io::task::spawn("session", serve(Arc::clone(&port), connection, peer, permit));
    }
}

/// Serves a connection to its end. Whatever goes wrong on it stays on it.
async fn serve(port: Arc<DataPort>, connection: Connection, peer: Peer, permit: Arc<ConnectionPermit>) {
    let ended = tokio::select! {
        ended = run(&port, connection, peer, &permit) => ended,
        () = permit.evicted() => return tracing::debug!(%peer, "idle connection closed to make room for another"),
        () = port.service.stop.wait() => return,
    };
    match ended {
        Ok(()) => {}
        Err(error) if error.is_hang_up() => tracing::debug!(%peer, %error, "client disconnected"),
        Err(error) => {
            if let Some(passed_over) = port.service.log_limits.connection_closed.due() {
                tracing::info!(%peer, error = rpc::log_text(&error), passed_over, "a connection is closed");
            }
        }
    }
}

async fn run(
    port: &DataPort,
    connection: Connection,
    peer: Peer,
    permit: &Arc<ConnectionPermit>,
) -> std::result::Result<(), ReadError> {
    let service = &port.service;
    if let Peer::Net(_) = peer {
        service.set_options(&connection);
    }
    let Some(Admitted { mut connection, agreed }) = handshake::admit(service, connection, peer, permit).await? else {
        return Ok(());
    };
    let limits = &service.limits;
    let mut patience = Duration::from_millis(limits.op_ms);
    loop {
        let Ok(header) = tokio::time::timeout(patience, connection.op_header()).await else {
            return Ok(()); // idle for too long, as most connections end
        };
        let Some(header) = header? else { return Ok(()) };
        if let Some(refusal) = handshake::lacks(service, peer, agreed) {
            return Ok(send_answer(&mut connection, refusal.into_answer()).await?);
        }
        let limit = Duration::from_millis(limits.op_ms);
        // Each takes its place when all of the request is here: a client that only announces one delays nobody.
        let served = match header.op {
            Op::ReadBlock => {
                let (op, _memory) = op(service, &mut connection, limit).await?;
                let Some((place, _)) = &begin(service, permit) else { return busy(service, &mut connection).await };
                read::serve(service, &mut connection, op, place).await?
            }
            Op::ReadRanges => {
                let (op, _memory) = op(service, &mut connection, limit).await?;
                let Some((place, _)) = &begin(service, permit) else { return busy(service, &mut connection).await };
                ranges::serve(service, &mut connection, op, place).await?
            }
            Op::ReadLayout => {
                let (op, _memory) = op(service, &mut connection, limit).await?;
                let Some((place, _)) = &begin(service, permit) else { return busy(service, &mut connection).await };
                layouts::serve(&port.layouts, service, &mut connection, op, place).await?
            }
            Op::WriteBlock => {
                let (op, memory) = op(service, &mut connection, limit).await?;
                let Some((place, _)) = begin(service, permit) else { return busy(service, &mut connection).await };
                return Ok(hand_over(&port.writes, connection, op, (place, memory))?);
            }
            Op::BlockChecksum => {
                let (op, _memory) = op::<proto::OpBlockChecksumProto>(service, &mut connection, limit).await?;
                let Some(_under_way) = begin(service, permit) else { return busy(service, &mut connection).await };
                send(&mut connection, checksum::serve(service, op).await).await?
            }
            Op::TransferBlock => {
                let (op, _memory) = op(service, &mut connection, limit).await?;
                let Some((place, _)) = &begin(service, permit) else { return busy(service, &mut connection).await };
                send(&mut connection, transfer::serve(service, op, place).await).await?
            }
            Op::RequestShortCircuitFds => {
                let (op, _memory) = op(service, &mut connection, limit).await?;
                match peer {
                    Peer::Local => {
                        let Some(_under_way) = begin(service, permit) else {
                            return busy(service, &mut connection).await;
                        };
                        descriptors::serve(service, &mut connection, op).await?;
                        Ok(true)
                    }
                    Peer::Net(_) => {
                        let elsewhere = descriptors::elsewhere(service, &op).ok_or_else(descriptors::over_tcp);
                        send(&mut connection, elsewhere).await?
                    }
                }
            }
            Op::ReleaseShortCircuitFds if peer == Peer::Local => {
                let (request, _memory) = op(service, &mut connection, limit).await?;
                descriptors::release(service, &mut connection, &request).await?;
                Ok(true)
            }
            Op::RequestShortCircuitShm if peer == Peer::Local => {
                let (_, _memory) = op::<proto::ShortCircuitShmRequestProto>(service, &mut connection, limit).await?;
                // The client says nothing more, and needs it.
                let _in_use = permit.begin_request();
                return Ok(descriptors::share(service, &mut connection).await?);
            }
            Op::ReleaseShortCircuitFds | Op::RequestShortCircuitShm => Err(descriptors::over_tcp()),
            // Each request takes a place of its own.
            Op::WriteSmall => return small::serve(&port.small, connection, &header, permit).await,
            Op::Other(number) => Err(Refusal::unsupported(format!("operation {number} is not served"))),
        };
        match served {
            Ok(true) => patience = Duration::from_millis(limits.keepalive_ms),
            Ok(false) => return Ok(()),
            Err(refusal) => {
                tracing::debug!(why = rpc::log_text(&refusal.message), "an operation was refused");
                return Ok(send_answer(&mut connection, refusal.into_answer()).await?);
            }
        }
    }
}

async fn op<M: prost::Message + Default>(
    service: &DataService,
    connection: &mut Connection,
    limit: Duration,
) -> std::result::Result<(M, Option<Reservation>), ReadError> {
    // Nobody else makes room for it: who asks has not shown a token yet.
    let operation = connection.operation(&service.fronts, &service.budget);
    tokio::time::timeout(limit, operation).await.map_err(|_| ReadError::Torn)?
}

/// A place among the operations under way; meanwhile the connection is not closed for another.
fn begin(service: &DataService, permit: &Arc<ConnectionPermit>) -> Option<(Transfer, RequestGuard)> {
    service.admission.transfer().map(|place| (place, permit.begin_request()))
}

async fn busy(service: &DataService, connection: &mut Connection) -> std::result::Result<(), ReadError> {
    let max = service.admission.transfer_count_max();
    if let Some(passed_over) = service.log_limits.busy.due() {
        tracing::warn!(max, passed_over, "too many transfers are under way; another one is refused");
    }
    let busy = Refusal::error("this node has as many transfers as it allows; try another node");
    Ok(send_answer(connection, busy.into_answer()).await?)
}

/// Sends an answer to whoever takes it in time.
async fn send_answer(connection: &mut Connection, answer: Answered) -> Result<()> {
    connection.send_within(&answer::encode(answer), ANSWER_WAIT).await
}

/// Sends the answer of an operation that consists of nothing else.
async fn send(
    connection: &mut Connection,
    answered: std::result::Result<Answered, Refusal>,
) -> Result<std::result::Result<bool, Refusal>> {
    match answered {
        Ok(done) => send_answer(connection, done).await.map(|()| Ok(true)),
        Err(refusal) => Ok(Err(refusal)),
    }
}

/// A write gets a thread of its own, and the connection with it: it carries nothing else afterwards.
fn hand_over(
    writes: &Arc<Writes>,
    connection: Connection,
    op: proto::OpWriteBlockProto,
    held: (Transfer, Option<Reservation>),
) -> Result<()> {
    let (connection, came) = connection.into_parts();
    let socket = Socket::new(connection)?;
    let at = Arc::clone(writes);
    writes.streams.run(move || {
        let _held = held;
        write::serve(&at, socket, &op, &came);
    })
}
