//! What a run came to: a page for people, a line for programs.

use super::args::Shape;
use super::plan::{Plan, What};
use crate::bench::cost::{BySide, Cost};
use crate::bench::latency::{Latencies, Percentiles};
use crate::shell::size;
use serde::ser::{Serialize, Serializer};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::Duration;

const GB: f64 = 1e9;

pub(super) struct Report {
    pub(super) plan: Plan,
    pub(super) dir: String,
    pub(super) replication: u16,
    pub(super) wall: Duration,
    pub(super) verify_wall: Duration,
    pub(super) written_count: u64,
    pub(super) verified_count: u64,
    pub(super) latencies: Latencies,
    pub(super) costs: BySide,
}

/// The line of `--json`. `None` where there is nothing to divide by, or nobody tells.
#[derive(serde::Serialize)]
struct Line<'a> {
    bench: &'static str,
    dir: &'a str,
    seed: u64,
    clients: u32,
    files: u64,
    size: u64,
    replication: u16,
    routing: Shape,
    sync: bool,
    written: u64,
    verified: u64,
    verified_by: &'static str,
    bytes: u64,
    seconds: f64,
    verify_seconds: f64,
    gb_per_s: f64,
    files_per_s: f64,
    latency_ms: Option<Percentiles>,
    cost: BTreeMap<&'static str, Share>,
}

#[derive(serde::Serialize)]
struct Share {
    processes: usize,
    cpu_user_s: f64,
    cpu_system_s: f64,
    cpu_s_per_gb: Option<f64>,
    cpu_ms_per_file: Option<f64>,
    fsyncs: Option<u64>,
    fsyncs_per_file: Option<f64>,
}

impl Serialize for Report {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let line = Line {
            bench: self.what(),
            dir: &self.dir,
            seed: self.plan.seed,
            clients: self.plan.clients,
            files: self.plan.files,
            size: self.plan.len,
            replication: self.replication,
            routing: self.plan.routing,
            sync: self.plan.sync,
            written: self.written_count,
            verified: self.verified_count,
            verified_by: "read",
            bytes: self.bytes(),
            seconds: self.wall.as_secs_f64(),
            verify_seconds: self.verify_wall.as_secs_f64(),
            gb_per_s: self.per_second(self.bytes() as f64 / GB),
            files_per_s: self.per_second(self.written_count as f64),
            latency_ms: self.latencies.percentiles(),
            cost: self.costs.iter().map(|(side, cost)| (side.name(), self.share(cost))).collect(),
        };
        line.serialize(serializer)
    }
}

impl Report {
    fn what(&self) -> &'static str {
        if self.plan.what == What::Small { "small" } else { "write" }
    }

    fn bytes(&self) -> u64 {
        self.written_count * self.plan.len
    }

    fn per_second(&self, amount: f64) -> f64 {
        amount / self.wall.as_secs_f64().max(1e-9)
    }

    fn share(&self, cost: &Cost) -> Share {
        let per = |amount: f64, whole: f64| (whole > 0.0).then(|| amount / whole);
        let (cpu, files) = (cost.cpu().as_secs_f64(), self.written_count as f64);
        Share {
            processes: cost.processes,
            cpu_user_s: cost.user.as_secs_f64(),
            cpu_system_s: cost.system.as_secs_f64(),
            cpu_s_per_gb: per(cpu, self.bytes() as f64 / GB),
            cpu_ms_per_file: per(cpu * 1e3, files),
            fsyncs: cost.syncs,
            fsyncs_per_file: cost.syncs.and_then(|count| per(count as f64, files)),
        }
    }

    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        let plan = &self.plan;
        let each = size::human(plan.len);
        let unit = if plan.len < 1024 { " bytes" } else { "iB" };
        let _ = writeln!(
            text,
            "wrote      {} of {each}{unit} by {} in {:.2} s: {}, {:.1} files/s",
            counted(self.written_count, "file"),
            counted(u64::from(plan.clients), "client"),
            self.wall.as_secs_f64(),
            rate(self.per_second(self.bytes() as f64)),
            self.per_second(self.written_count as f64),
        );
        let _ = writeln!(
            text,
            "           {}, seed {}{}{}",
            match self.replication {
                1 => "1 copy".to_owned(),
                count => format!("{count} copies"),
            },
            plan.seed,
            match plan.routing {
                Shape::Chain => "",
                Shape::Star => ", sent by the nearest datanode to all others",
                Shape::Tree => ", sent by the nearest datanode to each rack",
            },
            if plan.sync { ", each block on disk when acknowledged" } else { "" },
        );
        let verified = counted(self.verified_count, "file");
        let _ =
            writeln!(text, "verified   {verified}, every byte read back, in {:.2} s", self.verify_wall.as_secs_f64());
        let lost = plan.files - self.verified_count;
        if lost > 0 {
            let _ = writeln!(text, "FAILED     {} of {}", lost, counted(plan.files, "file"));
        }
        if let Some(Percentiles { p50, p90, p99, max }) = self.latencies.percentiles() {
            let _ = writeln!(text, "a file     p50 {p50:.2} ms, p90 {p90:.2} ms, p99 {p99:.2} ms, max {max:.2} ms");
        }
        let _ = write!(
            text,
            "\n{:<14}{:>9}{:>10}{:>10}{:>10}{:>9}{:>10}",
            "CPU", "user s", "system s", "s/GB", "ms/file", "fsyncs", "per file"
        );
        for (side, cost) in &self.costs {
            let share = self.share(cost);
            let name = if cost.processes > 1 {
                format!("{} ({})", side.name(), cost.processes)
            } else {
                side.name().to_owned()
            };
            let _ = write!(
                text,
                "\n{name:<14}{:>9.2}{:>10.2}{:>10}{:>10}{:>9}{:>10}",
                share.cpu_user_s,
                share.cpu_system_s,
                shown(share.cpu_s_per_gb, 2),
                shown(share.cpu_ms_per_file, 2),
                shown(share.fsyncs.map(|count| count as f64), 0),
                shown(share.fsyncs_per_file, 2),
            );
        }
        if self.costs.len() == 1 {
            text.push_str("\nservers       do not tell what they use; only those of Levada do");
        }
        text
    }
}

fn counted(count: u64, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

fn rate(bytes_per_second: f64) -> String {
    if bytes_per_second >= 1e9 {
        format!("{:.2} GB/s", bytes_per_second / 1e9)
    } else {
        format!("{:.2} MB/s", bytes_per_second / 1e6)
    }
}

fn shown(value: Option<f64>, digits: usize) -> String {
    value.map_or_else(|| "-".to_owned(), |value| format!("{value:.digits$}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::cost::Side;

    fn report(files: u64, len: u64) -> Report {
        let plan = Plan {
            what: What::Small,
            clients: 8,
            files: 10,
            len,
            replication: None,
            block_len: None,
            routing: Shape::Chain,
            leader: None,
            small_max: None,
            sync: false,
            seed: 7,
        };
        let second = Duration::from_secs(1);
        let cost = |syncs| Cost { processes: 3, user: second, system: second, syncs };
        Report {
            plan,
            dir: "hdfs://h:1/bench-1".into(),
            replication: 3,
            wall: Duration::from_secs(2),
            verify_wall: second,
            written_count: files,
            verified_count: files,
            latencies: Latencies::new(vec![second; files as usize]),
            costs: [(Side::Client, cost(None)), (Side::Datanodes, cost(Some(30)))].into(),
        }
    }

    #[test]
    fn a_report_says_what_was_done_and_what_it_cost() {
        let text = report(10, 4096).text();
        for part in
            ["10 files of 4 KiB by 8 clients in 2.00 s", "3 copies, seed 7", "datanodes (3)", "3.00", "p99 1000.00 ms"]
        {
            assert!(text.contains(part), "{part:?} in\n{text}");
        }
        assert!(!text.contains("FAILED"), "{text}");
        let line = serde_json::to_value(report(10, 4096)).unwrap();
        assert_eq!((&line["files_per_s"], &line["cost"]["datanodes"]["fsyncs_per_file"]), (&5.0.into(), &3.0.into()));
    }

    #[test]
    fn nothing_is_divided_by_nothing() {
        let text = report(0, 4096).text();
        assert!(text.contains("FAILED     10 of 10 files") && !text.contains("NaN") && !text.contains("inf"), "{text}");
        let line = serde_json::to_string(&report(0, 0)).unwrap();
        assert!(line.contains("\"cpu_ms_per_file\":null"), "{line}");
    }
}
