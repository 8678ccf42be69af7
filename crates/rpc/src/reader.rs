//! What comes in over one connection: frames, each let in by the budget, and the way back for answers.

use crate::budget::{Budget, Charge};
use crate::call::Service;
use crate::host::Host;
use crate::inward::{Inward, take_frame};
use crate::lane::{Lane, USUAL_LEN_MAX};
use crate::session::{NAMELESS_LEN_MAX, Refusal, Session};
use crate::writer::Outgoing;
use ::io::ConnectionPermit;
use bytes::{Bytes, BytesMut};
use hdfs::frame;
use security::node_name::Certified;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::io::AsyncRead;
use tokio::sync::{Semaphore, mpsc};
use tokio::time::timeout;

/// Room for reading at a time. Most requests are a few hundred bytes; many come at once.
pub(crate) const READ_LEN: usize = 8 << 10;
/// Answers that are expected to be no longer than this do not wait for those of others to be taken: what a connection
/// may have of them is little.
pub(crate) const SHORT_LEN_MAX: usize = 4 << 10;

pub(crate) struct Reader<S> {
    pub(crate) buffer: BytesMut,
    pub(crate) peer: SocketAddr,
    /// Which node it is by its certificate.
    pub(crate) node: Option<Certified>,
    pub(crate) is_tls: bool,
    /// See [`Call::is_private`].
    pub(crate) is_private: bool,
    pub(crate) connection_permit: Arc<ConnectionPermit>,
    pub(crate) host: Arc<Host<S>>,
    pub(crate) frame_len_max: u32,
    pub(crate) calls_max: usize,
    /// As many as `calls_max`, but for those that calls under way have.
    pub(crate) permits: Arc<Semaphore>,
    /// For the answers of this connection.
    pub(crate) answers: Arc<Budget>,
    pub(crate) sender: mpsc::Sender<Outgoing>,
}

/// A frame that came, and what it needs to be answered.
pub(crate) struct Incoming {
    pub(crate) frame: Bytes,
    pub(crate) place: Place,
}

pub(crate) struct Place {
    pub(crate) came: Charge,
    /// What it may take when it is decoded.
    pub(crate) grown: usize,
    /// Of a long one: for its answer.
    pub(crate) own: Option<Charge>,
}

impl<S: Service> Reader<S> {
    /// The next frame, let in by the budget. `None`: the client hung up, or was idle for too long.
    pub(crate) async fn frame<R: AsyncRead + Unpin>(
        &mut self,
        socket: &mut Inward<R>,
        session: &Session,
    ) -> io::Result<Option<Result<Incoming, Refusal>>> {
        let mut len_max = self.frame_len_max;
        if !session.is_known() {
            len_max = len_max.min(NAMELESS_LEN_MAX);
        }
        let len = loop {
            match frame::length(&self.buffer, len_max) {
                Ok(Some(len)) => break len,
                Ok(None) => {}
                Err(error) => return Ok(Some(Err(Refusal::unreadable(&error)))),
            }
            match timeout(self.host.options.idle_time_max, socket.read(&mut self.buffer, READ_LEN)).await {
                Ok(Ok(0)) => return Ok(None),
                Ok(Ok(_)) => {}
                Ok(Err(error)) => return Err(error),
                // Who is not known yet has a time limit for all of it.
                Err(_elapsed) if !session.is_known() || (!socket.has_begun() && self.may_stay()) => {}
                Err(_elapsed) => return Ok(None),
            }
        };
        let is_urgent = self.is_urgent(session);
        let host = Arc::clone(&self.host);
        let lane = self.lane(&host, is_urgent);
        let whole_len = frame::LENGTH_LEN + len;
        // Room for the answer to a long request first: who takes no answers must not hold the memory of all while
        // waiting for that.
        let own = match len {
            ..=USUAL_LEN_MAX => None,
            _ => Some(self.answers.admit(host.options.answers_len_per_connection_max / 2).await),
        };
        // Who it is must be known before it can be urgent; that is short. What is urgent and short waits for nothing.
        let mut came = if len <= SHORT_LEN_MAX && (is_urgent || !session.is_known()) {
            let came = lane.count(whole_len);
            lane.read_counted(socket, &mut self.buffer, whole_len).await?;
            came
        } else {
            lane.read(socket, &mut self.buffer, whole_len).await?
        };
        let frame = take_frame(&mut self.buffer, len);
        Ok(Some(match lane.growth(&frame, &mut came) {
            Ok(grown) => Ok(Incoming { frame, place: Place { came, grown, own } }),
            Err(error) => Err(Refusal::unreadable(&error)),
        }))
    }

    pub(crate) fn lane<'a>(&self, host: &'a Host<S>, is_urgent: bool) -> &'a Lane {
        if is_urgent { &host.urgent } else { &host.usual }
    }

    pub(crate) fn is_urgent(&self, session: &Session) -> bool {
        session.protocol().is_some() && session.protocol() == self.host.options.urgent_protocol
    }

    /// Whether a client that has been silent for the idle time is kept: as in Hadoop, while there is room for others.
    pub(crate) fn may_stay(&self) -> bool {
        let calls_under_way = self.calls_max - 1 - self.permits.available_permits();
        calls_under_way > 0 || self.host.connection_limit.count() <= self.host.options.idle_connections_max
    }

    pub(crate) async fn refuse(&self, refusal: &Refusal) -> io::Result<()> {
        tracing::debug!(peer = %self.peer, exception = %refusal.exception, "rpc connection refused");
        self.end(refusal.call.refused(&refusal.exception)).await
    }

    pub(crate) async fn end(&self, last: Bytes) -> io::Result<()> {
        self.send(Outgoing::last(last)).await
    }

    pub(crate) async fn send(&self, outgoing: Outgoing) -> io::Result<()> {
        self.sender.send(outgoing).await.map_err(|_closed| io::ErrorKind::BrokenPipe.into())
    }
}
