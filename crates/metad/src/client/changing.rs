//! Methods that change names, rights and times.

use crate::caller::Session;
use crate::core::{Core, find_path, make_path, must_find};
use crate::words::MINUS_ONE;
use hdfs::Exception;
use hdfs::proto::*;
use namespace::read::Removal;
use namespace::{
    Concat, Delete, DeleteWalked, Mkdirs, MkdirsUnmasked, Rename, Rename2, Reply, SetOwner, SetPermission,
    SetReplication, SetTimes,
};
use std::sync::Arc;
use types::limits::REPLICATION_MAX;
use types::{FsPath, InodeId, Millis};

/// Entries looked at before a deletion lets others in.
const WALK_STEP_COUNT: usize = 5000;

/// The low bits of a mode as it travels; requests may carry higher ones, which mean nothing here.
pub(super) fn mode(permission: &FsPermissionProto) -> u16 {
    (permission.perm & 0o1777) as u16
}

/// The answer of a request that says yes or no.
pub(super) fn yes(reply: &Reply) -> bool {
    matches!(reply, Reply::Bool(true))
}

pub(super) async fn mkdirs(
    core: &Core,
    session: &Session,
    request: MkdirsRequestProto,
) -> Result<MkdirsResponseProto, Exception> {
    let path = make_path("mkdirs", &request.src)?;
    let mkdirs = Mkdirs { path, mode: mode(&request.masked), create_parent: request.create_parent };
    let reply = match request.unmasked.as_ref().map(mode) {
        Some(unmasked) if unmasked != mkdirs.mode => core.change(session, MkdirsUnmasked { mkdirs, unmasked }).await?,
        _ => core.change(session, mkdirs).await?,
    };
    Ok(MkdirsResponseProto { result: yes(&reply) })
}

pub(super) async fn delete(
    core: &Arc<Core>,
    session: &Session,
    request: DeleteRequestProto,
) -> Result<DeleteResponseProto, Exception> {
    let Some(path) = find_path("delete", &request.src)? else { return Ok(DeleteResponseProto { result: false }) };
    let walked = match request.recursive && !session.caller.superuser {
        true => walk(core, session, &path).await?,
        false => None,
    };
    let reply = match walked {
        Some(top) => core.change(session, DeleteWalked { path, top }).await?,
        None => core.change(session, Delete { path, recursive: request.recursive }).await?,
    };
    core.was_doomed();
    Ok(DeleteResponseProto { result: yes(&reply) })
}

/// Whether the caller may delete the tree: each step takes a new view, so a large one keeps nobody from writing.
async fn walk(core: &Arc<Core>, session: &Session, path: &FsPath) -> Result<Option<InodeId>, Exception> {
    let Some(mut removal) = core.read(|rows| Removal::start(rows, &session.caller, path))? else { return Ok(None) };
    loop {
        let (its_core, caller) = (Arc::clone(core), session.caller.clone());
        let step = core.walk(session, move || {
            let done = its_core.read(|rows| removal.step(rows, &caller, WALK_STEP_COUNT));
            (removal, done)
        });
        let (rest, done) = step.await;
        match done? {
            Some(top) => return Ok(Some(top)),
            None => removal = rest,
        }
    }
}

pub(super) async fn rename(
    core: &Core,
    session: &Session,
    request: RenameRequestProto,
) -> Result<RenameResponseProto, Exception> {
    let Some(from) = find_path("rename", &request.src)? else { return Ok(RenameResponseProto { result: false }) };
    let to = make_path("rename", &request.dst)?;
    let reply = core.change(session, Rename { from, to }).await?;
    Ok(RenameResponseProto { result: yes(&reply) })
}

pub(super) async fn rename2(
    core: &Core,
    session: &Session,
    request: Rename2RequestProto,
) -> Result<Rename2ResponseProto, Exception> {
    let from = must_find("rename2", &request.src)?;
    let to = make_path("rename2", &request.dst)?;
    let to_trash = request.move_to_trash.unwrap_or(false);
    core.change(session, Rename2 { from, to, overwrite: request.overwrite_dest, to_trash }).await?;
    if request.overwrite_dest {
        core.was_doomed();
    }
    Ok(Rename2ResponseProto {})
}

pub(super) async fn concat(
    core: &Core,
    session: &Session,
    request: ConcatRequestProto,
) -> Result<ConcatResponseProto, Exception> {
    let target = must_find("concat", &request.trg)?;
    let sources = request.srcs.iter().map(|path| must_find("concat", path)).collect::<Result<_, _>>()?;
    core.change(session, Concat { target, sources }).await?;
    Ok(ConcatResponseProto {})
}

pub(super) async fn set_permission(
    core: &Core,
    session: &Session,
    request: SetPermissionRequestProto,
) -> Result<SetPermissionResponseProto, Exception> {
    let path = must_find("setPermission", &request.src)?;
    core.change(session, SetPermission { path, mode: mode(&request.permission) }).await?;
    Ok(SetPermissionResponseProto {})
}

pub(super) async fn set_owner(
    core: &Core,
    session: &Session,
    request: SetOwnerRequestProto,
) -> Result<SetOwnerResponseProto, Exception> {
    let path = must_find("setOwner", &request.src)?;
    // Java sends an empty text where it means nothing.
    let name = |name: Option<String>| name.filter(|name| !name.is_empty());
    core.change(session, SetOwner { path, owner: name(request.username), group: name(request.groupname) }).await?;
    Ok(SetOwnerResponseProto {})
}

pub(super) async fn set_times(
    core: &Core,
    session: &Session,
    request: SetTimesRequestProto,
) -> Result<SetTimesResponseProto, Exception> {
    let path = must_find("setTimes", &request.src)?;
    let time = |ms: u64| (ms != MINUS_ONE).then_some(Millis(ms));
    core.change(session, SetTimes { path, modified: time(request.mtime), accessed: time(request.atime) }).await?;
    Ok(SetTimesResponseProto {})
}

pub(super) async fn set_replication(
    core: &Core,
    session: &Session,
    request: SetReplicationRequestProto,
) -> Result<SetReplicationResponseProto, Exception> {
    let Some(path) = find_path("setReplication", &request.src)? else {
        return Ok(SetReplicationResponseProto { result: false });
    };
    // A number too large for us is too large for the namespace, which has the words for it.
    let replication = u16::try_from(request.replication).unwrap_or(REPLICATION_MAX + 1);
    let reply = core.change(session, SetReplication { path, replication }).await?;
    core.repair_wake.notify_one();
    Ok(SetReplicationResponseProto { result: yes(&reply) })
}
