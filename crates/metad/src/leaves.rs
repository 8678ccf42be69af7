//! Times in which a datanode's silence does not count, and holds on repair: how they are written down, and how they
//! end.

use crate::command;
use crate::core::Core;
use crate::principal::RegisteredNode;
use crate::refusal;
use blocks::{BlocksError, Command, Leave, LeaveKind, RepairHold};
use hdfs::Exception;
use hdfs::exception::RETRIABLE;
use lead::Standing;
use raft::RaftError;
use types::{Millis, NodeId};

/// A datanode that ended in order is believed to come back for so long at most: its word is no administrator's.
const RESTART_MS_MAX: u64 = 24 * 3600 * 1000;

/// An administrator says that a datanode may be away until then, or that this is over.
pub(crate) async fn set_maintenance(core: &Core, node: NodeId, until: Option<Millis>) -> Result<(), Exception> {
    let leave = until.map(|until| Leave { kind: LeaveKind::Maintenance, until });
    write(core, Command::SetLeave { node, leave }).await?;
    tracing::info!(%node, until_ms = until.map(|until| until.0), "maintenance of a datanode changed");
    core.repair_wake.notify_one();
    core.prepare.notify_one();
    Ok(())
}

/// An administrator has repair wait until then, or go on.
pub(crate) async fn hold_repair(core: &Core, until: Option<Millis>) -> Result<(), Exception> {
    write(core, Command::HoldRepair { hold: until.map(|until| RepairHold { until }) }).await?;
    tracing::info!(until_ms = until.map(|until| until.0), "hold on repair changed");
    core.repair_wake.notify_one();
    Ok(())
}

/// The process of a datanode, which registered with `xfer_addr`, ends, and is to be back within so long. As long as
/// servers of an older version are in the group, this is not written down: then the node's silence counts, as it did
/// there.
pub(crate) async fn on_goodbye(
    core: &Core,
    RegisteredNode { id: node, incarnation }: RegisteredNode,
    xfer_addr: &str,
    leaving_ms: u64,
) -> Result<(), Exception> {
    assert!(leaving_ms > 0, "whoever says goodbye says for how long");
    let until = Millis(core.now().0.saturating_add(leaving_ms.min(RESTART_MS_MAX)));
    core.with_cluster(|cluster, _| cluster.on_disconnected(node));
    if !core.raise_level(command::LEAVES).await.map_err(refusal::raft)? {
        return Ok(());
    }
    // It may have been started again while the group was asked: the goodbye is of the process before. Where that
    // happens while the log is waited for, its next heartbeat is answered that it is to register.
    let now = core.monotonic();
    let standing = core.with_cluster(|cluster, _| cluster.standing(now, node, incarnation, xfer_addr));
    if standing != Standing::Current {
        tracing::debug!(%node, ?standing, "a goodbye came too late");
        return Ok(());
    }
    let command = Command::SetLeave { node, leave: Some(Leave { kind: LeaveKind::Restart, until }) };
    match core.change_blocks(command).await.map_err(refusal::raft)? {
        Ok(_) | Err(BlocksError::InMaintenance { .. }) => {
            tracing::info!(%node, leaving_ms, "a datanode ends in order");
            Ok(())
        }
        Err(refused) => Err(refusal::illegal(refused.to_string())),
    }
}

async fn write(core: &Core, command: Command) -> Result<(), Exception> {
    if !core.raise_level(command::LEAVES).await.map_err(refusal::raft)? {
        let why = "a server of the group is of an older version, which knows neither maintenance nor holds on repair";
        return Err(Exception::new(RETRIABLE, why));
    }
    let answer = core.change_blocks(command).await.map_err(refusal::raft)?;
    answer.map(|_| ()).map_err(|refused| refusal::illegal(refused.to_string()))
}

/// Ends what is overdue.
pub(crate) async fn round(core: &Core) -> Result<(), RaftError> {
    loop {
        let overdue = core.leader().overdue(core.now());
        let Some(command) = overdue else { return Ok(()) };
        let ends = matches!(command, Command::SetLeave { leave: None, .. } | Command::HoldRepair { hold: None });
        assert!(ends, "what is overdue is ended, and not given anew: {command:?}");
        match &command {
            Command::SetLeave { node, .. } => tracing::info!(%node, "a datanode's time away is over"),
            _ => tracing::info!("the hold on repair is over"),
        }
        if let Err(refused) = core.change_blocks(command).await? {
            tracing::debug!(%refused, "end of a leave superseded");
            return Ok(());
        }
        core.repair_wake.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::container_sealing::tests::with_node;
    use blocks::{Incarnation, Node};

    /// A datanode is started again while its goodbye waits for the group: the process that is there now stays in use.
    #[tokio::test]
    async fn a_goodbye_is_of_the_process_that_said_it() {
        let (_dir, metad, core) = with_node().await;
        let id = NodeId([1; 16]);
        let known = || core.with_cluster(|cluster, _| cluster.node(id).unwrap().clone());
        let ending = known().node;
        let next = Node { incarnation: Incarnation { start_ms: 1, nonce: 1 }, ..ending.clone() };
        core.change_blocks(Command::Register(next.clone())).await.unwrap().unwrap();
        let goodbye = async |node: &Node| {
            let process = RegisteredNode { id, incarnation: node.incarnation };
            on_goodbye(&core, process, &node.xfer_addr(), 60_000).await.unwrap();
            known().leave.map(|leave| leave.kind)
        };
        assert_eq!(goodbye(&ending).await, None);
        assert_eq!(goodbye(&next).await, Some(LeaveKind::Restart));
        drop(core);
        metad.shutdown().await;
    }
}
