//! A disk that loses power, for tests of whatever keeps something in files.
//!
//! ```text
//! life("power::victim") ── runs this test program again under strace ──▶ every write, sync and rename, in order, and what
//!      the victim told ──▶ Disk ── leave(cut, mood, seed) ──▶ a directory as it may be found when the power is back
//! ```
//!
//! The cut is made at the system calls, outside of what is tested, so a library below (LMDB) is cut as well as our own
//! code. What is promised by an fsync is kept, and nothing else:
//!
//! - A file's bytes, length and holes are kept up to the last fsync or fdatasync of it that began after them and has
//!   returned, and so is what was written through a descriptor that is synced at each write. Each later change of it
//!   may be there, be missing, or be torn at any 512 bytes, without regard to order.
//! - Names are changed in the order of the calls, as journaling file systems do it: some beginning of all changes is
//!   there, and at least those before the last fsync of the directory they were made in.
//! - The call at which the power is cut has begun and has not returned.
//! - A sync that fails ([`life_with`]) drops what was written before it was told: those after it keep nothing of that,
//!   and succeed.

mod disk;
mod trace;

pub use disk::{Disk, Mood};

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const VICTIM_DIR: &str = "LEVADA_TEST_POWER_DIR";

/// Where the victim should work, if this process is one. A test that is none returns at once.
pub fn victim_dir() -> Option<PathBuf> {
    std::env::var_os(VICTIM_DIR).map(PathBuf::from)
}

/// The victim tells of a step. Told after the step, it is what a caller was promised; told before, what a caller may
/// find.
pub fn tell(text: &str) {
    use std::io::Write;
    std::io::stderr().write_all(format!("{}{text}", trace::TOLD).as_bytes()).expect("somebody listens");
}

/// Runs the test `victim` of the calling test program, named by its whole path, under strace, with `dir` (absolute) to
/// work in, and gives all it did there.
pub fn life(victim: &str, dir: &Path) -> Disk {
    life_with(victim, dir, None)
}

/// The call with this number, counted from 1 in each thread, of fdatasync fails and has no effect.
#[derive(Clone, Copy, Debug)]
pub struct FailingSync {
    pub number: usize,
    /// As the kernel calls it, such as `ENOSPC`.
    pub error: &'static str,
}

/// As [`life`], with a disk that is found to be full, or broken, by a sync.
pub fn life_with(victim: &str, dir: &Path, failing: Option<FailingSync>) -> Disk {
    let trace = dir.with_extension("trace");
    std::fs::create_dir_all(dir).expect("the victim's directory can be made");
    let program = std::env::current_exe().expect("a test program has a path");
    let mut strace = Command::new("strace");
    if let Some(FailingSync { number, error }) = failing {
        strace.arg(format!("--inject=fdatasync:error={error}:when={number}"));
    }
    let strace = strace
        .args(["-f", "--seccomp-bpf", "-q", "-xx", "-s", "67108864", "-e", "signal=none", "-e"])
        .arg(format!("trace={}", trace::CALLS))
        .arg("-o")
        .arg(&trace)
        .arg(program)
        .args([victim, "--exact", "--nocapture", "--test-threads=1"])
        .env(VICTIM_DIR, dir)
        .stdin(Stdio::null())
        .output();
    let output = strace.unwrap_or_else(|error| panic!("strace, which sees what is written, does not run: {error}"));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "the victim failed: {said}\n{}", String::from_utf8_lossy(&output.stdout));
    let disk = Disk::from_trace(&trace, dir);
    std::fs::remove_file(&trace).expect("the trace is ours");
    assert!(disk.calls() > 0 && disk.told(disk.calls()).count() > 0, "strace saw nothing of {victim}: {said}");
    disk
}
