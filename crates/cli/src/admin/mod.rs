//! `levada admin`: looking after a store. One file for each thing that is administered.

mod backup;
mod balance;
mod datanode;
mod found;
mod jobs;
mod joining;
mod log_level;
mod meta;
mod placement;
mod repair;
mod safe_mode;
mod scrub;
mod table;

use crate::fs;
use crate::shell::{Common, Session, Stop};
use std::process::ExitCode;
use std::sync::Arc;

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// The metadata servers
    #[command(subcommand)]
    Meta(meta::Command),
    /// The datanodes
    #[command(subcommand, alias = "node")]
    Datanode(datanode::Command),
    /// List the sets of datanodes that hold blocks
    Pipelines(placement::Args),
    /// List the containers, and which pipeline holds each
    Containers(placement::Args),
    /// List the blocks that lack copies, are damaged, or have none that is here
    UnderReplicated(placement::Args),
    /// Move containers from fuller datanodes to emptier ones
    Balance(balance::Args),
    /// Read every replica against its checksums, and replace damaged ones by good copies
    Scrub(scrub::Args),
    /// Repair: what it has to do, and how it is made to wait
    #[command(subcommand)]
    Repair(repair::Command),
    /// Safe mode: nothing of the namespace changes while it is on
    #[command(subcommand, name = "safemode")]
    SafeMode(safe_mode::Command),
    /// What servers log, changed while they run, until they start anew or read their configuration again
    LogLevel(log_level::Args),
    /// What the store is at: repair, draining, balancing, scrubbing
    Jobs(jobs::Args),
}

impl Command {
    fn common(&self) -> &Common {
        match self {
            Self::Meta(command) => command.common(),
            Self::Datanode(command) => command.common(),
            Self::Pipelines(args) | Self::Containers(args) | Self::UnderReplicated(args) => &args.common,
            Self::Balance(args) => &args.common,
            Self::Scrub(args) => &args.common,
            Self::Repair(command) => command.common(),
            Self::SafeMode(command) => command.common(),
            Self::LogLevel(args) => &args.common,
            Self::Jobs(args) => args.common(),
        }
    }

    async fn perform(self, session: Arc<Session>) -> Result<(), Stop> {
        match self {
            Self::Meta(command) => meta::run(command, &session).await,
            Self::Datanode(command) => datanode::run(command, &session).await,
            Self::Pipelines(_) => placement::pipelines(&session).await,
            Self::Containers(_) => placement::containers(&session).await,
            Self::UnderReplicated(_) => placement::under_replicated(&session).await,
            Self::Balance(args) => balance::run(args, &session).await,
            Self::Scrub(args) => scrub::run(args, &session).await,
            Self::Repair(command) => repair::run(command, &session).await,
            Self::SafeMode(command) => safe_mode::run(command, &session).await,
            Self::LogLevel(args) => log_level::run(args, &session).await,
            Self::Jobs(args) => jobs::run(args, &session).await,
        }
    }
}

pub(crate) fn run(command: Command) -> ExitCode {
    let common = command.common().clone();
    fs::run_session("admin", &common, move |session| command.perform(session))
}
