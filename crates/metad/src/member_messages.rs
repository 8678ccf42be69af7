//! Raft messages of other members of the group.

use crate::admission;
use crate::visit::Visit;
use hdfs::Exception;
use wire::raft::MemberMessage;

/// A message of another member.
pub(crate) async fn deliver(visit: &Visit, message: MemberMessage) -> Result<MemberMessage, Exception> {
    let seat = &visit.seat;
    if seat.admission.is_stranger(visit.call.peer) {
        seat.raft.overhear(&message.bytes).await;
        return Err(admission::overheard());
    }
    Ok(MemberMessage { bytes: seat.raft.handle(&message.bytes).await.into() })
}
