//! `levada up`: a whole store on one machine, in one process or with a process for each role.

mod args;
mod home;
mod in_process;
mod plan;
mod processes;
mod ready;

pub(crate) use args::Args;

use crate::roles::{DataReady, MetaReady, say, serve};
use plan::Plan;
use std::process::ExitCode;

pub(crate) fn run(args: Args) -> ExitCode {
    serve(async move {
        let started = io::clock::SystemClock::default();
        let begun = io::clock::Clock::monotonic(&started);
        let plan = Plan::new(&args)?;
        let json = args.json;
        let report = |meta: &[MetaReady], data: &[DataReady]| {
            let seconds = (io::clock::Clock::monotonic(&started) - begun).as_secs_f64();
            ready::report(&plan, json, seconds, meta, data)
        };
        let end =
            if args.processes { processes::run(&plan, report).await } else { in_process::run(&plan, report).await };
        if end.is_ok() && !json {
            say(&format!("Stopped; the data is in {}.", plan.dir.display()));
        }
        end
    })
}
