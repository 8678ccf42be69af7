//! `levada du`

use crate::shell::browse::Found;
use crate::shell::{Common, Failure, LongHelp, Session, Stop, size};
use serde::Serialize;

#[derive(Debug, clap::Args)]
#[command(disable_help_flag = true)]
pub(crate) struct Args {
    /// What to measure; patterns in quotes [default: your home directory]
    paths: Vec<String>,
    /// One line an operand
    #[arg(short, long)]
    summarize: bool,
    /// Sizes as 1.5 G
    #[arg(short = 'h', long)]
    human: bool,
    #[command(flatten)]
    _help: LongHelp,
    #[command(flatten)]
    pub(super) common: Common,
}

/// A line of `--json`.
#[derive(Debug, Serialize)]
struct Used {
    path: String,
    len: u64,
    /// With all replicas
    space_consumed: u64,
}

pub(super) async fn run(args: Args, session: &Session) -> Result<(), Stop> {
    let paths = if args.paths.is_empty() { vec![".".to_owned()] } else { args.paths.clone() };
    let mut lines = Vec::new();
    for path in &paths {
        for found in session.found(path).await? {
            if let Some(used) = session.settle(measure(&args, session, found).await.map_err(Stop::from))? {
                lines.extend(used);
            }
        }
    }
    print(&args, session, &lines)
}

/// A directory's children, or with `-s` itself.
async fn measure(args: &Args, session: &Session, found: Found) -> Result<Vec<Used>, Failure> {
    if args.summarize || !found.status.is_dir() {
        return Ok(vec![used(found).await?]);
    }
    let failure = |error| found.target.failure(&error);
    let mut listing = found.target.client.list(&found.target.path).await.map_err(failure)?;
    let mut lines = Vec::new();
    while let Some(status) = listing.next().await.map_err(failure)? {
        let child = Found { target: found.target.child(&status.name), status };
        match used(child).await {
            Ok(used) => lines.push(used),
            Err(failure) => session.report(&failure),
        }
    }
    Ok(lines)
}

async fn used(found: Found) -> Result<Used, Failure> {
    let path = found.target.shown();
    if !found.status.is_dir() {
        let len = found.status.len;
        return Ok(Used { path, len, space_consumed: len * u64::from(found.status.replication) });
    }
    let summary = found.target.client.summary(&found.target.path).await;
    let summary = summary.map_err(|error| found.target.failure(&error))?;
    Ok(Used { path, len: summary.len, space_consumed: summary.space_consumed })
}

fn print(args: &Args, session: &Session, lines: &[Used]) -> Result<(), Stop> {
    if session.output.is_json() {
        return lines.iter().try_for_each(|used| session.output.json(used));
    }
    let shown = |bytes: u64| if args.human { size::human(bytes) } else { bytes.to_string() };
    let rows: Vec<[String; 2]> = lines.iter().map(|used| [shown(used.len), shown(used.space_consumed)]).collect();
    let width = |column: usize| rows.iter().map(|row| row[column].len()).max().unwrap_or(0);
    let (lens, spaces) = (width(0), width(1));
    for ([len, space], used) in rows.iter().zip(lines) {
        session.output.line(&format!("{len:<lens$}  {space:<spaces$}  {}", used.path))?;
    }
    Ok(())
}
