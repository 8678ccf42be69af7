//! The audit log: each call, its caller, and whether it was allowed. One line of JSON a call, in files of its own.
//!
//! ```text
//! door ──Record──▶ Queue, bounded in bytes ──▶ one thread ──▶ audit.log ─▶ audit.log.1 ─▶ … ─▶ deleted
//!                    └ full: the line is dropped, counted, and the file says how many
//! ```
//!
//! Promise: no call waits for this disk. Lines are not synced: a crash of the machine may lose the last ones. The
//! fields are described in docs/audit.md, which a test holds to [`Record`].

mod files;
mod queue;
mod ration;

use crate::config::Config;
use crate::date;
use files::Files;
use io::Clock;
use queue::{Counts, Queue};
use ration::Ration;
use serde::Serialize;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// Bytes of lines that wait for the disk: some 30,000 lines.
const QUEUE_LEN_MAX: usize = 8 << 20;
/// Bytes of a name or a path in a line. What is longer is cut: it may be megabytes, and mean nothing.
const TEXT_LEN_MAX: usize = 4096;
/// Paths in a line: as many as a batched listing names. A concat may name thousands.
const PATH_COUNT_MAX: usize = 100;
/// Bytes of all paths in a line. A guess: a thousandth of what may wait.
const PATHS_LEN_MAX: usize = 8 << 10;
const _: () = assert!(TEXT_LEN_MAX <= PATHS_LEN_MAX, "one path is always listed");
/// For the last lines at the server's end. A disk that hangs does not keep the server from ending.
const END_WAIT: Duration = Duration::from_secs(2);

/// One line.
#[derive(Debug, Serialize)]
pub(crate) struct Record<'a> {
    /// When the call came, in UTC, by this server's clock.
    pub(crate) time: String,
    /// In whose name.
    pub(crate) user: &'a str,
    /// The user who made the call, if it is another one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) real_user: Option<&'a str>,
    /// How the user was authenticated.
    pub(crate) authentication: &'a str,
    /// How the user who made the call was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) real_authentication: Option<&'a str>,
    pub(crate) address: String,
    pub(crate) protocol: &'a str,
    pub(crate) method: &'a str,
    /// Source, then destination, as far as the call has them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) paths: Vec<String>,
    /// Further paths, which are not listed.
    #[serde(skip_serializing_if = "is_zero")]
    pub(crate) more_paths: usize,
    /// What else it is about: a datanode, a member, a job.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) subject: Option<String>,
    /// False: the call was denied. `error` says whether a permitted one was carried out.
    pub(crate) allowed: bool,
    /// Class of the exception that was answered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) error: Option<&'a str>,
    /// In words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) reason: Option<&'a str>,
    pub(crate) duration_us: u64,
    /// So many like this one have no line, since the last that has one.
    #[serde(skip_serializing_if = "is_zero")]
    pub(crate) passed_over: u64,
}

/// Written in place of lines that were dropped.
#[derive(Debug, Serialize)]
struct Dropped {
    time: String,
    /// Lines lost since the line before.
    dropped: u64,
}

fn is_zero<T: Default + PartialEq>(count: &T) -> bool {
    *count == T::default()
}

/// As many paths as a line takes, each cut, and how many there are beyond.
pub(crate) fn listed(mut paths: Vec<String>) -> (Vec<String>, usize) {
    let mut len = 0;
    let fits = |path: &mut String| {
        path.truncate(shortened(path).len());
        len += path.len();
        len <= PATHS_LEN_MAX
    };
    let count = paths.iter_mut().take(PATH_COUNT_MAX).map(fits).take_while(|fits| *fits).count();
    let more = paths.len() - count;
    paths.truncate(count);
    (paths, more)
}

/// As much of a text as a line takes.
pub(crate) fn shortened(text: &str) -> &str {
    &text[..text.floor_char_boundary(TEXT_LEN_MAX)]
}

/// Whose lines are rationed: each kind has its own, so that neither takes the other's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rationed {
    Strangers,
    /// Datanodes by a certificate that was revoked: it may be a thief who calls.
    Revoked,
}

#[derive(Debug)]
pub(crate) struct Log {
    queue: Arc<Queue>,
    thread: Mutex<Option<JoinHandle<()>>>,
    /// Of those who have proven nothing.
    strangers: Mutex<Ration>,
    /// Of datanodes whose certificate was revoked.
    revoked: Mutex<Ration>,
    /// Calls that change nothing are recorded, too.
    pub(crate) has_reads: bool,
}

impl Log {
    /// `None`: it is switched off.
    pub(crate) fn open(config: &Config, clock: &Arc<dyn Clock>) -> std::io::Result<Option<Self>> {
        if !config.audit_log {
            return Ok(None);
        }
        let dir: PathBuf = config.dir.join("audit");
        let files = Files::open(dir, config.audit_file_len, config.audit_file_count)?;
        let queue = Arc::new(Queue::new(QUEUE_LEN_MAX));
        let (lines, clock) = (Arc::clone(&queue), Arc::clone(clock));
        let thread = io::task::thread("audit log", move || write_all(&lines, files, &*clock))?;
        Ok(Some(Self {
            queue,
            thread: Mutex::new(Some(thread)),
            strangers: Mutex::default(),
            revoked: Mutex::default(),
            has_reads: config.audit_reads,
        }))
    }

    pub(crate) fn record(&self, record: &Record<'_>) {
        let mut line = serde_json::to_vec(record).expect("a record is plain data");
        line.push(b'\n');
        self.queue.push(&line);
    }

    /// For what anybody can cause as often as he likes: with many at `now`, most get no line, and the next that has one
    /// says how many.
    pub(crate) fn record_rationed<'a>(&self, kind: Rationed, now: Duration, line: impl FnOnce() -> Record<'a>) {
        let ration = match kind {
            Rationed::Strangers => &self.strangers,
            Rationed::Revoked => &self.revoked,
        };
        let passed_over = ration.lock().unwrap_or_else(PoisonError::into_inner).take(now);
        if let Some(passed_over) = passed_over {
            self.record(&Record { passed_over, ..line() });
        }
    }

    pub(crate) fn counts(&self) -> Counts {
        self.queue.counts()
    }

    /// Writes what waits, and ends.
    pub(crate) fn close(&self) {
        self.queue.close();
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread
            && !io::task::join_within(thread, END_WAIT)
        {
            tracing::warn!("audit log not closed: its disk does not answer; its last lines are lost");
        }
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        self.queue.close();
    }
}

/// Takes lines from the queue to the files until it is closed and empty.
fn write_all(queue: &Queue, mut files: Files, clock: &dyn Clock) {
    let mut was_failing = false;
    while let Some(batch) = queue.take() {
        let mut lines = batch.lines;
        if batch.dropped > 0 {
            let dropped = Dropped { time: date::rfc3339(clock.now()), dropped: batch.dropped };
            lines.extend(serde_json::to_vec(&dropped).expect("a record is plain data"));
            lines.push(b'\n');
        }
        match files.append(&lines) {
            Ok(()) => {
                queue.was_written(batch.count);
                was_failing = false;
            }
            Err(error) => {
                queue.was_lost(batch.count, batch.dropped);
                if !std::mem::replace(&mut was_failing, true) {
                    tracing::error!(%error, dir = %files.dir().display(), "audit log write failed");
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;
    use std::collections::BTreeSet;
    use std::path::Path;
    use types::Millis;

    fn record() -> Record<'static> {
        Record {
            time: date::rfc3339(Millis(1_795_428_000_123)),
            user: "alice",
            real_user: Some("gateway"),
            authentication: "PROXY",
            real_authentication: Some("SIMPLE"),
            address: "10.0.0.1:40000".into(),
            protocol: "ClientProtocol",
            method: "rename",
            paths: vec!["/a".into(), "/b\n\"c\"".into()],
            more_paths: 3,
            subject: Some("7".into()),
            allowed: false,
            error: Some("org.apache.hadoop.security.AccessControlException"),
            reason: Some("alice may not"),
            duration_us: 120,
            passed_over: 2,
        }
    }

    fn config(dir: &Path) -> Config {
        Config::new(dir.into(), ([127, 0, 0, 1], 0).into())
    }

    #[test]
    fn a_call_is_one_line_of_json() {
        let dir = tempfile::tempdir().unwrap();
        let clock: Arc<dyn Clock> = Arc::new(io::SystemClock::new());
        let log = Log::open(&config(dir.path()), &clock).unwrap().unwrap();
        log.record(&record());
        log.record(&Record { real_user: None, paths: Vec::new(), allowed: true, error: None, ..record() });
        log.close();
        assert_eq!(log.counts(), Counts { written: 2, dropped: 0 });
        let text = std::fs::read_to_string(dir.path().join("audit/audit.log")).unwrap();
        let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(lines.len(), 2, "{text}");
        assert_eq!(lines[0]["time"], "2026-11-23T10:00:00.123Z");
        assert_eq!(lines[0]["paths"][1], "/b\n\"c\"");
        assert_eq!((&lines[0]["allowed"], &lines[0]["real_user"]), (&false.into(), &"gateway".into()));
        assert!(lines[1].get("error").is_none() && lines[1].get("paths").is_none());
    }

    #[test]
    fn paths_of_a_line_are_bounded() {
        let (some, more) = listed(vec!["/a".to_owned(); 250]);
        assert_eq!((some.len(), more), (PATH_COUNT_MAX, 150));
        let (some, more) = listed(vec!["/x".repeat(1 << 20); 3]);
        assert_eq!((some.iter().map(String::len).collect::<Vec<_>>(), more), (vec![TEXT_LEN_MAX; 2], 1));
        assert_eq!(listed(Vec::new()), (Vec::new(), 0));
    }

    #[test]
    fn it_can_be_switched_off() {
        let dir = tempfile::tempdir().unwrap();
        let clock: Arc<dyn Clock> = Arc::new(io::SystemClock::new());
        let config = Config { audit_log: false, ..config(dir.path()) };
        assert!(Log::open(&config, &clock).unwrap().is_none());
        assert!(!dir.path().join("audit").exists());
    }

    #[test]
    fn each_field_is_on_the_page() {
        let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/audit.md");
        let page = std::fs::read_to_string(page).unwrap();
        let fields = page.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next());
        let listed: BTreeSet<String> = fields.map(str::to_owned).collect();
        let line = |value: Value| value.as_object().unwrap().keys().cloned().collect::<BTreeSet<_>>();
        let mut fields = line(serde_json::to_value(record()).unwrap());
        fields.extend(line(serde_json::to_value(Dropped { time: String::new(), dropped: 1 }).unwrap()));
        assert_eq!(fields, listed);
    }
}
