//! `levada bench`: measures a store, from far away too, and says what that cost on each side.
//!
//! `files/` writes files and verifies every byte of them; `meta/` makes the metadata server's calls; `servers` says
//! what each server has used since it began; `fill` makes what a server has that is measured with many files. The
//! meters of the servers are read over RPC ([`cost`]), so a measurement needs no access to their machines.

mod cost;
mod files;
mod fill;
mod latency;
mod meta;
mod own_client;
mod scratch;
mod servers;

use crate::shell::{Common, Session, Stop};
use std::sync::Arc;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
    #[command(flatten)]
    pub(crate) common: Common,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    /// Write large files: bytes a second, and the processor time of a gigabyte
    Write(files::Args),
    /// Write small files: files a second, and the processor time and fsyncs of a file
    Small(files::Args),
    /// Measure the metadata server: operations a second, its processor time for each, and latencies
    Meta(meta::Args),
    /// Say what each server has used since it began
    Servers,
    /// Fill the directory of a new metadata server with files that have no bytes, to measure one that has many
    Fill(fill::Args),
}

pub(crate) async fn run(args: Args, session: &Arc<Session>) -> Result<(), Stop> {
    match args.what {
        What::Write(args) => files::run(files::What::Write, args, session).await,
        What::Small(args) => files::run(files::What::Small, args, session).await,
        What::Meta(args) => meta::run(args, session).await,
        What::Fill(args) => fill::run(args).await,
        What::Servers => servers::run(session, &session.target("/")?).await,
    }
}
