//! `levada checksum`

use crate::shell::{Common, Failure, Session, Stop};
use serde::Serialize;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Files; patterns in quotes
    #[arg(required = true)]
    paths: Vec<String>,
    #[command(flatten)]
    pub(super) common: Common,
}

/// A line of `--json`.
#[derive(Debug, Serialize)]
struct Sum {
    path: String,
    algorithm: String,
    /// Hexadecimal
    checksum: String,
}

pub(super) async fn run(args: Args, session: &Session) -> Result<(), Stop> {
    for path in &args.paths {
        for found in session.found(path).await? {
            if found.status.is_dir() {
                session.report(&Failure::new(&found.target, "is a directory"));
                continue;
            }
            let sum = found.target.client.checksum(&found.target.path).await;
            let sum = sum.map_err(|error| Stop::Failed(found.target.failure(&error)));
            let Some(sum) = session.settle(sum)? else { continue };
            let sum = Sum { path: found.target.shown(), checksum: sum.to_string(), algorithm: sum.algorithm };
            if session.output.is_json() {
                session.output.json(&sum)?;
            } else {
                session.output.line(&format!("{}\t{}\t{}", sum.path, sum.algorithm, sum.checksum))?;
            }
        }
    }
    Ok(())
}
