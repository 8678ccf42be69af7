//! What the RPC server asks of this one. Calls go through the door.

use crate::seat::Seat;
use crate::{admission, door};
use bytes::Bytes;
use hdfs::Exception;
use prost::Message;
use rpc::Call;
use std::net::SocketAddr;
use std::sync::Arc;
use wire::raft::{MemberMessage, TELL};

#[derive(Debug)]
pub(crate) struct Service {
    pub(crate) seat: Arc<Seat>,
}

impl rpc::Service for Service {
    async fn call(&self, call: Call) -> Result<Bytes, Exception> {
        door::pass(&self.seat, call).await
    }

    async fn admit_urgent(&self, peer: SocketAddr) -> Result<(), Exception> {
        self.seat.admission.admit(&self.seat, peer).await
    }

    fn opened(&self, peer: SocketAddr) {
        self.seat.opened(peer);
    }

    fn hung_up(&self, peer: SocketAddr) {
        self.seat.admission.hung_up(peer);
        self.seat.users.hung_up(peer);
        self.seat.hung_up(peer);
    }
}

/// A message of another member.
pub(crate) async fn member(seat: &Seat, call: &Call) -> Result<Bytes, Exception> {
    if call.method != TELL {
        return Err(call.no_such_method());
    }
    let message: MemberMessage = call.request()?;
    if seat.admission.is_stranger(call.peer) {
        seat.raft.overhear(&message.bytes).await;
        return Err(admission::overheard());
    }
    let answer = MemberMessage { bytes: seat.raft.handle(&message.bytes).await.into() };
    Ok(answer.encode_to_vec().into())
}
