//! Methods for quotas: limits on the content of a directory's tree.

use super::totals::totals;
use crate::core::{Core, must_find};
use crate::refusal;
use crate::session::Session;
use crate::to_hdfs::MINUS_ONE;
use hdfs::Exception;
use hdfs::exception::UNSUPPORTED_ACTION;
use hdfs::proto::*;
use namespace::read::{self, Quota};
use namespace::{QuotaChange, SetQuota, StorageType};
use std::sync::Arc;

/// Leaves a limit as it is: the greatest of Java's numbers.
const KEEP: u64 = i64::MAX as u64;
/// Lifts a limit; also the value that stands for none.
const NONE: u64 = MINUS_ONE;

fn change(number: u64) -> Option<QuotaChange> {
    match number {
        KEEP => Some(QuotaChange::Keep),
        NONE => Some(QuotaChange::Lift),
        0..KEEP => Some(QuotaChange::Set(number)),
        _ => None,
    }
}

pub(super) async fn set_quota(
    core: &Core,
    session: &Session,
    request: SetQuotaRequestProto,
) -> Result<SetQuotaResponseProto, Exception> {
    let path = must_find("setQuota", &request.path)?;
    let (Some(names), Some(space)) = (change(request.namespace_quota), change(request.storagespace_quota)) else {
        return Err(refusal::illegal(format!(
            "Illegal value for nsQuota or ssQuota : {} and {}",
            request.namespace_quota as i64, request.storagespace_quota as i64
        )));
    };
    let of_type = match request.storage_type {
        Some(number) => Some(
            StorageType::from_number(number)
                .ok_or_else(|| refusal::illegal(format!("{number} is no type of storage that is known here")))?,
        ),
        None => None,
    };
    if of_type.is_some() && names != QuotaChange::Keep {
        let message = "Failed to set quota by storage type because a limit on names was named with it";
        return Err(Exception::new(UNSUPPORTED_ACTION, message));
    }
    core.change(session, SetQuota { path, names, space, of_type }).await?;
    Ok(SetQuotaResponseProto {})
}

/// Of a directory without limits this is part of its content summary, with the rights which that needs.
pub(super) async fn get_quota_usage(
    core: &Arc<Core>,
    session: &Session,
    request: GetQuotaUsageRequestProto,
) -> Result<GetQuotaUsageResponseProto, Exception> {
    let path = must_find("getQuotaUsage", &request.path)?;
    let (caller, its_path) = (session.caller.clone(), path.clone());
    let quota = core.read(move |rows| read::quota(rows, &caller, &its_path)).await?;
    let (count, consumed) = match &quota {
        Some(Quota { used, .. }) => (used.names(), saturated(used.space)),
        None => {
            let totals = totals(core, session, &path).await?;
            (totals.file_count + totals.directory_count, totals.space)
        }
    };
    let usage = QuotaUsageProto {
        file_and_directory_count: count,
        quota: names_limit(&path, quota.as_ref()),
        space_consumed: consumed,
        space_quota: space_limit(quota.as_ref()),
        type_quota_infos: type_quotas(quota.as_ref(), consumed),
    };
    Ok(GetQuotaUsageResponseProto { usage })
}

/// HDFS's root always has a limit, one that is never reached.
pub(super) fn names_limit(path: &types::FsPath, quota: Option<&Quota>) -> u64 {
    let none = if path.is_root() { i64::MAX as u64 } else { NONE };
    quota.and_then(|quota| quota.limits.names).unwrap_or(none)
}

pub(super) fn space_limit(quota: Option<&Quota>) -> u64 {
    quota.and_then(|quota| quota.limits.space).unwrap_or(NONE)
}

/// All bytes are on disks.
pub(super) fn type_quotas(quota: Option<&Quota>, consumed: u64) -> Option<StorageTypeQuotaInfosProto> {
    let limits = &quota.filter(|quota| !quota.limits.of_types.is_empty())?.limits;
    let info = |kind: StorageType| StorageTypeQuotaInfoProto {
        r#type: Some(kind as i32),
        quota: limits.of_type(kind).unwrap_or(NONE),
        consumed: if kind == StorageType::Disk { consumed } else { 0 },
    };
    // Clients know no quota of memory.
    let kinds = StorageType::ALL.into_iter().filter(|kind| *kind != StorageType::RamDisk);
    Some(StorageTypeQuotaInfosProto { type_quota_info: kinds.map(info).collect() })
}

fn saturated(bytes: u128) -> u64 {
    u64::try_from(bytes).unwrap_or(u64::MAX)
}
