//! `levada put`

use crate::shell::copy::{CopyArgs, How, attributes_of, make_directory, preserve_remote};
use crate::shell::transfer::{TransferArgs, destination, each};
use crate::shell::tree;
use crate::shell::{Common, Failure, Session, Stop, Target, shown, size};
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
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
    #[command(flatten)]
    copy: CopyArgs,
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

#[derive(Debug)]
struct Job {
    from: PathBuf,
    to: Target,
    /// A pipe or a device: it has no length, and may keep its reader waiting.
    special: bool,
}

pub(super) async fn run(args: Args, session: &Arc<Session>) -> Result<(), Stop> {
    let how = How { replication: args.replication, block_len: args.block_size, ..args.copy.how() };
    let (destination, into) = destination(session, &args.destination, args.sources.len() > 1).await?;
    args.transfer.start(session);
    let put = {
        let session = Arc::clone(session);
        move |job| put_one(Arc::clone(&session), job, how)
    };
    let find = async |jobs: Sender<Job>| {
        let mut directories = Vec::new();
        for source in &args.sources {
            if source == Path::new("-") {
                if into {
                    session.report(&Failure::new(&destination, "is a directory").advise("standard input needs a name"));
                } else if let Some(len) =
                    session.settle(session.put_stdin(&destination, how).await.map_err(Stop::from))?
                {
                    tree::print_transfer(session, "-".into(), destination.to_string(), len)?;
                }
                continue;
            }
            let target = match source.canonicalize().ok().as_deref().and_then(Path::file_name).filter(|_| into) {
                Some(name) => name.to_str().map(|name| destination.child(name)),
                None => Some(destination.clone()),
            };
            let Some(target) = target else {
                session.report(&Failure::not_utf8(source).advise("put it by itself, under a new name"));
                continue;
            };
            send(session, &jobs, source.clone(), target, &mut directories).await;
        }
        Ok::<_, Stop>(directories)
    };
    let directories = each(args.transfer.width(), find, put).await?;
    if args.copy.preserve {
        // Only now: a directory that is not to be written to has its files, and they change its time no more.
        for (to, metadata) in directories.iter().rev() {
            session.settle(preserve_remote(to, &attributes_of(metadata)).await.map_err(Stop::from))?;
        }
    }
    Ok(())
}

/// A local directory on the way down. Links are followed, so one may come up again below itself.
struct Above {
    device: u64,
    inode: u64,
    above: Option<Arc<Above>>,
}

impl Above {
    fn holds(mut above: Option<&Arc<Self>>, directory: &Metadata) -> bool {
        while let Some(one) = above {
            if (one.device, one.inode) == (directory.dev(), directory.ino()) {
                return true;
            }
            above = one.above.as_ref();
        }
        false
    }
}

/// True for a link to a directory it lies in, which may be above all that was named.
fn leads_up(directory: &Path) -> bool {
    let is_link = directory.symlink_metadata().is_ok_and(|metadata| metadata.is_symlink());
    let parent = || directory.parent()?.canonicalize().ok();
    is_link && directory.canonicalize().ok().zip(parent()).is_some_and(|(to, parent)| parent.starts_with(to))
}

/// Finds files from `source` down, makes the directories for them, and sends them to be copied.
async fn send(
    session: &Session,
    jobs: &Sender<Job>,
    source: PathBuf,
    target: Target,
    directories: &mut Vec<(Target, Metadata)>,
) {
    let mut waiting: Vec<(PathBuf, Target, Option<Arc<Above>>)> = vec![(source, target, None)];
    while let Some((from, to, above)) = waiting.pop() {
        let metadata = match from.metadata() {
            Ok(metadata) => metadata,
            Err(error) => {
                session.report(&Failure::local(&from, &error));
                continue;
            }
        };
        if !metadata.is_dir() {
            let special = !metadata.is_file();
            // What was named is read, whatever it is; but nobody means to wait for a pipe that lies in a tree.
            if special && above.is_some() {
                session.report(&Failure::new(shown(&from), "is not a file or directory"));
                continue;
            }
            session.progress.expect(metadata.len());
            if jobs.send(Job { from, to, special }).await.is_err() {
                return;
            }
            continue;
        }
        if Above::holds(above.as_ref(), &metadata) || leads_up(&from) {
            session.report(&Failure::new(shown(&from), "is a link to a directory it lies in"));
            continue;
        }
        match children(&from) {
            Ok(names) => {
                if let Err(failure) = make_directory(&to).await {
                    session.report(&failure);
                    continue;
                }
                let here = Arc::new(Above { device: metadata.dev(), inode: metadata.ino(), above });
                for name in names.into_iter().rev() {
                    match name.to_str() {
                        Some(text) => waiting.push((from.join(&name), to.child(text), Some(Arc::clone(&here)))),
                        None => session.report(&Failure::not_utf8(&from.join(&name))),
                    }
                }
                directories.push((to, metadata));
            }
            Err(error) => session.report(&Failure::local(&from, &error)),
        }
    }
}

/// Names in a directory, in order.
fn children(directory: &Path) -> std::io::Result<Vec<std::ffi::OsString>> {
    let mut names = directory.read_dir()?.map(|entry| Ok(entry?.file_name())).collect::<std::io::Result<Vec<_>>>()?;
    names.sort_unstable();
    Ok(names)
}

async fn put_one(session: Arc<Session>, job: Job, how: How) {
    let put = if job.special {
        session.put_special(&job.from, &job.to, how).await
    } else {
        let mut attempt = 0;
        loop {
            let put = session.put_file(&job.from, &job.to, how).await;
            let is_passing = put.as_ref().is_err_and(Failure::is_passing);
            if !is_passing || !session.waits_for_datanodes(attempt).await {
                break put;
            }
            attempt += 1;
        }
    };
    tree::settle(&session, put, shown(&job.from), job.to.to_string());
}
