//! The way back to the node above, or to the client: [`xfer::write::Above`] and its socket, for the stream's thread and
//! for [`super::keepalive`]. What is locked first is the former, so what it has leaves in its order.

use crate::socket::Socket;
use hdfs::proto::BlockOpResponseProto;
use std::io::ErrorKind;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use wire::PipelineAck;
use xfer::write::Limits;

#[derive(Debug)]
pub(crate) struct Above {
    /// Packets come here; acks leave.
    pub(super) socket: Socket,
    takes_keepalives: bool,
    state: Mutex<xfer::write::Above>,
}

impl Above {
    pub(super) fn new(socket: Socket, takes_keepalives: bool, now: Duration) -> Self {
        Self { socket, takes_keepalives, state: Mutex::new(xfer::write::Above::new(takes_keepalives, now)) }
    }

    pub(crate) fn takes_keepalives(&self) -> bool {
        self.takes_keepalives
    }

    pub(super) fn put_ready(&self) {
        self.lock().put_ready();
    }

    pub(super) fn put_answer(&self, answer: &BlockOpResponseProto) {
        self.lock().put_answer(answer);
    }

    pub(super) fn put_ack(&self, ack: &PipelineAck) {
        self.lock().put_ack(ack);
    }

    /// Whether there are bytes that the kernel did not take yet.
    pub(super) fn is_pending(&self) -> bool {
        self.is_pending_locked(&self.lock())
    }

    pub(super) fn is_pending_locked(&self, state: &xfer::write::Above) -> bool {
        !state.out().is_empty() || self.socket.is_pending()
    }

    /// Sends as much as the socket takes. False if nobody is there any more.
    pub(super) fn flush(&self, now: Duration) -> bool {
        self.flush_locked(&mut self.lock(), now)
    }

    fn flush_locked(&self, state: &mut xfer::write::Above, now: Duration) -> bool {
        let flushed = loop {
            if state.out().is_empty() {
                break self.socket.flush();
            }
            match self.socket.send(state.out()) {
                Ok(sent) => state.on_sent(now, sent),
                Err(error) => break Err(error),
            }
        };
        let is_there = flushed.is_ok() || flushed.is_err_and(|error| error.kind() == ErrorKind::WouldBlock);
        if !is_there {
            state.on_closed();
        }
        is_there
    }

    /// The stream's thread has been busy since `since`. That the peer is gone the stream finds out.
    pub(crate) fn keepalive_while_busy(&self, since: Duration, now: Duration, limits: &Limits) {
        let mut state = self.lock();
        if !self.is_pending_locked(&state) {
            state.keepalive_while_busy(since, now, limits);
            self.flush_locked(&mut state, now);
        }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, xfer::write::Above> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
