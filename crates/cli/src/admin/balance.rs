//! `levada admin balance`

use super::jobs::{tell_begun, wait};
use crate::shell::{Common, Session, Stop};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// How far a datanode's use of its disk may be from the mean of all, in percent
    #[arg(long, value_name = "PERCENT", default_value_t = 10.0, value_parser = percent)]
    within: f64,
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
    let begun = target.client.admin().balance((args.within * 1e7) as u64).await;
    let job = begun.map_err(|error| target.failure(&error))?;
    if args.wait { wait(session, &target, job).await } else { tell_begun(session, job) }
}
