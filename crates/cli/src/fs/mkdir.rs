//! `levada mkdir`

use crate::shell::mode::Change;
use crate::shell::{Common, Failure, Session, Stop};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// What to make
    #[arg(required = true)]
    paths: Vec<String>,
    /// Make what is missing above, and do not mind if it is there
    #[arg(short, long)]
    parents: bool,
    /// The mode of what is made
    #[arg(short, long, value_parser = Change::parse, default_value = "755")]
    mode: Change,
    #[command(flatten)]
    pub(super) common: Common,
}

pub(super) async fn run(args: Args, session: &Session) -> Result<(), Stop> {
    for path in &args.paths {
        session.settle(make(&args, session, path).await.map_err(Stop::from))?;
    }
    Ok(())
}

async fn make(args: &Args, session: &Session, path: &str) -> Result<(), Failure> {
    let (target, there) = session.place(path).await?;
    match there {
        Some(status) if !status.is_dir() => return Err(Failure::new(&target, "is a file")),
        Some(_) if args.parents => return Ok(()),
        Some(_) => return Err(Failure::new(&target, "already exists").advise("-p does not mind")),
        None => {}
    }
    let made = target.client.mkdirs(&target.path, args.mode.apply(true, 0o755), args.parents).await;
    made.map_err(|error| match target.parent() {
        Some(parent) if error.is_not_found() => parent.failure(&error).advise("use -p to make it"),
        _ => target.failure(&error),
    })
}
