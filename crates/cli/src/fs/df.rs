//! `levada df`

use crate::shell::{Common, LongHelp, Session, Stop, size};
use serde::Serialize;

#[derive(Debug, clap::Args)]
#[command(disable_help_flag = true)]
pub(crate) struct Args {
    /// A path in the store [default: its root]
    path: Option<String>,
    /// Sizes as 1.5 G
    #[arg(short = 'h', long)]
    human: bool,
    #[command(flatten)]
    _help: LongHelp,
    #[command(flatten)]
    pub(super) common: Common,
}

/// The line of `--json`.
#[derive(Debug, Serialize)]
struct Space {
    store: String,
    capacity: u64,
    used: u64,
    remaining: u64,
}

pub(super) async fn run(args: Args, session: &Session) -> Result<(), Stop> {
    let target = session.target(args.path.as_deref().unwrap_or("/"))?;
    let stats = target.client.stats().await.map_err(|error| target.failure(&error))?;
    let store = target.client.url().to_string();
    let space = Space { store, capacity: stats.capacity, used: stats.used, remaining: stats.remaining };
    if session.output.is_json() {
        return session.output.json(&space);
    }
    let shown = |bytes: u64| if args.human { size::human(bytes) } else { bytes.to_string() };
    let percent =
        if space.capacity == 0 { 0 } else { (u128::from(space.used) * 100 / u128::from(space.capacity)) as u64 };
    let head = ["Filesystem", "Size", "Used", "Available", "Use%"].map(str::to_owned);
    let row =
        [space.store.clone(), shown(space.capacity), shown(space.used), shown(space.remaining), format!("{percent}%")];
    let widths: Vec<usize> = head.iter().zip(&row).map(|(name, value)| name.len().max(value.len())).collect();
    for [store, capacity, used, remaining, percent] in [&head, &row] {
        let [stores, capacities, useds, remainings, percents] = [0, 1, 2, 3, 4].map(|column| widths[column]);
        session.output.line(&format!(
            "{store:<stores$}  {capacity:>capacities$}  {used:>useds$}  {remaining:>remainings$}  {percent:>percents$}"
        ))?;
    }
    Ok(())
}
