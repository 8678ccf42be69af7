//! `levada mv`

use crate::shell::browse::Found;
use crate::shell::transfer::destination;
use crate::shell::{Common, Failure, Session, Stop, Target};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// What to move; patterns in quotes
    #[arg(required = true)]
    sources: Vec<String>,
    /// Where to: a directory, or a new name
    #[arg(required = true)]
    destination: String,
    /// Replace a file that is there
    #[arg(short, long)]
    force: bool,
    #[command(flatten)]
    pub(super) common: Common,
}

pub(super) async fn run(args: Args, session: &Session) -> Result<(), Stop> {
    let mut found = Vec::new();
    for source in &args.sources {
        found.extend(session.found(source).await?);
    }
    let (destination, into) = destination(session, &args.destination, found.len() > 1).await?;
    for from in found {
        let to = if into { destination.child(from.target.name()) } else { destination.clone() };
        session.settle(rename(&args, &from, &to).await.map_err(Stop::from))?;
    }
    Ok(())
}

async fn rename(args: &Args, from: &Found, to: &Target) -> Result<(), Failure> {
    let source = &from.target;
    if !source.same_store(to) {
        return Err(Failure::new(to, "is in another store").advise("copy with cp, then remove the source"));
    }
    if source.path == to.path {
        return Err(Failure::new(source, "is the same file"));
    }
    if to.is_within(source) {
        return Err(Failure::new(source, format!("cannot be moved to {to}: that lies within itself")));
    }
    let renamed = source.client.rename(&source.path, &to.path, args.force).await;
    renamed.map_err(|error| match error {
        client::Error::Exists => Failure::new(to, "already exists").advise("use -f to replace a file"),
        // The source was seen a moment ago.
        client::Error::NotFound => to.parent().as_ref().unwrap_or(to).failure(&error),
        error => source.failure(&error),
    })
}
