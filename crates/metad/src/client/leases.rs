//! Methods about leases: a writer lives, or lost its file.

use crate::caller::Session;
use crate::core::{Core, must_find};
use crate::recovery;
use hdfs::Exception;
use hdfs::proto::*;
use namespace::{Access, BeginRecovery, Recovery, RecoveryTarget, Reply, read};
use std::sync::Arc;

pub(super) async fn renew_lease(
    core: &Core,
    _session: &Session,
    request: RenewLeaseRequestProto,
) -> Result<RenewLeaseResponseProto, Exception> {
    if !request.namespaces.is_empty() {
        return Err(Exception::io("namespaces(CallerNamespaces) should be null or empty"));
    }
    core.leases().renew(&request.client_name, core.monotonic());
    core.leased().renew(&request.client_name, core.monotonic());
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
    let holder = core.rows(|rows| read::holder_of(rows, &path))?;
    if let Some(holder) = holder
        && holder.recovering
        && core.recoveries.is_running(holder.file)
    {
        // Beginning again would overtake what is under way: impatient clients would keep it from ever ending.
        core.read(|rows| read::check_access(rows, &session.caller, &path, Access::WRITE))?;
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
