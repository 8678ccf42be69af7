//! `levada cp`

use crate::shell::browse::{Found, Walk};
use crate::shell::copy::{Attributes, How, make_directory, preserve_remote};
use crate::shell::transfer::{TransferArgs, each, no_directory};
use crate::shell::{Common, Failure, Session, Stop, Target, names_directory};
use serde::Serialize;
use std::sync::Arc;
use tokio::sync::mpsc::Sender;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// What to copy; patterns in quotes
    #[arg(required = true)]
    sources: Vec<String>,
    /// Where to: a directory, or a new name
    #[arg(required = true)]
    destination: String,
    /// Replace files that are there
    #[arg(short, long)]
    force: bool,
    /// Keep times, owners and modes
    #[arg(short, long)]
    preserve: bool,
    /// Accepted for those used to it: directories are always copied whole
    #[arg(short, long, short_alias = 'R')]
    recursive: bool,
    #[command(flatten)]
    transfer: TransferArgs,
    #[command(flatten)]
    pub(super) common: Common,
}

/// A line of `--json`: one file was copied.
#[derive(Debug, Serialize)]
struct Done {
    from: String,
    to: String,
    len: u64,
}

#[derive(Debug)]
struct Job {
    from: Found,
    to: Target,
}

pub(super) async fn run(args: Args, session: &Arc<Session>) -> Result<(), Stop> {
    let how = How { force: args.force, preserve: args.preserve, ..How::default() };
    let mut found = Vec::new();
    for source in &args.sources {
        found.extend(session.settle(session.find(source).await.map_err(Stop::from))?.unwrap_or_default());
    }
    let (destination, there) = session.place(&args.destination).await?;
    let into = there.as_ref().is_some_and(client::Status::is_dir);
    if !into && (found.len() > 1 || names_directory(&args.destination)) {
        return Err(no_directory(&destination, there.is_some(), found.len() > 1).into());
    }
    args.transfer.start(session);
    let copy = {
        let session = Arc::clone(session);
        move |job: Job| {
            let session = Arc::clone(&session);
            async move { copy_one(&session, &job, how).await }
        }
    };
    let find = async |jobs: Sender<Job>| {
        let mut directories = Vec::new();
        for start in found {
            let to = if into { destination.child(start.target.name()) } else { destination.clone() };
            if to.is_within(&start.target) {
                let within = format!("cannot be copied to {to}: that lies within itself");
                let reason = if to.path == start.target.path { "is the same file".into() } else { within };
                session.report(&Failure::new(&start.target, reason));
                continue;
            }
            send(session, &jobs, start, to, &mut directories).await;
        }
        directories
    };
    let directories = each(args.transfer.width(), find, copy).await;
    if args.preserve {
        for (to, from) in directories.iter().rev() {
            session.settle(preserve_remote(to, &Attributes::of(&from.status)).await.map_err(Stop::from))?;
        }
    }
    Ok(())
}

/// Finds files from `start` down, makes the directories for them, and sends them to be copied.
async fn send(session: &Session, jobs: &Sender<Job>, start: Found, to: Target, directories: &mut Vec<(Target, Found)>) {
    let top = start.target.path.trim_end_matches('/').len();
    let mut walk = Walk::over(start);
    while let Some(next) = walk.next().await {
        let from = match next {
            Ok(from) => from,
            Err(failure) => {
                session.report(&failure);
                continue;
            }
        };
        let rest = from.target.path[top..].trim_start_matches('/');
        let place = if rest.is_empty() { to.clone() } else { to.child(rest) };
        if from.status.is_dir() {
            match make_directory(&place).await {
                Ok(()) => directories.push((place, from)),
                Err(failure) => {
                    session.report(&failure);
                    walk.leave();
                }
            }
            continue;
        }
        session.progress.expect(from.status.len);
        if jobs.send(Job { from, to: place }).await.is_err() {
            return;
        }
    }
}

async fn copy_one(session: &Session, job: &Job, how: How) {
    match session.copy_file(&job.from, &job.to, how).await {
        Ok(len) if session.output.is_json() => {
            let done = Done { from: job.from.target.to_string(), to: job.to.to_string(), len };
            drop(session.output.json(&done));
        }
        Ok(_) => {}
        Err(failure) => session.report(&failure),
    }
}
