//! Lists of datanodes in files, as HDFS has them (`dfs.hosts`, `dfs.hosts.exclude`): who may join, who is to be emptied,
//! and who is in maintenance.
//!
//! Promise: what the files say is carried out by the same commands as what an administrator asks for. What an
//! administrator has asked for is undone only where the files said so before, and do not any more. A file that cannot
//! be read changes nothing.

mod parse;

use crate::config::Config;
use crate::core::Core;
use crate::leaves;
use crate::refusal;
use blocks::{Command, LeaveKind, Node, Service};
use hdfs::Exception;
use lead::Member;
use parse::{Host, LEN_MAX, State, hosts};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use types::{Millis, NodeId};

/// For datanodes that registered since.
const LOOK_EACH: Duration = Duration::from_secs(1);
/// While the files cannot be read after a start.
const READ_EACH: Duration = Duration::from_secs(10);

/// The lists of this leader.
#[derive(Debug)]
pub(crate) struct HostLists {
    include: Option<PathBuf>,
    exclude: Option<PathBuf>,
    lists: Mutex<Lists>,
}

#[derive(Debug, Default)]
struct Lists {
    included: Vec<Host>,
    excluded: Vec<Host>,
    /// Nodes that were excluded, and in maintenance, by the lists.
    drained: BTreeSet<NodeId>,
    maintained: BTreeSet<NodeId>,
}

/// What the lists say of a datanode.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Said {
    is_excluded: bool,
    maintenance_until: Option<Millis>,
}

impl HostLists {
    /// `None`: no files are named.
    pub(crate) fn of(config: &Config) -> Option<Self> {
        let (include, exclude) = (config.hosts_include.clone(), config.hosts_exclude.clone());
        (include.is_some() || exclude.is_some()).then(|| Self { include, exclude, lists: Mutex::default() })
    }

    fn lock(&self) -> MutexGuard<'_, Lists> {
        self.lists.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a datanode may register. An empty list of included ones has all of them.
    pub(crate) fn admits(&self, node: &Node) -> bool {
        let lists = self.lock();
        lists.included.is_empty() || lists.included.iter().any(|host| is_of(host, node))
    }

    async fn read(&self) -> Result<(), String> {
        let included = read(self.include.as_deref(), State::Normal).await?;
        let excluded = read(self.exclude.as_deref(), State::Decommissioned).await?;
        let mut lists = self.lock();
        (lists.included, lists.excluded) = (included, excluded);
        Ok(())
    }
}

impl Lists {
    fn of(&self, node: &Node, wall: Millis) -> Said {
        let mut said = Said::default();
        for host in self.included.iter().chain(&self.excluded).filter(|host| is_of(host, node)) {
            match host.state {
                State::Normal => {}
                State::Decommissioned => said.is_excluded = true,
                State::Maintenance { until_ms } => {
                    said.maintenance_until = Some(Millis(until_ms)).filter(|until| *until > wall);
                }
            }
        }
        said
    }

    /// The first thing that is not as the lists say.
    fn next(&mut self, member: &Member, wall: Millis) -> Option<Change> {
        let (id, said) = (member.node.id, self.of(&member.node, wall));
        let is_draining = member.service == Service::Draining;
        let until = member.leave.filter(|leave| leave.kind == LeaveKind::Maintenance).map(|leave| leave.until);
        if said.is_excluded {
            self.drained.insert(id);
            if !is_draining {
                return Some(Change::Service(id, Service::Draining));
            }
        } else if self.drained.remove(&id) && is_draining {
            return Some(Change::Service(id, Service::Serving));
        }
        if said.maintenance_until.is_some() {
            self.maintained.insert(id);
            if until != said.maintenance_until {
                return Some(Change::Maintenance(id, said.maintenance_until));
            }
        } else if self.maintained.remove(&id) && until.is_some() {
            return Some(Change::Maintenance(id, None));
        }
        None
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    Service(NodeId, Service),
    Maintenance(NodeId, Option<Millis>),
}

fn is_of(host: &Host, node: &Node) -> bool {
    let is_port = host.port.is_none_or(|port| u32::from(port) == u32::from(node.xfer_port));
    is_port && (node.ip == host.name || node.host.eq_ignore_ascii_case(&host.name))
}

async fn read(path: Option<&Path>, state: State) -> Result<Vec<Host>, String> {
    let Some(path) = path.map(Path::to_owned) else { return Ok(Vec::new()) };
    let shown = path.display().to_string();
    let bytes = io::task::blocking(move || {
        let len = std::fs::metadata(&path)?.len();
        if len > LEN_MAX as u64 {
            let reason = format!("it has {len} bytes, more than {LEN_MAX}");
            return Err(std::io::Error::new(std::io::ErrorKind::FileTooLarge, reason));
        }
        std::fs::read(&path)
    });
    let bytes = bytes.await.map_err(|error| format!("{shown}: {error}"))?;
    hosts(&bytes, state).map_err(|error| format!("{shown}: {error}"))
}

/// Reads the files again, as `hdfs dfsadmin -refreshNodes` asks, and has done what they say.
pub(crate) async fn refresh(core: &Core) -> Result<(), Exception> {
    let Some(lists) = &core.host_lists else { return Ok(()) };
    lists.read().await.map_err(Exception::io)?;
    apply(core, lists).await
}

/// Follows the files as they were read last, until the task is dropped.
pub(crate) async fn run(core: Arc<Core>) {
    let Some(lists) = &core.host_lists else { return std::future::pending().await };
    while let Err(why) = lists.read().await {
        tracing::error!(why, "lists of hosts not read: all datanodes are taken as they are");
        io::time::sleep(READ_EACH).await;
    }
    loop {
        if let Err(error) = apply(&core, lists).await {
            tracing::warn!(error = %error, "lists of hosts not carried out yet");
        }
        io::time::sleep(LOOK_EACH).await;
    }
}

async fn apply(core: &Core, lists: &HostLists) -> Result<(), Exception> {
    let wall = core.now();
    let changes: Vec<Change> = core.with_cluster(|cluster, _| {
        let mut lists = lists.lock();
        cluster.nodes().filter_map(|member| lists.next(member, wall)).collect()
    });
    for change in changes {
        match change {
            Change::Service(node, service) => {
                tracing::info!(%node, ?service, "service state of a datanode changed by the lists of hosts");
                let answer = core.change_blocks(Command::SetService { node, service }).await;
                answer.map_err(refusal::raft)?.map_err(|refused| refusal::illegal(refused.to_string()))?;
                core.repair_wake.notify_one();
                core.prepare.notify_one();
            }
            Change::Maintenance(node, until) => leaves::set_maintenance(core, node, until).await?,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::container_sealing::tests::with_node;

    fn write(path: &Path, text: &str) {
        std::fs::write(path, text).unwrap();
    }

    /// The files are written, read again on request, and carried out; and so is what is taken out of them.
    #[tokio::test]
    async fn what_the_files_say_is_done_and_undone() {
        let (dir, metad, core) = with_node().await;
        let (id, path) = (NodeId([1; 16]), dir.path().join("hosts"));
        let node = core.with_cluster(|cluster, _| cluster.node(id).unwrap().node.clone());
        let lists = HostLists {
            include: Some(path.clone()),
            exclude: Some(dir.path().join("exclude")),
            lists: Mutex::default(),
        };
        write(&dir.path().join("exclude"), "");
        let state = || {
            core.with_cluster(|cluster, _| {
                let member = cluster.node(id).unwrap();
                (member.service, member.is_in_maintenance())
            })
        };
        let apply_with = async |include: &str, exclude: &str| {
            write(&path, include);
            write(&dir.path().join("exclude"), exclude);
            lists.read().await.unwrap();
            apply(&core, &lists).await.unwrap();
        };
        let listed = |state: &str| format!(r#"[{{"hostName": "{}", "adminState": "{state}"}}]"#, node.ip);
        apply_with("", &node.ip).await;
        assert_eq!(state(), (Service::Draining, false));
        apply_with("another", "").await;
        assert_eq!(state(), (Service::Serving, false));
        assert!(!lists.admits(&node), "others are listed");
        apply_with(&listed("IN_MAINTENANCE"), "").await;
        assert_eq!(state(), (Service::Serving, true));
        assert!(lists.admits(&node));
        write(&path, "[");
        assert!(lists.read().await.unwrap_err().contains("no list of hosts"));
        apply(&core, &lists).await.unwrap();
        assert_eq!(state(), (Service::Serving, true), "what cannot be read changes nothing");
        apply_with(&listed("NORMAL"), "").await;
        assert_eq!(state(), (Service::Serving, false));
        leaves::set_maintenance(&core, id, Some(Millis(i64::MAX as u64))).await.unwrap();
        apply(&core, &lists).await.unwrap();
        assert_eq!(state(), (Service::Serving, true), "an administrator said so");
        drop(core);
        metad.shutdown().await;
    }
}
