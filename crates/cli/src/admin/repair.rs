//! `levada admin repair`

use crate::shell::{Common, Session, Stop, size, span};

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// Say what repair has to do, and whether it waits
    Status(Args),
    /// Have repair wait, for the whole store: no copy is begun, and no datanode takes another's place
    Hold(HoldArgs),
    /// Let repair go on
    Resume(Args),
}

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    common: Common,
}

#[derive(Debug, clap::Args)]
pub(crate) struct HoldArgs {
    /// For how long, as 30m or 8h, at most 30d: then it goes on by itself
    #[arg(long = "for", value_name = "TIME", value_parser = span::parse)]
    span: u64,
    #[command(flatten)]
    common: Common,
}

impl Command {
    pub(super) fn common(&self) -> &Common {
        match self {
            Self::Status(args) | Self::Resume(args) => &args.common,
            Self::Hold(args) => &args.common,
        }
    }
}

pub(super) async fn run(command: Command, session: &Session) -> Result<(), Stop> {
    let target = session.target("/")?;
    let admin = target.client.admin();
    match command {
        Command::Status(_) => {}
        Command::Hold(args) => admin.hold_repair(args.span).await.map_err(|error| target.failure(&error))?,
        Command::Resume(_) => admin.hold_repair(0).await.map_err(|error| target.failure(&error))?,
    }
    let status = admin.repair_status().await.map_err(|error| target.failure(&error))?;
    if session.output.is_json() {
        return session.output.json(&serde_json::json!({
            "held": status.hold_left_ms.is_some(), "hold_left_ms": status.hold_left_ms,
            "under_replicated": status.under_replicated, "missing": status.missing, "pending": status.pending,
            "copied": status.copied_count, "copied_bytes": status.copied_len,
        }));
    }
    session.output.line(&match status.hold_left_ms {
        Some(left_ms) => format!("repair waits for {}, or until levada admin repair resume", span::human(left_ms)),
        None => "repair goes on".to_owned(),
    })?;
    let client::admin::datanodes::RepairStatusResponse { under_replicated, missing, pending, copied_count, .. } =
        status;
    session.output.line(&format!(
        "{under_replicated} blocks have too few copies, {missing} have none on a datanode that is up, \
         {pending} are being copied; {copied_count} copies ({}) were made since this server leads",
        size::human(status.copied_len)
    ))
}
