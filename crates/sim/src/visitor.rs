//! A visitor asks for whatever tools and programs ask for besides writing and reading files, and looks at some of the
//! answers: attributes, limits, reports, lists, checks of the file system.
//!
//! What it changes lies below a directory of its own, so that nobody else's expectations depend on it.

use crate::client::{Client, Result};
use crate::metad::Metad;
use crate::work::{self, Work};
use crate::world::World;
use hdfs::proto::*;
use hdfs::protocol;
use prost::Message;
use std::rc::Rc;
use std::time::Duration;
use types::FsPath;
use wire::admin::{ADMIN_PROTOCOL, jobs, meta, placement};

const HOME: &str = "/visit";
const PAUSE: Duration = Duration::from_secs(4);
const NAMES: usize = 3;
/// Pages of one list.
const PAGE_COUNT_MAX: usize = 20;

/// Until the clients are to end.
pub(crate) async fn visit_always(client: Rc<Client>, work: Rc<Work>) {
    let sim = client.sim.clone();
    let visitor = Visitor { client, work };
    while !visitor.work.stopping.get() {
        sim.sleep(sim.between(Duration::ZERO, PAUSE)).await;
        match sim.below(5) {
            0 => visitor.look().await,
            1 => visitor.ask_server().await,
            2 => visitor.ask_tools().await,
            3 => visitor.check().await,
            _ => visitor.change().await,
        }
    }
}

struct Visitor {
    client: Rc<Client>,
    work: Rc<Work>,
}

impl Visitor {
    async fn ask<A: Message + Default + 'static>(&self, method: &'static str, request: impl Message) -> Result<A> {
        self.ask_in(protocol::CLIENT, method, request).await
    }

    async fn ask_in<A: Message + Default + 'static>(
        &self,
        protocol: &'static str,
        method: &'static str,
        request: impl Message,
    ) -> Result<A> {
        let body: bytes::Bytes = request.encode_to_vec().into();
        let call = move |metad: Rc<Metad>, key| -> crate::executor::Boxed<crate::metad::Answer<bytes::Bytes>> {
            Box::pin(metad.visit(protocol, method, key, body.clone()))
        };
        let answer = self.client.call(call).await;
        answer.map(|bytes| A::decode(bytes).expect("a server's answer can be read"))
    }

    /// Whether the server answers at all is what counts.
    async fn try_in(&self, protocol: &'static str, method: &'static str, request: impl Message) {
        let _answer: Result<()> = self.ask_in(protocol, method, request).await;
    }

    async fn try_it(&self, method: &'static str, request: impl Message) {
        self.try_in(protocol::CLIENT, method, request).await;
    }

    fn any_own(&self) -> String {
        let sim = &self.client.sim;
        let (kind, number) = (["dir", "file"][sim.below(2)], sim.below(NAMES));
        format!("{HOME}/{kind}{number}")
    }

    fn any_path(&self) -> String {
        let (sim, known) = (&self.client.sim, work::any_path(&self.client, &self.work));
        match sim.below(8) {
            0 => "/".to_owned(),
            1 => "/files".to_owned(),
            2 => "/small".to_owned(),
            3 => format!("{HOME}/nothing"),
            4 | 5 => self.any_own(),
            _ => known.map_or(HOME.to_owned(), |path| path.to_string()),
        }
    }

    /// All that may be asked about a path.
    async fn look(&self) {
        let sim = &self.client.sim;
        let src = self.any_path();
        let path = || src.clone();
        self.try_it("getFileLinkInfo", GetFileLinkInfoRequestProto { src: path() }).await;
        let need_location = sim.one_in(2);
        let list = GetListingRequestProto { src: path(), need_location, ..Default::default() };
        self.try_it("getListing", list).await;
        let paths = vec![path(), self.any_path(), self.any_own()];
        let batch = GetBatchedListingRequestProto { paths, need_location, ..Default::default() };
        self.try_it("getBatchedListing", batch).await;
        let (offset, length) = (sim.below(300) as u64, sim.below(3000) as u64);
        self.try_it("getBlockLocations", GetBlockLocationsRequestProto { src: path(), offset, length }).await;
        self.try_it("getContentSummary", GetContentSummaryRequestProto { path: path() }).await;
        self.try_it("getPreferredBlockSize", GetPreferredBlockSizeRequestProto { filename: path() }).await;
        self.try_it("checkAccess", CheckAccessRequestProto { path: path(), mode: sim.below(8) as i32 }).await;
        self.try_it("getQuotaUsage", GetQuotaUsageRequestProto { path: path() }).await;
        self.try_it("getAclStatus", GetAclStatusRequestProto { src: path() }).await;
        self.try_it("getXAttrs", GetXAttrsRequestProto { src: path(), x_attrs: Vec::new() }).await;
        self.try_it("listXAttrs", ListXAttrsRequestProto { src: path() }).await;
        self.try_it("getStoragePolicy", GetStoragePolicyRequestProto { path: path() }).await;
        self.try_it("getEZForPath", GetEzForPathRequestProto { src: path() }).await;
        self.try_it("getErasureCodingPolicy", GetErasureCodingPolicyRequestProto { src: path() }).await;
        self.try_it("getEnclosingRoot", GetEnclosingRootRequestProto { filename: Some(path()) }).await;
        self.try_it("getLinkTarget", GetLinkTargetRequestProto { path: path() }).await;
        self.try_it("listCorruptFileBlocks", ListCorruptFileBlocksRequestProto { path: path(), cookie: None }).await;
    }

    /// All that may be asked about the store.
    async fn ask_server(&self) {
        self.try_it("getServerDefaults", GetServerDefaultsRequestProto {}).await;
        self.try_it("getFsStats", GetFsStatusRequestProto {}).await;
        for kind in 1..=6 {
            self.try_it("getDatanodeReport", GetDatanodeReportRequestProto { r#type: kind }).await;
            self.try_it("getDatanodeStorageReport", GetDatanodeStorageReportRequestProto { r#type: kind }).await;
        }
        self.try_it("getSlowDatanodeReport", GetSlowDatanodeReportRequestProto {}).await;
        self.try_it("getFsReplicatedBlockStats", GetFsReplicatedBlockStatsRequestProto {}).await;
        self.try_it("getFsECBlockGroupStats", GetFsEcBlockGroupStatsRequestProto {}).await;
        self.try_it("getStoragePolicies", GetStoragePoliciesRequestProto {}).await;
        self.try_it("getHAServiceState", HaServiceStateRequestProto {}).await;
        self.try_it("msync", MsyncRequestProto {}).await;
        let types = vec![OpenFilesTypeProto::AllOpenFiles as i32];
        let open = ListOpenFilesRequestProto { id: 0, types, path: Some("/".into()) };
        self.try_it("listOpenFiles", open).await;
        self.try_it("getErasureCodingPolicies", GetErasureCodingPoliciesRequestProto {}).await;
        self.try_it("getErasureCodingCodecs", GetErasureCodingCodecsRequestProto {}).await;
        self.try_it("getSnapshottableDirListing", GetSnapshottableDirListingRequestProto {}).await;
        self.try_it("listEncryptionZones", ListEncryptionZonesRequestProto { id: 0 }).await;
        self.try_it("upgradeStatus", UpgradeStatusRequestProto {}).await;
        self.try_it("rollingUpgrade", RollingUpgradeRequestProto { action: 1 }).await;
        self.try_it("finalizeUpgrade", FinalizeUpgradeRequestProto {}).await;
        self.try_it("refreshNodes", RefreshNodesRequestProto {}).await;
        self.try_it("saveNamespace", SaveNamespaceRequestProto::default()).await;
        self.try_it("setBalancerBandwidth", SetBalancerBandwidthRequestProto { bandwidth: 1 << 20 }).await;
        self.try_it("restoreFailedStorage", RestoreFailedStorageRequestProto { arg: "check".into() }).await;
        self.try_it("metaSave", MetaSaveRequestProto { filename: "saved".into() }).await;
        self.try_it("getDataEncryptionKey", GetDataEncryptionKeyRequestProto {}).await;
        self.try_it("getDelegationToken", GetDelegationTokenRequestProto { renewer: "root".into() }).await;
        let token = TokenProto::default();
        self.try_it("renewDelegationToken", RenewDelegationTokenRequestProto { token: token.clone() }).await;
        self.try_it("cancelDelegationToken", CancelDelegationTokenRequestProto { token }).await;
        self.try_it("noSuchMethod", MsyncRequestProto {}).await;
    }

    /// What administrators ask for by our own tools and HDFS's.
    async fn ask_tools(&self) {
        let sim = &self.client.sim;
        self.try_in(ADMIN_PROTOCOL, meta::LIST_MEMBERS, meta::ListMembersRequest {}).await;
        self.try_in(ADMIN_PROTOCOL, placement::UNDER_REPLICATED, placement::UnderReplicatedRequest {}).await;
        self.list_containers().await;
        let pipelines = placement::PageRequest::default();
        self.try_in(ADMIN_PROTOCOL, placement::LIST_PIPELINES, pipelines).await;
        self.try_in(ADMIN_PROTOCOL, jobs::LIST_JOBS, jobs::ListJobsRequest {}).await;
        let disks = jobs::BeginDiskBalanceRequest { len_per_s: 1 << 20, ..Default::default() };
        let begun: Result<jobs::BegunResponse> = self.ask_in(ADMIN_PROTOCOL, jobs::BEGIN_DISK_BALANCE, disks).await;
        if let Ok(begun) = begun {
            sim.sleep(sim.between(Duration::ZERO, PAUSE)).await;
            let stop = jobs::StopJobRequest { id: begun.job };
            self.try_in(ADMIN_PROTOCOL, jobs::STOP_JOB, stop).await;
        }
        self.try_in(ADMIN_PROTOCOL, "noSuchMethod", MsyncRequestProto {}).await;
        // Not getGroupsForUser: threads of the machine look users up, and come back when they like.
        let nothing = MsyncRequestProto {};
        for (protocol, method) in [
            (protocol::REFRESH_USER_MAPPINGS, "refreshUserToGroupsMappings"),
            (protocol::REFRESH_USER_MAPPINGS, "refreshSuperUserGroupsConfiguration"),
            (protocol::REFRESH_AUTHORIZATION_POLICY, "refreshServiceAcl"),
            (protocol::REFRESH_CALL_QUEUE, "refreshCallQueue"),
            (protocol::RECONFIGURATION, "listReconfigurableProperties"),
            (protocol::RECONFIGURATION, "getReconfigurationStatus"),
            (protocol::HA_SERVICE, "getServiceStatus"),
            (protocol::HA_SERVICE, "monitorHealth"),
            (protocol::HA_SERVICE, "transitionToObserver"),
            (protocol::NAMENODE, "versionRequest"),
            (wire::meter::METER_PROTOCOL, wire::meter::METER),
            ("org.example.NoProtocol", "noMethod"),
        ] {
            self.try_in(protocol, method, nothing).await;
        }
        let id = World::node_id(sim.below(self.client.world.plan.node_count));
        let datanode = DatanodeIdProto { datanode_uuid: id.to_string(), ..Default::default() };
        let blocks = GetBlocksRequestProto { datanode, size: 10_000, ..Default::default() };
        self.try_in(protocol::NAMENODE, "getBlocks", blocks).await;
    }

    /// Every container once, in order.
    async fn list_containers(&self) {
        let mut after = 0;
        for _ in 0..PAGE_COUNT_MAX {
            let page = placement::PageRequest { after };
            let listed = self.ask_in(ADMIN_PROTOCOL, placement::LIST_CONTAINERS, page).await;
            let Ok(placement::ListContainersResponse { containers, .. }) = listed else { return };
            let Some(last) = containers.last() else { return };
            if containers.iter().any(|container| container.id <= after) {
                self.client.world.fail(|| format!("a page of containers behind {after} begins before that"));
            }
            after = last.id;
        }
    }

    /// `hdfs fsck` of whoever leads, and its status as monitors read it.
    async fn check(&self) {
        let (sim, world) = (&self.client.sim, &self.client.world);
        for number in 0..world.plan.metad_count {
            if let Some(metad) = world.metad(number) {
                let status = metad.server.status();
                sim.say(|| {
                    format!("status of metad {number}: {} fields", status.as_object().map_or(0, |all| all.len()))
                });
            }
        }
        let Some(leader) = world.leader() else { return };
        let path = self.any_path();
        let all = [("ugi", "root"), ("path", path.as_str())];
        let queries: [&[(&str, &str)]; 4] = [
            &[all[0], all[1]],
            &[
                all[0],
                all[1],
                ("files", "1"),
                ("blocks", "1"),
                ("locations", "1"),
                ("racks", "1"),
                ("openforwrite", "1"),
            ],
            &[all[0], all[1], ("listcorruptfileblocks", "1")],
            &[all[0], all[1], ("blockId", "blk_1048577 blk_7")],
        ];
        let report = sim.timeout(PAUSE * 4, leader.fsck(queries[sim.below(queries.len())])).await.flatten();
        sim.say(|| format!("fsck of {path}: {} bytes", report.map_or(0, |report| report.len())));
    }

    /// Changes something below its directory, and asks for it.
    async fn change(&self) {
        let sim = &self.client.sim;
        let masked = FsPermissionProto { perm: 0o755 };
        let number = sim.below(NAMES);
        let (dir, file) = (format!("{HOME}/dir{number}"), format!("{HOME}/file{number}"));
        let mkdirs = MkdirsRequestProto { src: dir.clone(), masked, create_parent: true, unmasked: None };
        if self.ask::<MkdirsResponseProto>("mkdirs", mkdirs).await.is_err() {
            return;
        }
        let at = FsPath::parse(&file).expect("a sound path");
        let _put = self.client.put_small(&at, 0, 1 + sim.below(90), 2, false).await;
        let src = if sim.one_in(2) { dir.clone() } else { file.clone() };
        self.set_mode(&src).await;
        self.set_attribute(&src).await;
        self.set_acl(&src).await;
        let owner = SetOwnerRequestProto { src: src.clone(), username: Some("guest".into()), groupname: None };
        self.try_it("setOwner", owner).await;
        let times = SetTimesRequestProto { src: src.clone(), mtime: sim.below(1000) as u64, atime: 5 };
        self.try_it("setTimes", times).await;
        let policy_name = ["HOT", "COLD", "NONE"][sim.below(3)].to_owned();
        self.try_it("setStoragePolicy", SetStoragePolicyRequestProto { src: src.clone(), policy_name }).await;
        self.try_it("satisfyStoragePolicy", SatisfyStoragePolicyRequestProto { src: src.clone() }).await;
        self.try_it("unsetStoragePolicy", UnsetStoragePolicyRequestProto { src: src.clone() }).await;
        self.limit(&dir).await;
        self.refused(&src).await;
        match sim.below(4) {
            0 => self.concat(number).await,
            1 => {
                let dst = format!("{HOME}/file{}", (number + 1) % NAMES);
                self.try_it("rename", RenameRequestProto { src: file, dst }).await;
            }
            2 => {
                let recursive = sim.one_in(2);
                self.try_it("delete", DeleteRequestProto { src: dir, recursive }).await;
            }
            _ if self.doom(&file).await => {
                self.try_it("delete", DeleteRequestProto { src: file, ..Default::default() }).await;
            }
            _ => {}
        }
    }

    async fn set_mode(&self, src: &str) {
        let perm = [0o700, 0o755, 0o1777, 0o640][self.client.sim.below(4)];
        let permission = FsPermissionProto { perm };
        let set: Result<SetPermissionResponseProto> =
            self.ask("setPermission", SetPermissionRequestProto { src: src.to_owned(), permission }).await;
        let found = self.ask("getFileInfo", GetFileInfoRequestProto { src: src.to_owned() }).await;
        if let (Ok(_), Ok(GetFileInfoResponseProto { fs: Some(fs) })) = (set, found)
            && fs.permission.perm != perm
        {
            self.client.world.fail(|| format!("{src} has mode {:o}, not {perm:o}", fs.permission.perm));
        }
    }

    async fn set_attribute(&self, src: &str) {
        let sim = &self.client.sim;
        let value = bytes::Bytes::from(vec![sim.below(250) as u8; sim.below(20)]);
        let (namespace, name) = (XAttrNamespaceProto::User as i32, "mark".to_owned());
        let attribute = |value| XAttrProto { namespace, name: name.clone(), value };
        let (path, flag) = (src.to_owned(), Some(1 + sim.below(3) as u32));
        let set = SetXAttrRequestProto { src: path.clone(), x_attr: Some(attribute(Some(value.clone()))), flag };
        let set: Result<SetXAttrResponseProto> = self.ask("setXAttr", set).await;
        let get = GetXAttrsRequestProto { src: path.clone(), x_attrs: vec![attribute(None)] };
        let got: Result<GetXAttrsResponseProto> = self.ask("getXAttrs", get).await;
        if let (Ok(_), Ok(got)) = (set, got) {
            let here = got.x_attrs.first().and_then(|found| found.value.clone()).unwrap_or_default();
            if here != value {
                self.client.world.fail(|| format!("an attribute of {src} is {here:?}, not {value:?}"));
            }
        }
        if sim.one_in(3) {
            self.try_it("removeXAttr", RemoveXAttrRequestProto { src: path, x_attr: Some(attribute(None)) }).await;
        }
    }

    async fn set_acl(&self, src: &str) {
        let sim = &self.client.sim;
        let src = || src.to_owned();
        let entry = |kind, scope, permissions, name: Option<&str>| AclEntryProto {
            r#type: kind,
            scope,
            permissions,
            name: name.map(str::to_owned),
        };
        // Kinds: user, group, mask, other; scopes: access, default.
        let base = [(0, 7), (1, 5), (3, 4)];
        let mut whole: Vec<AclEntryProto> = base.map(|(kind, may)| entry(kind, 0, may, None)).to_vec();
        whole.push(entry(0, 0, 6, Some("guest")));
        if sim.one_in(2) {
            whole.extend(base.map(|(kind, may)| entry(kind, 1, may, None)));
        }
        self.try_it("setAcl", SetAclRequestProto { src: src(), acl_spec: whole }).await;
        let named = vec![entry(1, 0, 5, Some("staff")), entry(2, 0, 7, None)];
        self.try_it("modifyAclEntries", ModifyAclEntriesRequestProto { src: src(), acl_spec: named.clone() }).await;
        self.try_it("getAclStatus", GetAclStatusRequestProto { src: src() }).await;
        match sim.below(4) {
            0 => self.try_it("removeAclEntries", RemoveAclEntriesRequestProto { src: src(), acl_spec: named }).await,
            1 => self.try_it("removeDefaultAcl", RemoveDefaultAclRequestProto { src: src() }).await,
            2 => self.try_it("removeAcl", RemoveAclRequestProto { src: src() }).await,
            _ => {}
        }
    }

    async fn limit(&self, dir: &str) {
        let sim = &self.client.sim;
        let (names, space) = (20 + sim.below(40) as u64, 1 << 20);
        let path = || dir.to_owned();
        let set = SetQuotaRequestProto {
            path: path(),
            namespace_quota: names,
            storagespace_quota: space,
            storage_type: None,
        };
        let set: Result<SetQuotaResponseProto> = self.ask("setQuota", set).await;
        let found = self.ask("getQuotaUsage", GetQuotaUsageRequestProto { path: path() }).await;
        if let (Ok(_), Ok(GetQuotaUsageResponseProto { usage })) = (set, found)
            && usage.quota != names
        {
            self.client.world.fail(|| format!("{dir} may have {} names, not {names}", usage.quota));
        }
    }

    /// What this store does not have.
    async fn refused(&self, src: &str) {
        let path = || src.to_owned();
        self.try_it("allowSnapshot", AllowSnapshotRequestProto { snapshot_root: path() }).await;
        self.try_it("createSnapshot", CreateSnapshotRequestProto { snapshot_root: path(), snapshot_name: None }).await;
        let policy = SetErasureCodingPolicyRequestProto { src: path(), ec_policy_name: None };
        self.try_it("setErasureCodingPolicy", policy).await;
        let link = CreateSymlinkRequestProto { target: path(), link: format!("{HOME}/link"), ..Default::default() };
        self.try_it("createSymlink", link).await;
        self.try_it("getSnapshotListing", GetSnapshotListingRequestProto { snapshot_root: path() }).await;
    }

    /// One file takes over the blocks of another. What each is to hold is not known to the oracle then.
    async fn concat(&self, number: usize) {
        let (trg, source) = (format!("{HOME}/file{number}"), format!("{HOME}/file{}", (number + 1) % NAMES));
        if self.doom(&trg).await && self.doom(&source).await {
            self.try_it("concat", ConcatRequestProto { trg, srcs: vec![source] }).await;
        }
    }

    /// Nothing is promised of the file any more. False: nobody knows which file it is.
    async fn doom(&self, path: &str) -> bool {
        let at = FsPath::parse(path).expect("a sound path");
        let found = self.client.call(move |metad, _| Box::pin(metad.status(at.clone()))).await;
        let Ok(Some(status)) = found else { return false };
        self.client.world.oracle.borrow_mut().doom(status.id);
        true
    }
}
