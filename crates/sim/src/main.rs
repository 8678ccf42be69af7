//! Runs many seeds, or tells the story of one.

use clap::Parser;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use sim::{DELIBERATE, FOUND_WITHIN, Mutation, Options, Outcome, run_caught};
use std::ops::Range;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

/// Seeds of one line of output.
const LINE_COUNT: u64 = 100;

/// Whole clusters under faults, from seeds.
#[derive(Debug, Parser)]
struct Arguments {
    /// Seeds to run: FROM..TO.
    #[arg(long, value_parser = range, default_value = "0..100")]
    seeds: Range<u64>,
    /// Run this one alone.
    #[arg(long)]
    seed: Option<u64>,
    /// Tell the story; with RUST_LOG, and what the program itself says as well.
    #[arg(long)]
    trace: bool,
    /// A deliberate fault of the program, to see whether it is found.
    #[arg(long, value_parser = mutations())]
    mutation: Option<Mutation>,
    /// Looks for each deliberate fault from seed 0 on, and prints docs/adr/0009's table of where it was found.
    #[arg(long)]
    mutations: bool,
    /// Nodes are away for longer than they are waited for, one after the other, and writers die: instead of the seed's
    /// faults. With `--groups`: members join and leave.
    #[arg(long)]
    rolling: bool,
    /// Groups of Raft members alone, with all that lies under them, instead of whole clusters.
    #[arg(long)]
    groups: bool,
    /// Runs at a time, each in a thread of its own.
    #[arg(long, default_value_t = 2)]
    jobs: usize,
}

/// By name.
fn mutations() -> impl TypedValueParser<Value = Mutation> {
    let of = |name: String| Mutation::ALL.iter().find(|known| known.name() == name).copied();
    PossibleValuesParser::new(Mutation::ALL.iter().map(|known| known.name()))
        .map(move |name| of(name).expect("a possible value"))
}

fn range(text: &str) -> Result<Range<u64>, String> {
    let (from, to) = text.split_once("..").ok_or("write FROM..TO")?;
    let number = |text: &str| text.parse::<u64>().map_err(|error| error.to_string());
    Ok(number(from)?..number(to)?)
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let Arguments { mutation, trace, rolling, groups, .. } = arguments;
    if trace {
        let filter: Targets =
            std::env::var("RUST_LOG").unwrap_or_default().parse().expect("RUST_LOG, as warn,metad=debug");
        let lines = tracing_subscriber::fmt::layer().without_time().with_ansi(false);
        tracing_subscriber::registry().with(lines).with(filter).init();
    }
    if arguments.mutations {
        return find_mutations(arguments.jobs as u64);
    }
    let options = Options { mutation, trace, rolling, groups };
    let seeds = arguments.seed.map_or(arguments.seeds, |seed| seed..seed + 1);
    let (mut failed, mut all_hours) = (0, 0.0);
    let mut from = seeds.start;
    while from < seeds.end {
        let to = (from + LINE_COUNT).min(seeds.end);
        let outcomes = run_all(from..to, options, arguments.jobs.max(1));
        let failures = outcomes.iter().filter(|outcome| !outcome.failures.is_empty());
        let mut count = 0;
        for outcome in failures {
            count += 1;
            println!("seed {}: {}", outcome.seed, outcome.failures.join("\n    "));
        }
        failed += count;
        let hours = outcomes.iter().map(|outcome| outcome.simulated.as_secs_f64()).sum::<f64>() / 3600.0;
        let faults: u64 = outcomes.iter().map(|outcome| outcome.fault_count).sum();
        let done: u64 = outcomes.iter().map(|outcome| outcome.done_count).sum();
        all_hours += hours;
        // Groups are looked at as they are when their time is over.
        let longest = outcomes.iter().max_by_key(|outcome| outcome.settled_in).filter(|_| !groups);
        let rest = longest.map(|Outcome { settled_in, seed, .. }| {
            format!("at rest within {} s (seed {seed}), ", settled_in.as_secs())
        });
        println!(
            "seeds {from}..{to}: {hours:.1} simulated hours, {done} operations, {faults} faults, {}{count} failures",
            rest.unwrap_or_default()
        );
        from = to;
    }
    println!("{failed} failures in {all_hours:.1} simulated hours");
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// A line for each deliberate fault. Fails if one is not found, or shows by something else.
fn find_mutations(jobs: u64) -> ExitCode {
    // A failed assertion is one of the ways in which a fault shows.
    std::panic::set_hook(Box::new(|_| {}));
    println!("| fault | what is wrong | runs | first seed | seeds |");
    println!("|---|---|---|---|---|");
    let mut missed = 0;
    for deliberate in DELIBERATE {
        let runs = match (deliberate.groups, deliberate.rolling) {
            (false, false) => "",
            (false, true) => "`--rolling`",
            (true, false) => "`--groups`",
            (true, true) => "`--groups --rolling`",
        };
        let found = deliberate.find(0..FOUND_WITHIN, jobs);
        let (first, count) = match &found {
            Some((seed, _)) => (seed.to_string(), (seed + 1).to_string()),
            None => ("none".to_owned(), format!("> {FOUND_WITHIN}")),
        };
        let meaning = deliberate.mutation.meaning().trim().trim_end_matches('.');
        println!("| `{}` | {meaning} | {runs} | {first} | {count} |", deliberate.mutation.name());
        let said = found.map_or("it is not found".to_owned(), |(_, said)| said);
        let is_as_expected = deliberate.is_shown_by(&said);
        missed += usize::from(!is_as_expected);
        let note = if is_as_expected { "" } else { " (not as expected)" };
        eprintln!("{}{note}: {}", deliberate.mutation.name(), said.chars().take(200).collect::<String>());
    }
    if missed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn run_all(seeds: Range<u64>, options: Options, jobs: usize) -> Vec<Outcome> {
    let next = AtomicU64::new(seeds.start);
    let done = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..jobs {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= seeds.end {
                        return;
                    }
                    let outcome = run_caught(seed, options);
                    done.lock().expect("nobody panics with it").push(outcome);
                }
            });
        }
    });
    let mut outcomes = done.into_inner().expect("all have ended");
    outcomes.sort_by_key(|outcome| outcome.seed);
    outcomes
}
