//! `levada admin balance`

use super::jobs::{print_begun, wait};
use crate::shell::{Common, Session, Stop, size};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// How far a datanode's use of its disks may be from the mean of all (with --disks: a disk's from the mean of its
    /// datanode), in percent
    #[arg(long, value_name = "PERCENT", default_value_t = 10.0, value_parser = percent)]
    within: f64,
    /// Between the disks of each datanode, not between datanodes
    #[arg(long)]
    disks: bool,
    /// With --disks: ids, beginnings of ids, or addresses [default: all datanodes that are up]
    #[arg(value_name = "DATANODE", requires = "disks")]
    datanodes: Vec<String>,
    /// Bytes a second, as in 20M: of the whole store, in the long run [default: no limit]; with --disks of each
    /// datanode [default: 50M]
    #[arg(long, value_name = "SIZE", value_parser = size::parse)]
    rate: Option<u64>,
    /// Return when all is moved and read back; without it, see `levada admin jobs`
    #[arg(long)]
    wait: bool,
    #[command(flatten)]
    pub(super) common: Common,
}

fn percent(text: &str) -> Result<f64, String> {
    let number: f64 = text.parse().map_err(|_| format!("{text} is no number"))?;
    if (0.0..=100.0).contains(&number) { Ok(number) } else { Err("0 to 100".to_owned()) }
}

pub(super) async fn run(args: Args, session: &Session) -> Result<(), Stop> {
    let target = session.target("/")?;
    let admin = target.client.admin();
    let within = (args.within * 1e7) as u64;
    let begun = if args.disks {
        admin.balance_disks(args.datanodes, args.rate.unwrap_or_default(), within).await
    } else {
        admin.balance(within, args.rate.unwrap_or_default()).await
    };
    let job = begun.map_err(|error| target.failure(&error))?;
    if args.wait { wait(session, &target, job).await } else { print_begun(session, job) }
}
