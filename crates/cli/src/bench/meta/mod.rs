//! `levada bench meta`: what the metadata server's calls cost, one kind at a time.
//!
//! ```text
//!   for each round, for each number of connections, for each kind of call:
//!     make what it needs ─▶ settle ─▶ meters ─▶ N calls, side by side ─▶ settle (after changes) ─▶ meters
//! ```
//!
//! Promise: the same for every server that HDFS's calls reach, so two versions can be compared; every answer is
//! checked. Connections are there before anything is timed, and each has one call under way. Rounds take turns through
//! all kinds, so that what else the machine does falls on all of them; figures are medians of the rounds.

mod acts;
mod call;
mod report;
mod round;
mod workers;

use super::scratch::in_directory;
use crate::shell::{Failure, Session, Stop, Target};
use call::Call;
use report::{Row, table};
use round::{Fixture, Round, Sample};
use std::collections::BTreeMap;
use std::sync::Arc;
use workers::Workers;

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// What to measure, as in stat,open [default: all]
    #[arg(long, value_name = "CALL", value_enum, value_delimiter = ',')]
    calls: Vec<Call>,
    /// Connections at work at the same time, each with one call under way; several numbers are measured in turn
    #[arg(short, long, value_name = "N", value_delimiter = ',', default_value = "8,64",
        value_parser = clap::value_parser!(u32).range(1..=1024))]
    connections: Vec<u32>,
    /// Changes in one measurement; ten times as many of stat and open, a tenth of list
    #[arg(short = 'n', long, value_name = "N", default_value_t = 2000,
        value_parser = clap::value_parser!(u64).range(1..=COUNT_MAX))]
    count: u64,
    /// Measurements of each kind
    #[arg(long, value_name = "N", default_value_t = 3,
          value_parser = clap::value_parser!(u32).range(1..=ROUND_COUNT_MAX))]
    rounds: u32,
    /// The directory of the store in which one for this run is made
    #[arg(long, value_name = "PATH", default_value = "/")]
    dir: String,
    /// No progress bar
    #[arg(short, long)]
    quiet: bool,
}

const EXAMPLES: &str = "\
Examples:
  levada bench meta
  levada bench meta --calls mkdir,rename --connections 1,8,64,256 --count 10000
  levada bench meta --url hdfs://master:8020 --user hdfs --dir /tmp --json

addblock and open need datanodes; list is of 1,000 files, and create is create and complete.
CPU is user and system time of the server's process, which it says itself. Where one process
runs several roles, as `levada up` does without --processes, it is that of all of them.
Exit code 1: a call failed, and nothing is reported.";

/// So that files open at a time, and all latencies, fit in memory with ease.
const COUNT_MAX: u64 = 100_000;
const ROUND_COUNT_MAX: i64 = 100;
pub(super) async fn run(mut args: Args, session: &Arc<Session>) -> Result<(), Stop> {
    let place = session.target(&args.dir)?;
    if args.calls.is_empty() {
        args.calls = Call::all().to_vec();
    }
    args.calls.sort_unstable();
    args.calls.dedup();
    args.connections.dedup();
    session.progress.start_operations(args.quiet || session.output.is_json());
    let measured = in_directory(session, &place, false, |dir| {
        let (args, session) = (&args, Arc::clone(session));
        async move { measure(&session, args, &dir).await }
    });
    let rows: Vec<Row> = measured
        .await?
        .into_iter()
        .map(|((call, connections), samples)| Row::new(call, connections, samples))
        .collect();
    if session.output.is_json() {
        return rows.iter().try_for_each(|row| session.output.json(row));
    }
    session.output.line(&table(&rows))
}

type Samples = BTreeMap<(Call, u32), Vec<Sample>>;

async fn measure(session: &Arc<Session>, args: &Args, dir: &Target) -> Result<Samples, Failure> {
    let most = args.connections.iter().copied().max().unwrap_or(1);
    let workers = Workers::connect(session, dir, most).await?;
    let measured: u64 = args.calls.iter().map(|call| call.repeated(args.count)).sum();
    session.progress.expect(measured * u64::from(args.rounds) * args.connections.len() as u64);
    session.progress.name("preparing");
    let fixture = Fixture::make(&workers, most, dir, &args.calls).await?;
    let mut samples = Samples::new();
    for number in 0..args.rounds {
        for &connections in &args.connections {
            let dir = dir.child(&format!("round-{number}-{connections}"));
            let mut round = Round::begin(&workers, &fixture, dir, connections, args.count).await?;
            for &call in &args.calls {
                session.progress.name(&format!("round {}: {} × {connections}", number + 1, call.name()));
                samples.entry((call, connections)).or_default().push(round.measure(call).await?);
            }
            round.end().await?;
        }
    }
    Ok(samples)
}
