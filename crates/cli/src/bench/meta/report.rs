//! What the measurements came to: a table for people, a line for each kind and number of connections for programs.

use super::call::{Call, ENTRY_COUNT};
use super::round::Sample;
use crate::bench::cost::{Cost, Side};
use crate::bench::latency::Latencies;
use serde::Serialize;
use std::fmt::Write;
use std::time::Duration;

/// A line of `--json`. `None` where the store does not say what it uses. Microseconds are of one operation.
#[derive(Debug, Serialize)]
pub(super) struct Row {
    bench: &'static str,
    call: &'static str,
    connections: u32,
    rounds: usize,
    /// In each round.
    count: u64,
    ops_per_s: f64,
    /// Whose `server_…` is.
    server: Option<Side>,
    server_cpu_us: Option<f64>,
    /// The least and the most of the rounds.
    server_cpu_us_range: Option<[f64; 2]>,
    /// Of a listing.
    server_cpu_us_per_entry: Option<f64>,
    server_fsyncs: Option<f64>,
    client_cpu_us: f64,
    latency_us: Latency,
}

/// Of the operations of all rounds.
#[derive(Debug, Serialize)]
struct Latency {
    p50: f64,
    p99: f64,
    p999: f64,
    max: f64,
}

impl Row {
    pub(super) fn new(call: Call, connections: u32, samples: Vec<Sample>) -> Self {
        let per_op = |cost: &Cost, sample: &Sample| micros(cost.cpu()) / sample.durations.len() as f64;
        let of_server = |of: &dyn Fn(&Sample, &Cost) -> f64| {
            let known = samples.iter().filter_map(|sample| Some(of(sample, &sample.server?.1)));
            known.collect::<Vec<f64>>()
        };
        let server_cpu = sorted(of_server(&|sample, cost| per_op(cost, sample)));
        let fsyncs = of_server(&|sample, cost| cost.syncs.unwrap_or(0) as f64 / sample.durations.len() as f64);
        let rates = samples.iter().map(|sample| sample.durations.len() as f64 / sample.wall.as_secs_f64().max(1e-9));
        let client_cpu = samples.iter().map(|sample| per_op(&sample.client, sample));
        let server_cpu_us = median(server_cpu.clone());
        Self {
            bench: "meta",
            call: call.name(),
            connections,
            rounds: samples.len(),
            count: samples.first().map_or(0, |sample| sample.durations.len() as u64),
            ops_per_s: median(rates.collect()).unwrap_or(0.0),
            server: samples.first().and_then(|sample| Some(sample.server?.0)),
            server_cpu_us,
            server_cpu_us_range: server_cpu.first().zip(server_cpu.last()).map(|(least, most)| [*least, *most]),
            server_cpu_us_per_entry: server_cpu_us.filter(|_| call == Call::List).map(|cpu| cpu / ENTRY_COUNT as f64),
            server_fsyncs: median(fsyncs),
            client_cpu_us: median(client_cpu.collect()).unwrap_or(0.0),
            latency_us: Latency::of(samples.into_iter().flat_map(|sample| sample.durations).collect()),
        }
    }
}

impl Latency {
    fn of(durations: Vec<Duration>) -> Self {
        let latencies = Latencies::new(durations);
        let within = |per_mille| micros(latencies.within(per_mille));
        Self { p50: within(500), p99: within(990), p999: within(999), max: within(1000) }
    }
}

pub(super) fn table(rows: &[Row]) -> String {
    let mut text = format!(
        "{:<9}{:>12}{:>10}{:>11}{:>11}{:>11}{:>10}{:>10}{:>11}",
        "CALL", "CONNECTIONS", "OPS/S", "CPU US/OP", "US/ENTRY", "FSYNCS/OP", "P50 US", "P99 US", "P99.9 US"
    );
    for row in rows {
        let Latency { p50, p99, p999, .. } = row.latency_us;
        let _ = write!(
            text,
            "\n{:<9}{:>12}{:>10.0}{:>11}{:>11}{:>11}{p50:>10.0}{p99:>10.0}{p999:>11.0}",
            row.call,
            row.connections,
            row.ops_per_s,
            shown(row.server_cpu_us, 1),
            shown(row.server_cpu_us_per_entry, 3),
            shown(row.server_fsyncs, 2),
        );
    }
    let note = match rows.first().and_then(|row| row.server) {
        Some(Side::Metadata) => "CPU and fsyncs: of the metadata servers",
        Some(_) => "CPU and fsyncs: of a process that runs datanodes too (levada up --processes tells them apart)",
        None => "CPU and fsyncs: not known; only servers of Levada report them",
    };
    let rounds = rows.first().map_or(0, |row| row.rounds);
    let counted = if rounds == 1 { "one round".to_owned() } else { format!("medians of {rounds} rounds") };
    let _ = write!(text, "\n\n{counted}; {note}");
    text
}

fn shown(value: Option<f64>, digits: usize) -> String {
    value.map_or_else(|| "-".to_owned(), |value| format!("{value:.digits$}"))
}

fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

fn sorted(mut values: Vec<f64>) -> Vec<f64> {
    values.sort_unstable_by(f64::total_cmp);
    values
}

/// The middle one, or the mean of the two in the middle.
fn median(values: Vec<f64>) -> Option<f64> {
    let values = sorted(values);
    let (below, above) = (values.get(values.len().checked_sub(1)? / 2)?, values.get(values.len() / 2)?);
    Some((below + above) / 2.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(cpu_us: u64, wall_ms: u64, known: bool) -> Sample {
        let cost = |us| Cost { processes: 1, user: Duration::from_micros(us), system: Duration::ZERO, syncs: Some(5) };
        Sample {
            wall: Duration::from_millis(wall_ms),
            durations: (1..=10).map(Duration::from_micros).collect(),
            client: cost(100),
            server: known.then(|| (Side::Metadata, cost(cpu_us))),
        }
    }

    #[test]
    fn figures_are_medians_of_rounds_and_latencies_of_all() {
        let row = Row::new(Call::List, 8, vec![sample(5000, 10, true), sample(1000, 5, true), sample(2000, 20, true)]);
        assert_eq!((row.rounds, row.count, row.ops_per_s), (3, 10, 1000.0));
        assert_eq!((row.server_cpu_us, row.server_cpu_us_range), (Some(200.0), Some([100.0, 500.0])));
        assert_eq!((row.server_cpu_us_per_entry, row.server_fsyncs, row.client_cpu_us), (Some(0.2), Some(0.5), 10.0));
        assert_eq!((row.latency_us.p50, row.latency_us.p999, row.latency_us.max), (5.0, 10.0, 10.0));
        let text = table(&[row]);
        for part in ["list ", "200.0", "0.200", "of the metadata servers", "medians of 3"] {
            assert!(text.contains(part), "{part:?} in\n{text}");
        }
        let row = Row::new(Call::Stat, 8, vec![sample(0, 10, false)]);
        assert!(row.server_cpu_us.is_none() && table(&[row]).contains("only servers of Levada"));
    }

    #[test]
    fn a_median_is_in_the_middle() {
        assert_eq!(median(vec![]), None);
        assert_eq!(median(vec![3.0]), Some(3.0));
        assert_eq!(median(vec![4.0, 1.0]), Some(2.5));
        assert_eq!(median(vec![9.0, 1.0, 2.0]), Some(2.0));
    }
}
