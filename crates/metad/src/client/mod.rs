//! HDFS's ClientProtocol: one function a method, grouped by subject.

mod absent;
mod attributes;
mod batched;
#[cfg(test)]
mod calls_page_tests;
mod changing;
mod leases;
mod length_claim;
mod listing;
mod meta_save;
mod policies;
mod quotas;
mod reading;
mod reports;
mod safe_mode;
mod standby;
mod stats;
mod tokens;
mod totals;
mod upkeep;
mod writing;

pub(crate) use writing::{plan_block, silent_holder, wait_for};

use crate::answer::handler;
use crate::method::{Audit, Method, Needs, Who, row};
use crate::named_paths::NamedPaths;
use hdfs::proto::*;

/// Each line has the method's name on the wire, its entry in the audit log, who may call it (default: users), and the
/// server that answers (default: the leader; otherwise what a standby answers). Then follow its function, its request,
/// which fields of that are paths, what names to the audit log what else it is about, and which of its calls change
/// nothing. At the end are HDFS's
/// features that Levada has not, which are refused with a message that ends with "not supported".
macro_rules! methods {
    ($($name:literal $audit:ident $($who:ident)? $(@ $standby:ident)? =>
        $module:ident::$function:ident($request:ty $(; $($path:ident),+)?)
        $(about $subject:ident)? $(unless $query:ident)?;)*
    absent: $($absent:literal $absent_audit:ident => $what:literal;)*) => {
        /// Rows of the door's table.
        pub(crate) const ROWS: &[Method] = &[
            $(Method {
                paths: |_call| paths!(_call, $request $(; $($path),+)?),
                subject: |_call| subject!(_call, $request $(, $module::$subject)?),
                is_query: |_call| is_query!(_call, $request $(, $module::$query)?),
                ..row(
                    $name,
                    who!($($who)?),
                    needs!($($standby)?),
                    Audit::$audit,
                    handler!(visit => {
                        $module::$function(visit.core(), visit.session(), visit.request::<$request>()?)
                    }),
                )
            },)*
            $(row(
                $absent,
                Who::User,
                Needs::Leader,
                Audit::$absent_audit,
                handler!(_visit => absent::refuse($what)),
            ),)*
        ];
    };
}

macro_rules! who {
    () => {
        Who::User
    };
    (administrator) => {
        Who::Administrator
    };
}

macro_rules! needs {
    () => {
        Needs::Leader
    };
    ($standby:ident) => {
        Needs::LeaderOr(handler!(visit => standby::$standby(visit)))
    };
}

macro_rules! paths {
    ($call:ident, $request:ty) => {
        Vec::new()
    };
    ($call:ident, $request:ty; $($path:ident),+) => {
        $call.request().map_or(Vec::new(), |request: $request| {
            let mut paths = Vec::new();
            $(request.$path.name(&mut paths);)+
            paths
        })
    };
}

macro_rules! subject {
    ($call:ident, $request:ty) => {
        None
    };
    ($call:ident, $request:ty, $subject:path) => {
        $call.request().ok().and_then(|request: $request| $subject(&request))
    };
}

macro_rules! is_query {
    ($call:ident, $request:ty) => {
        false
    };
    ($call:ident, $request:ty, $query:path) => {
        $call.request().is_ok_and(|request: $request| $query(&request))
    };
}

// Checked where they are carried out, since it depends on the request: who owns a file (setPermission, setOwner,
// setTimes, setAcl …), who may give one away (setOwner), rights on paths (`namespace::permission`), limits (setQuota:
// superusers), whether safe mode is queried or changed (setSafeMode), whose attributes are set (setXAttr: `trusted` is
// for superusers), changes through `/.reserved/raw` (superusers).
methods! {
    "getFileInfo" Read => reading::get_file_info(GetFileInfoRequestProto; src);
    "getFileLinkInfo" Read => reading::get_file_link_info(GetFileLinkInfoRequestProto; src);
    "getLocatedFileInfo" Read => reading::get_located_file_info(GetLocatedFileInfoRequestProto);
    "getBatchedListing" Read => batched::get_batched_listing(GetBatchedListingRequestProto; paths);
    "getListing" Read => listing::get_listing(GetListingRequestProto; src);
    "getBlockLocations" Read => reading::get_block_locations(GetBlockLocationsRequestProto; src);
    "getContentSummary" Read => reading::get_content_summary(GetContentSummaryRequestProto; path);
    "getPreferredBlockSize" Read => reading::get_preferred_block_size(GetPreferredBlockSizeRequestProto; filename);
    "isFileClosed" Read => reading::is_file_closed(IsFileClosedRequestProto; src);
    "checkAccess" Read => reading::check_access(CheckAccessRequestProto; path);

    "mkdirs" Change => changing::mkdirs(MkdirsRequestProto; src);
    "delete" Change => changing::delete(DeleteRequestProto; src);
    "rename" Change => changing::rename(RenameRequestProto; src, dst);
    "rename2" Change => changing::rename2(Rename2RequestProto; src, dst);
    "concat" Change => changing::concat(ConcatRequestProto; srcs, trg);
    "setPermission" Change => changing::set_permission(SetPermissionRequestProto; src);
    "setOwner" Change => changing::set_owner(SetOwnerRequestProto; src);
    "setTimes" Change => changing::set_times(SetTimesRequestProto; src);
    "setReplication" Change => changing::set_replication(SetReplicationRequestProto; src);

    "truncate" Change => writing::truncate(TruncateRequestProto; src);
    "setQuota" Change => quotas::set_quota(SetQuotaRequestProto; path);
    "getQuotaUsage" Read => quotas::get_quota_usage(GetQuotaUsageRequestProto; path);

    "create" Change => writing::create(CreateRequestProto; src);
    "append" Change => writing::append(AppendRequestProto; src);
    "addBlock" Change => writing::add_block(AddBlockRequestProto; src);
    "abandonBlock" Change => writing::abandon_block(AbandonBlockRequestProto; src);
    "getAdditionalDatanode" Never => writing::get_additional_datanode(GetAdditionalDatanodeRequestProto; src);
    "updateBlockForPipeline" Change => writing::update_block_for_pipeline(UpdateBlockForPipelineRequestProto);
    "updatePipeline" Change => writing::update_pipeline(UpdatePipelineRequestProto);
    "complete" Change => writing::complete(CompleteRequestProto; src);
    "fsync" Change => writing::fsync(FsyncRequestProto; src);

    "renewLease" Never => leases::renew_lease(RenewLeaseRequestProto);
    "recoverLease" Change => leases::recover_lease(RecoverLeaseRequestProto; src);

    "getServerDefaults" Never => stats::get_server_defaults(GetServerDefaultsRequestProto);
    "getFsStats" Never => stats::get_fs_stats(GetFsStatusRequestProto);
    "getDatanodeReport" Never => stats::get_datanode_report(GetDatanodeReportRequestProto);
    "setSafeMode" Change @ set_safe_mode =>
        safe_mode::set_safe_mode(SetSafeModeRequestProto) about action unless is_query;
    "reportBadBlocks" Change => stats::report_bad_blocks(ReportBadBlocksRequestProto);
    "getHAServiceState" Never @ get_ha_service_state => stats::get_ha_service_state(HaServiceStateRequestProto);
    "msync" Never => stats::msync(MsyncRequestProto);

    "getAclStatus" Read => attributes::get_acl_status(GetAclStatusRequestProto; src);
    "setAcl" Change => attributes::set_acl(SetAclRequestProto; src);
    "modifyAclEntries" Change => attributes::modify_acl_entries(ModifyAclEntriesRequestProto; src);
    "removeAclEntries" Change => attributes::remove_acl_entries(RemoveAclEntriesRequestProto; src);
    "removeDefaultAcl" Change => attributes::remove_default_acl(RemoveDefaultAclRequestProto; src);
    "removeAcl" Change => attributes::remove_acl(RemoveAclRequestProto; src);
    "setXAttr" Change => attributes::set_xattr(SetXAttrRequestProto; src);
    "getXAttrs" Read => attributes::get_xattrs(GetXAttrsRequestProto; src);
    "listXAttrs" Read => attributes::list_xattrs(ListXAttrsRequestProto; src);
    "removeXAttr" Change => attributes::remove_xattr(RemoveXAttrRequestProto; src);

    "getDatanodeStorageReport" Never => reports::get_datanode_storage_report(GetDatanodeStorageReportRequestProto);
    "getSlowDatanodeReport" Never => reports::get_slow_datanode_report(GetSlowDatanodeReportRequestProto);
    "getFsReplicatedBlockStats" Never => reports::get_replicated_block_stats(GetFsReplicatedBlockStatsRequestProto);
    "getFsECBlockGroupStats" Never => reports::get_ec_block_group_stats(GetFsEcBlockGroupStatsRequestProto);
    "listCorruptFileBlocks" Read administrator =>
        reports::list_corrupt_file_blocks(ListCorruptFileBlocksRequestProto; path);
    "listOpenFiles" Read administrator => reports::list_open_files(ListOpenFilesRequestProto);

    "getStoragePolicies" Never => policies::get_storage_policies(GetStoragePoliciesRequestProto);
    "getStoragePolicy" Read => policies::get_storage_policy(GetStoragePolicyRequestProto; path);
    "setStoragePolicy" Change => policies::set_storage_policy(SetStoragePolicyRequestProto; src);
    "unsetStoragePolicy" Change => policies::unset_storage_policy(UnsetStoragePolicyRequestProto; src);
    "satisfyStoragePolicy" Change => policies::satisfy_storage_policy(SatisfyStoragePolicyRequestProto; src);

    "getErasureCodingPolicy" Read => absent::get_erasure_coding_policy(GetErasureCodingPolicyRequestProto; src);
    "getErasureCodingPolicies" Never => absent::get_erasure_coding_policies(GetErasureCodingPoliciesRequestProto);
    "getErasureCodingCodecs" Never => absent::get_erasure_coding_codecs(GetErasureCodingCodecsRequestProto);
    "getECTopologyResultForPolicies" Read => absent::get_ec_topology(GetEcTopologyResultForPoliciesRequestProto);
    "setErasureCodingPolicy" Change => absent::set_erasure_coding_policy(SetErasureCodingPolicyRequestProto; src);
    "unsetErasureCodingPolicy" Change => absent::unset_erasure_coding_policy(UnsetErasureCodingPolicyRequestProto; src);
    "enableErasureCodingPolicy" Change => absent::change_erasure_coding_policy(EnableErasureCodingPolicyRequestProto);
    "disableErasureCodingPolicy" Change => absent::change_erasure_coding_policy(EnableErasureCodingPolicyRequestProto);
    "removeErasureCodingPolicy" Change => absent::change_erasure_coding_policy(EnableErasureCodingPolicyRequestProto);
    "getEZForPath" Read => absent::get_ez_for_path(GetEzForPathRequestProto; src);
    "listEncryptionZones" Read administrator => absent::list_encryption_zones(ListEncryptionZonesRequestProto);
    "allowSnapshot" Change administrator => absent::allow_snapshot(AllowSnapshotRequestProto; snapshot_root);
    "disallowSnapshot" Change administrator => absent::allow_snapshot(AllowSnapshotRequestProto; snapshot_root);
    "createSnapshot" Change => absent::create_snapshot(CreateSnapshotRequestProto; snapshot_root);
    "deleteSnapshot" Change => absent::delete_snapshot(DeleteSnapshotRequestProto; snapshot_root);
    "renameSnapshot" Change => absent::rename_snapshot(RenameSnapshotRequestProto; snapshot_root);
    "getSnapshottableDirListing" Read => absent::get_snapshottable_dir_listing(GetSnapshottableDirListingRequestProto);
    "getSnapshotListing" Read => absent::get_snapshot_listing(GetSnapshotListingRequestProto; snapshot_root);
    "getSnapshotDiffReport" Read => absent::get_snapshot_diff_report(GetSnapshotListingRequestProto; snapshot_root);
    "listCachePools" Read => absent::list_cache_pools(ListCachePoolsRequestProto);
    "listCacheDirectives" Read => absent::list_cache_directives(ListCacheDirectivesRequestProto);
    "createSymlink" Change => absent::create_symlink(CreateSymlinkRequestProto; link, target);
    "getLinkTarget" Read => absent::get_link_target(GetLinkTargetRequestProto; path);
    "getEnclosingRoot" Read => absent::get_enclosing_root(GetEnclosingRootRequestProto);

    "getDelegationToken" Change => tokens::get_delegation_token(GetDelegationTokenRequestProto) about renewer;
    "renewDelegationToken" Change => tokens::renew_delegation_token(RenewDelegationTokenRequestProto) about renewed;
    "cancelDelegationToken" Change =>
        tokens::cancel_delegation_token(CancelDelegationTokenRequestProto) about cancelled;
    "getDataEncryptionKey" Never => tokens::get_data_encryption_key(GetDataEncryptionKeyRequestProto);

    "refreshNodes" Change administrator @ nothing_to_do => upkeep::refresh_nodes(RefreshNodesRequestProto);
    "saveNamespace" Change administrator => upkeep::save_namespace(SaveNamespaceRequestProto);
    "finalizeUpgrade" Change administrator @ nothing_to_do => upkeep::finalize_upgrade(FinalizeUpgradeRequestProto);
    "upgradeStatus" Never administrator => upkeep::upgrade_status(UpgradeStatusRequestProto);
    "rollingUpgrade" Change administrator => upkeep::rolling_upgrade(RollingUpgradeRequestProto);
    "setBalancerBandwidth" Change administrator => upkeep::set_balancer_bandwidth(SetBalancerBandwidthRequestProto);
    "restoreFailedStorage" Change administrator => upkeep::restore_failed_storage(RestoreFailedStorageRequestProto);
    "metaSave" Change administrator => meta_save::meta_save(MetaSaveRequestProto);

    // A method that is not here is unknown: clients fall back when `getSnapshotDiffReportListing` is. For these that
    // would read as if the versions did not fit.
    absent:
    "addErasureCodingPolicies" Change => "Erasure coding is";
    "createEncryptionZone" Change => "Encryption zones are";
    "reencryptEncryptionZone" Change => "Encryption zones are";
    "listReencryptionStatus" Read => "Encryption zones are";
    "addCacheDirective" Change => "Caching on datanodes by directives is";
    "modifyCacheDirective" Change => "Caching on datanodes by directives is";
    "removeCacheDirective" Change => "Caching on datanodes by directives is";
    "addCachePool" Change => "Caching on datanodes by directives is";
    "modifyCachePool" Change => "Caching on datanodes by directives is";
    "removeCachePool" Change => "Caching on datanodes by directives is";
    "rollEdits" Change => "Reading or rolling the log of changes is";
    "getCurrentEditLogTxid" Read => "Reading or rolling the log of changes is";
    "getEditsFromTxid" Read => "Reading or rolling the log of changes is";
}
