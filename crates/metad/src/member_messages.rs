//! Raft messages of other members of the group.

use crate::admission;
use crate::refusal;
use crate::visit::Visit;
use hdfs::Exception;
use wire::raft::MemberMessage;

/// A message of another member.
pub(crate) async fn deliver(visit: &Visit, message: MemberMessage) -> Result<MemberMessage, Exception> {
    let seat = &visit.seat;
    if seat.admission.is_stranger(visit.call.peer) {
        // Anybody can send one: it does not end a leader that holds files.
        let may_end = seat.core().is_none() || !seat.machine.holds_files().map_err(refusal::rows)?;
        seat.raft.overhear(&message.bytes, may_end).await;
        return Err(admission::overheard());
    }
    Ok(MemberMessage { bytes: seat.raft.handle(&message.bytes).await.into() })
}
