//! Limits on directories: what they refuse, and what is counted against them.

use super::asks::*;
use super::{ANN, REPLICATION, ROOT, Users};
use hdfs::exception::{
    FILE_NOT_FOUND, ILLEGAL_ARGUMENT, NAMESPACE_QUOTA_EXCEEDED, PATH_IS_NOT_DIRECTORY, SPACE_QUOTA_EXCEEDED,
    TYPE_QUOTA_EXCEEDED, UNSUPPORTED_ACTION,
};
use hdfs::proto::*;

const DISK: i32 = StorageTypeProto::Disk as i32;
const SSD: i32 = StorageTypeProto::Ssd as i32;

pub(super) async fn tell(users: &Users, home: &str) -> Option<()> {
    names(users, home).await?;
    strange(users, home).await?;
    space(users, home).await?;
    lifted(users, home).await
}

/// Names and bytes that count, and their limits.
async fn usage(users: &Users, path: &str) -> Option<QuotaUsageProto> {
    let GetQuotaUsageResponseProto { usage } = users.get(ANN, get_quota_usage(path)).await?;
    Some(usage)
}

async fn names(users: &Users, home: &str) -> Option<()> {
    let (dir, outside) = (format!("{home}/dir"), format!("{home}/outside"));
    let limit = 2 + users.below(3) as u64;
    users.may(ANN, mkdirs(&dir, 0o755)).await?;
    users.write(ANN, &outside).await?;
    users.may(ROOT, set_quota(&dir, limit, KEEP)).await?;
    for number in 1..limit {
        users.write(ANN, &format!("{dir}/file{number}")).await?;
    }
    let found = usage(users, &dir).await?;
    let told = (found.quota, found.file_and_directory_count, found.space_quota);
    users.is_equal(ANN, &get_quota_usage(&dir), told, (limit, limit, LIFT))?;
    let refused = format!("quota={limit} file count={}", limit + 1);
    for ask in [
        create(&format!("{dir}/more"), "ann"),
        mkdirs(&format!("{dir}/x/y/z"), 0o755),
        rename2(&outside, &format!("{dir}/more"), false),
    ] {
        users.may_not(ANN, ask, NAMESPACE_QUOTA_EXCEEDED, &refused).await?;
    }
    users.may(ROOT, set_quota(&dir, limit + 1, KEEP)).await?;
    users.may(ANN, rename2(&outside, &format!("{dir}/more"), false)).await?;
    users.may(ROOT, set_quota(&dir, 1, KEEP)).await?;
    users.may(ANN, rename2(&format!("{dir}/more"), &format!("{dir}/again"), false)).await?;
    users.says(ANN, delete(&format!("{dir}/again"), false), true).await?;
    users.may(ROOT, set_quota(&dir, LIFT, KEEP)).await?;
    users.write(ANN, &format!("{dir}/again")).await.map(drop)
}

async fn strange(users: &Users, home: &str) -> Option<()> {
    let file = format!("{home}/dir/again");
    users.may_not(ROOT, set_quota(&file, 5, 5), PATH_IS_NOT_DIRECTORY, "Is not a directory").await?;
    users.may_not(ROOT, set_quota(&format!("{home}/nothing"), 5, 5), FILE_NOT_FOUND, "does not exist").await?;
    users.may_not(ROOT, set_quota(home, LIFT - 1, 5), ILLEGAL_ARGUMENT, "Illegal value").await?;
    users.may_not(ROOT, set_type_quota(home, 77, 5), ILLEGAL_ARGUMENT, "no type of storage").await?;
    let names = SetQuotaRequestProto {
        path: home.to_owned(),
        namespace_quota: 5,
        storage_type: Some(DISK),
        ..Default::default()
    };
    users.may_not(ROOT, ask("setQuota", names), UNSUPPORTED_ACTION, "").await?;
    users.may_not(ANN, get_quota_usage(&format!("{home}/nothing")), FILE_NOT_FOUND, "").await?;
    let found = usage(users, &file).await?;
    users.is_equal(ANN, &get_quota_usage(&file), (found.quota, found.file_and_directory_count), (LIFT, 1))
}

/// Bytes with all replicas.
async fn space(users: &Users, home: &str) -> Option<()> {
    let (dir, file) = (format!("{home}/full"), format!("{home}/full/file"));
    let (len, limit) = (1 + users.below(90), users.below(200) as u64);
    let space = len as u64 * u64::from(REPLICATION);
    users.may(ANN, mkdirs(&dir, 0o755)).await?;
    let by_type = users.one_in(2);
    let (set, class) = match by_type {
        true => (set_type_quota(&dir, DISK, limit), TYPE_QUOTA_EXCEEDED),
        false => (set_quota(&dir, KEEP, limit), SPACE_QUOTA_EXCEEDED),
    };
    users.may(ROOT, set).await?;
    // Nothing ever lies on such.
    users.may(ROOT, set_type_quota(&dir, SSD, 0)).await?;
    let put = users.put(&file, len).await?;
    let ask = get_quota_usage(&dir);
    users.is_equal(ROOT, &ask, put.is_some(), space <= limit)?;
    let found = usage(users, &dir).await?;
    let used = if put.is_some() { space } else { 0 };
    users.is_equal(ANN, &ask, found.space_consumed, used)?;
    let infos = found.type_quota_infos.map(|infos| infos.type_quota_info).unwrap_or_default();
    let told = infos.iter().find(|info| info.r#type == Some(SSD)).map(|info| (info.quota, info.consumed));
    users.is_equal(ANN, &ask, told, Some((0, 0)))?;
    if put.is_none() {
        return Some(());
    }
    let more = u32::from(REPLICATION) + 1;
    match (len as u64) * u64::from(more) <= limit {
        true => users.says(ROOT, set_replication(&file, more), true).await,
        false => users.may_not(ROOT, set_replication(&file, more), class, "is exceeded").await,
    }
}

/// What has no limit of its own is counted all the same.
async fn lifted(users: &Users, home: &str) -> Option<()> {
    let dir = format!("{home}/full");
    for set in [set_quota(&dir, LIFT, LIFT), set_type_quota(&dir, DISK, LIFT), set_type_quota(&dir, SSD, LIFT)] {
        users.may(ROOT, set).await?;
    }
    let found = usage(users, &dir).await?;
    let told = (found.quota, found.space_quota, found.type_quota_infos.is_some());
    users.is_equal(ANN, &get_quota_usage(&dir), told, (LIFT, LIFT, false))
}
