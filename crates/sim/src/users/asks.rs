//! What may be asked for, each as its method and message.

use crate::client::BLOCK_LEN;
use bytes::Bytes;
use hdfs::proto::*;
use prost::Message;

/// One call of HDFS's protocol for clients.
#[derive(Clone, Debug)]
pub(super) struct Ask {
    pub(super) method: &'static str,
    pub(super) body: Bytes,
}

/// A limit that stays as it is.
pub(super) const KEEP: u64 = i64::MAX as u64;
/// A limit that is lifted.
pub(super) const LIFT: u64 = u64::MAX;

pub(super) fn ask(method: &'static str, message: impl Message) -> Ask {
    Ask { method, body: message.encode_to_vec().into() }
}

fn mode(perm: u32) -> FsPermissionProto {
    FsPermissionProto { perm }
}

pub(super) fn mkdirs(src: &str, perm: u32) -> Ask {
    let create_parent = true;
    ask("mkdirs", MkdirsRequestProto { src: src.to_owned(), masked: mode(perm), create_parent, unmasked: None })
}

/// Without the directories above.
pub(super) fn mkdir(src: &str) -> Ask {
    let create_parent = false;
    ask("mkdirs", MkdirsRequestProto { src: src.to_owned(), masked: mode(0o755), create_parent, unmasked: None })
}

pub(super) fn creation(src: &str, holder: &str) -> CreateRequestProto {
    CreateRequestProto {
        src: src.to_owned(),
        masked: mode(0o644),
        client_name: holder.to_owned(),
        create_flag: CreateFlagProto::Create as u32,
        create_parent: false,
        replication: super::REPLICATION.into(),
        block_size: BLOCK_LEN as u64,
        ..CreateRequestProto::default()
    }
}

pub(super) fn create(src: &str, holder: &str) -> Ask {
    ask("create", creation(src, holder))
}

pub(super) fn complete(src: &str, holder: &str) -> Ask {
    let (src, client_name) = (src.to_owned(), holder.to_owned());
    ask("complete", CompleteRequestProto { src, client_name, last: None, file_id: None })
}

pub(super) fn append(src: &str, holder: &str) -> Ask {
    let flag = Some(CreateFlagProto::Append as u32);
    ask("append", AppendRequestProto { src: src.to_owned(), client_name: holder.to_owned(), flag })
}

pub(super) fn truncate(src: &str, holder: &str, new_length: u64) -> Ask {
    ask("truncate", TruncateRequestProto { src: src.to_owned(), new_length, client_name: holder.to_owned() })
}

pub(super) fn concat(target: &str, sources: &[&str]) -> Ask {
    let srcs = sources.iter().map(|source| (*source).to_owned()).collect();
    ask("concat", ConcatRequestProto { trg: target.to_owned(), srcs })
}

pub(super) fn recover_lease(src: &str) -> Ask {
    ask("recoverLease", RecoverLeaseRequestProto { src: src.to_owned(), client_name: "somebody".to_owned() })
}

pub(super) fn renew_lease(holder: &str) -> Ask {
    ask("renewLease", RenewLeaseRequestProto { client_name: holder.to_owned(), namespaces: Vec::new() })
}

pub(super) fn is_file_closed(src: &str) -> Ask {
    ask("isFileClosed", IsFileClosedRequestProto { src: src.to_owned() })
}

pub(super) fn delete(src: &str, recursive: bool) -> Ask {
    ask("delete", DeleteRequestProto { src: src.to_owned(), recursive })
}

pub(super) fn rename(src: &str, dst: &str) -> Ask {
    ask("rename", RenameRequestProto { src: src.to_owned(), dst: dst.to_owned() })
}

pub(super) fn rename2(src: &str, dst: &str, overwrite_dest: bool) -> Ask {
    let (src, dst) = (src.to_owned(), dst.to_owned());
    ask("rename2", Rename2RequestProto { src, dst, overwrite_dest, ..Rename2RequestProto::default() })
}

pub(super) fn to_trash(src: &str, dst: &str) -> Ask {
    let (src, dst) = (src.to_owned(), dst.to_owned());
    ask("rename2", Rename2RequestProto { src, dst, move_to_trash: Some(true), ..Rename2RequestProto::default() })
}

pub(super) fn get_file_info(src: &str) -> Ask {
    ask("getFileInfo", GetFileInfoRequestProto { src: src.to_owned() })
}

pub(super) fn get_block_locations(src: &str) -> Ask {
    ask("getBlockLocations", GetBlockLocationsRequestProto { src: src.to_owned(), offset: 0, length: 1000 })
}

pub(super) fn get_content_summary(path: &str) -> Ask {
    ask("getContentSummary", GetContentSummaryRequestProto { path: path.to_owned() })
}

pub(super) fn get_quota_usage(path: &str) -> Ask {
    ask("getQuotaUsage", GetQuotaUsageRequestProto { path: path.to_owned() })
}

/// What stands behind `after`.
pub(super) fn get_listing(src: &str, after: &str) -> Ask {
    let start_after = Bytes::copy_from_slice(after.as_bytes());
    ask("getListing", GetListingRequestProto { src: src.to_owned(), start_after, need_location: false })
}

pub(super) fn check_access(path: &str, wanted: u32) -> Ask {
    ask("checkAccess", CheckAccessRequestProto { path: path.to_owned(), mode: wanted as i32 })
}

pub(super) fn set_permission(src: &str, perm: u32) -> Ask {
    ask("setPermission", SetPermissionRequestProto { src: src.to_owned(), permission: mode(perm) })
}

pub(super) fn set_owner(src: &str, owner: Option<&str>, group: Option<&str>) -> Ask {
    let (username, groupname) = (owner.map(str::to_owned), group.map(str::to_owned));
    ask("setOwner", SetOwnerRequestProto { src: src.to_owned(), username, groupname })
}

pub(super) fn set_times(src: &str, mtime: u64, atime: u64) -> Ask {
    ask("setTimes", SetTimesRequestProto { src: src.to_owned(), mtime, atime })
}

pub(super) fn set_replication(src: &str, replication: u32) -> Ask {
    ask("setReplication", SetReplicationRequestProto { src: src.to_owned(), replication })
}

pub(super) fn set_quota(path: &str, namespace_quota: u64, storagespace_quota: u64) -> Ask {
    let path = path.to_owned();
    ask("setQuota", SetQuotaRequestProto { path, namespace_quota, storagespace_quota, storage_type: None })
}

/// On bytes of one type of storage, by HDFS's number.
pub(super) fn set_type_quota(path: &str, kind: i32, storagespace_quota: u64) -> Ask {
    let (path, namespace_quota) = (path.to_owned(), KEEP);
    ask("setQuota", SetQuotaRequestProto { path, namespace_quota, storagespace_quota, storage_type: Some(kind) })
}

pub(super) fn set_safe_mode(action: SafeModeActionProto) -> Ask {
    ask("setSafeMode", SetSafeModeRequestProto { action: action.into(), checked: None })
}
