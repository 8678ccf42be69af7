//! Maintenance calls of HDFS's administrators. Most have nothing to do here, and answer so in a form their tools
//! understand.

use crate::core::Core;
use crate::listed_nodes;
use crate::refusal;
use crate::session::Session;
use hdfs::Exception;
use hdfs::exception::UNSUPPORTED_OPERATION;
use hdfs::proto::*;

fn unsupported(what: &str) -> Exception {
    Exception::new(UNSUPPORTED_OPERATION, format!("{what} is not supported"))
}

/// Reads the lists of hosts again, if the configuration names any.
pub(super) async fn refresh_nodes(
    core: &Core,
    _session: &Session,
    _request: RefreshNodesRequestProto,
) -> Result<RefreshNodesResponseProto, Exception> {
    listed_nodes::refresh(core).await?;
    Ok(RefreshNodesResponseProto {})
}

/// The state is durable at every moment, so there is nothing to do for it. As in HDFS, it is a matter of safe mode.
pub(super) async fn save_namespace(
    core: &Core,
    _session: &Session,
    _request: SaveNamespaceRequestProto,
) -> Result<SaveNamespaceResponseProto, Exception> {
    match core.safe_mode().map_err(refusal::rows)? {
        Some(_) => Ok(SaveNamespaceResponseProto { saved: Some(true) }),
        None => Err(Exception::io("Safe mode should be turned ON in order to create namespace image.")),
    }
}

pub(super) async fn finalize_upgrade(
    _core: &Core,
    _session: &Session,
    _request: FinalizeUpgradeRequestProto,
) -> Result<FinalizeUpgradeResponseProto, Exception> {
    Ok(FinalizeUpgradeResponseProto {})
}

pub(super) async fn upgrade_status(
    _core: &Core,
    _session: &Session,
    _request: UpgradeStatusRequestProto,
) -> Result<UpgradeStatusResponseProto, Exception> {
    Ok(UpgradeStatusResponseProto { upgrade_finalized: true })
}

pub(super) async fn rolling_upgrade(
    _core: &Core,
    _session: &Session,
    request: RollingUpgradeRequestProto,
) -> Result<RollingUpgradeResponseProto, Exception> {
    const QUERY: i32 = 1;
    match request.action {
        QUERY => Ok(RollingUpgradeResponseProto { rolling_upgrade_info: None }),
        _ => Err(unsupported("A rolling upgrade by this call")),
    }
}

pub(super) async fn set_balancer_bandwidth(
    _core: &Core,
    _session: &Session,
    _request: SetBalancerBandwidthRequestProto,
) -> Result<SetBalancerBandwidthResponseProto, Exception> {
    Err(unsupported("Setting the bandwidth of balancing by this call"))
}

pub(super) async fn restore_failed_storage(
    _core: &Core,
    _session: &Session,
    _request: RestoreFailedStorageRequestProto,
) -> Result<RestoreFailedStorageResponseProto, Exception> {
    Ok(RestoreFailedStorageResponseProto { result: false })
}
