//! What `hdfs dfsadmin` and the like ask about nodes, blocks and open files.

use crate::caller::Session;
use crate::core::{Core, must_find};
use crate::fsck;
use crate::refusal;
use crate::repair::census;
use crate::words::Locator;
use blocks::Member;
use hdfs::Exception;
use hdfs::proto::*;
use namespace::read;
use std::sync::Arc;
use types::InodeId;

/// Corrupt files in one answer. HDFS: `dfs.corruptfilesreturned.max`.
const CORRUPT_COUNT_MAX: usize = 500;
/// Open files in one answer. HDFS: `dfs.namenode.list.openfiles.num.responses`.
const OPEN_FILE_COUNT_MAX: usize = 1000;

/// Does this kind of report want a node that is live, or not?
pub(super) fn wanted(kind: i32, live: bool) -> bool {
    match DatanodeReportTypeProto::try_from(kind) {
        Ok(DatanodeReportTypeProto::All) => true,
        Ok(DatanodeReportTypeProto::Live) => live,
        Ok(DatanodeReportTypeProto::Dead) => !live,
        // Nobody is being taken out of service.
        _ => false,
    }
}

pub(super) async fn get_datanode_storage_report(
    core: &Core,
    session: &Session,
    request: GetDatanodeStorageReportRequestProto,
) -> Result<GetDatanodeStorageReportResponseProto, Exception> {
    let host = session.host();
    let locator = Locator::new(core, &host);
    let report = |member: &Member| {
        let info = locator.datanode(member);
        let storage = DatanodeStorageProto {
            storage_uuid: member.node.storage.clone(),
            state: Some(datanode_storage_proto::StorageState::Normal.into()),
            storage_type: Some(StorageTypeProto::Disk.into()),
        };
        let of_storage = StorageReportProto {
            storage_uuid: member.node.storage.clone(),
            failed: Some(false),
            capacity: info.capacity,
            dfs_used: info.dfs_used,
            remaining: info.remaining,
            block_pool_used: info.block_pool_used,
            storage: Some(storage),
            non_dfs_used: info.non_dfs_used,
        };
        DatanodeStorageReportProto { datanode_info: info, storage_reports: vec![of_storage] }
    };
    let datanode_storage_reports = core.with_cluster(|cluster, _| {
        let members = cluster.nodes().filter(|member| wanted(request.r#type, member.is_live(locator.now)));
        members.map(report).collect()
    });
    Ok(GetDatanodeStorageReportResponseProto { datanode_storage_reports })
}

/// Slowness is dealt with in seconds, by those who feel it; no list is kept of it.
pub(super) async fn get_slow_datanode_report(
    _core: &Core,
    _session: &Session,
    _request: GetSlowDatanodeReportRequestProto,
) -> Result<GetSlowDatanodeReportResponseProto, Exception> {
    Ok(GetSlowDatanodeReportResponseProto { datanode_info_proto: Vec::new() })
}

pub(super) async fn get_replicated_block_stats(
    core: &Arc<Core>,
    _session: &Session,
    _request: GetFsReplicatedBlockStatsRequestProto,
) -> Result<GetFsReplicatedBlockStatsResponseProto, Exception> {
    let census = census::latest(core).await.map_err(refusal::rows)?;
    Ok(GetFsReplicatedBlockStatsResponseProto {
        low_redundancy: census.under_replicated,
        corrupt_blocks: census.corrupt,
        missing_blocks: census.missing,
        missing_repl_one_blocks: census.missing_alone,
        blocks_in_future: 0,
        pending_deletion_blocks: core.doomed().len() as u64,
        highest_prio_low_redundancy_blocks: Some(0),
        badly_distributed_blocks: Some(0),
    })
}

pub(super) async fn get_ec_block_group_stats(
    _core: &Core,
    _session: &Session,
    _request: GetFsEcBlockGroupStatsRequestProto,
) -> Result<GetFsEcBlockGroupStatsResponseProto, Exception> {
    Ok(GetFsEcBlockGroupStatsResponseProto {
        low_redundancy: 0,
        corrupt_blocks: 0,
        missing_blocks: 0,
        blocks_in_future: 0,
        pending_deletion_blocks: 0,
        highest_prio_low_redundancy_blocks: Some(0),
        badly_distributed_blocks: Some(0),
    })
}

/// Blocks without any sound replica, and their files. The cookie counts those told before.
pub(super) async fn list_corrupt_file_blocks(
    core: &Core,
    session: &Session,
    request: ListCorruptFileBlocksRequestProto,
) -> Result<ListCorruptFileBlocksResponseProto, Exception> {
    session.must_be_superuser("listCorruptFileBlocks")?;
    let below = must_find("listCorruptFileBlocks", &request.path)?;
    let after: usize = request.cookie.and_then(|cookie| cookie.parse().ok()).unwrap_or(0);
    let found = fsck::corrupt_files(core, &below, after, CORRUPT_COUNT_MAX)?;
    let cookie = (after + found.len()).to_string();
    let mut files: Vec<String> = found.into_iter().map(|(_, path)| path).collect();
    files.dedup();
    Ok(ListCorruptFileBlocksResponseProto { corrupt: CorruptFileBlocksProto { files, cookie } })
}
pub(super) async fn list_open_files(
    core: &Core,
    session: &Session,
    request: ListOpenFilesRequestProto,
) -> Result<ListOpenFilesResponseProto, Exception> {
    session.must_be_superuser("listOpenFiles")?;
    let below = request.path.as_deref().filter(|path| !path.is_empty()).unwrap_or("/");
    let below = must_find("listOpenFiles", below)?;
    // Java sends its numbers signed; an id is never below 0.
    let after = InodeId(u64::try_from(request.id).unwrap_or(0));
    let is_wanted = |path: &str| {
        let rest = path.strip_prefix(below.as_str());
        below.is_root() || rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    let mut entries = Vec::new();
    let mut from = Some(after);
    // The client goes on behind the last entry, so a page without any must be the last.
    while let (true, Some(after)) = (entries.is_empty(), from) {
        let (files, next) = core.rows(|rows| read::open_files(rows, after, OPEN_FILE_COUNT_MAX))?;
        let files = files.into_iter().filter(|file| is_wanted(&file.path));
        entries.extend(files.map(|file| OpenFilesBatchResponseProto {
            id: file.holder.file.0 as i64,
            path: file.path,
            client_name: file.holder.holder,
            client_machine: file.holder.client_host,
        }));
        from = next;
    }
    Ok(ListOpenFilesResponseProto { entries, has_more: from.is_some(), types: request.types })
}
