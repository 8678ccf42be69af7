//! `levada setrep`

use crate::shell::browse::{Found, Walk};
use crate::shell::{Common, Failure, Session, Stop};
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

pub(super) async fn run(args: Args, session: &Session) -> Result<(), Stop> {
    let mut changed = Vec::new();
    for path in &args.paths {
        for start in session.settle(session.find(path).await.map_err(Stop::from))?.unwrap_or_default() {
            let mut walk = Walk::over(start);
            while let Some(found) = walk.next().await {
                let Some(found) = session.settle(found.map_err(Stop::from))? else { continue };
                if found.status.is_dir() {
                    continue;
                }
                if session.settle(set(&found, args.replication).await.map_err(Stop::from))?.is_some() && args.wait {
                    changed.push(found);
                }
            }
        }
    }
    for found in changed {
        session.settle(wait(&found, args.replication).await.map_err(Stop::from))?;
    }
    Ok(())
}

async fn set(found: &Found, replication: u16) -> Result<(), Failure> {
    match found.target.client.set_replication(&found.target.path, replication).await {
        Ok(true) => Ok(()),
        Ok(false) => Err(Failure::new(&found.target, "is not a file any more")),
        Err(error) => Err(found.target.failure(&error)),
    }
}

async fn wait(found: &Found, replication: u16) -> Result<(), Failure> {
    loop {
        let blocks = found.target.client.locations(&found.target.path).await;
        let blocks = blocks.map_err(|error| found.target.failure(&error))?;
        if blocks.iter().all(|block| block.addrs.len() == usize::from(replication)) {
            return Ok(());
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}
