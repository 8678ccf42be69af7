//! `levada test`

use crate::shell::{Common, Session, Stop, Target};
use client::Status;

#[derive(Debug, clap::Args)]
#[group(id = "question", required = true, multiple = false,
        args = ["exists", "directory", "file", "some", "zero", "readable", "writable"])]
pub(crate) struct Args {
    /// What to ask about
    path: String,
    /// It is there
    #[arg(short, long)]
    exists: bool,
    /// It is a directory
    #[arg(short, long)]
    directory: bool,
    /// It is a file
    #[arg(short, long)]
    file: bool,
    /// It is a file with some bytes
    #[arg(short, long)]
    some: bool,
    /// It is a file without bytes
    #[arg(short, long)]
    zero: bool,
    /// The user may read it
    #[arg(short, long)]
    readable: bool,
    /// The user may write it
    #[arg(short, long)]
    writable: bool,
    #[command(flatten)]
    pub(super) common: Common,
}

/// Bits of an access check.
const READ: i32 = 4;
const WRITE: i32 = 2;

pub(super) async fn run(args: Args, session: &Session) -> Result<(), Stop> {
    let (target, status) = session.place(&args.path).await?;
    let yes = match status {
        Some(status) => answer(&args, &target, &status).await.map_err(|error| target.failure(&error))?,
        None => false,
    };
    if !yes {
        session.deny();
    }
    Ok(())
}

async fn answer(args: &Args, target: &Target, status: &Status) -> client::Result<bool> {
    let is_file = status.kind == client::Kind::File;
    Ok(match () {
        () if args.directory => status.is_dir(),
        () if args.file => is_file,
        () if args.some => is_file && status.len > 0,
        () if args.zero => is_file && status.len == 0,
        () if args.readable => target.client.may(&target.path, READ).await?,
        () if args.writable => target.client.may(&target.path, WRITE).await?,
        () => true,
    })
}
