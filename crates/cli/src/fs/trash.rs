//! `levada trash`
//!
//! The trash does not say what was removed whole: directories above it are made like those that were removed. So a
//! directory that has its place in the store is gone through, and one that has none there is an item by itself.

use super::run_session;
use crate::shell::trash::{CURRENT, Trash, checkpoint, untaken};
use crate::shell::{Common, Failure, Session, Stop, Target};
use client::{Error, Status};
use serde::Serialize;
use std::process::ExitCode;
use std::sync::Arc;

/// What a directory gets that is made for what is restored, where its own is gone, too.
const PARENT_MODE: u16 = 0o755;

const NONE_KEPT: &str = "this store has no trash, and deletes what is removed at once: its setting trash_interval_ms, \
                         or --trash-interval of `levada up`, says for how long it is kept";

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// List what you have removed and can still put back
    List(ListArgs),
    /// Put back what you have removed, where it was; nothing that is there is replaced
    Restore(RestoreArgs),
    /// Delete all that you have removed, now
    Empty(EmptyArgs),
}

#[derive(Debug, clap::Args)]
pub(crate) struct ListArgs {
    #[command(flatten)]
    common: Common,
}

#[derive(Debug, clap::Args)]
pub(crate) struct RestoreArgs {
    /// Where it was, as `levada trash list` shows it; of several, the one that was removed last
    #[arg(required = true)]
    paths: Vec<String>,
    /// Only what was removed before this checkpoint was made, as `levada trash list --json` names it, or `Current`
    #[arg(long, value_name = "CHECKPOINT")]
    from: Option<String>,
    /// Put it here instead: a path that is not there yet
    #[arg(long, value_name = "PATH")]
    to: Option<String>,
    #[command(flatten)]
    common: Common,
}

#[derive(Debug, clap::Args)]
pub(crate) struct EmptyArgs {
    #[command(flatten)]
    common: Common,
}

/// A line of `list --json`.
#[derive(Debug, Serialize)]
struct Line {
    /// Where it was.
    path: String,
    /// Where it is.
    trash: String,
    /// `Current`, or the name of a checkpoint.
    checkpoint: String,
    dir: bool,
    len: u64,
}

pub(crate) fn run(command: Command) -> ExitCode {
    let common = match &command {
        Command::List(args) => &args.common,
        Command::Restore(args) => &args.common,
        Command::Empty(args) => &args.common,
    };
    let common = common.clone();
    run_session("trash", &common, |session| perform(command, session))
}

async fn perform(command: Command, session: Arc<Session>) -> Result<(), Stop> {
    match command {
        Command::List(_) => list(&session).await,
        Command::Restore(args) => restore(&args, &session).await,
        Command::Empty(_) => empty(&session).await,
    }
}

/// `Current`, and the checkpoints, the latest first.
async fn places(trash: &Trash) -> Result<Vec<Target>, Stop> {
    let mut names: Vec<String> = Vec::new();
    for entry in entries(&trash.root).await? {
        if entry.is_dir() && checkpoint(&entry.name).is_some() {
            names.push(entry.name);
        }
    }
    names.sort_unstable_by(|one, other| other.cmp(one));
    Ok(std::iter::once(CURRENT.to_owned()).chain(names).map(|name| trash.root.child(&name)).collect())
}

/// None, where there is no such directory.
async fn entries(directory: &Target) -> Result<Vec<Status>, Failure> {
    let listed = match directory.client.list(&directory.path).await {
        Ok(listing) => listing.collect().await,
        Err(error) => Err(error),
    };
    match listed {
        Ok(entries) => Ok(entries.into_iter().filter(|entry| !entry.name.is_empty()).collect()),
        Err(Error::NotFound | Error::NotADirectory) => Ok(Vec::new()),
        Err(error) => Err(directory.failure(&error)),
    }
}

/// What is there; nothing also below a file.
async fn status(target: &Target) -> Result<Option<Status>, Failure> {
    match target.client.status(&target.path).await {
        Err(Error::NotADirectory) => Ok(None),
        status => status.map_err(|error| target.failure(&error)),
    }
}

async fn list(session: &Session) -> Result<(), Stop> {
    let root = session.target("/")?;
    if !root.client.defaults().await.map_err(|error| root.failure(&error))?.trash {
        // What was removed while it had one is listed all the same.
        eprintln!("levada: {NONE_KEPT}");
    }
    for place in places(&Trash::of(&root)).await? {
        let name = place.name();
        // Pairs: where it lies, and where it was.
        let mut left = vec![(place.clone(), root.with_path("/".into()))];
        while let Some((directory, original)) = left.pop() {
            for entry in entries(&directory).await? {
                let (trash, was) = (directory.child(&entry.name), original.child(&entry.name));
                if entry.is_dir() && status(&was).await?.is_some_and(|status| status.is_dir()) {
                    left.push((trash, was));
                    continue;
                }
                let was = untaken(&entry.name).map_or(was, |(plain, _)| original.child(plain));
                show(session, name, &entry, &trash, &was)?;
            }
        }
    }
    Ok(())
}

fn show(session: &Session, place: &str, entry: &Status, trash: &Target, was: &Target) -> Result<(), Stop> {
    if session.output.is_json() {
        let (path, checkpoint) = (was.path.clone(), place.to_owned());
        let line = Line { path, trash: trash.path.clone(), checkpoint, dir: entry.is_dir(), len: entry.len };
        return session.output.json(&line);
    }
    let before = checkpoint(place).map_or_else(|| "not yet in a checkpoint".to_owned(), |time| format!("by {time}"));
    session.output.line(&format!("{before:<23}  {}{}", was.path, if entry.is_dir() { "/" } else { "" }))
}

async fn restore(args: &RestoreArgs, session: &Session) -> Result<(), Stop> {
    if args.to.is_some() && args.paths.len() > 1 {
        return Err(Failure::usage("--to", "names one place; restore one path at a time").into());
    }
    let trash = Trash::of(&session.target("/")?);
    let mut places = places(&trash).await?;
    if let Some(from) = &args.from {
        places.retain(|place| place.name() == from);
    }
    for path in &args.paths {
        let restored = restore_one(args, session, &places, path).await;
        session.settle(restored)?;
    }
    Ok(())
}

async fn restore_one(args: &RestoreArgs, session: &Session, places: &[Target], path: &str) -> Result<(), Stop> {
    let was = session.target(path)?;
    let to = args.to.as_ref().map_or_else(|| Ok(was.clone()), |to| session.target(to))?;
    let Some(found) = last_removed(places, &was).await? else {
        let failure = Failure::new(&was, "is not in your trash");
        return Err(failure.advise("`levada trash list` shows what is").into());
    };
    if status(&to).await?.is_some() {
        let failure = Failure::new(&to, "is there, and is not replaced");
        return Err(failure.advise("move it away, name one below it, or give --to another place").into());
    }
    if let Some(parent) = to.parent()
        && status(&parent).await?.is_none()
    {
        let made = parent.client.mkdirs(&parent.path, PARENT_MODE, true).await;
        made.map_err(|error| parent.failure(&error))?;
    }
    let renamed = found.client.rename(&found.path, &to.path, false).await;
    if renamed.is_ok() {
        tidy(&found, places).await;
    }
    match renamed {
        Ok(()) if session.output.is_json() => {
            session.output.json(&serde_json::json!({ "restored": to.shown(), "trash": found.path }))
        }
        Ok(()) => Ok(()),
        Err(Error::Exists) => Err(Failure::new(&to, "is there, and is not replaced").into()),
        Err(error) => Err(to.failure(&error).into()),
    }
}

/// Deletes the directories that held nothing else: they would look like some that were removed empty. One that another
/// command fills at this moment is not empty, or is made again by it.
async fn tidy(restored: &Target, places: &[Target]) {
    let mut above = restored.parent();
    while let Some(directory) = above.filter(|directory| !places.iter().any(|place| place.path == directory.path)) {
        if !directory.client.delete(&directory.path, false).await.is_ok_and(|deleted| deleted) {
            return;
        }
        above = directory.parent();
    }
}

/// Of all that had this path, the one that was removed last.
async fn last_removed(places: &[Target], was: &Target) -> Result<Option<Target>, Failure> {
    if was.is_root() {
        return Ok(None);
    }
    for place in places {
        let plain = place.beneath(was);
        let Some(directory) = plain.parent() else { continue };
        let entries = entries(&directory).await?;
        let moments = entries.iter().filter_map(|entry| match untaken(&entry.name) {
            Some((name, moment)) if name == plain.name() => Some((moment, entry)),
            _ => (entry.name == plain.name()).then_some((0, entry)),
        });
        if let Some((_, entry)) = moments.max_by_key(|(moment, _)| *moment) {
            return Ok(Some(directory.child(&entry.name)));
        }
    }
    Ok(None)
}

async fn empty(session: &Session) -> Result<(), Stop> {
    let root = Trash::of(&session.target("/")?).root;
    for entry in entries(&root).await? {
        if entry.name != CURRENT && checkpoint(&entry.name).is_none() {
            continue;
        }
        let target = root.child(&entry.name);
        let deleted = target.client.delete(&target.path, true).await.map_err(|error| target.failure(&error).into());
        if session.settle(deleted)?.is_some_and(|deleted| deleted) && session.output.is_json() {
            session.output.json(&serde_json::json!({ "removed": target.path }))?;
        }
    }
    Ok(())
}
