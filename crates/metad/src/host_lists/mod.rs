//! Lists of datanodes in files, as HDFS has them (`dfs.hosts`, `dfs.hosts.exclude`): who may join, who is to be
//! emptied, and who is in maintenance.
//!
//! [`crate::listed_nodes`] has it done.
//!
//! ```text
//! files ── read ──▶ what they say ─┬─▶ SetListed ──▶ rows: what they said last, whoever led
//!                                  └─▶ SetService, SetLeave, where a node is not as they say
//! ```
//!
//! Promise: what an administrator has asked for is undone only where the files said so before, and do not any more,
//! whoever led then. A file that cannot be read changes nothing.

mod parse;

use crate::config::Config;
use blocks::{LeaveKind, Listed, Node, Service};
use lead::Member;
use parse::{Host, LEN_MAX, State, hosts};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use types::{Millis, NodeId};

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

    /// What is not as the lists say, of all of these; one thing a node.
    pub(crate) fn changes<'a>(&self, members: impl Iterator<Item = &'a Member>, wall: Millis) -> Vec<Change> {
        let lists = self.lock();
        members.filter_map(|member| lists.next(member, wall)).collect()
    }

    /// Reads the files again.
    pub(crate) async fn read(&self) -> Result<(), String> {
        assert!(self.include.is_some() || self.exclude.is_some(), "lists without a file are none");
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

    /// The first thing that is not as the lists say. That they say it is written down before it is done, and that they
    /// do not any more after it was undone: so whoever leads next knows what is to be undone.
    fn next(&self, member: &Member, wall: Millis) -> Option<Change> {
        let (id, said, was) = (member.node.id, self.of(&member.node, wall), member.listed);
        let now = Listed { is_excluded: said.is_excluded, is_in_maintenance: said.maintenance_until.is_some() };
        let either = Listed {
            is_excluded: was.is_excluded || now.is_excluded,
            is_in_maintenance: was.is_in_maintenance || now.is_in_maintenance,
        };
        if either != was {
            return Some(Change::Listed(id, either));
        }
        let service = if said.is_excluded { Service::Draining } else { Service::Serving };
        if was.is_excluded && member.service != service {
            return Some(Change::Service(id, service));
        }
        let until = member.leave.filter(|leave| leave.kind == LeaveKind::Maintenance).map(|leave| leave.until);
        if was.is_in_maintenance && until != said.maintenance_until {
            return Some(Change::Maintenance(id, said.maintenance_until));
        }
        (now != was).then_some(Change::Listed(id, now))
    }
}

/// What is to be done about a datanode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// What the lists say of it, or said before.
    Listed(NodeId, Listed),
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
