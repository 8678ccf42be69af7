//! `levada chmod`

use crate::shell::browse::Walk;
use crate::shell::mode::Change;
use crate::shell::{Common, Session, Stop};

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

pub(super) async fn run(args: Args, session: &Session) -> Result<(), Stop> {
    for path in &args.paths {
        for start in session.settle(session.find(path).await.map_err(Stop::from))?.unwrap_or_default() {
            let mut walk = Walk::over_if(start, args.recursive);
            while let Some(found) = walk.next().await {
                let Some(found) = session.settle(found.map_err(Stop::from))? else { continue };
                let mode = args.mode.apply(found.status.is_dir(), found.status.mode);
                if mode == found.status.mode {
                    continue;
                }
                let changed = found.target.client.set_permission(&found.target.path, mode).await;
                session.settle(changed.map_err(|error| found.target.failure(&error).into()))?;
            }
        }
    }
    Ok(())
}
