//! Who may do what, by mode, owner, group and sticky bit.

use super::asks::*;
use super::{ANN, BEN, CLEO, DORA, GUESTS, ROOT, STAFF, Users};
use hdfs::exception::{
    ACCESS_CONTROL, FILE_ALREADY_EXISTS, FILE_NOT_FOUND, HADOOP_ILLEGAL_ARGUMENT, IO, PARENT_NOT_DIRECTORY, RETRIABLE,
};
use hdfs::proto::*;

pub(super) async fn tell(users: &Users, home: &str) -> Option<()> {
    let (dir, file) = (format!("{home}/dir"), format!("{home}/dir/file"));
    users.may(ANN, mkdirs(&dir, 0o755)).await?;
    users.write(ANN, &file).await?;
    modes(users, &file).await?;
    owners(users, &dir, &file).await?;
    superusers(users, &dir).await?;
    ways(users, &dir, &file).await?;
    sticky(users, home).await
}

/// What any mode grants to the owner, to one of the group, to others, and to one whose groups are not known.
async fn modes(users: &Users, file: &str) -> Option<()> {
    let (mode, wanted) = (users.below(0o1000) as u32, 1 + users.below(7) as u32);
    users.may(ANN, set_permission(file, mode)).await?;
    let found = users.status(ROOT, file).await?.permission.perm;
    users.is_equal(ROOT, &get_file_info(file), found, mode)?;
    let grants = |class: u32| mode >> class & wanted == wanted;
    for (user, is_granted) in [(ANN, grants(6)), (BEN, grants(3)), (CLEO, grants(0)), (ROOT, true)] {
        match is_granted {
            true => users.may(user, check_access(file, wanted)).await?,
            false => users.may_not(user, check_access(file, wanted), ACCESS_CONTROL, "Permission denied").await?,
        }
    }
    match grants(3) && grants(0) {
        true => users.may(DORA, check_access(file, wanted)).await?,
        false => users.may_not(DORA, check_access(file, wanted), RETRIABLE, "groups of the user").await?,
    }
    users.may_not(CLEO, check_access(&format!("{file}s"), wanted), FILE_NOT_FOUND, "Path not found").await?;
    users.may(ANN, set_permission(file, 0o644)).await
}

/// Only the owner changes modes and times, and gives nothing away but to a group of his.
async fn owners(users: &Users, dir: &str, file: &str) -> Option<()> {
    let nothing = format!("{dir}/nothing");
    users.may_not(CLEO, set_permission(file, 0o777), ACCESS_CONTROL, "is not the owner").await?;
    users.may_not(ROOT, set_permission(&nothing, 0o777), FILE_NOT_FOUND, "does not exist").await?;
    users.may_not(ANN, set_owner(file, Some(BEN), None), ACCESS_CONTROL, "cannot change owner").await?;
    users.may_not(ANN, set_owner(file, None, Some(GUESTS)), ACCESS_CONTROL, "does not belong to").await?;
    let long = "n".repeat(256);
    users.may_not(ROOT, set_owner(file, Some(&long), None), HADOOP_ILLEGAL_ARGUMENT, "at most").await?;
    users.may(ROOT, set_owner(file, Some(BEN), None)).await?;
    users.may(BEN, set_owner(file, Some(BEN), Some(GUESTS))).await?;
    let found = users.status(CLEO, file).await?;
    users.is_equal(CLEO, &get_file_info(file), (found.owner.as_str(), found.group.as_str()), (BEN, GUESTS))?;
    users.may(ROOT, set_owner(file, Some(ANN), Some(STAFF))).await?;
    let (modified, accessed) = (1 + users.below(1000) as u64, users.below(1000) as u64);
    users.may_not(CLEO, set_times(file, 1, 1), ACCESS_CONTROL, "access=WRITE").await?;
    users.may_not(ROOT, set_times(&nothing, 1, 1), FILE_NOT_FOUND, "does not exist").await?;
    users.may(ANN, set_times(file, modified, accessed)).await?;
    users.may(ANN, set_times(file, u64::MAX, u64::MAX)).await?;
    let found = users.status(BEN, file).await?;
    users.is_equal(BEN, &get_file_info(file), (found.modification_time, found.access_time), (modified, accessed))?;
    users.may(CLEO, get_block_locations(file)).await?;
    users.may_not(CLEO, set_replication(file, 2), ACCESS_CONTROL, "access=WRITE").await?;
    users.may_not(ANN, set_replication(file, 0), IO, "less than the required minimum").await?;
    users.may_not(ANN, set_replication(file, 600), IO, "exceeds maximum").await?;
    users.says(ANN, set_replication(dir, 2), false).await?;
    users.says(ANN, set_replication(&nothing, 2), false).await?;
    users.says(ANN, set_replication(file, 1), true).await
}

/// What superusers alone may.
async fn superusers(users: &Users, dir: &str) -> Option<()> {
    for (names, space, called) in
        [(5, KEEP, "setQuota"), (KEEP, 5, "setSpaceQuota"), (LIFT, KEEP, "clearQuota"), (KEEP, LIFT, "clearSpaceQuota")]
    {
        users.may_not(ANN, set_quota(dir, names, space), ACCESS_CONTROL, called).await?;
    }
    users.may_not(DORA, set_quota(dir, 5, 5), RETRIABLE, "groups of the user").await?;
    let (enter, leave) = (SafeModeActionProto::SafemodeEnter, SafeModeActionProto::SafemodeLeave);
    users.may_not(ANN, set_safe_mode(enter), ACCESS_CONTROL, "Superuser privilege").await?;
    users.may_not(ANN, set_safe_mode(leave), ACCESS_CONTROL, "Superuser privilege").await?;
    users.may_not(ANN, mkdirs("/.reserved/raw/users/own", 0o755), ACCESS_CONTROL, "Superuser privilege").await
}

/// Directories that may not be passed or listed, and ways that lead through a file.
async fn ways(users: &Users, dir: &str, file: &str) -> Option<()> {
    users.may(ANN, set_permission(dir, 0o700)).await?;
    users.may_not(CLEO, get_file_info(file), ACCESS_CONTROL, "access=EXECUTE").await?;
    users.may_not(DORA, get_file_info(file), RETRIABLE, "access=EXECUTE").await?;
    users.may(ANN, set_permission(dir, 0o711)).await?;
    users.may_not(CLEO, get_listing(dir, ""), ACCESS_CONTROL, "access=READ_EXECUTE").await?;
    users.status(CLEO, file).await?;
    users.may(ANN, set_permission(file, 0o1200)).await?;
    users.may_not(ANN, get_block_locations(file), ACCESS_CONTROL, "-w------T").await?;
    users.may(ROOT, get_block_locations(file)).await?;
    let below = format!("{file}/below");
    users.has_gone(&below).await?;
    users.may_not(ANN, get_file_info(&below), ACCESS_CONTROL, "is not a directory").await?;
    users.may_not(ANN, create(&below, "ann"), PARENT_NOT_DIRECTORY, "is not a directory").await?;
    users.may_not(ANN, mkdirs(file, 0o755), FILE_ALREADY_EXISTS, "is not a directory").await?;
    for nobodys in [dir, &format!("{dir}/nothing")] {
        users.may_not(ANN, get_block_locations(nobodys), FILE_NOT_FOUND, "").await?;
        users.may_not(ANN, is_file_closed(nobodys), FILE_NOT_FOUND, "").await?;
        users.may_not(ANN, recover_lease(nobodys), FILE_NOT_FOUND, "").await?;
    }
    users.may_not(BEN, create(&format!("{dir}/bens"), "ben"), ACCESS_CONTROL, "access=WRITE").await?;
    users.may_not(CLEO, mkdirs(&format!("{dir}/a/b"), 0o755), ACCESS_CONTROL, "access=WRITE").await
}

/// Where everybody may write, only its owner removes a file.
async fn sticky(users: &Users, home: &str) -> Option<()> {
    let (tmp, anns, cleos) = (format!("{home}/tmp"), format!("{home}/tmp/anns"), format!("{home}/tmp/cleos"));
    users.may(ROOT, mkdirs(&tmp, 0o1777)).await?;
    users.write(ANN, &anns).await?;
    users.write(CLEO, &cleos).await?;
    users.may_not(CLEO, delete(&anns, false), ACCESS_CONTROL, "sticky bit").await?;
    users.may_not(CLEO, rename2(&anns, &format!("{tmp}/other"), false), ACCESS_CONTROL, "sticky bit").await?;
    users.may_not(CLEO, rename2(&cleos, &anns, true), ACCESS_CONTROL, "sticky bit").await?;
    users.may_not(DORA, delete(&anns, false), RETRIABLE, "sticky bit").await?;
    users.may(CLEO, rename2(&cleos, &format!("{tmp}/other"), false)).await?;
    users.says(ANN, delete(&anns, false), true).await?;
    users.has_gone(&anns).await
}
