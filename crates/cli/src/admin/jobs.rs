//! `levada admin jobs`

use super::table;
use crate::shell::{Common, Failure, Session, Stop, Target, size, span};
use client::admin::datanodes::{Job, JobKind, JobState};
use serde::Serialize;
use std::time::Duration;

/// Between two looks at a job that is waited for.
const LOOK_EACH: Duration = Duration::from_millis(300);

#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    common: Common,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// List the jobs: how far they are, how fast, how long they will take
    List(ListArgs),
    /// Stop a job; a datanode that is being emptied serves again
    Stop(StopArgs),
    /// Wait until a job has ended
    Wait(StopArgs),
}

#[derive(Debug, clap::Args)]
struct ListArgs {
    #[command(flatten)]
    common: Common,
}

#[derive(Debug, clap::Args)]
struct StopArgs {
    /// The job's number
    id: u64,
    #[command(flatten)]
    common: Common,
}

impl Args {
    pub(super) fn common(&self) -> &Common {
        match &self.command {
            None => &self.common,
            Some(Command::List(args)) => &args.common,
            Some(Command::Stop(args) | Command::Wait(args)) => &args.common,
        }
    }
}

/// A line of `--json`.
#[derive(Debug, Serialize)]
struct Line {
    id: u64,
    kind: &'static str,
    subject: String,
    state: &'static str,
    ran_ms: u64,
    done_bytes: u64,
    total_bytes: u64,
    done_count: u64,
    total_count: u64,
    bytes_per_s: u64,
    /// `null` if nobody can say.
    left_ms: Option<u64>,
    found: u64,
    mended: u64,
    note: String,
}

impl From<Job> for Line {
    fn from(job: Job) -> Self {
        Self {
            kind: match job.kind() {
                JobKind::Repair => "repair",
                JobKind::Drain => "drain",
                JobKind::Balance => "balance",
                JobKind::Scrub => "scrub",
                JobKind::BalanceDisks => "balance-disks",
                JobKind::Unknown => "unknown",
            },
            state: match job.state() {
                JobState::Running => "running",
                JobState::Waiting => "waiting",
                JobState::Done => "done",
                JobState::Stopped => "stopped",
                JobState::Unknown => "unknown",
            },
            id: job.id,
            subject: job.subject,
            ran_ms: job.ran_ms,
            done_bytes: job.done_len,
            total_bytes: job.total_len,
            done_count: job.done_count,
            total_count: job.total_count,
            bytes_per_s: job.len_per_s,
            left_ms: job.left_ms,
            found: job.found_count,
            mended: job.mended_count,
            note: job.note,
        }
    }
}

impl Line {
    fn has_ended(&self) -> bool {
        matches!(self.state, "done" | "stopped")
    }
}

pub(super) async fn run(args: Args, session: &Session) -> Result<(), Stop> {
    let target = session.target("/")?;
    match args.command {
        None | Some(Command::List(_)) => list(session, &target).await,
        Some(Command::Stop(args)) => {
            target.client.admin().stop_job(args.id).await.map_err(|error| target.failure(&error).into())
        }
        Some(Command::Wait(args)) => wait(session, &target, args.id).await,
    }
}

async fn list(session: &Session, target: &Target) -> Result<(), Stop> {
    let jobs = target.client.admin().jobs().await.map_err(|error| target.failure(&error))?;
    let lines: Vec<Line> = jobs.into_iter().map(Line::from).collect();
    if session.output.is_json() {
        return lines.iter().try_for_each(|line| session.output.json(line));
    }
    if lines.is_empty() {
        return session.output.line("no jobs");
    }
    print(session, &lines)
}

fn print(session: &Session, lines: &[Line]) -> Result<(), Stop> {
    let row = |line: &Line| {
        let percent = match line.total_bytes {
            0 if line.has_ended() => "100%".to_owned(),
            0 => "-".to_owned(),
            total => format!("{}%", (u128::from(line.done_bytes) * 100 / u128::from(total)) as u64),
        };
        let found = format!("{} of {}", line.mended, line.found);
        [
            line.id.to_string(),
            line.kind.to_owned(),
            if line.subject.is_empty() { "-".to_owned() } else { line.subject.clone() },
            line.state.to_owned(),
            percent,
            format!("{} of {}", size::human(line.done_bytes), size::human(line.total_bytes)),
            format!("{} of {}", line.done_count, line.total_count),
            if line.bytes_per_s == 0 { "-".to_owned() } else { format!("{}/s", size::human(line.bytes_per_s)) },
            line.left_ms.map_or("-".to_owned(), span::human),
            span::human(line.ran_ms),
            if line.kind == "scrub" { found } else { "-".to_owned() },
            line.note.clone(),
        ]
    };
    let head =
        [">JOB", "KIND", "DATANODE", "STATE", ">DONE", "BYTES", "PIECES", ">RATE", ">LEFT", ">RAN", "MENDED", "NOTE"];
    table::print(session, head, &lines.iter().map(row).collect::<Vec<_>>())
}

/// Why there is no job of this number, which may have been seen before.
fn unknown(id: u64, was_known: bool) -> String {
    match was_known {
        true => "the job is not known any more: another metadata server leads now".to_owned(),
        false => format!("there is no job {id}"),
    }
}

/// Returns when the job has ended, well or not; the last look at it is printed.
pub(super) async fn wait(session: &Session, target: &Target, id: u64) -> Result<(), Stop> {
    session.progress.start(session.output.is_json());
    let (mut expected, mut advanced) = (0, 0);
    let (mut warned, mut was_known) = (String::new(), false);
    loop {
        let jobs = target.client.admin().jobs().await.map_err(|error| target.failure(&error))?;
        let Some(line) = jobs.into_iter().map(Line::from).find(|line| line.id == id) else {
            session.progress.finish();
            return Err(Failure::new(target, unknown(id, was_known)).advise("see levada admin jobs").into());
        };
        was_known = true;
        session.progress.expect(line.total_bytes.saturating_sub(expected));
        session.progress.advance(line.done_bytes.saturating_sub(advanced));
        session.progress.name(&line.note);
        (expected, advanced) = (line.total_bytes.max(expected), line.done_bytes.max(advanced));
        if line.state == "waiting" && warned != line.note {
            session.progress.suspended(|| eprintln!("levada: job {id} waits: {}", line.note));
            warned.clone_from(&line.note);
        }
        if !line.has_ended() {
            tokio::time::sleep(LOOK_EACH).await;
            continue;
        }
        session.progress.finish();
        let stopped = line.state == "stopped";
        if session.output.is_json() {
            session.output.json(&line)?
        } else {
            print(session, std::slice::from_ref(&line))?
        }
        return if stopped {
            Err(Failure::new(target, format!("job {id} was stopped: {}", line.note)).into())
        } else {
            Ok(())
        };
    }
}

pub(super) fn print_begun(session: &Session, job: u64) -> Result<(), Stop> {
    if session.output.is_json() {
        session.output.json(&serde_json::json!({ "job": job }))
    } else {
        session.output.line(&format!("job {job} has begun, see levada admin jobs"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_that_never_was_is_told_from_one_that_is_forgotten() {
        assert_eq!(unknown(99, false), "there is no job 99");
        assert!(unknown(99, true).contains("not known any more"));
    }
}
