//! Reports on nodes, blocks and open files, for `hdfs dfsadmin` and similar tools.

use crate::core::{Core, must_find};
use crate::fsck;
use crate::refusal;
use crate::repair::{census, rules};
use crate::session::Session;
use crate::to_hdfs::{Locator, reported_admin_state};
use hdfs::Exception;
use hdfs::proto::datanode_info_proto::AdminState;
use hdfs::proto::*;
use lead::{Leader, LivenessRules, Member};
use namespace::read;
use std::collections::BTreeMap;
use std::sync::Arc;
use types::{DiskReport, InodeId, NodeId};

/// Corrupt files in one answer. HDFS: `dfs.corruptfilesreturned.max`.
const CORRUPT_COUNT_MAX: usize = 500;
/// Open files in one answer. HDFS: `dfs.namenode.list.openfiles.num.responses`.
const OPEN_FILE_COUNT_MAX: usize = 1000;

/// What is known of datanodes beside the picture of the cluster, at one moment.
pub(super) struct Reporter<'a> {
    locator: Locator<'a>,
    disks: BTreeMap<NodeId, Vec<DiskReport>>,
    versions: BTreeMap<NodeId, String>,
    rules: LivenessRules,
}

impl<'a> Reporter<'a> {
    pub(super) fn new(core: &'a Core, host: &'a str) -> Self {
        let versions = core.heard.versions();
        let disks = core.leader().disks().clone();
        Self { locator: Locator::new(core, host), disks, versions, rules: rules(core) }
    }

    /// The nodes that this kind of report is about.
    pub(super) fn wanted<'b>(
        &'b self,
        leader: &'b Leader,
        kind: i32,
    ) -> impl Iterator<Item = (&'b Member, DatanodeInfoProto)> + 'b {
        let kind = DatanodeReportTypeProto::try_from(kind).ok();
        let described = leader.cluster.nodes().map(|member| (member, self.datanode(leader, member)));
        described.filter(move |(member, info)| match kind {
            Some(DatanodeReportTypeProto::All) => true,
            Some(DatanodeReportTypeProto::Live) => member.is_live(self.locator.now),
            Some(DatanodeReportTypeProto::Dead) => !member.is_live(self.locator.now),
            Some(DatanodeReportTypeProto::Decommissioning) => {
                info.admin_state == Some(AdminState::DecommissionInprogress.into())
            }
            Some(DatanodeReportTypeProto::EnteringMaintenance) => {
                info.admin_state == Some(AdminState::EnteringMaintenance.into())
            }
            Some(DatanodeReportTypeProto::InMaintenance) => info.admin_state == Some(AdminState::InMaintenance.into()),
            None => false,
        })
    }

    fn datanode(&self, leader: &Leader, member: &Member) -> DatanodeInfoProto {
        let info = self.locator.datanode(member);
        let block_count: u64 = types::len::total(self.disks_of(member).iter().map(|disk| disk.replica_count));
        DatanodeInfoProto {
            admin_state: reported_admin_state(leader, member, &self.rules).map(Into::into),
            num_blocks: Some(u32::try_from(block_count).unwrap_or(u32::MAX)),
            software_version: self.versions.get(&member.node.id).cloned(),
            ..info
        }
    }

    fn disks_of(&self, member: &Member) -> &[DiskReport] {
        self.disks.get(&member.node.id).map_or(&[], Vec::as_slice)
    }

    /// One for each disk. A node that has a single one calls it as in the locations of its blocks, which name no disk.
    fn storages(&self, member: &Member) -> Vec<StorageReportProto> {
        let disks = self.disks_of(member);
        let whole = DiskReport {
            capacity_len: member.usage.capacity_len,
            used_len: member.usage.used_len,
            free_len: member.usage.free_len,
            ..DiskReport::default()
        };
        match disks {
            [] | [_] => vec![storage(member.node.storage.clone(), disks.first().unwrap_or(&whole))],
            several => several.iter().map(|disk| storage(format!("DS-{}", disk.volume), disk)).collect(),
        }
    }
}

fn storage(storage_uuid: String, disk: &DiskReport) -> StorageReportProto {
    StorageReportProto {
        storage_uuid: storage_uuid.clone(),
        failed: Some(!disk.failure.is_empty()),
        capacity: Some(disk.capacity_len),
        dfs_used: Some(disk.used_len),
        remaining: Some(disk.free_len),
        block_pool_used: Some(disk.used_len),
        storage: Some(DatanodeStorageProto {
            storage_uuid,
            state: Some(datanode_storage_proto::StorageState::Normal.into()),
            storage_type: Some(StorageTypeProto::Disk.into()),
        }),
        non_dfs_used: Some(disk.capacity_len.saturating_sub(disk.used_len).saturating_sub(disk.free_len)),
    }
}

pub(super) async fn get_datanode_storage_report(
    core: &Core,
    session: &Session,
    request: GetDatanodeStorageReportRequestProto,
) -> Result<GetDatanodeStorageReportResponseProto, Exception> {
    let host = session.host();
    let reporter = Reporter::new(core, &host);
    let datanode_storage_reports = core.with_leader(|leader, _| {
        let wanted = reporter.wanted(leader, request.r#type);
        let report = |(member, datanode_info)| DatanodeStorageReportProto {
            datanode_info,
            storage_reports: reporter.storages(member),
        };
        wanted.map(report).collect()
    });
    Ok(GetDatanodeStorageReportResponseProto { datanode_storage_reports })
}

/// Slow nodes are detected in seconds by their peers; no list of them is kept.
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
        pending_deletion_blocks: core.leader().doomed.len() as u64,
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

/// Blocks without any sound replica, and their files. The cookie counts those already listed.
pub(super) async fn list_corrupt_file_blocks(
    core: &Arc<Core>,
    session: &Session,
    request: ListCorruptFileBlocksRequestProto,
) -> Result<ListCorruptFileBlocksResponseProto, Exception> {
    let below = must_find("listCorruptFileBlocks", &request.path)?;
    let after: usize = request.cookie.and_then(|cookie| cookie.parse().ok()).unwrap_or(0);
    let its_core = Arc::clone(core);
    let found =
        core.walk_patiently(session, move || fsck::corrupt_files(&its_core, &below, after, CORRUPT_COUNT_MAX)).await?;
    let cookie = (after + found.len()).to_string();
    let mut files: Vec<String> = found.into_iter().map(|(_, path)| path).collect();
    files.dedup();
    Ok(ListCorruptFileBlocksResponseProto { corrupt: CorruptFileBlocksProto { files, cookie } })
}
pub(super) async fn list_open_files(
    core: &Core,
    _session: &Session,
    request: ListOpenFilesRequestProto,
) -> Result<ListOpenFilesResponseProto, Exception> {
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
        let (files, next) = core.rows(move |rows| read::open_files(rows, after, OPEN_FILE_COUNT_MAX)).await?;
        let files = files.into_iter().filter(|file| is_wanted(&file.path));
        entries.extend(files.map(|file| OpenFilesBatchResponseProto {
            id: file.holder.file.0 as i64,
            path: file.path,
            client_name: namespace::client_of(&file.holder.holder).to_owned(),
            client_machine: file.holder.client_host,
        }));
        from = next;
    }
    Ok(ListOpenFilesResponseProto { entries, has_more: from.is_some(), types: request.types })
}
