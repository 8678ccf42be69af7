//! Extended attributes: who may set which, and what is read of them.

use super::asks::*;
use super::{ANN, BEN, CLEO, DORA, ROOT, Users};
use bytes::Bytes;
use hdfs::exception::{ACCESS_CONTROL, FILE_NOT_FOUND, HADOOP_ILLEGAL_ARGUMENT, IO, RETRIABLE, XATTR_NOT_FOUND};
use hdfs::proto::*;

// As HDFS numbers them.
const USER: i32 = 0;
const TRUSTED: i32 = 1;
const SECURITY: i32 = 2;
const SYSTEM: i32 = 3;
const RAW: i32 = 4;
const CREATE: u32 = 1;
const REPLACE: u32 = 2;

const UNREADABLE: &str = "hdfs.unreadable.by.superuser";
/// Of one inode, at most.
const COUNT_MAX: usize = 32;

fn attribute(namespace: i32, name: &str, value: Option<Bytes>) -> XAttrProto {
    XAttrProto { namespace, name: name.to_owned(), value }
}

fn set(src: &str, (space, name): (i32, &str), value: &Bytes, flag: u32) -> Ask {
    let x_attr = Some(attribute(space, name, (!value.is_empty()).then(|| value.clone())));
    ask("setXAttr", SetXAttrRequestProto { src: src.to_owned(), x_attr, flag: Some(flag) })
}

fn remove(src: &str, (space, name): (i32, &str)) -> Ask {
    let x_attr = Some(attribute(space, name, None));
    ask("removeXAttr", RemoveXAttrRequestProto { src: src.to_owned(), x_attr })
}

fn get(src: &str, names: &[(i32, &str)]) -> Ask {
    let x_attrs = names.iter().map(|(space, name)| attribute(*space, name, None)).collect();
    ask("getXAttrs", GetXAttrsRequestProto { src: src.to_owned(), x_attrs })
}

/// These, in the order of their names, with these values.
async fn has(users: &Users, user: &'static str, ask: Ask, wanted: &[(i32, &str, &Bytes)]) -> Option<()> {
    let found: GetXAttrsResponseProto = users.get(user, ask.clone()).await?;
    let found = found.x_attrs.into_iter().map(|one| (one.namespace, one.name, one.value.unwrap_or_default()));
    let wanted = wanted.iter().map(|(space, name, value)| (*space, (*name).to_owned(), (*value).clone()));
    users.is_equal(user, &ask, found.collect::<Vec<_>>(), wanted.collect())
}

pub(super) async fn tell(users: &Users, home: &str) -> Option<()> {
    let file = format!("{home}/file");
    users.write(ANN, &file).await?;
    values(users, &file).await?;
    spaces(users, &file).await?;
    strange(users, home, &file).await?;
    unreadable(users, home, &file).await
}

fn any_value(users: &Users) -> Bytes {
    vec![users.below(256) as u8; 1 + users.below(100)].into()
}

async fn values(users: &Users, file: &str) -> Option<()> {
    let (mark, note) = ((USER, "mark"), (USER, "note"));
    let (first, second) = (any_value(users), any_value(users));
    users.may_not(ANN, set(file, mark, &first, REPLACE), IO, "The CREATE flag").await?;
    users.may(ANN, set(file, mark, &first, CREATE)).await?;
    users.may_not(ANN, set(file, mark, &second, CREATE), IO, "The REPLACE flag").await?;
    has(users, CLEO, get(file, &[mark]), &[(USER, "mark", &first)]).await?;
    users.may(ANN, set(file, mark, &second, REPLACE)).await?;
    users.may(ANN, set(file, note, &first, CREATE | REPLACE)).await?;
    has(users, CLEO, get(file, &[]), &[(USER, "mark", &second), (USER, "note", &first)]).await?;
    users.may_not(CLEO, get(file, &[mark, (USER, "other")]), XATTR_NOT_FOUND, "not found").await?;
    users.may_not(CLEO, set(file, mark, &first, REPLACE), ACCESS_CONTROL, "access=WRITE").await?;
    users.may(ANN, remove(file, note)).await?;
    users.may_not(ANN, remove(file, note), IO, "No matching attributes").await?;
    has(users, BEN, get(file, &[]), &[(USER, "mark", &second)]).await
}

/// Some attributes are for superusers, some are seen by another way, and some for nobody.
async fn spaces(users: &Users, file: &str) -> Option<()> {
    let (trusted, raw, value) = ((TRUSTED, "seal"), (RAW, "rest"), any_value(users));
    let by_raw = format!("/.reserved/raw{file}");
    users
        .may_not(ANN, set(file, trusted, &value, CREATE), ACCESS_CONTROL, "permission for xattr: trusted.seal")
        .await?;
    users.may_not(DORA, set(file, trusted, &value, CREATE), RETRIABLE, "trusted.seal").await?;
    users.may(ROOT, set(file, trusted, &value, CREATE)).await?;
    users.may_not(CLEO, get(file, &[trusted]), ACCESS_CONTROL, "trusted.seal").await?;
    users.may_not(DORA, get(file, &[]), RETRIABLE, "trusted.seal").await?;
    has(users, ROOT, get(file, &[trusted]), &[(TRUSTED, "seal", &value)]).await?;
    for (space, told) in [(SYSTEM, "system.x"), (SECURITY, "security.x"), (RAW, "raw.x")] {
        users.may_not(ROOT, set(file, (space, "x"), &value, CREATE), ACCESS_CONTROL, told).await?;
    }
    users.may(ROOT, set(&by_raw, raw, &value, CREATE)).await?;
    has(users, ROOT, get(&by_raw, &[raw]), &[(RAW, "rest", &value)]).await?;
    users.may_not(ANN, remove(&by_raw, raw), ACCESS_CONTROL, "Superuser privilege").await?;
    users.may(ROOT, remove(&by_raw, raw)).await?;
    users.may(ROOT, remove(file, trusted)).await
}

/// Too long, too many, without a name, of nothing, or where everybody may write.
async fn strange(users: &Users, home: &str, file: &str) -> Option<()> {
    let (value, long) = (any_value(users), Bytes::from(vec![1; 16_385]));
    let (nothing, name) = (format!("{home}/nothing"), "n".repeat(256));
    users.may_not(ANN, set(file, (USER, "long"), &long, CREATE), HADOOP_ILLEGAL_ARGUMENT, "too big").await?;
    users.may_not(ANN, set(file, (USER, &name), &value, CREATE), HADOOP_ILLEGAL_ARGUMENT, "1 to 255").await?;
    users.may_not(ANN, remove(file, (USER, &name)), IO, "No matching attributes").await?;
    users.may_not(ANN, set(&nothing, (USER, "x"), &value, CREATE), FILE_NOT_FOUND, "cannot find").await?;
    users.may_not(ANN, get(&nothing, &[]), FILE_NOT_FOUND, "cannot find").await?;
    let tmp = format!("{home}/tmp");
    users.may(ANN, mkdirs(&tmp, 0o1777)).await?;
    users.may_not(CLEO, set(&tmp, (USER, "x"), &value, CREATE), ACCESS_CONTROL, "is not the owner").await?;
    for number in 0..COUNT_MAX {
        users.may(ANN, set(&tmp, (USER, &format!("x{number}")), &value, CREATE)).await?;
    }
    users.may_not(ANN, set(&tmp, (USER, "x"), &value, CREATE), IO, "would exceed limit").await?;
    users.says(ANN, delete(&tmp, true), true).await
}

/// The owner can keep superusers from reading a file, for ever.
async fn unreadable(users: &Users, home: &str, file: &str) -> Option<()> {
    let (mark, value, none) = ((SECURITY, UNREADABLE), any_value(users), Bytes::new());
    users.may_not(ANN, set(file, mark, &value, CREATE), ACCESS_CONTROL, "Values are not allowed").await?;
    users.may_not(ANN, set(home, mark, &none, CREATE), IO, "Can only set").await?;
    users.may_not(CLEO, set(file, mark, &none, CREATE), ACCESS_CONTROL, "is not the owner").await?;
    users.may(ROOT, get_block_locations(file)).await?;
    users.may(ANN, set(file, mark, &none, CREATE)).await?;
    users.may_not(ROOT, get_block_locations(file), ACCESS_CONTROL, "superuser is not allowed").await?;
    users.may_not(DORA, get_block_locations(file), RETRIABLE, "superuser is not allowed").await?;
    users.may(ANN, get_block_locations(file)).await?;
    users.may_not(ANN, remove(file, mark), ACCESS_CONTROL, "can not be deleted").await
}
