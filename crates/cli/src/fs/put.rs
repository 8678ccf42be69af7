//! `levada put`

use crate::shell::copy::{How, attributes_of, preserve_remote};
use crate::shell::transfer::{TransferArgs, each};
use crate::shell::{Common, Failure, Session, Stop, Target, size};
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::sync::mpsc::Sender;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Local files and directories; - is standard input
    #[arg(required = true)]
    sources: Vec<PathBuf>,
    /// Where to: a directory, or a new name
    #[arg(required = true)]
    destination: String,
    /// Replace files that are there
    #[arg(short, long)]
    force: bool,
    /// Keep times and modes
    #[arg(short, long)]
    preserve: bool,
    /// Accepted for those used to it: directories are always copied whole
    #[arg(short, long, short_alias = 'R')]
    recursive: bool,
    /// Copies of each block [default: as the store has it]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=512))]
    replication: Option<u16>,
    /// Length of a block, as in 128M [default: as the store has it]
    #[arg(long, value_name = "SIZE", value_parser = size::parse)]
    block_size: Option<u64>,
    #[command(flatten)]
    transfer: TransferArgs,
    #[command(flatten)]
    pub(super) common: Common,
}

/// A line of `--json`: one file is in the store.
#[derive(Debug, Serialize)]
struct Done<'a> {
    from: String,
    to: &'a str,
    len: u64,
}

#[derive(Debug)]
struct Job {
    from: PathBuf,
    to: Target,
}

pub(super) async fn run(args: Args, session: &Arc<Session>) -> Result<(), Stop> {
    let how =
        How { force: args.force, preserve: args.preserve, replication: args.replication, block_len: args.block_size };
    let (destination, there) = session.place(&args.destination).await?;
    let into = there.as_ref().is_some_and(client::Status::is_dir);
    if !into && (args.sources.len() > 1 || args.destination.ends_with('/')) {
        let reason = if there.is_some() { "is not a directory" } else { "no such directory" };
        return Err(Failure::new(&destination, reason).advise("several files need a directory to go to").into());
    }
    args.transfer.start(session);
    let put = {
        let session = Arc::clone(session);
        move |job: Job| {
            let session = Arc::clone(&session);
            async move { put_one(&session, &job, how).await }
        }
    };
    let find = async |jobs: Sender<Job>| {
        for source in &args.sources {
            if source == Path::new("-") {
                if into {
                    session.report(&Failure::new(&destination, "is a directory").advise("standard input needs a name"));
                } else if let Some(len) =
                    session.settle(session.put_stdin(&destination, how).await.map_err(Stop::from))?
                {
                    tell(session, "-".into(), &destination, len)?;
                }
                continue;
            }
            let target = match source.canonicalize().ok().as_deref().and_then(Path::file_name) {
                Some(name) if into => destination.child(&name.to_string_lossy()),
                _ => destination.clone(),
            };
            send(session, &jobs, source.clone(), target, how).await;
        }
        Ok::<_, Stop>(())
    };
    each(args.transfer.width(), find, put).await
}

/// Finds files from `source` down, makes the directories for them, and sends them to be copied.
async fn send(session: &Session, jobs: &Sender<Job>, source: PathBuf, target: Target, how: How) {
    let mut waiting = vec![(source, target)];
    let mut directories = Vec::new();
    while let Some((from, to)) = waiting.pop() {
        let metadata = match from.metadata() {
            Ok(metadata) => metadata,
            Err(error) => {
                session.report(&Failure::local(&from, &error));
                continue;
            }
        };
        if !metadata.is_dir() {
            session.progress.expect(metadata.len());
            if jobs.send(Job { from, to }).await.is_err() {
                return;
            }
            continue;
        }
        if leads_back(&from) {
            session.report(&Failure::new(from.display(), "is a link to a directory it lies in"));
            continue;
        }
        match children(&from) {
            Ok(names) => {
                if let Err(error) = to.client.mkdirs(&to.path, 0o755, false).await {
                    session.report(&to.failure(&error));
                    continue;
                }
                for name in names.into_iter().rev() {
                    match name.to_str() {
                        Some(text) => waiting.push((from.join(&name), to.child(text))),
                        None => session.report(&Failure::new(from.join(&name).display(), "its name is not UTF-8")),
                    }
                }
                directories.push((to, metadata));
            }
            Err(error) => session.report(&Failure::local(&from, &error)),
        }
    }
    if how.preserve {
        // Files still on their way would change the times again: their directories' modes are kept, innermost first.
        for (to, metadata) in directories.iter().rev() {
            if let Err(failure) = preserve_remote(to, &attributes_of(metadata)).await {
                session.report(&failure);
            }
        }
    }
}

/// True for a link that a walk would follow for ever.
fn leads_back(directory: &Path) -> bool {
    let is_link = directory.symlink_metadata().is_ok_and(|metadata| metadata.is_symlink());
    let parent = || directory.parent()?.canonicalize().ok();
    is_link && directory.canonicalize().ok().zip(parent()).is_some_and(|(to, parent)| parent.starts_with(to))
}

/// Names in a directory, in order.
fn children(directory: &Path) -> std::io::Result<Vec<std::ffi::OsString>> {
    let mut names = directory.read_dir()?.map(|entry| Ok(entry?.file_name())).collect::<std::io::Result<Vec<_>>>()?;
    names.sort_unstable();
    Ok(names)
}

async fn put_one(session: &Session, job: &Job, how: How) {
    match session.put_file(&job.from, &job.to, how).await {
        Ok(len) => drop(tell(session, job.from.display().to_string(), &job.to, len)),
        Err(failure) => session.report(&failure),
    }
}

fn tell(session: &Session, from: String, to: &Target, len: u64) -> Result<(), Stop> {
    if !session.output.is_json() {
        return Ok(());
    }
    session.output.json(&Done { from, to: &to.to_string(), len })
}
