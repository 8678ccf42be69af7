//! HDFS's ClientProtocol: one method a function, grouped by what they do.

mod absent;
mod attributes;
mod batched;
mod changing;
mod claimed;
mod leases;
mod meta_save;
#[cfg(test)]
mod page;
mod policies;
mod quotas;
mod reading;
mod reports;
mod safe_mode;
mod stats;
mod tokens;
mod upkeep;
mod writing;

pub(crate) use safe_mode::wanted as wanted_safe_mode;
pub(crate) use writing::{plan_block, silent_holder, wait_for};

use crate::audit;
use crate::caller::Session;
use crate::core::Core;
use bytes::Bytes;
use hdfs::Exception;
use hdfs::proto::*;
use prost::Message;
use std::sync::Arc;

/// What a method returns: a message, or the bytes of one that it has encoded elsewhere.
trait Answer {
    fn into_bytes(self) -> Bytes;
}

impl<M: Message> Answer for M {
    fn into_bytes(self) -> Bytes {
        self.encode_to_vec().into()
    }
}

#[derive(Debug)]
struct Encoded(Bytes);

impl Answer for Encoded {
    fn into_bytes(self) -> Bytes {
        self.0
    }
}

/// Each line: the method's name on the wire, who runs it, its request, and which fields of that are paths (for the
/// audit log).
macro_rules! methods {
    ($($name:literal => $module:ident::$function:ident($request:ty $(; $($path:ident),+)?);)*) => {
        #[cfg(test)]
        const METHODS: &[&str] = &[$($name),*];

        /// Runs one method. Of what we do not have, calls on which clients fall back are refused in the words for that.
        pub(crate) async fn call(
            core: &Arc<Core>,
            session: &Session,
            method: &str,
            body: Bytes,
        ) -> Result<Bytes, Exception> {
            match method {
                // Each future is boxed: together they would make every call as large as the largest.
                $($name => Box::pin(async {
                    let decoded = <$request>::decode(body);
                    let request = decoded.map_err(|error| Exception::malformed_request($name, error))?;
                    let entry = audit::Entry::begin(core, session, $name, &[$($(&request.$path),+)?]);
                    let answer = $module::$function(core, session, request).await;
                    entry.end(core, &answer);
                    answer.map(Answer::into_bytes)
                }).await,)*
                _ => Err(absent::refusal(method)),
            }
        }
    };
}

methods! {
    "getFileInfo" => reading::get_file_info(GetFileInfoRequestProto; src);
    "getFileLinkInfo" => reading::get_file_link_info(GetFileLinkInfoRequestProto; src);
    "getLocatedFileInfo" => reading::get_located_file_info(GetLocatedFileInfoRequestProto);
    "getBatchedListing" => batched::get_batched_listing(GetBatchedListingRequestProto);
    "getListing" => reading::get_listing(GetListingRequestProto; src);
    "getBlockLocations" => reading::get_block_locations(GetBlockLocationsRequestProto; src);
    "getContentSummary" => reading::get_content_summary(GetContentSummaryRequestProto; path);
    "getPreferredBlockSize" => reading::get_preferred_block_size(GetPreferredBlockSizeRequestProto; filename);
    "isFileClosed" => reading::is_file_closed(IsFileClosedRequestProto; src);
    "checkAccess" => reading::check_access(CheckAccessRequestProto; path);

    "mkdirs" => changing::mkdirs(MkdirsRequestProto; src);
    "delete" => changing::delete(DeleteRequestProto; src);
    "rename" => changing::rename(RenameRequestProto; src, dst);
    "rename2" => changing::rename2(Rename2RequestProto; src, dst);
    "concat" => changing::concat(ConcatRequestProto; trg);
    "setPermission" => changing::set_permission(SetPermissionRequestProto; src);
    "setOwner" => changing::set_owner(SetOwnerRequestProto; src);
    "setTimes" => changing::set_times(SetTimesRequestProto; src);
    "setReplication" => changing::set_replication(SetReplicationRequestProto; src);

    "truncate" => writing::truncate(TruncateRequestProto; src);
    "setQuota" => quotas::set_quota(SetQuotaRequestProto; path);
    "getQuotaUsage" => quotas::get_quota_usage(GetQuotaUsageRequestProto; path);

    "create" => writing::create(CreateRequestProto; src);
    "append" => writing::append(AppendRequestProto; src);
    "addBlock" => writing::add_block(AddBlockRequestProto; src);
    "abandonBlock" => writing::abandon_block(AbandonBlockRequestProto; src);
    "getAdditionalDatanode" => writing::get_additional_datanode(GetAdditionalDatanodeRequestProto; src);
    "updateBlockForPipeline" => writing::update_block_for_pipeline(UpdateBlockForPipelineRequestProto);
    "updatePipeline" => writing::update_pipeline(UpdatePipelineRequestProto);
    "complete" => writing::complete(CompleteRequestProto; src);
    "fsync" => writing::fsync(FsyncRequestProto; src);

    "renewLease" => leases::renew_lease(RenewLeaseRequestProto);
    "recoverLease" => leases::recover_lease(RecoverLeaseRequestProto; src);

    "getServerDefaults" => stats::get_server_defaults(GetServerDefaultsRequestProto);
    "getFsStats" => stats::get_fs_stats(GetFsStatusRequestProto);
    "getDatanodeReport" => stats::get_datanode_report(GetDatanodeReportRequestProto);
    "setSafeMode" => safe_mode::set_safe_mode(SetSafeModeRequestProto);
    "reportBadBlocks" => stats::report_bad_blocks(ReportBadBlocksRequestProto);
    "getHAServiceState" => stats::get_ha_service_state(HaServiceStateRequestProto);
    "msync" => stats::msync(MsyncRequestProto);

    "getAclStatus" => attributes::get_acl_status(GetAclStatusRequestProto; src);
    "setAcl" => attributes::set_acl(SetAclRequestProto; src);
    "modifyAclEntries" => attributes::modify_acl_entries(ModifyAclEntriesRequestProto; src);
    "removeAclEntries" => attributes::remove_acl_entries(RemoveAclEntriesRequestProto; src);
    "removeDefaultAcl" => attributes::remove_default_acl(RemoveDefaultAclRequestProto; src);
    "removeAcl" => attributes::remove_acl(RemoveAclRequestProto; src);
    "setXAttr" => attributes::set_xattr(SetXAttrRequestProto; src);
    "getXAttrs" => attributes::get_xattrs(GetXAttrsRequestProto; src);
    "listXAttrs" => attributes::list_xattrs(ListXAttrsRequestProto; src);
    "removeXAttr" => attributes::remove_xattr(RemoveXAttrRequestProto; src);

    "getDatanodeStorageReport" => reports::get_datanode_storage_report(GetDatanodeStorageReportRequestProto);
    "getSlowDatanodeReport" => reports::get_slow_datanode_report(GetSlowDatanodeReportRequestProto);
    "getFsReplicatedBlockStats" => reports::get_replicated_block_stats(GetFsReplicatedBlockStatsRequestProto);
    "getFsECBlockGroupStats" => reports::get_ec_block_group_stats(GetFsEcBlockGroupStatsRequestProto);
    "listCorruptFileBlocks" => reports::list_corrupt_file_blocks(ListCorruptFileBlocksRequestProto; path);
    "listOpenFiles" => reports::list_open_files(ListOpenFilesRequestProto);

    "getStoragePolicies" => policies::get_storage_policies(GetStoragePoliciesRequestProto);
    "getStoragePolicy" => policies::get_storage_policy(GetStoragePolicyRequestProto; path);
    "setStoragePolicy" => policies::set_storage_policy(SetStoragePolicyRequestProto; src);
    "unsetStoragePolicy" => policies::unset_storage_policy(UnsetStoragePolicyRequestProto; src);
    "satisfyStoragePolicy" => policies::satisfy_storage_policy(SatisfyStoragePolicyRequestProto; src);

    "getErasureCodingPolicy" => absent::get_erasure_coding_policy(GetErasureCodingPolicyRequestProto; src);
    "getErasureCodingPolicies" => absent::get_erasure_coding_policies(GetErasureCodingPoliciesRequestProto);
    "getErasureCodingCodecs" => absent::get_erasure_coding_codecs(GetErasureCodingCodecsRequestProto);
    "getECTopologyResultForPolicies" => absent::get_ec_topology(GetEcTopologyResultForPoliciesRequestProto);
    "setErasureCodingPolicy" => absent::set_erasure_coding_policy(SetErasureCodingPolicyRequestProto; src);
    "unsetErasureCodingPolicy" => absent::unset_erasure_coding_policy(UnsetErasureCodingPolicyRequestProto; src);
    "enableErasureCodingPolicy" => absent::change_erasure_coding_policy(EnableErasureCodingPolicyRequestProto);
    "disableErasureCodingPolicy" => absent::change_erasure_coding_policy(EnableErasureCodingPolicyRequestProto);
    "removeErasureCodingPolicy" => absent::change_erasure_coding_policy(EnableErasureCodingPolicyRequestProto);
    "getEZForPath" => absent::get_ez_for_path(GetEzForPathRequestProto; src);
    "listEncryptionZones" => absent::list_encryption_zones(ListEncryptionZonesRequestProto);
    "allowSnapshot" => absent::allow_snapshot(AllowSnapshotRequestProto; snapshot_root);
    "disallowSnapshot" => absent::allow_snapshot(AllowSnapshotRequestProto; snapshot_root);
    "createSnapshot" => absent::create_snapshot(CreateSnapshotRequestProto; snapshot_root);
    "deleteSnapshot" => absent::delete_snapshot(DeleteSnapshotRequestProto; snapshot_root);
    "renameSnapshot" => absent::rename_snapshot(RenameSnapshotRequestProto; snapshot_root);
    "getSnapshottableDirListing" => absent::get_snapshottable_dir_listing(GetSnapshottableDirListingRequestProto);
    "getSnapshotListing" => absent::get_snapshot_listing(GetSnapshotListingRequestProto; snapshot_root);
    "getSnapshotDiffReport" => absent::get_snapshot_diff_report(GetSnapshotListingRequestProto; snapshot_root);
    "listCachePools" => absent::list_cache_pools(ListCachePoolsRequestProto);
    "listCacheDirectives" => absent::list_cache_directives(ListCacheDirectivesRequestProto);
    "createSymlink" => absent::create_symlink(CreateSymlinkRequestProto; link, target);
    "getLinkTarget" => absent::get_link_target(GetLinkTargetRequestProto; path);
    "getEnclosingRoot" => absent::get_enclosing_root(GetEnclosingRootRequestProto);

    "getDelegationToken" => tokens::get_delegation_token(GetDelegationTokenRequestProto);
    "renewDelegationToken" => tokens::renew_delegation_token(RenewDelegationTokenRequestProto);
    "cancelDelegationToken" => tokens::cancel_delegation_token(CancelDelegationTokenRequestProto);
    "getDataEncryptionKey" => tokens::get_data_encryption_key(GetDataEncryptionKeyRequestProto);

    "refreshNodes" => upkeep::refresh_nodes(RefreshNodesRequestProto);
    "saveNamespace" => upkeep::save_namespace(SaveNamespaceRequestProto);
    "finalizeUpgrade" => upkeep::finalize_upgrade(FinalizeUpgradeRequestProto);
    "upgradeStatus" => upkeep::upgrade_status(UpgradeStatusRequestProto);
    "rollingUpgrade" => upkeep::rolling_upgrade(RollingUpgradeRequestProto);
    "setBalancerBandwidth" => upkeep::set_balancer_bandwidth(SetBalancerBandwidthRequestProto);
    "restoreFailedStorage" => upkeep::restore_failed_storage(RestoreFailedStorageRequestProto);
    "metaSave" => meta_save::meta_save(MetaSaveRequestProto);
}
