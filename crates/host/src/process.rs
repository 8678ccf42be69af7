//! What this process has used of the machine, for those who measure and for `/metrics`.

use crate::version::VERSION;
use io::{Clock, SystemClock};
use metrics::{Described, Readings, Registry, counter, gauge};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeVal;
use std::sync::OnceLock;
use std::time::Duration;
use types::Random;

/// Processor time of all threads, those that ended among them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuTime {
    pub user: Duration,
    pub system: Duration,
}

/// Since the process began.
pub fn cpu_time() -> CpuTime {
    let usage = getrusage(UsageWho::RUSAGE_SELF).expect("it fails only for processes that are none");
    CpuTime { user: duration(usage.user_time()), system: duration(usage.system_time()) }
}

/// How often this thread has waited for a page that had to come from a disk.
pub fn page_waits() -> u64 {
    let usage = getrusage(UsageWho::RUSAGE_THREAD).expect("it fails only for threads that are none");
    u64::try_from(usage.major_page_faults()).unwrap_or(0)
}

fn duration(time: TimeVal) -> Duration {
    let (seconds, micros) = (u64::try_from(time.tv_sec()), u64::try_from(time.tv_usec()));
    Duration::from_secs(seconds.unwrap_or(0)) + Duration::from_micros(micros.unwrap_or(0))
}

/// A number drawn once by this process. Unlike its pid it is no other's, on no machine and at no time.
pub fn identity() -> u64 {
    static IDENTITY: OnceLock<u64> = OnceLock::new();
    *IDENTITY.get_or_init(|| io::OsRandom::new().next_u64())
}

/// Under the names that Prometheus' own libraries use, so that dashboards know them. Servers that share a process show
/// the same.
const FAMILIES: &[Described] = &[
    counter("process_cpu_seconds_total", "Processor time of the process, the kernel's for it included", &[]),
    gauge("process_resident_memory_bytes", "Memory of the process that is in RAM", &[]),
    gauge("process_virtual_memory_bytes", "Address space of the process; maps of files take part of it", &[]),
    gauge("process_open_fds", "Open files and connections of the process", &[]),
    gauge("process_threads", "Threads of the process", &[]),
    gauge("process_start_time_seconds", "When the process began to serve, since 1970", &[]),
    counter("levada_process_syncs_total", "Waits for a disk: of files, of directories, two a commit of LMDB", &[]),
    gauge("levada_build_info", "1; its labels say what runs", &["version", "role"]),
];

/// Adds what is read of this process. `role`: which server shows it.
pub fn register(registry: &mut Registry, role: &'static str) {
    static START: OnceLock<f64> = OnceLock::new();
    let start = *START.get_or_init(|| SystemClock::new().now().0 as f64 / 1e3);
    registry.read(FAMILIES, move |readings| {
        readings.put("levada_build_info", &[VERSION, role], 1.0);
        readings.put("process_start_time_seconds", &[], start);
        read(readings);
    });
}

fn read(readings: &mut Readings<'_>) {
    let cpu = cpu_time();
    let mut put = |name, value: f64| readings.put(name, &[], value);
    put("process_cpu_seconds_total", (cpu.user + cpu.system).as_secs_f64());
    put("levada_process_syncs_total", io::file::sync_count() as f64);
    // Elsewhere than on Linux these are not shown.
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let number = |key: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(key))?;
        line.split_whitespace().next()?.parse::<u64>().ok()
    };
    for (name, key, unit) in [
        ("process_resident_memory_bytes", "VmRSS:", 1 << 10),
        ("process_virtual_memory_bytes", "VmSize:", 1 << 10),
        ("process_threads", "Threads:", 1),
    ] {
        if let Some(value) = number(key) {
            put(name, (value * unit) as f64);
        }
    }
    if let Ok(files) = std::fs::read_dir("/proc/self/fd") {
        put("process_open_fds", files.count() as f64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_costs_time() {
        let before = cpu_time();
        let mut sum = 0u64;
        while cpu_time().user < before.user + Duration::from_millis(20) {
            sum = (0..100_000).fold(sum, |sum, number| std::hint::black_box(sum ^ number));
        }
        assert!(cpu_time().system >= before.system);
        assert_eq!(identity(), identity());
    }

    #[test]
    fn a_scraper_sees_the_process() {
        let mut registry = Registry::default();
        register(&mut registry, "metadata");
        let text = registry.render(metrics::Format::Prometheus);
        for family in FAMILIES {
            let value = text.lines().find(|line| line.starts_with(family.name)).and_then(|line| line.split(' ').nth(1));
            let value: f64 = value.unwrap_or_else(|| panic!("{} is not in\n{text}", family.name)).parse().unwrap();
            assert!(value > 0.0 || family.name.contains("syncs"), "{text}");
        }
        let info = format!("levada_build_info{{version=\"{VERSION}\",role=\"metadata\"}} 1.0\n");
        assert!(text.contains(&info), "{text}");
    }
}
