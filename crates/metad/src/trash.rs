//! The trash: what users removed, kept for a while, and then deleted.
//!
//! ```text
//! /user/NAME/.Trash/Current/PATH         clients move what is removed here, each by itself
//!                  /yyMMddHHmmss/PATH    a checkpoint: Current, as of that moment, in the time zone of who made it
//! ```
//!
//! The layout is HDFS's, so the tools of both find what the other's moved here. Promise: a checkpoint is deleted only
//! when `trash_interval_ms` has passed since the moment in its name, and since something was moved there last, whatever
//! time zone a client has; names of any other form are left alone. Each
//! deletion is one entry of the log, whatever the tree holds; its blocks are freed step by step
//! ([`crate::block_deletion`]).

use crate::change_error::ChangeError;
use crate::core::Core;
use crate::date;
use crate::task_fault::rest_after_fault;
use io::time::sleep;
use namespace::error::rename_fault::RenameFault;
use namespace::read::{self, PageLimits};
use namespace::{Caller, Delete, NsError, Rename2};
use std::sync::Arc;
use std::time::Duration;
use types::path::PathError;
use types::rows::RowsError;
use types::{FsPath, Millis};

/// Where homes are. HDFS: `dfs.user.home.dir.prefix`.
const HOMES: &str = "/user";
const TRASH: &str = ".Trash";
const CURRENT: &str = "Current";
/// The settings and the clock are looked at so often at least: both change by hand.
const LOOK_EACH: Duration = Duration::from_secs(10);
/// Checkpoints that a user's tools and this server made in the same second, with -1, -2 … behind the name, as in HDFS.
const SAME_SECOND_MAX: u32 = 100;
/// Checkpoints of one user that are deleted in a round. Users can make directories of such names themselves, any
/// number.
const DELETED_COUNT_MAX: u64 = 1000;

#[derive(Debug, thiserror::Error)]
pub(crate) enum TrashError {
    #[error("the trash of {path}")]
    Change {
        path: FsPath,
        #[source]
        source: ChangeError,
    },
    #[error("a path in the trash")]
    Path(#[from] PathError),
    #[error(transparent)]
    Rows(#[from] RowsError),
}

/// Makes checkpoints each time the clock passes a multiple of the interval between them, as HDFS's does, so another
/// leader goes on at the same times.
pub(crate) async fn run(core: Arc<Core>) {
    let mut due = None;
    loop {
        let now = core.now();
        let Some(each) = core.live.trash_checkpoint_ms() else {
            due = None;
            sleep(LOOK_EACH).await;
            continue;
        };
        assert!(each > 0, "checkpoints of the trash have time between them");
        let next = Millis((now.0 / each).saturating_add(1).saturating_mul(each));
        // With a shorter interval it comes sooner.
        let at = due.map_or(next, |due: Millis| due.min(next));
        if at <= now {
            rest_after_fault(round(&core, now).await).await;
            due = Some(next);
            continue;
        }
        due = Some(at);
        sleep(Duration::from_millis(at.0 - now.0).min(LOOK_EACH)).await;
    }
}

/// Deletes what was kept long enough, and makes a checkpoint of what was removed since the last one, of every user.
pub(crate) async fn round(core: &Core, now: Millis) -> Result<(), TrashError> {
    let Some(keep_ms) = core.live.trash_interval_ms() else { return Ok(()) };
    if core.safe_mode()?.is_some() {
        return Ok(());
    }
    let homes = FsPath::parse(HOMES)?;
    let (mut after, mut deleted_count, mut made_count) = (Vec::new(), 0_u64, 0_u64);
    loop {
        let names = directories(core, &homes, after).await?;
        let Some(last) = names.last() else { break };
        after = last.name.clone().into_bytes();
        for Directory { name, .. } in &names {
            let trash = homes.join(name)?.join(TRASH)?;
            let deleted = one_users(delete_old(core, &trash, now, keep_ms).await)?;
            let made = one_users(make_checkpoint(core, &trash, now).await)?;
            (deleted_count, made_count) = (deleted_count + deleted, made_count + u64::from(made));
        }
    }
    if deleted_count + made_count > 0 {
        tracing::info!(made_count, deleted_count, "checkpoints of the trash made and deleted");
    }
    Ok(())
}

/// A refusal is for what the user has in the trash, and no matter of the others.
fn one_users<T: Default>(done: Result<T, TrashError>) -> Result<T, TrashError> {
    match done {
        Err(TrashError::Change { path, source: ChangeError::Refused(why) }) => {
            tracing::warn!(%path, %why, "the trash of a user is left as it is");
            Ok(T::default())
        }
        done => done,
    }
}

async fn delete_old(core: &Core, trash: &FsPath, now: Millis, keep_ms: u64) -> Result<u64, TrashError> {
    let (mut after, mut count) = (Vec::new(), 0);
    loop {
        let names = directories(core, trash, after).await?;
        let Some(last) = names.last() else { return Ok(count) };
        after = last.name.clone().into_bytes();
        for Directory { name, changed } in &names {
            let Some(made) = checkpoint_time(name) else { continue };
            if made.max(*changed).0.saturating_add(keep_ms) >= now.0 {
                continue;
            }
            assert!(name != CURRENT, "what was removed just now is no checkpoint");
            let path = trash.join(name)?;
            if count == DELETED_COUNT_MAX {
                return Ok(count);
            }
            match core.change_unasked(Delete { path: path.clone(), recursive: true, examined: None }).await {
                Ok(_) => count += 1,
                Err(source) => return Err(TrashError::Change { path, source }),
            }
        }
    }
}

/// False: nothing was removed since the last one.
async fn make_checkpoint(core: &Core, trash: &FsPath, now: Millis) -> Result<bool, TrashError> {
    let (from, name) = (trash.join(CURRENT)?, date::checkpoint(now));
    assert!(checkpoint_time(&name).is_some(), "{name} would never be deleted");
    for number in 0..SAME_SECOND_MAX {
        let to = trash.join(&if number == 0 { name.clone() } else { format!("{name}-{number}") })?;
        let (from, overwrite, to_trash) = (from.clone(), false, false);
        let rename = Rename2 { from, to, overwrite, to_trash, examined: None, replaces: None };
        match core.change_unasked(rename).await {
            Ok(_) => return Ok(true),
            Err(ChangeError::Refused(NsError::NotFound(_))) => return Ok(false),
            Err(ChangeError::Refused(why)) if is_taken(&why) => {}
            Err(source) => return Err(TrashError::Change { path: trash.clone(), source }),
        }
    }
    Ok(false)
}

/// Whether something else has that name, of whatever kind: users may put there what they like.
fn is_taken(why: &NsError) -> bool {
    match why {
        NsError::AlreadyExists(_) => true,
        NsError::Rename(fault) => matches!(**fault, RenameFault::KindsDiffer { .. } | RenameFault::TargetNotEmpty(_)),
        _ => false,
    }
}

#[derive(Debug)]
struct Directory {
    name: String,
    /// When something was put into it or taken away last.
    changed: Millis,
}

/// A page of directories in a directory; none, if it is not there. Names that are no UTF-8 are nobody's home.
async fn directories(core: &Core, path: &FsPath, mut after: Vec<u8>) -> Result<Vec<Directory>, RowsError> {
    loop {
        let (its_path, its_after) = (path.clone(), after);
        let page = core
            .chore_rows(move |rows| read::list(rows, &Caller::system(), &its_path, &its_after, PageLimits::new(false)));
        // What is no directory has none.
        let Ok(Some(page)) = page.await? else { return Ok(Vec::new()) };
        let Some(last) = page.entries.last() else { return Ok(Vec::new()) };
        after = last.status.name.clone();
        if after.is_empty() {
            return Ok(Vec::new()); // a file lists itself, without a name
        }
        let directories = page.entries.iter().filter(|entry| entry.status.kind == namespace::Kind::Directory);
        let named = directories.filter_map(|entry| {
            let name = String::from_utf8(entry.status.name.clone()).ok()?;
            Some(Directory { name, changed: entry.status.modified })
        });
        let directories: Vec<Directory> = named.collect();
        if !directories.is_empty() {
            return Ok(directories);
        }
    }
}

/// When the checkpoint with this name was made; `None`: it is none. Older tools of HDFS leave the seconds out.
fn checkpoint_time(name: &str) -> Option<Millis> {
    let (time, number) = name.split_once('-').map_or((name, None), |(time, number)| (time, Some(number)));
    if number.is_some_and(|number| number.is_empty() || !number.bytes().all(|byte| byte.is_ascii_digit())) {
        return None;
    }
    date::of_checkpoint(time)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::container_sealing::tests::with_config;
    use namespace::{Create, Mkdirs};

    const HOUR_MS: u64 = 3_600_000;

    async fn names(core: &Core, at: &str) -> Vec<String> {
        let directories = directories(core, &FsPath::parse(at).unwrap(), Vec::new()).await.unwrap();
        directories.into_iter().map(|directory| directory.name).collect()
    }

    #[tokio::test]
    async fn what_was_removed_is_kept_for_its_time() {
        let (_dir, metad, core) = with_config(|config| config.trash_interval_ms = HOUR_MS).await;
        let mkdirs = async |at: &str| {
            let path = FsPath::parse(at).unwrap();
            core.change_unasked(Mkdirs { path, mode: 0o700, unmasked: None, create_parent: true }).await.unwrap();
        };
        let start = core.now();
        let first = date::checkpoint(start);
        mkdirs("/user/ann/.Trash/Current/data").await;
        mkdirs("/user/ann/.Trash/mine").await;
        mkdirs("/user/ben").await;
        round(&core, start).await.unwrap();
        assert_eq!(names(&core, "/user/ann/.Trash").await, [first.as_str(), "mine"]);
        assert_eq!(names(&core, &format!("/user/ann/.Trash/{first}")).await, ["data"]);
        // Twice in the same second.
        mkdirs("/user/ann/.Trash/Current/more").await;
        round(&core, start).await.unwrap();
        assert_eq!(names(&core, "/user/ann/.Trash").await, [first.clone(), format!("{first}-1"), "mine".into()]);
        mkdirs("/user/ann/.Trash/Current/late").await;
        round(&core, Millis(start.0 + HOUR_MS)).await.unwrap();
        assert_eq!(names(&core, "/user/ann/.Trash").await.len(), 4, "an hour is not over");
        round(&core, Millis(core.now().0 + HOUR_MS + 1)).await.unwrap();
        assert_eq!(
            names(&core, "/user/ann/.Trash").await,
            [date::checkpoint(Millis(start.0 + HOUR_MS)).as_str(), "mine"]
        );
        // Clients west of here name what they remove now by a moment that is long past.
        let west = date::checkpoint(Millis(start.0 - 5 * HOUR_MS));
        mkdirs(&format!("/user/ann/.Trash/{west}/new")).await;
        round(&core, core.now()).await.unwrap();
        assert!(names(&core, "/user/ann/.Trash").await.contains(&west), "it was removed just now");
        drop(core);
        metad.shutdown().await;
    }

    /// Whoever puts files where his checkpoints would be keeps nobody else from having theirs.
    #[tokio::test]
    async fn what_a_user_put_into_the_trash_is_no_matter_of_the_next_one() {
        let (_dir, metad, core) = with_config(|config| config.trash_interval_ms = HOUR_MS).await;
        let start = core.now();
        let name = date::checkpoint(start);
        for home in ["/user/ann", "/user/ben"] {
            let path = FsPath::parse(&format!("{home}/.Trash/Current/data")).unwrap();
            core.change_unasked(Mkdirs { path, mode: 0o700, unmasked: None, create_parent: true }).await.unwrap();
        }
        let file = Create {
            path: FsPath::parse(&format!("/user/ann/.Trash/{name}")).unwrap(),
            client: namespace::holder_name("ann", "client"),
            client_host: String::new(),
            mode: 0o600,
            unmasked: None,
            create: true,
            overwrite: false,
            create_parent: false,
            replication: 1,
            block_len: 1 << 20,
            block_len_min: 1,
            takeover: None,
        };
        core.change_unasked(file).await.unwrap();
        round(&core, start).await.unwrap();
        assert_eq!(names(&core, "/user/ann/.Trash").await, [format!("{name}-1")]);
        assert_eq!(names(&core, "/user/ben/.Trash").await, [name]);
        drop(core);
        metad.shutdown().await;
    }

    #[test]
    fn names_of_checkpoints_say_when() {
        let name = date::checkpoint(Millis(1_795_249_805_000));
        let time = Some(Millis(1_795_249_805_000));
        assert_eq!([checkpoint_time(&name), checkpoint_time(&format!("{name}-12"))], [time, time]);
        for other in [format!("{name}-"), format!("{name}-x"), CURRENT.into()] {
            assert_eq!(checkpoint_time(&other), None, "{other}");
        }
    }
}
