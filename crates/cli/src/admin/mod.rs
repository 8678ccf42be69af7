//! `levada admin`: looking after a store. One file for each thing that is administered.

mod meta;

use crate::fs;
use crate::shell::{Common, Session, Stop};
use std::process::ExitCode;
use std::sync::Arc;

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// The metadata servers
    #[command(subcommand)]
    Meta(meta::Command),
}

impl Command {
    fn common(&self) -> &Common {
        match self {
            Self::Meta(command) => command.common(),
        }
    }

    async fn perform(self, session: Arc<Session>) -> Result<(), Stop> {
        match self {
            Self::Meta(command) => meta::run(command, &session).await,
        }
    }
}

pub(crate) fn run(command: Command) -> ExitCode {
    let common = command.common().clone();
    fs::run_session("admin", &common, move |session| command.perform(session))
}
