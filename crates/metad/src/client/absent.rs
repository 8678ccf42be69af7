//! HDFS's features that Levada does not have: erasure coding, encryption zones, snapshots, a cache, links. The answers
//! are those of an HDFS that does not use them, so tools that only ask continue.

use crate::answer::Encoded;
use crate::core::{Core, find_path, must_find};
use crate::refusal;
use crate::session::Session;
use hdfs::Exception;
use hdfs::exception::{FILE_NOT_FOUND, HADOOP_ILLEGAL_ARGUMENT, NO_EC_POLICY_SET, SNAPSHOT, UNSUPPORTED_OPERATION};
use hdfs::proto::*;
use namespace::{Kind, Status, read};

async fn status(core: &Core, session: &Session, call: &str, text: &str) -> Result<Option<Status>, Exception> {
    let Some(path) = find_path(call, text)? else { return Ok(None) };
    let caller = session.caller.clone();
    core.read(move |rows| read::status(rows, &caller, &path)).await
}

fn unsupported(what: &str) -> Exception {
    Exception::new(UNSUPPORTED_OPERATION, format!("{what} not supported"))
}

/// Of methods that have no message here.
pub(super) async fn refuse(what: &str) -> Result<Encoded, Exception> {
    Err(unsupported(what))
}

// ---- erasure coding

pub(super) async fn get_erasure_coding_policy(
    core: &Core,
    session: &Session,
    request: GetErasureCodingPolicyRequestProto,
) -> Result<GetErasureCodingPolicyResponseProto, Exception> {
    match status(core, session, "getErasureCodingPolicy", &request.src).await? {
        Some(_) => Ok(GetErasureCodingPolicyResponseProto { ec_policy: None }),
        None => Err(Exception::new(FILE_NOT_FOUND, format!("Path not found: {}", request.src))),
    }
}

pub(super) async fn get_erasure_coding_policies(
    _core: &Core,
    _session: &Session,
    _request: GetErasureCodingPoliciesRequestProto,
) -> Result<GetErasureCodingPoliciesResponseProto, Exception> {
    Ok(GetErasureCodingPoliciesResponseProto { ec_policies: Vec::new() })
}

pub(super) async fn get_erasure_coding_codecs(
    _core: &Core,
    _session: &Session,
    _request: GetErasureCodingCodecsRequestProto,
) -> Result<GetErasureCodingCodecsResponseProto, Exception> {
    Ok(GetErasureCodingCodecsResponseProto { codec: Vec::new() })
}

pub(super) async fn get_ec_topology(
    _core: &Core,
    _session: &Session,
    request: GetEcTopologyResultForPoliciesRequestProto,
) -> Result<GetEcTopologyResultForPoliciesResponseProto, Exception> {
    if let Some(name) = request.policies.first() {
        return Err(no_policy(name));
    }
    let result_message = "No erasure coding policy is given.".into();
    let response = EcTopologyVerifierResultProto { result_message, is_supported: true };
    Ok(GetEcTopologyResultForPoliciesResponseProto { response })
}

pub(super) fn no_policy(name: &str) -> Exception {
    let message = format!(
        "Policy '{name}' does not match any enabled erasure coding policies: []. There is no erasure coding here: \
         files are kept in whole replicas."
    );
    Exception::new(HADOOP_ILLEGAL_ARGUMENT, message)
}

pub(super) async fn set_erasure_coding_policy(
    _core: &Core,
    _session: &Session,
    request: SetErasureCodingPolicyRequestProto,
) -> Result<SetErasureCodingPolicyResponseProto, Exception> {
    Err(no_policy(request.ec_policy_name.as_deref().unwrap_or_default()))
}

pub(super) async fn unset_erasure_coding_policy(
    core: &Core,
    session: &Session,
    request: UnsetErasureCodingPolicyRequestProto,
) -> Result<UnsetErasureCodingPolicyResponseProto, Exception> {
    must_find("unsetErasureCodingPolicy", &request.src)?;
    if status(core, session, "unsetErasureCodingPolicy", &request.src).await?.is_none() {
        return Err(Exception::new(FILE_NOT_FOUND, format!("Path not found: {}", request.src)));
    }
    let message = format!("No erasure coding policy explicitly set on {}", request.src);
    Err(Exception::new(NO_EC_POLICY_SET, message))
}

pub(super) async fn change_erasure_coding_policy(
    _core: &Core,
    _session: &Session,
    request: EnableErasureCodingPolicyRequestProto,
) -> Result<EnableErasureCodingPolicyResponseProto, Exception> {
    let message = format!("The policy name {} does not exist", request.ec_policy_name);
    Err(Exception::new(HADOOP_ILLEGAL_ARGUMENT, message))
}

// ---- encryption zones

pub(super) async fn get_ez_for_path(
    core: &Core,
    session: &Session,
    request: GetEzForPathRequestProto,
) -> Result<GetEzForPathResponseProto, Exception> {
    // So that no caller learns of a path that it may not see.
    status(core, session, "getEZForPath", &request.src).await?;
    Ok(GetEzForPathResponseProto { zone: None })
}

pub(super) async fn list_encryption_zones(
    _core: &Core,
    _session: &Session,
    _request: ListEncryptionZonesRequestProto,
) -> Result<ListEncryptionZonesResponseProto, Exception> {
    Ok(ListEncryptionZonesResponseProto { zones: Vec::new(), has_more: false })
}

// ---- snapshots

async fn not_snapshottable(core: &Core, session: &Session, call: &str, root: &str) -> Exception {
    match status(core, session, call, root).await {
        Ok(Some(status)) if status.kind == Kind::Directory => {
            Exception::new(SNAPSHOT, format!("Directory is not a snapshottable directory: {root}"))
        }
        Ok(Some(_)) => refusal::path_is_not_directory(root),
        Ok(None) => Exception::new(FILE_NOT_FOUND, format!("Directory does not exist: {root}")),
        Err(refused) => refused,
    }
}

/// Also `disallowSnapshot`.
pub(super) async fn allow_snapshot(
    core: &Core,
    session: &Session,
    request: AllowSnapshotRequestProto,
) -> Result<AllowSnapshotResponseProto, Exception> {
    match status(core, session, "allowSnapshot", &request.snapshot_root).await? {
        Some(status) if status.kind == Kind::Directory => Err(unsupported("Snapshots are")),
        _ => Err(not_snapshottable(core, session, "allowSnapshot", &request.snapshot_root).await),
    }
}

pub(super) async fn create_snapshot(
    core: &Core,
    session: &Session,
    request: CreateSnapshotRequestProto,
) -> Result<CreateSnapshotResponseProto, Exception> {
    Err(not_snapshottable(core, session, "createSnapshot", &request.snapshot_root).await)
}

pub(super) async fn delete_snapshot(
    core: &Core,
    session: &Session,
    request: DeleteSnapshotRequestProto,
) -> Result<DeleteSnapshotResponseProto, Exception> {
    Err(not_snapshottable(core, session, "deleteSnapshot", &request.snapshot_root).await)
}

pub(super) async fn rename_snapshot(
    core: &Core,
    session: &Session,
    request: RenameSnapshotRequestProto,
) -> Result<RenameSnapshotResponseProto, Exception> {
    Err(not_snapshottable(core, session, "renameSnapshot", &request.snapshot_root).await)
}

pub(super) async fn get_snapshottable_dir_listing(
    _core: &Core,
    _session: &Session,
    _request: GetSnapshottableDirListingRequestProto,
) -> Result<GetSnapshottableDirListingResponseProto, Exception> {
    Ok(GetSnapshottableDirListingResponseProto { snapshottable_dir_list: None })
}

pub(super) async fn get_snapshot_listing(
    core: &Core,
    session: &Session,
    request: GetSnapshotListingRequestProto,
) -> Result<GetSnapshotListingResponseProto, Exception> {
    Err(not_snapshottable(core, session, "getSnapshotListing", &request.snapshot_root).await)
}

pub(super) async fn get_snapshot_diff_report(
    core: &Core,
    session: &Session,
    request: GetSnapshotListingRequestProto,
) -> Result<GetSnapshotListingResponseProto, Exception> {
    Err(not_snapshottable(core, session, "getSnapshotDiffReport", &request.snapshot_root).await)
}

// ---- the cache

pub(super) async fn list_cache_pools(
    _core: &Core,
    _session: &Session,
    _request: ListCachePoolsRequestProto,
) -> Result<ListCachePoolsResponseProto, Exception> {
    Ok(ListCachePoolsResponseProto { entries: Vec::new(), has_more: false })
}

pub(super) async fn list_cache_directives(
    _core: &Core,
    _session: &Session,
    _request: ListCacheDirectivesRequestProto,
) -> Result<ListCacheDirectivesResponseProto, Exception> {
    Ok(ListCacheDirectivesResponseProto { elements: Vec::new(), has_more: false })
}

// ---- links

pub(super) async fn create_symlink(
    _core: &Core,
    _session: &Session,
    _request: CreateSymlinkRequestProto,
) -> Result<CreateSymlinkResponseProto, Exception> {
    Err(unsupported("Symlinks"))
}

pub(super) async fn get_link_target(
    core: &Core,
    session: &Session,
    request: GetLinkTargetRequestProto,
) -> Result<GetLinkTargetResponseProto, Exception> {
    match status(core, session, "getLinkTarget", &request.path).await? {
        Some(_) => Err(Exception::io(format!("Path {} is not a symbolic link", request.path))),
        None => Err(Exception::new(FILE_NOT_FOUND, format!("File does not exist: {}", request.path))),
    }
}

/// Neither zones nor mounts part the tree.
pub(super) async fn get_enclosing_root(
    _core: &Core,
    _session: &Session,
    _request: GetEnclosingRootRequestProto,
) -> Result<GetEnclosingRootResponseProto, Exception> {
    Ok(GetEnclosingRootResponseProto { enclosing_root_path: Some("/".into()) })
}
