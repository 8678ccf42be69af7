//! RPC: how a connection opens, the frames that follow, and every message that stands in one.

use bytes::{Bytes, BytesMut};
use hdfs::frame::{self, Call};
use hdfs::opening::{self, Opening};
use hdfs::proto::*;
use hdfs::{call_id, proto};
use prost::Message;
use security::sasl::rpc::{Offers, Server, Step};

/// Longest frame that is tried.
const FRAME_LEN_MAX: u32 = 1 << 20;

/// A connection as a server reads it, and as a client does.
pub(crate) fn rpc(bytes: &[u8]) {
    let opening = Opening::decode(bytes);
    if let Some(Opening::OtherVersion(version)) = opening {
        let _ = opening::version_mismatch(version);
    }
    let start = if matches!(opening, Some(Opening::Rpc { .. })) { Opening::LEN } else { 0 };
    let mut stream = BytesMut::from(&bytes[start..]);
    let mut exchange = Server::new(Offers { simple: true, ..Offers::default() }, [7; 24]);
    while let Ok(Some(frame)) = frame::split(&mut stream, FRAME_LEN_MAX) {
        let _ = frame::Answer::decode(frame.clone());
        request(frame, &mut exchange);
    }
}

fn request(mut frame: Bytes, exchange: &mut Server) {
    let Ok(header) = frame::take_message::<RpcRequestHeaderProto>(&mut frame, "header") else { return };
    let call = Call::of(&header);
    let answer = call.succeeded(0);
    assert!(frame::length(&answer, FRAME_LEN_MAX).is_ok());
    if let Err(exception) = frame::check_header(&header) {
        let mut refusal = BytesMut::from(&call.refused(&exception)[..]);
        let whole =
            frame::split(&mut refusal, FRAME_LEN_MAX + (1 << 10)).expect("our own length").expect("it is whole");
        assert_eq!(frame::Answer::decode(whole).expect("our own words").call_id(), header.call_id);
        return;
    }
    match header.call_id {
        call_id::SASL => {
            if let Ok(message) = frame::take_message::<RpcSaslProto>(&mut frame, "SASL") {
                match exchange.on_message(&message, |_| unreachable!("tokens are not offered")) {
                    Ok(Step::Simple { answer }) => assert!(answer.is_none_or(|answer| answer.encoded_len() < 100)),
                    Ok(step) => unreachable!("{step:?} where nothing is to be proven"),
                    Err(refused) => drop(call.refused(&refused.told)),
                }
            }
        }
        call_id::CONTEXT => drop(frame::take_message::<IpcConnectionContextProto>(&mut frame, "context")),
        call_id::PING => {}
        _ => {
            let Ok(called) = frame::take_message::<RequestHeaderProto>(&mut frame, "call") else { return };
            let Ok(body) = frame::take(&mut frame, "request") else { return };
            let _ = (called.method_name, body);
        }
    }
}

/// A message that is read is written again as the same. Bytes are compared: a number that is none equals not even
/// itself.
fn again<M: Message + Default>(bytes: &[u8]) {
    if let Ok(message) = M::decode(bytes) {
        let written = message.encode_to_vec();
        assert!(M::decode(written.as_slice()).is_ok_and(|again| again.encode_to_vec() == written));
    }
}

/// The first byte chooses the message.
macro_rules! one_of {
    ($bytes:expr, [$($message:ty),* $(,)?]) => {{
        const READERS: &[fn(&[u8])] = &[$(again::<$message>),*];
        if let [kind, rest @ ..] = $bytes {
            READERS[usize::from(*kind) % READERS.len()](rest);
        }
    }};
}

/// What HDFS's clients ask, with a choice of what they are answered.
#[rustfmt::skip]
pub(crate) fn hdfs_messages(bytes: &[u8]) {
    one_of!(bytes, [
        AbandonBlockRequestProto, AddBlockRequestProto, AllowSnapshotRequestProto, AppendRequestProto,
        CancelDelegationTokenRequestProto, CheckAccessRequestProto, CompleteRequestProto, ConcatRequestProto,
        CreateRequestProto, CreateSnapshotRequestProto, CreateSymlinkRequestProto, DeleteRequestProto,
        DeleteSnapshotRequestProto, EnableErasureCodingPolicyRequestProto, FinalizeUpgradeRequestProto,
        FsyncRequestProto, GetAclStatusRequestProto, GetAdditionalDatanodeRequestProto, GetBlockLocationsRequestProto,
        GetContentSummaryRequestProto, GetDataEncryptionKeyRequestProto, GetDatanodeReportRequestProto,
        GetDatanodeStorageReportRequestProto, GetDelegationTokenRequestProto,
        GetEcTopologyResultForPoliciesRequestProto, GetBatchedListingRequestProto,
        GetEnclosingRootRequestProto, GetErasureCodingCodecsRequestProto,
        GetErasureCodingPoliciesRequestProto, GetErasureCodingPolicyRequestProto, GetEzForPathRequestProto,
        GetFileInfoRequestProto, GetFileLinkInfoRequestProto, GetFsEcBlockGroupStatsRequestProto,
        GetFsReplicatedBlockStatsRequestProto, GetFsStatusRequestProto, GetGroupsForUserRequestProto,
        GetLinkTargetRequestProto, GetListingRequestProto, GetLocatedFileInfoRequestProto,
        GetPreferredBlockSizeRequestProto, GetQuotaUsageRequestProto, GetReplicaVisibleLengthRequestProto,
        GetServerDefaultsRequestProto, GetSlowDatanodeReportRequestProto, GetSnapshotListingRequestProto,
        GetSnapshottableDirListingRequestProto, GetStoragePoliciesRequestProto, GetStoragePolicyRequestProto,
        GetXAttrsRequestProto, HaServiceStateRequestProto, IsFileClosedRequestProto, ListCacheDirectivesRequestProto,
        ListCachePoolsRequestProto, ListCorruptFileBlocksRequestProto, ListEncryptionZonesRequestProto,
        ListOpenFilesRequestProto, ListXAttrsRequestProto, MetaSaveRequestProto, MkdirsRequestProto,
        ModifyAclEntriesRequestProto, MsyncRequestProto, RecoverLeaseRequestProto, RefreshNodesRequestProto,
        RefreshUserToGroupsMappingsRequestProto, RemoveAclEntriesRequestProto, RemoveAclRequestProto,
        RemoveDefaultAclRequestProto, RemoveXAttrRequestProto, Rename2RequestProto, RenameRequestProto,
        RenameSnapshotRequestProto, RenewDelegationTokenRequestProto, RenewLeaseRequestProto,
        ReportBadBlocksRequestProto, RestoreFailedStorageRequestProto, RollingUpgradeRequestProto,
        SatisfyStoragePolicyRequestProto, SaveNamespaceRequestProto, SetAclRequestProto,
        SetBalancerBandwidthRequestProto, SetErasureCodingPolicyRequestProto, SetOwnerRequestProto,
        SetPermissionRequestProto, SetQuotaRequestProto, SetReplicationRequestProto, SetSafeModeRequestProto,
        SetStoragePolicyRequestProto, SetTimesRequestProto, SetXAttrRequestProto, TruncateRequestProto,
        UnsetErasureCodingPolicyRequestProto, UnsetStoragePolicyRequestProto, UpdateBlockForPipelineRequestProto,
        UpdatePipelineRequestProto, UpgradeStatusRequestProto,
        proto::IpcConnectionContextProto, proto::RpcSaslProto, proto::LocatedBlocksProto, proto::DirectoryListingProto,
        proto::ContentSummaryProto, proto::BlockTokenSecretProto,
    ]);
}

type Reader = fn(&[u8]);

/// A reader of each message, by the message's path.
macro_rules! readers {
    ($($message:ty),* $(,)?) => { &[$((stringify!($message), again::<$message> as Reader)),*] };
}

/// What our own nodes and clients send each other.
const OWN: &[(&str, Reader)] = readers![
    wire::node::RegisterRequest,
    wire::node::RegisterResponse,
    wire::node::HeartbeatRequest,
    wire::node::Orders,
    wire::node::CatalogueRequest,
    wire::node::BeginRecoveryRequest,
    wire::node::BeginRecoveryResponse,
    wire::node::FinishRecoveryRequest,
    wire::node::FinishRecoveryResponse,
    wire::node::CompareRequest,
    wire::node::CompareResponse,
    wire::node::SourcesRequest,
    wire::node::SourcesResponse,
    wire::node::VerifyRequest,
    wire::node::VerifyResponse,
    wire::tree::TreeRequest,
    wire::tree::TreeResponse,
    wire::client::LeaseBlocksRequest,
    wire::client::LeaseBlocksResponse,
    wire::client::PutFileRequest,
    wire::client::PutFileResponse,
    wire::client::AddLeasedRequest,
    wire::client::AddLeasedResponse,
    wire::raft::MemberMessage,
    wire::admin::datanodes::ListDatanodesRequest,
    wire::admin::datanodes::ListDatanodesResponse,
    wire::admin::datanodes::DrainRequest,
    wire::admin::datanodes::MaintenanceRequest,
    wire::admin::datanodes::MaintenanceResponse,
    wire::admin::repair::HoldRepairRequest,
    wire::admin::repair::HoldRepairResponse,
    wire::admin::repair::RepairStatusRequest,
    wire::admin::repair::RepairStatusResponse,
    wire::admin::datanodes::DrainResponse,
    wire::joining::JoinRequest,
    wire::joining::RenewRequest,
    wire::joining::SignedResponse,
    wire::admin::joining::InviteRequest,
    wire::admin::joining::InviteResponse,
    wire::admin::joining::ListInvitationsRequest,
    wire::admin::joining::ListInvitationsResponse,
    wire::admin::joining::WithdrawRequest,
    wire::admin::joining::WithdrawResponse,
    wire::admin::joining::RevokeRequest,
    wire::admin::joining::RevokeResponse,
    wire::admin::log_level::LogLevelRequest,
    wire::admin::log_level::LogLevelResponse,
    wire::admin::jobs::ListJobsRequest,
    wire::admin::jobs::ListJobsResponse,
    wire::admin::jobs::StopJobRequest,
    wire::admin::jobs::StopJobResponse,
    wire::admin::jobs::BeginBalanceRequest,
    wire::admin::jobs::BeginDiskBalanceRequest,
    wire::admin::jobs::BeginScrubRequest,
    wire::admin::jobs::BegunResponse,
    wire::admin::meta::ListMembersRequest,
    wire::admin::meta::ListMembersResponse,
    wire::admin::meta::AddMemberRequest,
    wire::admin::meta::AddMemberResponse,
    wire::admin::meta::RemoveMemberRequest,
    wire::admin::meta::RemoveMemberResponse,
    wire::admin::backup::BeginBackupRequest,
    wire::admin::backup::BeginBackupResponse,
    wire::admin::backup::BackupPieceRequest,
    wire::admin::backup::BackupPieceResponse,
    wire::admin::backup::ListFoundResponse,
    wire::admin::backup::ReleaseFoundRequest,
    wire::admin::backup::ReleaseFoundResponse,
    wire::admin::examine::ExamineRequest,
    wire::admin::examine::ExamineResponse,
    wire::admin::placement::PageRequest,
    wire::admin::placement::ListPipelinesResponse,
    wire::admin::placement::ListContainersResponse,
    wire::admin::placement::UnderReplicatedRequest,
    wire::admin::placement::UnderReplicatedResponse,
    wire::client::ExplainFileRequest,
    wire::client::ExplainFileResponse,
    wire::client::KeepProfileRequest,
    wire::client::ProfileOfRequest,
    wire::client::ProfileOfResponse,
    wire::small::SmallWrite,
    wire::small::SmallAnswer,
    wire::ranges::ReadRanges,
    wire::layouts::ReadLayout,
    wire::layouts::LayoutAnswer,
    wire::meter::MeterRequest,
    wire::meter::MeterResponse,
];

/// The first byte chooses the message.
pub(crate) fn own_messages(bytes: &[u8]) {
    if let [kind, rest @ ..] = bytes {
        OWN[usize::from(*kind) % OWN.len()].1(rest);
    }
}

/// The byte that chooses the message of this name.
pub(crate) fn own_kind(name: &str) -> Option<u8> {
    let is_it = |(path, _): &(&str, Reader)| path.rsplit([':', ' ']).next() == Some(name);
    OWN.iter().position(is_it).map(|at| at as u8)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Requests and answers that the sources of `wire` declare.
    #[test]
    fn each_own_message_is_read() {
        let sources = [
            include_str!("../../wire/src/node.rs"),
            include_str!("../../wire/src/tree/mod.rs"),
            include_str!("../../wire/src/client.rs"),
            include_str!("../../wire/src/raft.rs"),
            include_str!("../../wire/src/meter.rs"),
            include_str!("../../wire/src/admin/datanodes.rs"),
            include_str!("../../wire/src/admin/jobs.rs"),
            include_str!("../../wire/src/admin/meta.rs"),
            include_str!("../../wire/src/admin/placement.rs"),
        ];
        let declared = sources.iter().flat_map(|source| source.lines()).filter_map(|line| {
            let name = line.strip_prefix("pub struct ")?.split([' ', '{']).next()?;
            (name.ends_with("Request") || name.ends_with("Response") || name == "Orders").then_some(name)
        });
        let missing: Vec<&str> = declared.filter(|name| own_kind(name).is_none()).collect();
        assert!(missing.is_empty(), "no reader of {missing:?}");
    }
}
