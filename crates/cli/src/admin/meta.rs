//! `levada admin meta`

use super::{backup, found, table};
use crate::shell::{Common, Failure, Session, Stop};
use serde::Serialize;
use std::path::PathBuf;

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// List the metadata servers, and who leads
    List(ListArgs),
    /// Add a server, which was started with `join = true` and an id of its own; waits until it has a vote
    Add(AddArgs),
    /// Remove a server, up or down, from the group
    Remove(RemoveArgs),
    /// Write all that the metadata servers know into a file, as of this moment, while they serve, and read it back
    Backup(BackupArgs),
    /// Put a backup into the new directory of a metadata server, which is then started as usual
    Restore(RestoreArgs),
    /// Blocks that datanodes have and the restored backup did not know: list them, copy them into files, or let them go
    Found(FoundArgs),
}

impl Command {
    pub(super) fn common(&self) -> &Common {
        match self {
            Self::List(args) => &args.common,
            Self::Add(args) => &args.common,
            Self::Remove(args) => &args.common,
            Self::Backup(args) => &args.common,
            Self::Restore(args) => &args.common,
            Self::Found(args) => &args.common,
        }
    }
}

#[derive(Debug, clap::Args)]
pub(crate) struct ListArgs {
    #[command(flatten)]
    common: Common,
}

#[derive(Debug, clap::Args)]
pub(crate) struct FoundArgs {
    #[command(subcommand)]
    act: Option<FoundAct>,
    #[command(flatten)]
    common: Common,
}

#[derive(Debug, clap::Subcommand)]
pub(crate) enum FoundAct {
    /// Copy each of them into a file of the store, DIR/FILE/BLOCK: FILE is the number of the file that it was of
    Save {
        dir: String,
        /// Save also blocks that nobody finished though datanodes do not answer, which may have more of them
        #[arg(long)]
        force: bool,
    },
    /// Have all of them deleted, those too that were saved, as files have copies of these
    Release {
        /// How many were listed; if there are others by now, nothing is deleted
        #[arg(long, value_name = "N")]
        count: u64,
        /// Delete also what the list lacks, which nobody has seen or saved
        #[arg(long)]
        force: bool,
    },
}

#[derive(Debug, clap::Args)]
pub(crate) struct AddArgs {
    /// The new server's id, as in its configuration
    id: u64,
    /// Its RPC port as the others reach it, host:port
    addr: String,
    #[command(flatten)]
    common: Common,
}

#[derive(Debug, clap::Args)]
pub(crate) struct RemoveArgs {
    /// The server's id; see `levada admin meta list`
    id: u64,
    #[command(flatten)]
    common: Common,
}

#[derive(Debug, clap::Args)]
pub(crate) struct BackupArgs {
    /// The file to write, which must not be there; names of all files are in it, and keys of tokens
    file: PathBuf,
    /// TOML file of a metadata server that does not run: the backup is of its directory, which stays as it is
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    #[command(flatten)]
    common: Common,
}

#[derive(Debug, clap::Args)]
pub(crate) struct RestoreArgs {
    /// A file of `levada admin meta backup`
    file: PathBuf,
    /// TOML file of the metadata server: its `dir` must have no store yet
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
    #[command(flatten)]
    common: Common,
}

/// A line of `--json`.
#[derive(Debug, Serialize)]
struct Line {
    id: u64,
    addr: String,
    role: &'static str,
    up: bool,
    /// Log entries that it lacks, as far as the leader knows; `null` for one that was not heard yet.
    behind: Option<u64>,
    term: u64,
}

pub(super) async fn run(command: Command, session: &Session) -> Result<(), Stop> {
    match command {
        Command::List(_) => list(session).await,
        Command::Add(args) => add(args, session).await,
        Command::Remove(args) => {
            let target = session.target("/")?;
            target.client.admin().remove_member(args.id).await.map_err(|error| target.failure(&error).into())
        }
        Command::Backup(BackupArgs { file, config: Some(config), .. }) => {
            backup::take_stopped(&file, &config, session).await
        }
        Command::Backup(args) => backup::take(&args.file, session).await,
        Command::Restore(args) => backup::restore(&args.file, &args.config, session).await,
        Command::Found(FoundArgs { act: None, .. }) => found::list(session).await,
        Command::Found(FoundArgs { act: Some(FoundAct::Save { dir, force }), .. }) => {
            found::save(&dir, force, session).await
        }
        Command::Found(FoundArgs { act: Some(FoundAct::Release { count, force }), .. }) => {
            found::release(count, force, session).await
        }
    }
}

async fn list(session: &Session) -> Result<(), Stop> {
    let target = session.target("/")?;
    let group = target.client.admin().members().await.map_err(|error| target.failure(&error))?;
    let (term, last, led) = (group.term, group.last, group.led);
    let lines = group.members.into_iter().map(|member| Line {
        id: member.id,
        addr: member.addr,
        role: member.role,
        up: member.up,
        behind: member.matched.map(|matched| last.saturating_sub(matched)),
        term,
    });
    if session.output.is_json() {
        lines.into_iter().try_for_each(|line| session.output.json(&line))?;
    } else {
        let row = |line: Line| {
            let behind = line.behind.map_or("-".to_owned(), |behind| behind.to_string());
            let up = if line.up { "up" } else { "down" };
            [line.id.to_string(), line.addr, line.role.to_owned(), up.to_owned(), behind]
        };
        table::print(session, [">ID", "ADDRESS", "ROLE", "STATE", ">BEHIND"], &lines.map(row).collect::<Vec<_>>())?;
    }
    if !led {
        return Err(Failure::new(&target, "no metadata server leads").advise("a majority of them must be up").into());
    }
    Ok(())
}

async fn add(args: AddArgs, session: &Session) -> Result<(), Stop> {
    let target = session.target("/")?;
    let admin = target.client.admin();
    // Each asking waits for a while by itself.
    while !admin.add_member(args.id, &args.addr).await.map_err(|error| target.failure(&error))? {}
    Ok(())
}
