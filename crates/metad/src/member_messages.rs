//! Messages of other members of the group, for Raft.

use crate::admission;
use crate::seat::Seat;
use bytes::Bytes;
use hdfs::Exception;
use prost::Message;
use rpc::Call;
use wire::raft::{MemberMessage, TELL};

/// A message of another member.
pub(crate) async fn answer(seat: &Seat, call: &Call) -> Result<Bytes, Exception> {
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
