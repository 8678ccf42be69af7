//! Has done what the lists of hosts say of datanodes, by the same commands as what an administrator asks for.

use crate::command;
use crate::core::Core;
use crate::host_lists::{Change, HostLists};
use crate::leaves;
use crate::refusal;
use blocks::Command;
use hdfs::Exception;
use hdfs::exception::RETRIABLE;
use std::sync::Arc;
use std::time::Duration;

/// For datanodes that registered since.
const LOOK_EACH: Duration = Duration::from_secs(1);
/// Of one datanode: what the lists say, what follows for its service and its maintenance, and that they say it no more.
const STEP_COUNT_MAX: usize = 4;
/// While the files cannot be read after a start.
const READ_EACH: Duration = Duration::from_secs(10);

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

/// Several things of one datanode are done one after the other, each of which is decided by what came of the one
/// before.
async fn apply(core: &Core, lists: &HostLists) -> Result<(), Exception> {
    let wall = core.now();
    for _ in 0..STEP_COUNT_MAX {
        let changes = core.with_cluster(|cluster, _| lists.changes(cluster.nodes(), wall));
        if changes.is_empty() {
            return Ok(());
        }
        carry_out(core, changes).await?;
    }
    Ok(())
}

async fn carry_out(core: &Core, changes: Vec<Change>) -> Result<(), Exception> {
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
            Change::Listed(node, listed) => {
                if !core.raise_level(command::LEAVES).await.map_err(refusal::raft)? {
                    let why = "a server of the group is of an older version, which keeps no lists of hosts";
                    return Err(Exception::new(RETRIABLE, why));
                }
                let answer = core.change_blocks(Command::SetListed { node, listed }).await;
                answer.map_err(refusal::raft)?.map_err(|refused| refusal::illegal(refused.to_string()))?;
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use crate::container_sealing::tests::with_node;
    use blocks::Service;
    use std::path::Path;
    use types::{Millis, NodeId};

    fn write(path: &Path, text: &str) {
        std::fs::write(path, text).unwrap();
    }

    /// The files are written, read again on request, and carried out; and so is what is taken out of them.
    #[tokio::test]
    async fn what_the_files_say_is_done_and_undone() {
        let (dir, metad, core) = with_node().await;
        let (id, path) = (NodeId([1; 16]), dir.path().join("hosts"));
        let node = core.with_cluster(|cluster, _| cluster.node(id).unwrap().node.clone());
        let mut config = Config::new(dir.path().into(), "127.0.0.1:0".parse().unwrap());
        (config.hosts_include, config.hosts_exclude) = (Some(path.clone()), Some(dir.path().join("exclude")));
        let lists = HostLists::of(&config).unwrap();
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

    /// A host is taken from the lists under another leader than the one that had read it there; its own lists never had
    /// it.
    #[tokio::test]
    async fn what_the_files_said_is_undone_whoever_led() {
        let (dir, metad, core) = with_node().await;
        let (id, exclude) = (NodeId([1; 16]), dir.path().join("exclude"));
        let node = core.with_cluster(|cluster, _| cluster.node(id).unwrap().node.clone());
        let mut config = Config::new(dir.path().into(), "127.0.0.1:0".parse().unwrap());
        (config.hosts_include, config.hosts_exclude) = (Some(dir.path().join("hosts")), Some(exclude.clone()));
        let state = || {
            core.with_cluster(|cluster, _| {
                let member = cluster.node(id).unwrap();
                (member.service, member.is_in_maintenance())
            })
        };
        let lead_with = async |include: &str, excluded: &str| {
            write(&dir.path().join("hosts"), include);
            write(&exclude, excluded);
            let lists = HostLists::of(&config).unwrap();
            lists.read().await.unwrap();
            apply(&core, &lists).await.unwrap();
        };
        let maintained = format!(r#"[{{"hostName": "{}", "adminState": "IN_MAINTENANCE"}}]"#, node.ip);
        lead_with(&maintained, &node.ip).await;
        assert_eq!(state(), (Service::Draining, true));
        lead_with("", "").await;
        assert_eq!(state(), (Service::Serving, false));
        // What an administrator asks for afterwards is not the lists'.
        let drain = Command::SetService { node: id, service: Service::Draining };
        core.change_blocks(drain).await.unwrap().unwrap();
        lead_with("", "").await;
        assert_eq!(state(), (Service::Draining, false), "an administrator said so");
        let rows = blocks::tables::listed(&core.machine.store().view()).unwrap();
        assert_eq!(rows, [], "nothing is left of the lists");
        drop(core);
        metad.shutdown().await;
    }
}
