//! `levada admin scrub`

use super::jobs::{print_begun, wait};
use crate::shell::{Common, Session, Stop, size};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Ids, beginnings of ids, or addresses [default: all datanodes that are up]
    #[arg(value_name = "DATANODE")]
    datanodes: Vec<String>,
    /// Bytes a second of each datanode, as in 20M [default: 50M]
    #[arg(long, value_name = "SIZE", value_parser = size::parse)]
    rate: Option<u64>,
    /// Return when all is read and mended; without it, see `levada admin jobs`
    #[arg(long)]
    wait: bool,
    #[command(flatten)]
    pub(super) common: Common,
}

pub(super) async fn run(args: Args, session: &Session) -> Result<(), Stop> {
    let target = session.target("/")?;
    let begun = target.client.admin().scrub(args.datanodes, args.rate.unwrap_or_default()).await;
    let job = begun.map_err(|error| target.failure(&error))?;
    if args.wait { wait(session, &target, job).await } else { print_begun(session, job) }
}
