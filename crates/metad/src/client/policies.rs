//! Storage policies: there is one, HOT. Setting it changes nothing.

use crate::core::{Core, find_path};
use crate::session::Session;
use hdfs::Exception;
use hdfs::exception::{FILE_NOT_FOUND, HADOOP_ILLEGAL_ARGUMENT};
use hdfs::proto::*;
use namespace::{Access, read};
use types::FsPath;

/// HDFS's number and name of the policy that keeps all replicas on ordinary disks.
pub(super) const HOT: u32 = 7;
const HOT_NAME: &str = "HOT";

fn hot() -> BlockStoragePolicyProto {
    let types = |types: &[StorageTypeProto]| StorageTypesProto {
        storage_types: types.iter().map(|kind| *kind as i32).collect(),
    };
    BlockStoragePolicyProto {
        policy_id: HOT,
        name: HOT_NAME.into(),
        creation_policy: types(&[StorageTypeProto::Disk]),
        creation_fallback_policy: Some(types(&[])),
        replication_fallback_policy: Some(types(&[StorageTypeProto::Archive])),
    }
}

/// The path, if something stands there.
async fn existing(core: &Core, session: &Session, call: &str, text: &str) -> Result<FsPath, Exception> {
    let absent = || Exception::new(FILE_NOT_FOUND, format!("File/Directory does not exist: {text}"));
    let path = find_path(call, text)?.ok_or_else(absent)?;
    let (caller, its_path) = (session.caller.clone(), path.clone());
    match core.read(move |rows| read::status(rows, &caller, &its_path)).await? {
        Some(_) => Ok(path),
        None => Err(absent()),
    }
}

async fn may_change(core: &Core, session: &Session, path: &FsPath) -> Result<(), Exception> {
    let (caller, path) = (session.caller.clone(), path.clone());
    core.read(move |rows| read::check_access(rows, &caller, &path, Access::WRITE)).await
}

pub(super) async fn get_storage_policies(
    _core: &Core,
    _session: &Session,
    _request: GetStoragePoliciesRequestProto,
) -> Result<GetStoragePoliciesResponseProto, Exception> {
    Ok(GetStoragePoliciesResponseProto { policies: vec![hot()] })
}

pub(super) async fn get_storage_policy(
    core: &Core,
    session: &Session,
    request: GetStoragePolicyRequestProto,
) -> Result<GetStoragePolicyResponseProto, Exception> {
    existing(core, session, "getStoragePolicy", &request.path).await?;
    Ok(GetStoragePolicyResponseProto { storage_policy: hot() })
}

pub(super) async fn set_storage_policy(
    core: &Core,
    session: &Session,
    request: SetStoragePolicyRequestProto,
) -> Result<SetStoragePolicyResponseProto, Exception> {
    core.must_be_changeable(|| format!("Cannot set storage policy for {}", request.src))?;
    let path = existing(core, session, "setStoragePolicy", &request.src).await?;
    may_change(core, session, &path).await?;
    if !request.policy_name.eq_ignore_ascii_case(HOT_NAME) {
        let message = format!("Cannot find a block policy with the name {}", request.policy_name);
        return Err(Exception::new(HADOOP_ILLEGAL_ARGUMENT, message));
    }
    Ok(SetStoragePolicyResponseProto {})
}

pub(super) async fn unset_storage_policy(
    core: &Core,
    session: &Session,
    request: UnsetStoragePolicyRequestProto,
) -> Result<UnsetStoragePolicyResponseProto, Exception> {
    core.must_be_changeable(|| format!("Cannot unset storage policy for {}", request.src))?;
    let path = existing(core, session, "unsetStoragePolicy", &request.src).await?;
    may_change(core, session, &path).await?;
    Ok(UnsetStoragePolicyResponseProto {})
}

/// All replicas are where the one policy wants them.
pub(super) async fn satisfy_storage_policy(
    core: &Core,
    session: &Session,
    request: SatisfyStoragePolicyRequestProto,
) -> Result<SatisfyStoragePolicyResponseProto, Exception> {
    core.must_be_changeable(|| format!("Cannot satisfy storage policy for {}", request.src))?;
    let path = existing(core, session, "satisfyStoragePolicy", &request.src).await?;
    may_change(core, session, &path).await?;
    Ok(SatisfyStoragePolicyResponseProto {})
}
