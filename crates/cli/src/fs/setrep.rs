//! `levada setrep`

use crate::shell::browse::Found;
use crate::shell::transfer::every;
use crate::shell::{Common, Failure, Session, Stop};
use std::sync::Arc;
use std::time::Duration;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Copies of each block
    #[arg(value_parser = clap::value_parser!(u16).range(1..=512))]
    replication: u16,
    /// Files, and directories with all files below; patterns in quotes
    #[arg(required = true)]
    paths: Vec<String>,
    /// Accepted for those used to it: directories are always changed whole
    #[arg(short = 'R', long)]
    recursive: bool,
    /// Wait until the copies are there
    #[arg(short, long)]
    wait: bool,
    #[command(flatten)]
    pub(super) common: Common,
}

/// How often the copies are counted.
const LOOK_EVERY: Duration = Duration::from_secs(1);

pub(super) async fn run(args: Args, session: &Arc<Session>) -> Result<(), Stop> {
    let replication = args.replication;
    every(session, &args.paths, true, move |found| set(found, replication)).await?;
    // The copies are made side by side: nothing is waited for before all have been asked for.
    if args.wait {
        every(session, &args.paths, true, move |found| copied(found, replication)).await?;
    }
    Ok(())
}

async fn set(found: Found, replication: u16) -> Result<(), Failure> {
    if found.status.is_dir() {
        return Ok(());
    }
    match found.target.client.set_replication(&found.target.path, replication).await {
        Ok(true) => Ok(()),
        Ok(false) => Err(Failure::new(&found.target, "is not a file any more")),
        Err(error) => Err(found.target.failure(&error)),
    }
}

/// Returns when every block has its copies.
async fn copied(found: Found, replication: u16) -> Result<(), Failure> {
    if found.status.is_dir() {
        return Ok(());
    }
    loop {
        let blocks = found.target.client.locations(&found.target.path).await;
        let blocks = blocks.map_err(|error| found.target.failure(&error))?;
        if blocks.iter().all(|block| block.addrs.len() == usize::from(replication)) {
            return Ok(());
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}
