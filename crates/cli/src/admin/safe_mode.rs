//! `levada admin safemode`

use crate::shell::{Common, Session, Stop, Target};
use std::time::Duration;

/// Between two looks of who waits for its end.
const LOOK_EACH: Duration = Duration::from_millis(500);

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// Say whether it is on
    Get(Args),
    /// Enter it: from then on whatever would change a file, a directory or a block is refused, until it is left
    Enter(Args),
    /// Leave it
    Leave(Args),
    /// Return when it is off
    Wait(Args),
}

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    common: Common,
}

impl Command {
    pub(super) fn common(&self) -> &Common {
        let (Self::Get(args) | Self::Enter(args) | Self::Leave(args) | Self::Wait(args)) = self;
        &args.common
    }
}

pub(super) async fn run(command: Command, session: &Session) -> Result<(), Stop> {
    let target = session.target("/")?;
    let set = async |on| target.client.admin().set_safe_mode(on).await.map_err(|error| target.failure(&error));
    match command {
        Command::Get(_) => {}
        Command::Enter(_) => set(true).await?,
        Command::Leave(_) => set(false).await?,
        Command::Wait(_) => {
            while is_on(&target).await? {
                tokio::time::sleep(LOOK_EACH).await;
            }
        }
    }
    let on = is_on(&target).await?;
    if session.output.is_json() {
        session.output.json(&serde_json::json!({ "safe_mode": on }))
    } else {
        session.output.line(if on { "safe mode is on" } else { "safe mode is off" })
    }
}

async fn is_on(target: &Target) -> Result<bool, Stop> {
    target.client.admin().safe_mode().await.map_err(|error| target.failure(&error).into())
}
