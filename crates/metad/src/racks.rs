//! Which rack a machine stands in, as a script tells: HDFS's `net.topology.script.file.name`, so an existing one can be
//! taken over.
//!
//! Promise: it gets an address as its argument and prints the rack; whom it does not know is in the default rack. It
//! runs a few times at once and no longer than [`ASK_WAIT`] each, and one that cannot be run, or does not end, is left
//! alone for [`REST`]. Of all that wait only a node that nobody knows yet is held up by it: clients go on after
//! [`CLIENT_WAIT`] without, and known nodes keep their racks until it has said something else.

use crate::caller::Session;
use crate::core::Core;
use blocks::Node;
use io::stage::{sleep, timeout};
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::{Output, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::process::Command;
use tokio::sync::Semaphore;

/// Of those whose place nobody told. Java clients take an empty one for none at all, and fail.
pub(crate) const DEFAULT_RACK: &str = "/default-rack";
const ASK_WAIT: Duration = Duration::from_secs(5);
const REST: Duration = Duration::from_secs(30);
/// Of a client's first call. A short script has answered by then.
const CLIENT_WAIT: Duration = Duration::from_millis(250);
const RUN_COUNT_MAX: usize = 8;
const TRY_COUNT: usize = 20;
/// Clients asked about at a time; others have no rack until their turn comes.
const CLIENT_COUNT_MAX: usize = 1000;
/// A path of racks within racks, and then some.
const RACK_LEN_MAX: usize = 256;

#[derive(Debug)]
pub(crate) struct Racks {
    script: PathBuf,
    runs: Semaphore,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Until when it is left alone.
    rests_until: Duration,
    /// Clients that are being asked about.
    clients: BTreeSet<String>,
}

impl Racks {
    pub(crate) fn new(script: PathBuf) -> Self {
        Self { script, runs: Semaphore::new(RUN_COUNT_MAX), state: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
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
                tracing::warn!(script = %script_path, why, "the topology script cannot be asked; racks are not known");
                return None;
            }
        };
        let rack = told(&output).unwrap_or_else(|why| {
            tracing::warn!(script = %script_path, addr, why, "the topology script told no rack: taken for the default one");
            DEFAULT_RACK.to_owned()
        });
        Some(rack)
    }
}

/// Learns in which rack a client is, if a script tells, before what is near it is looked for.
pub(crate) async fn locate(core: &Arc<Core>, session: &Session) {
    let Some(racks) = &core.racks else { return };
    let host = session.host();
    if core.with_cluster(|cluster, _| cluster.knows_rack(&host)) {
        return;
    }
    {
        let clients = &mut racks.lock().clients;
        if clients.len() >= CLIENT_COUNT_MAX || !clients.insert(host.clone()) {
            return;
        }
    }
    let core = Arc::clone(core);
    let asked = io::task::spawn("rack", async move {
        let Some(racks) = &core.racks else { return };
        let rack = racks.of(&host, core.monotonic()).await;
        racks.lock().clients.remove(&host);
        if let Some(rack) = rack {
            core.with_cluster(|cluster, _| cluster.on_rack_told(host, rack));
        }
    });
    let _in_time = timeout(CLIENT_WAIT, asked).await;
}

/// The rack of a node whose own configuration says none.
pub(crate) async fn of_node(core: &Arc<Core>, node: &Node) -> String {
    let Some(racks) = &core.racks else { return node.rack.clone() };
    let before = core.with_cluster(|cluster, _| cluster.node(node.id).map(|member| member.node.clone()));
    let before = before.filter(|before| before.ip == node.ip).map(|before| before.rack);
    if before.is_none()
        && let Some(rack) = racks.of(&node.ip, core.monotonic()).await
    {
        return rack;
    }
    let core = Arc::clone(core);
    let (id, ip) = (node.id, node.ip.clone());
    io::task::spawn("rack", async move {
        if let Err(error) = correct(&core, id, &ip).await {
            tracing::warn!(node = %id, error, "the rack of a datanode could not be recorded");
        }
    });
    before.unwrap_or_else(|| node.rack.clone())
}

/// Asks until the script answers, for ten minutes, and records what it says if that is new.
async fn correct(core: &Arc<Core>, id: types::NodeId, ip: &str) -> Result<(), String> {
    let Some(racks) = &core.racks else { return Ok(()) };
    let mut tries = 0;
    let rack = loop {
        match racks.of(ip, core.monotonic()).await {
            Some(rack) => break rack,
            None if tries == TRY_COUNT => return Err("the topology script does not answer".to_owned()),
            None => sleep(REST).await,
        }
        tries += 1;
    };
    let known = core.with_cluster(|cluster, _| cluster.node(id).map(|member| member.node.clone()));
    let Some(node) = known.filter(|node| node.ip == ip && node.rack != rack) else { return Ok(()) };
    tracing::info!(node = %id, from = node.rack, to = rack, "a datanode is in another rack");
    let answer = core.change_blocks(blocks::Command::Register(Node { rack, ..node })).await;
    answer.map_err(|error| error.to_string())?.map(|_| ()).map_err(|refused| refused.to_string())
}

fn told(output: &Output) -> Result<String, String> {
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

    fn script(text: &str) -> (tempfile::TempDir, Racks) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("topology.sh");
        std::fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        (dir, Racks::new(path))
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
