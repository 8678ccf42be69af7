//! Methods for writers' leases: renewal, and recovery of a file whose writer lost it.

use crate::change_error::ChangeError;
use crate::core::{Core, must_find};
use crate::recovery;
use crate::refusal;
use crate::session::Session;
use hdfs::Exception;
use hdfs::proto::*;
use namespace::{Access, BeginRecovery, Op, Recovery, RecoveryTarget, Reply, read};
use std::sync::Arc;

pub(super) async fn renew_lease(
    core: &Core,
    session: &Session,
    request: RenewLeaseRequestProto,
) -> Result<RenewLeaseResponseProto, Exception> {
    if !request.namespaces.is_empty() {
        return Err(Exception::io("namespaces(CallerNamespaces) should be null or empty"));
    }
    let (holder, now) = (session.lease_holder(&request.client_name), core.monotonic());
    core.with_leader(|leader, _| {
        leader.writer_leases.renew(&holder, now);
        leader.block_leases.renew(&holder, now);
    });
    Ok(RenewLeaseResponseProto {})
}

/// True: the file is closed, and its writer shut out.
pub(super) async fn recover_lease(
    core: &Arc<Core>,
    session: &Session,
    request: RecoverLeaseRequestProto,
) -> Result<RecoverLeaseResponseProto, Exception> {
    let path = must_find("recoverLease", &request.src)?;
    core.must_be_changeable(|| format!("Cannot recover the lease of {path}"))?;
    let its_path = path.clone();
    let holder = core.rows(move |rows| read::holder_of(rows, &its_path)).await?;
    if let Some(holder) = holder
        && holder.recovering
        && core.recoveries.is_running(holder.file)
    {
        // Beginning again would overtake what is under way: impatient clients would keep it from ever ending.
        let caller = session.caller.clone();
        core.read(move |rows| read::check_access(rows, &caller, &path, Access::WRITE)).await?;
        return Ok(RecoverLeaseResponseProto { result: false });
    }
    let begin = BeginRecovery { target: RecoveryTarget::Path(path), holder: None };
    let result = match core.change(session, begin).await? {
        Reply::Recovery(Recovery::Started { file, last, generation, .. }) => {
            recovery::start(core, file, last, generation);
            // Most recoveries take a few milliseconds, and clients ask again only after seconds.
            core.recoveries.ended(file).await
        }
        Reply::Recovery(Recovery::Closed { .. }) => true,
        _ => false,
    };
    Ok(RecoverLeaseResponseProto { result })
}

/// A client that asks for a file to write. Until the answer, and if no caller waits for it any more, it counts as a
/// holder.
struct LeaseRequestGuard<'a> {
    core: &'a Core,
    holder: &'a str,
    granted: bool,
}

impl Drop for LeaseRequestGuard<'_> {
    fn drop(&mut self) {
        if let Some(mut leader) = self.core.leader_unless_broken() {
            leader.writer_leases.answered(self.holder, self.granted, self.core.monotonic());
        }
    }
}

/// Proposes what gives `holder` a file to write.
pub(super) async fn grant(core: &Core, session: &Session, holder: &str, op: impl Into<Op>) -> Result<Reply, Exception> {
    let has_room = core.with_leader(|leader, _| {
        let has_room = leader.writer_leases.has_room(holder);
        if has_room {
            leader.writer_leases.asks(holder);
        }
        has_room
    });
    if !has_room {
        return Err(Exception::io(format!(
            "too many clients write files now, of {} or in all; one that ended without closing its file counts until \
             its lease has run out",
            session.caller.user
        )));
    }
    let mut asking = LeaseRequestGuard { core, holder, granted: true };
    let changed = core.change_or_doubt(session, op).await;
    let refused = matches!(changed, Err(ChangeError::Refused(_) | ChangeError::NoRoom(_)) | Ok(Reply::Recovery(_)));
    asking.granted = !refused;
    changed.map_err(refusal::change)
}
