//! What this process has used of the machine, for those who measure.

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
}
