//! `levada bench write` and `small`: writes files into a store, verifies every byte of them, and tells what that took
//! on each side.
//!
//! ```text
//!   make a directory ─▶ meters ─▶ write, N clients side by side ─▶ meters ─▶ read all back ─▶ remove the directory
//! ```
//!
//! Promise: what is counted was verified. Only the writing is timed; the clients' connections are there before it
//! begins.

mod args;
mod clients;
mod pattern;
mod plan;
mod report;

pub(crate) use args::Args;
pub(crate) use plan::What;

use super::cost::Costs;
use super::latency::Latencies;
use super::scratch::in_directory;
use crate::shell::{Failure, Session, Stop, Target};
use args::Shape;
use clients::Clients;
use io::{Clock, SystemClock};
use pattern::Pattern;
use plan::Plan;
use report::Report;
use std::sync::Arc;
use std::time::Duration;

/// What servers put off until after the answer is a cost of the work too.
const SETTLE: Duration = Duration::from_millis(500);

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
