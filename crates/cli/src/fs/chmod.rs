//! `levada chmod`

use crate::shell::browse::Found;
use crate::shell::mode::Change;
use crate::shell::transfer::every;
use crate::shell::{Common, Failure, Session, Stop};
use std::sync::Arc;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Octal, or as in u+x,go-w
    #[arg(value_parser = Change::parse, allow_hyphen_values = true)]
    mode: Change,
    /// What to change; patterns in quotes
    #[arg(required = true)]
    paths: Vec<String>,
    /// All that lies below, too
    #[arg(short = 'R', long)]
    recursive: bool,
    #[command(flatten)]
    pub(super) common: Common,
}

pub(super) async fn run(args: Args, session: &Arc<Session>) -> Result<(), Stop> {
    let change = args.mode;
    every(session, &args.paths, args.recursive, move |found| chmod(found, change.clone())).await
}

async fn chmod(found: Found, change: Change) -> Result<(), Failure> {
    let mode = change.apply(found.status.is_dir(), found.status.mode);
    if mode == found.status.mode {
        return Ok(());
    }
    let changed = found.target.client.set_permission(&found.target.path, mode).await;
    changed.map_err(|error| found.target.failure(&error))
}
