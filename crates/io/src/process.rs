//! What this process has used of the machine, for those who measure.

use std::sync::OnceLock;
use std::time::Duration;
use types::Random;

/// Processor time of all threads, those that ended among them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    pub user: Duration,
    pub system: Duration,
}

/// Since the process began.
#[expect(unsafe_code, reason = "getrusage has no safe wrapper")]
pub fn usage() -> Usage {
    let mut found = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the struct is the kernel's own, all zeros are a value of it, and the call writes nothing else.
    let usage = unsafe {
        libc::getrusage(libc::RUSAGE_SELF, found.as_mut_ptr());
        found.assume_init()
    };
    Usage { user: duration(usage.ru_utime), system: duration(usage.ru_stime) }
}

fn duration(time: libc::timeval) -> Duration {
    let (seconds, micros) = (u64::try_from(time.tv_sec), u64::try_from(time.tv_usec));
    Duration::from_secs(seconds.unwrap_or(0)) + Duration::from_micros(micros.unwrap_or(0))
}

/// A number drawn once by this process. Unlike its pid it is no other's, on no machine and at no time.
pub fn identity() -> u64 {
    static IDENTITY: OnceLock<u64> = OnceLock::new();
    *IDENTITY.get_or_init(|| crate::OsRandom::new().next_u64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_costs_time() {
        let before = usage();
        let mut sum = 0u64;
        while usage().user < before.user + Duration::from_millis(20) {
            sum = (0..100_000).fold(sum, |sum, number| std::hint::black_box(sum ^ number));
        }
        assert!(usage().system >= before.system);
        assert_eq!(identity(), identity());
    }
}
