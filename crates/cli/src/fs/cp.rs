//! `levada cp`

use crate::shell::copy::{Attributes, CopyArgs, How, preserve_remote};
use crate::shell::transfer::{TransferArgs, destination, each};
use crate::shell::tree::{self, Job};
use crate::shell::{Common, Failure, Session, Stop, Target};
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
    #[command(flatten)]
    copy: CopyArgs,
    #[command(flatten)]
    transfer: TransferArgs,
    #[command(flatten)]
    pub(super) common: Common,
}

pub(super) async fn run(args: Args, session: &Arc<Session>) -> Result<(), Stop> {
    let how = args.copy.how();
    let mut found = Vec::new();
    for source in &args.sources {
        found.extend(session.found(source).await?);
    }
    let (destination, into) = destination(session, &args.destination, found.len() > 1).await?;
    args.transfer.start(session);
    let copy = {
        let session = Arc::clone(session);
        move |job| copy_one(Arc::clone(&session), job, how)
    };
    let find = async |jobs: Sender<Job<Target>>| {
        let mut directories = Vec::new();
        for start in found {
            let to = if into { destination.child(start.target.name()) } else { destination.clone() };
            if to.is_within(&start.target) {
                let within = format!("cannot be copied to {to}: that lies within itself");
                let reason = if to.path == start.target.path { "is the same file".into() } else { within };
                session.report(&Failure::new(&start.target, reason));
                continue;
            }
            tree::send(session, &jobs, start, to, &mut directories).await;
        }
        directories
    };
    let directories = each(args.transfer.width(), find, copy).await;
    if args.copy.preserve {
        for (to, from) in directories.iter().rev() {
            session.settle(preserve_remote(to, &Attributes::of(&from.status)).await.map_err(Stop::from))?;
        }
    }
    Ok(())
}

async fn copy_one(session: Arc<Session>, job: Job<Target>, how: How) {
    let copied = session.copy_file(&job.from, &job.to, how).await;
    tree::settle(&session, copied, job.from.target.to_string(), job.to.to_string());
}
