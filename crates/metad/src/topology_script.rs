//! The topology script: HDFS's `net.topology.script.file.name`, so an existing script can be reused.
//!
//! Promise: the script gets an address as its argument and prints the rack. A machine without an answer is in the
//! default rack. A few instances run at once, each no longer than [`ASK_WAIT`]. A script that cannot be run, or does
//! not end, is not run for [`REST`].

use io::time::timeout;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::{Output, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::process::Command;
use tokio::sync::Semaphore;

/// The rack of machines that have none by configuration or script. Java clients take an empty one for none at all, and
/// fail.
pub(crate) const DEFAULT_RACK: &str = "/default-rack";
pub(crate) const ASK_WAIT: Duration = Duration::from_secs(5);
pub(crate) const REST: Duration = Duration::from_secs(30);
const RUN_COUNT_MAX: usize = 8;
/// A path of racks within racks, and then some.
const RACK_LEN_MAX: usize = 256;

#[derive(Debug)]
pub(crate) struct TopologyScript {
    script: PathBuf,
    runs: Semaphore,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
pub(crate) struct State {
    /// Until when it is left alone.
    rests_until: Duration,
    /// Clients that are being asked about.
    pub(crate) clients: BTreeSet<String>,
}

impl TopologyScript {
    pub(crate) fn new(script: PathBuf) -> Self {
        Self { script, runs: Semaphore::new(RUN_COUNT_MAX), state: Mutex::default() }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// `None`: it cannot be asked now.
    pub(crate) async fn of(&self, addr: &str, now: Duration) -> Option<String> {
        let _run = self.runs.acquire().await.ok()?;
        if now < self.lock().rests_until {
            return None;
        }
        let mut script = Command::new(&self.script);
        script.arg(addr).stdin(Stdio::null()).kill_on_drop(true);
        let script_path = self.script.display();
        let output = match timeout(ASK_WAIT, script.output()).await {
            Ok(Ok(output)) => output,
            failed => {
                self.lock().rests_until = now + REST;
                let why =
                    failed.map_or_else(|_| format!("no answer for {ASK_WAIT:?}"), |run| format!("{:?}", run.err()));
                tracing::warn!(script = %script_path, why, "topology script failed; racks are unknown");
                return None;
            }
        };
        let rack = rack_of(&output).unwrap_or_else(|why| {
            tracing::warn!(script = %script_path, addr, why, "topology script printed no rack; using the default rack");
            DEFAULT_RACK.to_owned()
        });
        Some(rack)
    }
}

fn rack_of(output: &Output) -> Result<String, String> {
    let said = String::from_utf8_lossy(&output.stdout);
    match said.split_whitespace().next() {
        _ if !output.status.success() => {
            Err(format!("it ended with {}: {:.200}", output.status, String::from_utf8_lossy(&output.stderr).trim()))
        }
        Some(rack) if rack.starts_with('/') && rack.len() <= RACK_LEN_MAX => Ok(rack.to_owned()),
        Some(rack) => Err(format!("{rack:.50} is no rack; it must begin with a /")),
        None => Err("it printed nothing".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn script(text: &str) -> (tempfile::TempDir, TopologyScript) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("topology.sh");
        std::fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        (dir, TopologyScript::new(path))
    }

    #[tokio::test]
    async fn it_tells_or_rests() {
        let (dir, racks) = script("case $1 in 10.0.1.*) echo /left;; 10.0.2.*) echo right;; 10.0.3.*) exit 3;; esac");
        let mut now = Duration::from_secs(1);
        assert_eq!(racks.of("10.0.1.7", now).await.as_deref(), Some("/left"));
        for unknown in ["10.0.2.1", "10.0.3.1", "10.0.4.1"] {
            assert_eq!(racks.of(unknown, now).await.as_deref(), Some(DEFAULT_RACK));
        }
        let script = racks.script.clone();
        std::fs::rename(&script, dir.path().join("away")).unwrap();
        assert_eq!(racks.of("10.0.1.7", now).await, None);
        std::fs::rename(dir.path().join("away"), &script).unwrap();
        assert_eq!(racks.of("10.0.1.7", now).await, None, "left alone");
        now += REST;
        assert_eq!(racks.of("10.0.1.7", now).await.as_deref(), Some("/left"));
    }
}
