//! `levada cat`

use crate::shell::{Common, Failure, Session, Stop};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// What to print; patterns in quotes
    #[arg(required = true)]
    paths: Vec<String>,
    #[command(flatten)]
    pub(super) common: Common,
}

pub(super) async fn run(args: Args, session: &Session) -> Result<(), Stop> {
    for path in &args.paths {
        for found in session.found(path).await? {
            if found.status.is_dir() {
                session.report(&Failure::new(&found.target, "is a directory"));
            } else {
                session.settle(session.print_file(&found).await)?;
            }
        }
    }
    Ok(())
}
