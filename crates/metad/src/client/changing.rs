//! Methods that change names, rights and times.

use crate::change_error::ChangeError;
use crate::core::{Core, find_path, make_path, must_find};
use crate::refusal;
use crate::session::Session;
use crate::to_hdfs::{self, MINUS_ONE};
use hdfs::Exception;
use hdfs::proto::*;
use namespace::read::{self, Removal};
use namespace::{
    Concat, Delete, FileVersion, Mkdirs, NsError, Op, Rename, Rename2, Reply, SetOwner, SetPermission, SetReplication,
    SetTimes,
};
use std::sync::Arc;
use types::limits::REPLICATION_MAX;
use types::{FsPath, InodeId, Millis};

/// Entries examined before a deletion lets others in.
const WALK_STEP_COUNT: usize = 5000;
/// How often a tree is examined if each time another one stands in its place before it is changed.
const EXAMINED_COUNT_MAX: usize = 4;

/// A mode as it travels.
pub(super) fn mode(permission: &FsPermissionProto) -> u16 {
    to_hdfs::mode(permission.perm)
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
    let unmasked = request.unmasked.as_ref().map(mode);
    let mkdirs = Mkdirs { path, mode: mode(&request.masked), unmasked, create_parent: request.create_parent };
    let reply = core.change(session, mkdirs).await?;
    Ok(MkdirsResponseProto { result: yes(&reply) })
}

pub(super) async fn delete(
    core: &Arc<Core>,
    session: &Session,
    request: DeleteRequestProto,
) -> Result<DeleteResponseProto, Exception> {
    let Some(path) = find_path("delete", &request.src)? else { return Ok(DeleteResponseProto { result: false }) };
    let recursive = request.recursive;
    let delete = |examined| Delete { path: path.clone(), recursive, examined };
    let reply = match recursive {
        true => change_examined(core, session, &path, delete).await?,
        false => core.change(session, delete(None)).await?,
    };
    Ok(DeleteResponseProto { result: yes(&reply) })
}

/// Makes a change that needs rights on each directory of the tree at `path`: they are examined before it is proposed,
/// since nothing may walk a tree while all others wait. If another tree stands there by then, that one is examined.
async fn change_examined<T: Into<Op>>(
    core: &Arc<Core>,
    session: &Session,
    path: &FsPath,
    op: impl Fn(Option<InodeId>) -> T,
) -> Result<Reply, Exception> {
    // A call that was made already is answered from what is kept, whatever stands there by now.
    let repeated: Op = op(None).into();
    if let Some(key) = session.retry {
        let (name, now) = (repeated.name(), core.now());
        if core.rows(move |rows| read::outcome(rows, key, name, now)).await?.is_some() {
            return core.change(session, repeated).await;
        }
    }
    for _ in 1..EXAMINED_COUNT_MAX {
        match core.change_or_doubt(session, op(examine(core, session, path).await?)).await {
            Err(ChangeError::Refused(NsError::NotExamined(_))) => {}
            done => return done.map_err(refusal::change),
        }
    }
    core.change(session, op(examine(core, session, path).await?)).await
}

/// Whether the caller may delete the tree. Each step takes a new view, so a large tree does not delay writers.
async fn examine(core: &Arc<Core>, session: &Session, path: &FsPath) -> Result<Option<InodeId>, Exception> {
    if session.caller.superuser {
        return Ok(None);
    }
    let (caller, path) = (session.caller.clone(), path.clone());
    let Some(mut removal) = core.read(move |rows| Removal::start(rows, &caller, &path)).await? else { return Ok(None) };
    loop {
        let (its_core, caller) = (Arc::clone(core), session.caller.clone());
        let step = core.walk(session, move || {
            let done = its_core.read_here(|rows| removal.step(rows, &caller, WALK_STEP_COUNT));
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
    core: &Arc<Core>,
    session: &Session,
    request: Rename2RequestProto,
) -> Result<Rename2ResponseProto, Exception> {
    let from = must_find("rename2", &request.src)?;
    let to = make_path("rename2", &request.dst)?;
    let to_trash = request.move_to_trash.unwrap_or(false);
    let replaces = request.replaces.map(|version| FileVersion {
        file: InodeId(version.file_id),
        modified: Millis(version.modification_time),
        len: version.length,
    });
    let rename = |examined| Rename2 {
        from: from.clone(),
        to: to.clone(),
        overwrite: request.overwrite_dest,
        to_trash,
        examined,
        replaces,
    };
    match to_trash {
        true => change_examined(core, session, &from, rename).await?,
        false => core.change(session, rename(None)).await?,
    };
    Ok(Rename2ResponseProto {})
}

pub(super) async fn concat(
    core: &Core,
    session: &Session,
    request: ConcatRequestProto,
) -> Result<ConcatResponseProto, Exception> {
    let target = must_find("concat", &request.trg)?;
    let sources = request.srcs.iter().map(|path| must_find("concat", path)).collect::<Result<_, _>>()?;
    // Datanodes go on naming the source: so do the tokens of its blocks.
    let remembers = (core.raft.level() >= crate::command::KEY_RINGS).then_some(true);
    core.change(session, Concat { target, sources, remembers }).await?;
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
    Ok(SetReplicationResponseProto { result: yes(&reply) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::container_sealing::tests::with_node;
    use namespace::RetryKey;

    fn session(call: i32) -> Session {
        let mut session = Session::example("alice", false);
        session.retry = Some(RetryKey { client: [1; 16], call });
        session
    }

    async fn mkdirs_as(core: &Arc<Core>, owner: &str, at: &str) {
        let path = FsPath::parse(at).unwrap();
        core.change_unasked(Mkdirs { path: path.clone(), mode: 0o755, unmasked: None, create_parent: true })
            .await
            .unwrap();
        core.change_unasked(SetOwner { path, owner: Some(owner.into()), group: None }).await.unwrap();
    }

    fn delete_of(at: &str) -> DeleteRequestProto {
        DeleteRequestProto { src: at.into(), recursive: true }
    }

    /// A client that repeats a deletion which was done gets its answer, though a tree that it may not delete stands
    /// there by now.
    #[tokio::test]
    async fn a_repeated_deletion_is_answered_without_another_look() {
        let (_dir, metad, core) = with_node().await;
        mkdirs_as(&core, "alice", "/alices").await;
        mkdirs_as(&core, "alice", "/alices/t").await;
        mkdirs_as(&core, "alice", "/alices/t/u").await;
        assert!(delete(&core, &session(1), delete_of("/alices/t")).await.unwrap().result);
        mkdirs_as(&core, "alice", "/alices/t").await;
        mkdirs_as(&core, "root", "/alices/t/roots").await;
        mkdirs_as(&core, "root", "/alices/t/roots/own").await;
        assert!(delete(&core, &session(1), delete_of("/alices/t")).await.unwrap().result, "it was done");
        let refused = delete(&core, &session(2), delete_of("/alices/t")).await.unwrap_err();
        assert!(refused.message.contains("/alices/t/roots"), "{refused:?}");
        let to_trash = Rename2RequestProto {
            src: "/alices/t".into(),
            dst: "/alices/trash".into(),
            move_to_trash: Some(true),
            ..Rename2RequestProto::default()
        };
        let refused = rename2(&core, &session(3), to_trash.clone()).await.unwrap_err();
        assert!(refused.message.contains("/alices/t/roots"), "{refused:?}");
        mkdirs_as(&core, "alice", "/alices/t/roots").await;
        rename2(&core, &session(4), to_trash).await.unwrap();
        drop(core);
        metad.shutdown().await;
    }
}
