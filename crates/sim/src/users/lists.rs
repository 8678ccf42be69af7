//! Access lists: what an entry grants, what the mask takes away, what children get, and what is no list.

use super::asks::*;
use super::{ANN, BEN, CLEO, DORA, EVE, GUESTS, ROOT, Users};
use hdfs::exception::{ACCESS_CONTROL, ACL, FILE_NOT_FOUND, RETRIABLE};
use hdfs::proto::*;

// As HDFS numbers them.
const USER: i32 = 0;
const GROUP: i32 = 1;
const MASK: i32 = 2;
const OTHER: i32 = 3;
const ACCESS: i32 = 0;
const DEFAULT: i32 = 1;

fn entry(scope: i32, kind: i32, name: &str, permissions: u32) -> AclEntryProto {
    let name = (!name.is_empty()).then(|| name.to_owned());
    AclEntryProto { r#type: kind, scope, permissions, name }
}

fn set(src: &str, acl_spec: Vec<AclEntryProto>) -> Ask {
    ask("setAcl", SetAclRequestProto { src: src.to_owned(), acl_spec })
}

fn modify(src: &str, acl_spec: Vec<AclEntryProto>) -> Ask {
    ask("modifyAclEntries", ModifyAclEntriesRequestProto { src: src.to_owned(), acl_spec })
}

fn remove(src: &str, acl_spec: Vec<AclEntryProto>) -> Ask {
    ask("removeAclEntries", RemoveAclEntriesRequestProto { src: src.to_owned(), acl_spec })
}

/// What the list says beyond the mode, and the mode.
async fn has(users: &Users, path: &str, wanted: &[AclEntryProto], mode: u32) -> Option<()> {
    let ask = ask("getAclStatus", GetAclStatusRequestProto { src: path.to_owned() });
    let found: GetAclStatusResponseProto = users.get(CLEO, ask.clone()).await?;
    let perm = found.result.permission.map_or(0, |permission| permission.perm & 0o777);
    users.is_equal(CLEO, &ask, (found.result.entries.as_slice(), format!("{perm:o}")), (wanted, format!("{mode:o}")))
}

pub(super) async fn tell(users: &Users, home: &str) -> Option<()> {
    let file = format!("{home}/file");
    users.write(ANN, &file).await?;
    grants(users, &file).await?;
    strange(users, home, &file).await?;
    children(users, home).await
}

async fn grants(users: &Users, file: &str) -> Option<()> {
    let any = || users.below(8) as u32;
    let (cleo, group, guests, other) = (any(), any(), any(), any());
    let given = users.one_in(2).then(any);
    let named =
        vec![entry(ACCESS, USER, CLEO, cleo), entry(ACCESS, GROUP, "", group), entry(ACCESS, GROUP, GUESTS, guests)];
    let mut spec = [named.clone(), vec![entry(ACCESS, USER, "", 6), entry(ACCESS, OTHER, "", other)]].concat();
    spec.extend(given.map(|given| entry(ACCESS, MASK, "", given)));
    users.may(ANN, set(file, spec)).await?;
    let mask = given.unwrap_or(cleo | group | guests);
    has(users, file, &named, 6 << 6 | mask << 3 | other).await?;

    let wanted = 1 + any() % 7;
    let is = |access: u32| access & mask & wanted == wanted;
    let others = other & wanted == wanted;
    for (user, is_granted) in
        [(CLEO, is(cleo)), (BEN, is(group) || is(guests)), (EVE, others), (ANN, 6 & wanted == wanted), (ROOT, true)]
    {
        match is_granted {
            true => users.may(user, check_access(file, wanted)).await?,
            false => users.may_not(user, check_access(file, wanted), ACCESS_CONTROL, "Permission denied").await?,
        }
    }
    // She may be in any group.
    match is(group) && is(guests) && others {
        true => users.may(DORA, check_access(file, wanted)).await?,
        false => users.may_not(DORA, check_access(file, wanted), RETRIABLE, "groups of the user").await?,
    }

    let ben = any();
    users.may(ANN, modify(file, vec![entry(ACCESS, USER, BEN, ben)])).await?;
    let named = [vec![entry(ACCESS, USER, BEN, ben)], named].concat();
    has(users, file, &named, 6 << 6 | (ben | cleo | group | guests) << 3 | other).await?;
    users.may(ANN, remove(file, vec![entry(ACCESS, USER, CLEO, 0)])).await?;
    let named = [vec![named[0].clone()], named[2..].to_vec()].concat();
    has(users, file, &named, 6 << 6 | (ben | group | guests) << 3 | other).await?;
    users.may_not(ANN, remove(file, vec![entry(ACCESS, MASK, "", 0)]), ACL, "mask is required").await?;
    users.may(ANN, ask("removeAcl", RemoveAclRequestProto { src: file.to_owned() })).await?;
    has(users, file, &[], 6 << 6 | group << 3 | other).await
}

/// What is no list, and changes nothing.
async fn strange(users: &Users, home: &str, file: &str) -> Option<()> {
    let one = |kind, name: &str| vec![entry(ACCESS, kind, name, 4)];
    let named = one(USER, CLEO);
    users.may_not(BEN, modify(file, named.clone()), ACCESS_CONTROL, "is not the owner").await?;
    users.may_not(ANN, modify(&format!("{home}/nothing"), named.clone()), FILE_NOT_FOUND, "cannot find").await?;
    users.may_not(ANN, set(file, named.clone()), ACL, "user, group and other").await?;
    users.may_not(ANN, modify(file, [named.clone(), named].concat()), ACL, "multiple entries").await?;
    for (kind, told) in [(MASK, "mask:x:r--"), (OTHER, "other:x:r--")] {
        users.may_not(ANN, modify(file, one(kind, "x")), ACL, told).await?;
    }
    let default = vec![entry(DEFAULT, OTHER, "x", 3)];
    users.may_not(ANN, modify(home, default), ACL, "default:other:x:-wx").await?;
    users.may_not(ANN, modify(file, one(USER, &"n".repeat(257))), ACL, "a name has 1 to").await?;
    let many = (0..33).map(|number| entry(ACCESS, USER, &format!("user{number}"), 4)).collect();
    users.may_not(ANN, modify(file, many), ACL, "exceeds maximum").await?;
    let default = vec![entry(DEFAULT, USER, CLEO, 4)];
    users.may_not(ANN, modify(file, default), ACL, "only directories").await
}

/// What is made in a directory begins with its defaults, as far as the mode asked for allows.
async fn children(users: &Users, home: &str) -> Option<()> {
    let (dir, below, file) = (format!("{home}/dir"), format!("{home}/dir/below"), format!("{home}/dir/file"));
    users.may(ANN, mkdirs(&dir, 0o755)).await?;
    let cleo = users.below(8) as u32;
    users.may(ANN, modify(&dir, vec![entry(DEFAULT, USER, CLEO, cleo)])).await?;
    let mask = cleo | 5;
    let defaults = [
        entry(DEFAULT, USER, "", 7),
        entry(DEFAULT, USER, CLEO, cleo),
        entry(DEFAULT, GROUP, "", 5),
        entry(DEFAULT, MASK, "", mask),
        entry(DEFAULT, OTHER, "", 5),
    ];
    has(users, &dir, &defaults, 0o755).await?;
    let named = [entry(ACCESS, USER, CLEO, cleo), entry(ACCESS, GROUP, "", 5)];
    users.may(ANN, mkdirs(&below, 0o750)).await?;
    has(users, &below, &[&named[..], &defaults].concat(), 7 << 6 | (mask & 5) << 3).await?;
    users.write(ANN, &file).await?;
    has(users, &file, &named, 6 << 6 | (mask & 4) << 3 | 4).await?;
    // The mask of the client counts for nothing here.
    let unmasked = Some(FsPermissionProto { perm: 0o666 });
    let other = format!("{file}2");
    users.may(ANN, ask("create", CreateRequestProto { unmasked, ..creation(&other, "ann") })).await?;
    has(users, &other, &named, 6 << 6 | (mask & 6) << 3 | 4).await?;
    users.says(ANN, complete(&other, "ann"), true).await?;
    users.may(ANN, ask("removeDefaultAcl", RemoveDefaultAclRequestProto { src: dir.clone() })).await?;
    has(users, &dir, &[], 0o755).await?;
    let plain = [entry(DEFAULT, USER, "", 7), entry(DEFAULT, GROUP, "", 5), entry(DEFAULT, OTHER, "", 0)];
    users.may(ANN, modify(&dir, plain.to_vec())).await?;
    let last = format!("{file}3");
    users.write(ANN, &last).await?;
    has(users, &last, &[], 0o640).await
}
