//! What an administrator may ask for: nodes are emptied, everything is read, containers are spread anew.

use super::{Answer, Metad, Refused};
use blocks::Service;
use hdfs::proto::*;
use metad::{BackupHeader, BackupWriter};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::rc::Rc;
use types::rows::Table;
use types::{FsPath, NodeId};
use wire::admin::backup::{self, FoundBlock};
use wire::admin::placement::PageRequest;
use wire::admin::{ADMIN_PROTOCOL, ADMIN_VERSION, datanodes, jobs};

/// A limit that is lifted.
const NO_LIMIT: u64 = u64::MAX;

/// Rows that stay as they are in safe mode.
pub(crate) type FrozenRows = BTreeMap<(Table, Vec<u8>), Vec<u8>>;

impl Metad {
    async fn admin<A: super::Answered>(&self, method: &str, request: impl prost::Message) -> Answer<A> {
        self.ask_in(ADMIN_PROTOCOL, ADMIN_VERSION, method, None, request).await
    }

    pub(crate) async fn set_service(self: Rc<Self>, node: NodeId, service: Service) -> Answer<()> {
        let request = datanodes::DrainRequest { datanode: node.to_string(), drain: service == Service::Draining };
        self.admin::<datanodes::DrainResponse>(datanodes::DRAIN, request).await.map(|_| ())
    }

    /// A node may be away for so long; 0: not any more.
    pub(crate) async fn maintain(self: Rc<Self>, node: NodeId, for_ms: u64) -> Answer<()> {
        let request = datanodes::MaintenanceRequest { datanode: node.to_string(), for_ms };
        self.admin::<datanodes::MaintenanceResponse>(datanodes::MAINTENANCE, request).await.map(|_| ())
    }

    async fn safe_mode(&self, action: SafeModeActionProto) -> Answer<()> {
        let request = SetSafeModeRequestProto { action: action.into(), checked: None };
        self.ask::<SetSafeModeResponseProto>("setSafeMode", None, request).await.map(|_| ())
    }

    /// What clients can change, as it is when safe mode is on.
    pub(crate) async fn enter_safe_mode(self: Rc<Self>) -> Answer<FrozenRows> {
        self.safe_mode(SafeModeActionProto::SafemodeEnter).await?;
        Ok(self.frozen_rows())
    }

    /// The same at a later time.
    pub(crate) async fn see_frozen(self: Rc<Self>) -> Answer<FrozenRows> {
        // Whether safe mode is on one that stands by says too, and its rows may be old.
        Rc::clone(&self).status(FsPath::root()).await?;
        Ok(self.frozen_rows())
    }

    pub(crate) async fn leave_safe_mode(self: Rc<Self>) -> Answer<()> {
        self.safe_mode(SafeModeActionProto::SafemodeLeave).await
    }

    /// All of the namespace but what safe mode itself, its own retries and repair change.
    fn frozen_rows(&self) -> FrozenRows {
        use namespace::tables::{ALL, RETRY, RETRY_EXPIRY, SAFE_MODE, VISITOR};
        let may_change = [RETRY, RETRY_EXPIRY, VISITOR, SAFE_MODE];
        let rows = self.all_rows();
        let frozen = rows.iter().filter(|(table, ..)| ALL.contains(table) && !may_change.contains(table));
        frozen.map(|(table, key, value)| ((table, key.to_vec()), value.to_vec())).collect()
    }

    /// Whether others have all that a node had that was to be emptied.
    pub(crate) async fn is_drained(self: Rc<Self>, node: NodeId) -> Answer<bool> {
        let answer: datanodes::ListDatanodesResponse =
            self.admin(datanodes::LIST_DATANODES, datanodes::ListDatanodesRequest {}).await?;
        let its = answer.datanodes.iter().find(|datanode| datanode.id == node.to_string());
        Ok(its.is_some_and(|datanode| datanode.drained))
    }

    /// What is said of the node's drain, if it has ended well and the node was not asked to serve since.
    pub(crate) async fn drained_note(self: Rc<Self>, node: NodeId) -> Answer<Option<String>> {
        let answer: jobs::ListJobsResponse = self.admin(jobs::LIST_JOBS, jobs::ListJobsRequest {}).await?;
        let of_node = |job: &&jobs::Job| job.kind() == jobs::JobKind::Drain && job.subject == node.to_string();
        let last = answer.jobs.iter().filter(of_node).max_by_key(|job| job.id);
        Ok(last.filter(|job| job.state() == jobs::JobState::Done).map(|job| job.note.clone()))
    }

    /// `None`: no limit. A directory that is not there has none.
    pub(crate) async fn set_quota(self: Rc<Self>, path: FsPath, names: Option<u64>, space: Option<u64>) -> Answer<()> {
        let request = SetQuotaRequestProto {
            path: path.to_string(),
            namespace_quota: names.unwrap_or(NO_LIMIT),
            storagespace_quota: space.unwrap_or(NO_LIMIT),
            storage_type: None,
        };
        match self.ask::<SetQuotaResponseProto>("setQuota", None, request).await {
            Err(Refused::NotFound) => Ok(()),
            answer => answer.map(|_| ()),
        }
    }

    pub(crate) fn hears_all(&self) -> bool {
        let now = self.sim.now();
        self.see_cluster(|cluster| cluster.live_count(now)) == Some(self.world.plan.node_count)
    }

    /// False: one is under way.
    pub(crate) async fn begin_scrub(self: Rc<Self>) -> Answer<bool> {
        let request = jobs::BeginScrubRequest::default();
        match self.admin::<jobs::BegunResponse>(jobs::BEGIN_SCRUB, request).await {
            Ok(_) => Ok(true),
            Err(Refused::Standby) => Err(Refused::Standby),
            Err(refused) => {
                self.sim.say(|| format!("no scrub begins: {refused:?}"));
                Ok(false)
            }
        }
    }

    /// All nodes have read what they have, or are lost, and what they found damaged is replaced, where there was a good
    /// copy.
    pub(crate) async fn has_scrubbed(self: Rc<Self>) -> Answer<bool> {
        let answer: jobs::ListJobsResponse = self.admin(jobs::LIST_JOBS, jobs::ListJobsRequest {}).await?;
        let runs = |job: &jobs::Job| job.kind() == jobs::JobKind::Scrub && job.state() == jobs::JobState::Running;
        Ok(!answer.jobs.iter().any(runs))
    }

    /// All its rows, into a file.
    pub(crate) async fn back_up(self: Rc<Self>, path: PathBuf) -> Answer<()> {
        let begun: backup::BeginBackupResponse =
            self.admin(backup::BEGIN_BACKUP, backup::BeginBackupRequest {}).await?;
        let backup::BeginBackupResponse { id, pool, made_ms, entry, level } = begun;
        let header = BackupHeader { pool, made_ms, entry, level: level as u8, version: "simulated".to_owned() };
        let mut writer = BackupWriter::create(&path, &header).expect("a file in memory");
        for number in 0.. {
            let request = backup::BackupPieceRequest { id, number };
            let backup::BackupPieceResponse { piece } = self.admin(backup::BACKUP_PIECE, request).await?;
            if piece.is_empty() {
                break;
            }
            writer.piece(&piece).expect("a file in memory");
        }
        writer.finish().expect("a backup that was just written is whole");
        Ok(())
    }

    /// Blocks that datanodes have and restored rows do not know; and how many datanodes have not reported theirs.
    pub(crate) async fn found(self: Rc<Self>) -> Answer<(Vec<FoundBlock>, u64)> {
        let (mut all, mut after): (Vec<FoundBlock>, u64) = Default::default();
        loop {
            let page: backup::ListFoundResponse = self.admin(backup::LIST_FOUND, PageRequest { after }).await?;
            all.extend(page.blocks);
            after = all.last().map_or(0, |last| last.block);
            if !page.more {
                return Ok((all, page.unreported_count));
            }
        }
    }

    pub(crate) async fn recover_found(self: Rc<Self>, block: u64) -> Answer<FoundBlock> {
        let request = backup::RecoverFoundRequest { block, force: false };
        let answer: backup::RecoverFoundResponse = self.admin(backup::RECOVER_FOUND, request).await?;
        Ok(answer.block.expect("a found block that is recovered is shown"))
    }

    pub(crate) async fn release_found(self: Rc<Self>, count: u64) -> Answer<()> {
        let request = backup::ReleaseFoundRequest { count, force: false };
        self.admin::<backup::ReleaseFoundResponse>(backup::RELEASE_FOUND, request).await.map(|_| ())
    }

    pub(crate) async fn begin_balance(self: Rc<Self>) -> Answer<()> {
        let request = jobs::BeginBalanceRequest { within: 0, len_per_s: 0 };
        self.admin::<jobs::BegunResponse>(jobs::BEGIN_BALANCE, request).await.map(|_| ())
    }
}
