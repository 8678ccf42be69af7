//! `levada up`: a whole store on one machine, in one process or with a process for each role.

mod args;
mod home;
mod in_process;
mod plan;
mod processes;
mod ready;
mod said;
mod servers;

pub(crate) use args::Args;

use crate::roles::{DataReady, MetaReady, StartError, say, serve, stop_asked};
use in_process::InProcess;
use plan::Plan;
use processes::Processes;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

pub(crate) fn run(args: Args) -> ExitCode {
    serve(async move {
        let started = io::clock::SystemClock::default();
        let begun = io::clock::Clock::monotonic(&started);
        let _passing = args.dir.as_deref().filter(|_| args.delete_at_end).map(Passing::of).transpose()?;
        let stop = stop_asked(args.until_stdin_ends);
        let plan = Plan::new(&args)?;
        let json = args.json;
        let report = |meta: &[MetaReady], data: &[DataReady]| {
            let seconds = (io::clock::Clock::monotonic(&started) - begun).as_secs_f64();
            ready::report(&plan, json, seconds, meta, data)
        };
        let end = match args.processes {
            true => servers::run::<Processes>(&plan, stop, report).await,
            false => servers::run::<InProcess>(&plan, stop, report).await,
        };
        if end.is_ok() && !json && !args.delete_at_end {
            say(&format!("Stopped; the data is in {}.", plan.dir.display()));
        }
        end
    })
}

/// The directory of a store that is gone at the end, also of a start that failed.
struct Passing(PathBuf);

impl Passing {
    /// Nothing is deleted that this store has not made.
    fn of(dir: &Path) -> Result<Self, StartError> {
        let refused = |why: &dyn std::fmt::Display| StartError(format!("--delete-at-end {}: {why}", dir.display()));
        std::fs::create_dir_all(dir).map_err(|error| refused(&error))?;
        if std::fs::read_dir(dir).map_err(|error| refused(&error))?.next().is_some() {
            return Err(refused(&"it is not empty"));
        }
        dir.canonicalize().map(Self).map_err(|error| refused(&error))
    }
}

impl Drop for Passing {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_dir_all(&self.0) {
            eprintln!("levada: {} stays: {error}", self.0.display());
        }
    }
}
