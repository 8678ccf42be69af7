//! Raft messages of other members of the group.

use crate::admission;
use crate::refusal;
use crate::visit::Visit;
use hdfs::Exception;
use wire::raft::MemberMessage;

/// A message of another member.
pub(crate) async fn deliver(visit: &Visit, message: MemberMessage) -> Result<MemberMessage, Exception> {
    let leadership = &visit.leadership;
    if leadership.admission.is_stranger(visit.call.peer) {
        // Anybody can send one: it does not end a leader that holds files.
        let may_end = leadership.core().is_none() || !leadership.machine.holds_files().map_err(refusal::rows)?;
        leadership.raft.overhear(&message.bytes, may_end).await;
        return Err(admission::overheard());
    }
    let proven = visit.call.user.proof.member();
    Ok(MemberMessage { bytes: leadership.raft.handle(&message.bytes, proven).await.into() })
}
