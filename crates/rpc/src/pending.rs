//! A call that is under way, and its answer.

use crate::host::Host;
use crate::lane::Held;
use crate::writer::{Outgoing, Room};
use ::io::RequestGuard;
use bytes::Bytes;
use hdfs::exception::Exception;
use hdfs::frame;
use hdfs::proto::RpcErrorCodeProto;
use std::sync::Arc;
use tokio::sync::mpsc;

/// A call that is under way. However it ends, it is answered once: dropping this unfinished, as a panic does, answers
/// with an error.
pub(crate) struct Pending<S> {
    pub(crate) call: frame::Call,
    pub(crate) method: String,
    pub(crate) sender: mpsc::Sender<Outgoing>,
    pub(crate) host: Arc<Host<S>>,
    pub(crate) held: Option<(Room, Charges)>,
}

/// What a request holds until it is answered.
pub(crate) struct Charges {
    pub(crate) _held: Held,
    pub(crate) _request: RequestGuard,
}

impl<S> Pending<S> {
    pub(crate) fn finish(mut self, outcome: Result<Bytes, Exception>) {
        self.answer(outcome);
    }

    fn answer(&mut self, outcome: Result<Bytes, Exception>) {
        let Some((mut room, request)) = self.held.take() else { return };
        let outcome = outcome.and_then(|body| {
            if body.len() < types::limits::RPC_FRAME_LEN_MAX as usize / 2 {
                Ok(body)
            } else {
                let message = format!("the answer has {} bytes, which no client takes", body.len());
                let code = RpcErrorCodeProto::ErrorSerializingResponse;
                Err(Exception { code, ..Exception::io(message) })
            }
        });
        let is_answered = outcome.is_ok();
        let (head, body, last) = match outcome {
            Ok(body) => (self.call.succeeded(body.len()), body, false),
            Err(exception) => (self.call.refused(&exception), Bytes::new(), exception.is_fatal()),
        };
        // Nothing is learned of what was refused: strangers invent names.
        if is_answered {
            self.host.expected.learn(&self.method, head.len() + body.len());
        }
        room.made(head.len() + body.len());
        drop(request);
        let answer = Outgoing::of_call(head, body, last, room);
        // Closed: the client hung up, nobody waits for the answer. Full it cannot be: the permits are fewer.
        let _ = self.sender.try_send(answer);
    }
}

impl<S> Drop for Pending<S> {
    fn drop(&mut self) {
        self.answer(Err(Exception::io("the server failed in this call; its log says why")));
    }
}
