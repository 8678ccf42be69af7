//! `levada bench write` and `small`: writes files into a store, verifies every byte of them, and tells what that took
//! on each side.
//!
//! ```text
//!   make a directory ─▶ meters ─▶ write, N clients side by side ─▶ meters ─▶ read all back ─▶ remove the directory
//! ```
//!
//! Promise: what is counted was verified. Only the writing is timed; the clients' connections are there before it
//! begins.

mod clients;
mod pattern;
mod report;

use super::cost::Costs;
use super::latency::Latencies;
use super::scratch::in_directory;
use super::{SETTLE, own_client};
use crate::shell::{Failure, Session, Stop, Target, size};
use client::{Options, Routing};
use clients::Clients;
use io::{Clock, SystemClock};
use pattern::Pattern;
use report::Report;
use std::sync::Arc;
use types::Random;
use types::limits::SMALL_WRITE_LEN_MAX;

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// Clients at work at the same time, each with connections of its own [default: 1, for small files 8]
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    clients: Option<u32>,
    /// Length of a file, as in 4K or 2G [default: 128M, for small files 4K]
    #[arg(short, long, value_name = "SIZE", value_parser = size::parse)]
    size: Option<u64>,
    /// Files in all, shared among the clients [default: 4 for each client, of small files 500]
    #[arg(short = 'n', long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=FILE_COUNT_MAX))]
    files: Option<u64>,
    /// Copies of each block [default: as the store has it]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=512))]
    replication: Option<u16>,
    /// Length of a block, as in 128M [default: as the store has it]
    #[arg(long, value_name = "SIZE", value_parser = size::parse)]
    block_size: Option<u64>,
    /// Who forwards to whom when large files are written: each datanode to the next, the nearest one to all, or to each
    /// rack once
    #[arg(long, value_enum, default_value_t = Shape::Chain)]
    routing: Shape,
    /// With --routing star: the IP address of the datanode that all is sent to, as where every write passes one leader
    #[arg(long, value_name = "ADDRESS")]
    leader: Option<std::net::IpAddr>,
    /// The longest file that goes in one request [default: as all commands do]; 0: every file is streamed
    #[arg(long, value_name = "SIZE", value_parser = size::parse)]
    small_max: Option<u64>,
    /// Ask for every block to be on disk when it is acknowledged, whatever the store does by itself
    #[arg(long)]
    sync: bool,
    /// The directory of the store in which one for this run is made
    #[arg(long, value_name = "PATH", default_value = "/")]
    dir: String,
    /// Leave the files there
    #[arg(long)]
    keep: bool,
    /// What the bytes are made from; the same number makes the same bytes [default: drawn]
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// No progress bar
    #[arg(short, long)]
    quiet: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum What {
    Write,
    Small,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum, serde::Serialize)]
#[serde(rename_all = "lowercase")]
enum Shape {
    Chain,
    Star,
    Tree,
}

const EXAMPLES: &str = "\
Examples:
  levada bench write --clients 3 --files 6 --size 256M
  levada bench small --clients 64 --files 20000 --json

Only the writing is timed; every byte is then read back and compared. GB is 10^9 bytes.
Exit code 1: something was not written, or not as it was sent.";

/// So that all latencies fit in memory with ease.
const FILE_COUNT_MAX: u64 = 10_000_000;

/// All that is decided before anything is written.
#[derive(Clone, Debug)]
struct Plan {
    what: What,
    clients: u32,
    files: u64,
    len: u64,
    replication: Option<u16>,
    block_len: Option<u64>,
    routing: Shape,
    leader: Option<std::net::IpAddr>,
    small_max: Option<u64>,
    sync: bool,
    seed: u64,
}

impl Plan {
    fn new(what: What, args: &Args) -> Self {
        let small = what == What::Small;
        let clients = args.clients.unwrap_or(if small { 8 } else { 1 });
        Self {
            what,
            clients,
            files: args.files.unwrap_or(u64::from(clients) * if small { 500 } else { 4 }),
            len: args.size.unwrap_or(if small { 4 << 10 } else { 128 << 20 }),
            replication: args.replication,
            block_len: args.block_size,
            routing: args.routing,
            leader: args.leader,
            small_max: args.small_max,
            sync: args.sync,
            seed: args.seed.unwrap_or_else(|| io::OsRandom::new().next_u64() >> 32),
        }
    }

    fn bytes(&self) -> Result<u64, Failure> {
        let bytes = self.files.checked_mul(self.len).filter(|bytes| *bytes <= u64::MAX / 4);
        bytes.ok_or_else(|| Failure::usage("--files and --size", "are more than any store holds"))
    }

    fn options(&self) -> Options {
        let routing = match self.routing {
            Shape::Chain => Routing::Chain,
            Shape::Star => Routing::Star,
            Shape::Tree => Routing::Tree,
        };
        let usual = Options { sync_blocks: self.sync, routing, leader: self.leader, ..Options::default() };
        let Some(small_max) = self.small_max else { return usual };
        let small_len_max = small_max.min(SMALL_WRITE_LEN_MAX.into()) as u32;
        // A file that goes in one request is a packet that is not full.
        let packet_len = usual.packet_len.max((small_len_max + 1).next_multiple_of(4096));
        Options { small_len_max, packet_len, ..usual }
    }
}

pub(super) async fn run(what: What, args: Args, session: &Arc<Session>) -> Result<(), Stop> {
    let place = session.target(&args.dir)?;
    let plan = Plan::new(what, &args);
    if plan.leader.is_some() && plan.routing != Shape::Star {
        return Err(Failure::usage("--leader", "goes with --routing star alone").into());
    }
    let bytes = plan.bytes()?;
    session.progress.start(args.quiet || session.output.is_json());
    session.progress.expect(2 * bytes);
    let measured = in_directory(session, &place, args.keep, |dir| async move { measure(session, &plan, &dir).await });
    let report = measured.await?;
    if session.output.is_json() { session.output.json(&report) } else { session.output.line(&report.text()) }
}

async fn measure(session: &Arc<Session>, plan: &Plan, dir: &Target) -> Result<Report, Failure> {
    let clock = SystemClock::new();
    let clients = Clients::connect(session, plan, dir, Arc::new(Pattern::new(plan.seed))).await?;
    let before = Costs::sample(&dir.client).await.map_err(|error| dir.failure(&error))?;
    if plan.routing != Shape::Chain && !before.knows_servers() {
        let failure = Failure::new(dir.client.url(), "its datanodes know chains alone");
        return Err(failure.advise("only those of Levada take another --routing"));
    }
    let begun = clock.monotonic();
    let written = clients.write().await;
    let wall = clock.monotonic() - begun;
    let own = host::process::cpu_time();
    tokio::time::sleep(SETTLE).await;
    let costs = before.until(&dir.client, own).await.map_err(|error| dir.failure(&error))?;
    let begun = clock.monotonic();
    let verified_count = clients.verify(&written).await;
    let verify_wall = clock.monotonic() - begun;
    Ok(Report {
        plan: plan.clone(),
        dir: dir.to_string(),
        replication: written.replication,
        wall,
        verify_wall,
        written_count: written.durations.len() as u64,
        verified_count,
        latencies: Latencies::new(written.durations),
        costs,
    })
}

/// Where the files lie below the directory of the run: a directory of a million entries would measure something else.
fn path_of(dir: &Target, file: u64) -> Target {
    dir.child(&format!("{}", file / FOLDER_FILE_COUNT)).child(&format!("{file}"))
}

const FOLDER_FILE_COUNT: u64 = 10_000;
