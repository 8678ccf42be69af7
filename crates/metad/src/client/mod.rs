//! HDFS's ClientProtocol: one method a function, grouped by what they do.

mod changing;
mod leases;
mod reading;
mod stats;
mod writing;

pub(crate) use writing::{silent_holder, wait_for};

use crate::audit;
use crate::caller::Session;
use crate::core::Core;
use bytes::Bytes;
use hdfs::Exception;
use hdfs::proto::*;
use prost::Message;
use std::sync::Arc;

/// Each line: the method's name on the wire, who runs it, its request, and which fields of that are paths (for the audit log).
macro_rules! methods {
    ($($name:literal => $module:ident::$function:ident($request:ty $(; $($path:ident),+)?);)*) => {
        /// Runs one method. A method we do not have is refused in the words on which clients fall back.
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
                    answer.map(|answer| Bytes::from(answer.encode_to_vec()))
                }).await,)*
                _ => Err(Exception::no_such_method(method, hdfs::protocol::CLIENT)),
            }
        }
    };
}

methods! {
    "getFileInfo" => reading::get_file_info(GetFileInfoRequestProto; src);
    "getFileLinkInfo" => reading::get_file_link_info(GetFileLinkInfoRequestProto; src);
    "getLocatedFileInfo" => reading::get_located_file_info(GetLocatedFileInfoRequestProto);
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
    "setPermission" => changing::set_permission(SetPermissionRequestProto; src);
    "setOwner" => changing::set_owner(SetOwnerRequestProto; src);
    "setTimes" => changing::set_times(SetTimesRequestProto; src);
    "setReplication" => changing::set_replication(SetReplicationRequestProto; src);

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
    "setSafeMode" => stats::set_safe_mode(SetSafeModeRequestProto);
    "reportBadBlocks" => stats::report_bad_blocks(ReportBadBlocksRequestProto);
    "getHAServiceState" => stats::get_ha_service_state(HaServiceStateRequestProto);
    "msync" => stats::msync(MsyncRequestProto);
}
