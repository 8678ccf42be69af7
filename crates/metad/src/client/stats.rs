//! Methods about the store as a whole.

use super::policies::HOT;
use super::reports::Reporter;
use crate::block_tokens;
use crate::core::Core;
use crate::refusal;
use crate::repair::census;
use crate::session::Session;
use crate::to_hdfs;
use hdfs::Exception;
use hdfs::proto::ha_service_state_response_proto::HaServiceStateProto;
use hdfs::proto::*;
use lead::Complainant;
use namespace::read;
use std::sync::Arc;
use types::BlockId;
use wire::Abilities;

/// What HDFS advises its clients.
const WRITE_PACKET_LEN: u32 = 64 << 10;
const FILE_BUFFER_LEN: u32 = 4096;
const MINUTE_MS: u64 = 60_000;

pub(super) async fn get_server_defaults(
    core: &Core,
    _session: &Session,
    _request: GetServerDefaultsRequestProto,
) -> Result<GetServerDefaultsResponseProto, Exception> {
    let server_defaults = FsServerDefaultsProto {
        block_size: core.config.block_len,
        bytes_per_checksum: core.config.bytes_per_checksum,
        write_packet_size: WRITE_PACKET_LEN,
        replication: core.config.replication.into(),
        file_buffer_size: FILE_BUFFER_LEN,
        encrypt_data_transfer: Some(core.config.security.encrypt_data_transfer),
        trash_interval: Some(core.live.trash_interval_ms().unwrap_or(0).div_ceil(MINUTE_MS)),
        checksum_type: Some(ChecksumTypeProto::ChecksumCrc32c.into()),
        key_provider_uri: Some(String::new()),
        policy_id: Some(HOT),
        snapshot_trash_root_enabled: Some(false),
        abilities: Some(Abilities::OF_METADATA_SERVER.bits()),
        data_transfer_protection: block_tokens::protection(core),
    };
    Ok(GetServerDefaultsResponseProto { server_defaults })
}

pub(super) async fn get_fs_stats(
    core: &Arc<Core>,
    _session: &Session,
    _request: GetFsStatusRequestProto,
) -> Result<GetFsStatsResponseProto, Exception> {
    let now = core.monotonic();
    let (mut capacity, mut used, mut remaining) = (0u64, 0u64, 0u64);
    core.with_cluster(|cluster, _| {
        for member in cluster.nodes().filter(|member| member.is_live(now)) {
            capacity = capacity.saturating_add(member.usage.capacity_len);
            used = used.saturating_add(member.usage.used_len);
            remaining = remaining.saturating_add(member.usage.free_len);
        }
    });
    let census = census::latest(core).await.map_err(refusal::rows)?;
    Ok(GetFsStatsResponseProto {
        capacity,
        used,
        remaining,
        under_replicated: census.under_replicated,
        corrupt_blocks: census.corrupt,
        missing_blocks: census.missing,
        missing_repl_one_blocks: Some(census.missing_alone),
        blocks_in_future: Some(0),
        pending_deletion_blocks: Some(core.leader().doomed.len() as u64),
    })
}

pub(super) async fn get_datanode_report(
    core: &Core,
    session: &Session,
    request: GetDatanodeReportRequestProto,
) -> Result<GetDatanodeReportResponseProto, Exception> {
    let host = session.host();
    let reporter = Reporter::new(core, &host);
    let di = core.with_leader(|leader, _| reporter.wanted(leader, request.r#type).map(|(_, info)| info).collect());
    Ok(GetDatanodeReportResponseProto { di })
}

/// Replicas that one call may complain of. A reader finds one at a time.
const BAD_COUNT_MAX: usize = 100;

/// A client's report is verified first, as its own memory may be bad. Nor is a complaint taken up unless there is such
/// a replica.
pub(super) async fn report_bad_blocks(
    core: &Core,
    session: &Session,
    request: ReportBadBlocksRequestProto,
) -> Result<ReportBadBlocksResponseProto, Exception> {
    let replicas = request.blocks.iter().flat_map(|bad| bad.locs.iter().map(|place| (bad.b.block(), place)));
    let replicas: Vec<(BlockId, &DatanodeInfoProto)> = replicas.take(BAD_COUNT_MAX).collect();
    for (block, place) in replicas {
        let found = core.rows(move |rows| read::file_of_block(rows, block)).await?;
        let Some((_, view)) = found else { continue };
        let node = core.with_cluster(|cluster, _| {
            to_hdfs::node_id(cluster, &place.id).filter(|node| cluster.may_hold(view.home, *node))
        });
        let Some(node) = node else { continue };
        if core.note_bad(block, node, Complainant::Client(session.host())) {
            tracing::warn!(%block, %node, user = session.caller.user, "reader reported a damaged replica");
        }
    }
    Ok(ReportBadBlocksResponseProto {})
}

pub(super) async fn get_ha_service_state(
    _core: &Core,
    _session: &Session,
    _request: HaServiceStateRequestProto,
) -> Result<HaServiceStateResponseProto, Exception> {
    Ok(HaServiceStateResponseProto { state: HaServiceStateProto::Active.into() })
}

/// Every read sees what was answered before: there is one server.
pub(super) async fn msync(
    _core: &Core,
    _session: &Session,
    _request: MsyncRequestProto,
) -> Result<MsyncResponseProto, Exception> {
    Ok(MsyncResponseProto {})
}
