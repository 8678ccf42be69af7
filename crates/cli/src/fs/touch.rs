//! `levada touch`

use crate::shell::{Common, Failure, Session, Stop, time};
use client::Create;
use io::Clock;
use types::Millis;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Which files
    #[arg(required = true)]
    paths: Vec<String>,
    /// Make no file
    #[arg(short = 'c', long)]
    no_create: bool,
    /// The time of the last access only
    #[arg(short, long)]
    access: bool,
    /// The time of the last change only
    #[arg(short, long)]
    modified: bool,
    /// Which time (UTC), as in '2026-11-21 08:30:05' [default: now]
    #[arg(short, long, value_name = "TIME", value_parser = time::parse)]
    time: Option<Millis>,
    #[command(flatten)]
    pub(super) common: Common,
}

pub(super) async fn run(args: Args, session: &Session) -> Result<(), Stop> {
    for path in &args.paths {
        session.settle(touch(&args, session, path).await.map_err(Stop::from))?;
    }
    Ok(())
}

async fn touch(args: &Args, session: &Session, path: &str) -> Result<(), Failure> {
    let (target, there) = session.place(path).await?;
    let failure = |error| target.failure(&error);
    if there.is_none() {
        if args.no_create {
            return Ok(());
        }
        let create = Create { parents: false, ..Create::default() };
        let writer = target.client.create(&target.path, &create).await;
        let writer = writer.map_err(|error| match target.parent() {
            Some(parent) if error.is_not_found() => parent.failure(&error),
            _ => target.failure(&error),
        })?;
        writer.close().await.map_err(failure)?;
        if args.time.is_none() {
            return Ok(());
        }
    }
    let time = args.time.unwrap_or_else(|| io::SystemClock::default().now());
    let both = args.access == args.modified;
    let modified = (both || args.modified).then_some(time);
    let accessed = (both || args.access).then_some(time);
    target.client.set_times(&target.path, modified, accessed).await.map_err(failure)
}
