//! Names: what may become of them, other ways to them, and lists of them.

use super::asks::*;
use super::{ANN, CLEO, ROOT, Users};
use hdfs::exception::{
    FILE_ALREADY_EXISTS, FILE_NOT_FOUND, HADOOP_ILLEGAL_ARGUMENT, INVALID_PATH, IO, NAME_TOO_LONG,
    PATH_IS_NOT_EMPTY_DIRECTORY, START_AFTER_NOT_FOUND,
};
use hdfs::proto::*;

pub(super) async fn tell(users: &Users, home: &str) -> Option<()> {
    made(users, home).await?;
    renamed(users, home).await?;
    moved(users, home).await?;
    listed(users, home).await?;
    reserved(users, home).await
}

async fn made(users: &Users, home: &str) -> Option<()> {
    let (dir, file, deep) = (format!("{home}/dir"), format!("{home}/file"), format!("{home}/a/b/c"));
    users.may(ANN, mkdir(&dir)).await?;
    users.may(ANN, mkdirs(&dir, 0o700)).await?;
    users.write(ANN, &file).await?;
    users.may_not(ANN, mkdir(&deep), FILE_NOT_FOUND, "Parent directory").await?;
    users.may_not(ANN, create(&deep, "ann"), FILE_NOT_FOUND, "Parent directory").await?;
    users.may_not(ANN, create(&dir, "ann"), FILE_ALREADY_EXISTS, "as a directory").await?;
    users.may_not(ANN, create(&file, "ann"), FILE_ALREADY_EXISTS, "already exists").await?;
    let overwriting = |path: &str| {
        let create_flag = CreateFlagProto::Overwrite as u32;
        ask("create", CreateRequestProto { create_flag, ..creation(path, "ann") })
    };
    users.may_not(ANN, overwriting(&format!("{home}/nothing")), FILE_NOT_FOUND, "non-existent").await?;
    let before = users.status(ANN, &file).await?.file_id;
    users.may(ANN, overwriting(&file)).await?;
    users.says(ANN, complete(&file, "ann"), true).await?;
    let after = users.status(ANN, &file).await?.file_id;
    users.is_equal(ANN, &get_file_info(&file), before == after, false)?;
    users.may_not(ANN, mkdir(&format!("{home}/a:b")), INVALID_PATH, "Invalid file name").await?;
    users.may_not(ANN, create(&format!("{home}/a:b"), "ann"), INVALID_PATH, "Invalid path name").await?;
    users.may_not(ANN, mkdir(&format!("{home}/.snapshot")), HADOOP_ILLEGAL_ARGUMENT, "reserved name").await?;
    users.may_not(ANN, mkdir(&format!("{home}/{}", "n".repeat(256))), NAME_TOO_LONG, "length=256").await?;
    users.may(ANN, mkdirs(&deep, 0o755)).await?;
    users.may_not(ANN, delete(&format!("{home}/a"), false), PATH_IS_NOT_EMPTY_DIRECTORY, "is non empty").await?;
    users.says(ANN, delete(&format!("{home}/nothing"), true), false).await?;
    users.says(ROOT, delete("/", true), false).await
}

/// The rename that says why not.
async fn renamed(users: &Users, home: &str) -> Option<()> {
    let (dir, file, a) = (format!("{home}/dir"), format!("{home}/file"), format!("{home}/a"));
    let (nothing, other) = (format!("{home}/nothing"), format!("{home}/other"));
    users.may_not(ANN, rename2(&nothing, &other, false), FILE_NOT_FOUND, "is not found").await?;
    users.may_not(ROOT, rename2("/", &other, false), IO, "cannot be the root").await?;
    users.may_not(ROOT, rename2(&file, "/", false), IO, "cannot be the root").await?;
    users.may_not(ANN, rename2(&file, &file, false), FILE_ALREADY_EXISTS, "are the same").await?;
    users.may_not(ANN, rename2(&a, &format!("{a}/b/x"), false), IO, "under source").await?;
    users.may_not(ANN, rename2(&file, &format!("{nothing}/x"), false), FILE_NOT_FOUND, "parent").await?;
    users.may_not(ANN, rename2(&file, &dir, true), IO, "must both be directories").await?;
    users.may_not(ANN, rename2(&dir, &a, false), FILE_ALREADY_EXISTS, "already exists").await?;
    users.may_not(ANN, rename2(&dir, &a, true), IO, "is not empty").await?;
    users.may_not(ANN, rename2(&dir, "/.reserved/x", false), FILE_NOT_FOUND, "parent").await?;
    users.may(ANN, rename2(&a, &dir, true)).await?;
    users.has_gone(&a).await?;
    users.status(ANN, &format!("{dir}/b/c")).await?;
    users.may(ANN, rename2(&file, &format!("{dir}/b/file"), false)).await?;
    users.may(ANN, rename2(&format!("{dir}/b/file"), &format!("{dir}/file"), false)).await?;
    users.may(ANN, rename2(&format!("{dir}/file"), &file, false)).await
}

/// The rename that answers no, and moves into directories.
async fn moved(users: &Users, home: &str) -> Option<()> {
    let (dir, file, other) = (format!("{home}/dir"), format!("{home}/file"), format!("{home}/other"));
    let nothing = format!("{home}/nothing");
    users.says(ANN, rename(&nothing, &other), false).await?;
    users.says(ROOT, rename("/", &other), false).await?;
    users.says(ANN, rename(&file, &file), true).await?;
    users.says(ANN, rename(&dir, &format!("{dir}/b/x")), false).await?;
    users.says(ANN, rename(&file, &format!("{nothing}/x")), false).await?;
    users.may_not(ANN, rename(&file, &format!("{home}/a:b")), INVALID_PATH, "Invalid file name").await?;
    users.says(ANN, rename(&file, &dir), true).await?;
    users.has_gone(&file).await?;
    users.says(ANN, rename(&format!("{dir}/file"), &other), true).await?;
    users.says(ANN, rename(&format!("{dir}/b"), &other), false).await?;
    users.status(ANN, &other).await?;
    users.says(ANN, rename(&other, &file), true).await
}

/// The names in a directory behind one of them.
async fn names_behind(users: &Users, path: &str, after: &str) -> Option<Vec<String>> {
    let found: GetListingResponseProto = users.get(ROOT, get_listing(path, after)).await?;
    let entries = found.dir_list.map(|list| list.partial_listing).unwrap_or_default();
    Some(entries.iter().map(|entry| String::from_utf8_lossy(&entry.path).into_owned()).collect())
}

async fn listed(users: &Users, home: &str) -> Option<()> {
    let list = format!("{home}/list");
    let count = 1 + users.below(5);
    let name = |number: usize| format!("name{number}");
    let names: Vec<String> = (0..count).map(name).collect();
    for name in &names {
        users.may(ANN, mkdirs(&format!("{list}/{name}"), 0o755)).await?;
    }
    let after = users.below(count);
    let ask = get_listing(&list, &name(after));
    let found = names_behind(users, &list, &name(after)).await?;
    users.is_equal(ROOT, &ask, found.as_slice(), &names[after + 1..])?;
    // By the inode that was listed last, and its name may be another one since.
    let id = users.status(ROOT, &format!("{list}/{}", name(after))).await?.file_id?;
    let found = names_behind(users, &list, &format!("/.reserved/.inodes/{id}")).await?;
    users.is_equal(ROOT, &ask, found.as_slice(), &names[after + 1..])?;
    for gone in ["/.reserved/.inodes/x".to_owned(), format!("/.reserved/.inodes/{}", id + 1_000_000)] {
        users.may_not(ROOT, get_listing(&list, &gone), START_AFTER_NOT_FOUND, "is gone").await?;
    }
    let file = format!("{home}/file");
    let found = names_behind(users, &file, "").await?;
    users.is_equal(ROOT, &get_listing(&file, ""), found, vec![String::new()])
}

/// Other ways to what stands elsewhere.
async fn reserved(users: &Users, home: &str) -> Option<()> {
    let id = users.status(ANN, home).await?.file_id?;
    let (by_id, by_raw) = (format!("/.reserved/.inodes/{id}"), format!("/.reserved/raw{home}"));
    for way in [&by_id, &by_raw] {
        let found = users.status(ANN, way).await?.file_id;
        users.is_equal(ANN, &get_file_info(way), found, Some(id))?;
        users.status(ANN, &format!("{way}/dir")).await?;
    }
    users.may(ANN, mkdirs(&format!("{by_id}/by_id"), 0o755)).await?;
    users.status(ANN, &format!("{home}/by_id")).await?;
    users.may(ROOT, mkdirs(&format!("{by_raw}/by_raw"), 0o755)).await?;
    users.status(ANN, &format!("{home}/by_raw")).await?;
    users.status(ANN, "/.reserved").await?;
    users.status(ROOT, "/.reserved/raw").await?;
    let found = names_behind(users, "/.reserved", "").await?;
    users.is_equal(ROOT, &get_listing("/.reserved", ""), found, vec![".inodes".to_owned(), "raw".to_owned()])?;
    let nothings = ["/.reserved/x", "/.reserved/.inodes/x", "/.reserved/.inodes/99999999", "/.reserved/raw/.reserved"];
    for nothing in nothings {
        users.has_gone(nothing).await?;
    }
    let below = "/.reserved/.inodes/99999999/x";
    users.may_not(ROOT, mkdir(below), FILE_NOT_FOUND, "inode path").await?;
    users.may_not(ROOT, mkdir("/.reserved/x"), HADOOP_ILLEGAL_ARGUMENT, "is reserved").await?;
    users.may_not(ROOT, create("/.reserved/x", "root"), INVALID_PATH, "").await?;
    users.may_not(ROOT, delete("/.reserved", true), INVALID_PATH, "").await?;
    users.may_not(ROOT, set_permission("/.reserved", 0o777), INVALID_PATH, "").await?;
    users.may(ROOT, mkdirs("/.reserved/.inodes/16385/users/way", 0o755)).await?;
    users.status(CLEO, "/users/way").await.map(drop)
}
