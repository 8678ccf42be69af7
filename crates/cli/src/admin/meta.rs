//! `levada admin meta`

use crate::shell::{Common, Session, Stop};
use serde::Serialize;

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// List the metadata servers, and who leads
    List(ListArgs),
}

impl Command {
    pub(super) fn common(&self) -> &Common {
        match self {
            Self::List(args) => &args.common,
        }
    }
}

#[derive(Debug, clap::Args)]
pub(crate) struct ListArgs {
    #[command(flatten)]
    common: Common,
}

/// A line of `--json`.
#[derive(Debug, Serialize)]
struct Line {
    id: u64,
    addr: String,
    role: &'static str,
    /// Log entries that it lacks, as far as the leader knows; `null` for one that was not heard yet.
    behind: Option<u64>,
    term: u64,
}

pub(super) async fn run(command: Command, session: &Session) -> Result<(), Stop> {
    match command {
        Command::List(_) => list(session).await,
    }
}

async fn list(session: &Session) -> Result<(), Stop> {
    let target = session.target("/")?;
    let group = target.client.admin().members().await.map_err(|error| target.failure(&error))?;
    let (term, last) = (group.term, group.last);
    let lines = group.members.into_iter().map(|member| Line {
        id: member.id,
        addr: member.addr,
        role: member.role,
        behind: member.matched.map(|matched| last.saturating_sub(matched)),
        term,
    });
    for line in lines {
        if session.output.is_json() {
            session.output.json(&line)?;
        } else {
            let behind = line.behind.map_or("-".to_owned(), |behind| behind.to_string());
            session.output.line(&format!("{:<4} {:<24} {:<8} behind {behind}", line.id, line.addr, line.role))?;
        }
    }
    Ok(())
}
