//! `levada doctor`: what is wrong, or will be, and what to do about it.
//!
//! Promise: it changes nothing. Each piece of advice and each fault says what to do; the exit code is 1 where one is a
//! fault, or unknown. What cannot be looked at is a finding, too.

mod certificates;
mod file;
mod finding;
mod listener;
mod page;
mod store;

use crate::fs::run_session;
use crate::shell::{Common, Session, Stop};
use finding::Level;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Look at this file of a metadata server or datanode, and at the machine, before the server starts; without it, at
    /// a running store
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    #[command(flatten)]
    common: Common,
}

/// Who asks what is wrong is told at once that a server is down: one that starts anew is back in less.
const PATIENCE: Duration = Duration::from_secs(3);

pub(crate) fn run(args: Args) -> ExitCode {
    let common = args.common.clone().patient_for(PATIENCE);
    run_session("doctor", &common, |session| examine(args, session))
}

async fn examine(args: Args, session: Arc<Session>) -> Result<(), Stop> {
    let findings = match &args.config {
        Some(path) => file::examine(path).await,
        None => store::examine(&session).await?,
    };
    if findings.iter().any(|finding| finding.level >= Level::Unknown) {
        session.deny();
    }
    if session.output.is_json() {
        return findings.iter().try_for_each(|finding| session.output.json(finding));
    }
    findings.iter().try_for_each(|finding| session.output.line(&finding.to_string()))
}
