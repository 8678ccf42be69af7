//! `levada get`

use crate::shell::browse::Found;
use crate::shell::copy::{CopyArgs, How, preserve_local};
use crate::shell::failure::no_directory;
use crate::shell::transfer::{TransferArgs, each};
use crate::shell::tree::{self, Job};
use crate::shell::{Common, Failure, Session, Stop, shown};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::sync::mpsc::Sender;

#[derive(Debug, clap::Args)]
#[command(override_usage = "levada get [OPTIONS] <SOURCES>... [DESTINATION]")]
pub(crate) struct Args {
    /// Files and directories of the store, patterns in quotes; then where to: a directory, a new name, or - for
    /// standard output [default: the current directory]
    #[arg(required = true)]
    paths: Vec<OsString>,
    #[command(flatten)]
    copy: CopyArgs,
    #[command(flatten)]
    transfer: TransferArgs,
    #[command(flatten)]
    pub(super) common: Common,
}

pub(super) async fn run(args: Args, session: &Arc<Session>) -> Result<(), Stop> {
    let how = args.copy.how();
    let (sources, destination) = match args.paths.split_last() {
        Some((last, sources)) if !sources.is_empty() => (sources, Path::new(last)),
        _ => (&args.paths[..], Path::new(".")),
    };
    let mut found = Vec::new();
    for source in sources {
        let Some(source) = source.to_str() else {
            session.report(&Failure::not_utf8(Path::new(source)));
            continue;
        };
        found.extend(session.found(source).await?);
    }
    if destination == Path::new("-") {
        return print(session, found).await;
    }
    let into = destination.is_dir();
    if !into && (found.len() > 1 || destination.as_os_str().as_encoded_bytes().ends_with(b"/")) {
        return Err(no_directory(shown(destination), destination.exists(), found.len() > 1).into());
    }
    args.transfer.start(session);
    let get = {
        let session = Arc::clone(session);
        move |job| get_one(Arc::clone(&session), job, how)
    };
    let find = async |jobs: Sender<Job<PathBuf>>| {
        let mut directories = Vec::new();
        for start in found {
            let name = start.target.name();
            let to = if into && !name.is_empty() { destination.join(name) } else { destination.to_owned() };
            tree::send(session, &jobs, start, to, &mut directories).await;
        }
        directories
    };
    let directories = each(args.transfer.width(), find, get).await;
    if args.copy.preserve {
        for (path, from) in directories.iter().rev() {
            let kept = std::fs::File::open(path).map_err(|error| Failure::local(path, &error));
            session.settle(kept.and_then(|file| preserve_local(&file, path, &from.status)).map_err(Stop::from))?;
        }
    }
    Ok(())
}

async fn print(session: &Session, found: Vec<Found>) -> Result<(), Stop> {
    for from in found {
        if from.status.is_dir() {
            session.report(&Failure::new(&from.target, "is a directory"));
        } else {
            session.settle(session.print_file(&from).await)?;
        }
    }
    Ok(())
}

async fn get_one(session: Arc<Session>, job: Job<PathBuf>, how: How) {
    let copied = session.get_file(&job.from, &job.to, how).await;
    tree::settle(&session, copied, job.from.target.to_string(), shown(&job.to));
}
