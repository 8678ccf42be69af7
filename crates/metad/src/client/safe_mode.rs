//! Safe mode: the namespace is read-only until an administrator ends it.
//!
//! Promise: it is what HDFS calls the manually turned on safe mode. An entry of the log enters and leaves it. So all
//! members of the group and every later leader are in it together. No server enters it by itself: one that starts
//! serves at once.

use crate::core::Core;
use crate::refusal;
use crate::session::Session;
use hdfs::Exception;
use hdfs::proto::*;
use namespace::{Reply, SetSafeMode};
use std::sync::Arc;

pub(super) async fn set_safe_mode(
    core: &Arc<Core>,
    session: &Session,
    request: SetSafeModeRequestProto,
) -> Result<SetSafeModeResponseProto, Exception> {
    let wanted = wanted(&request)?;
    let on = match wanted {
        None => core.safe_mode().map_err(refusal::rows)?.is_some(),
        Some(on) => matches!(core.change(&session.as_administrator(), SetSafeMode { on }).await?, Reply::Bool(true)),
    };
    Ok(SetSafeModeResponseProto { result: on })
}

/// For the audit log: `enter`, `leave`, `get`, `force_exit`.
pub(super) fn action(request: &SetSafeModeRequestProto) -> Option<String> {
    let action = SafeModeActionProto::try_from(request.action).ok()?;
    let name = action.as_str_name().to_ascii_lowercase();
    Some(name.strip_prefix("safemode_").unwrap_or(&name).to_owned())
}

/// Whoever waits for its end asks again and again.
pub(super) fn is_query(request: &SetSafeModeRequestProto) -> bool {
    matches!(wanted(request), Ok(None))
}

/// `None`: it is only asked for.
pub(super) fn wanted(request: &SetSafeModeRequestProto) -> Result<Option<bool>, Exception> {
    match SafeModeActionProto::try_from(request.action) {
        Ok(SafeModeActionProto::SafemodeGet) => Ok(None),
        Ok(SafeModeActionProto::SafemodeEnter) => Ok(Some(true)),
        // There is nothing that it would have to be forced against.
        Ok(SafeModeActionProto::SafemodeLeave | SafeModeActionProto::SafemodeForceExit) => Ok(Some(false)),
        Err(_) => Err(refusal::illegal(format!("{} is no action of safe mode", request.action))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::container_sealing::tests::with_node;
    use crate::nodes::heartbeat::heartbeat;
    use crate::principal::RegisteredNode;
    use lead::Ask;
    use types::{BlockId, FsPath, NodeId};
    use wire::node::{Deletion, HeartbeatRequest, Orders, Replica};

    async fn order(core: &Arc<Core>, action: SafeModeActionProto) -> Result<bool, Exception> {
        let session = Session::example("root", true);
        let request = SetSafeModeRequestProto { action: action.into(), checked: None };
        set_safe_mode(core, &session, request).await.map(|answer| answer.result)
    }

    /// A replica that nobody needs is looked up once when it is reported, and again when it may be deleted.
    #[tokio::test]
    async fn what_it_keeps_is_not_looked_up_with_every_heartbeat() {
        let (_dir, metad, core) = with_node().await;
        let node = NodeId([1; 16]);
        let ask = Ask { replication: 1, block_len: 1, ..Ask::default() };
        let block = core.allocate(&FsPath::root(), &ask, [127, 0, 0, 1].into()).await.unwrap().block;
        let deletion = Deletion { block: block.0, generation_at_most: 1001 };
        let leaves = async || -> bool {
            let orders = Orders { delete: vec![deletion], ..Orders::default() };
            !crate::nodes::orders::command(&core, node, orders).await.unwrap().delete.is_empty()
        };
        let beat = async |put: &[BlockId]| -> Orders {
            let replica = |block: &BlockId| Replica { block: block.0, generation: 1001, len: 1, ..Replica::default() };
            let put = put.iter().map(replica).collect();
            let request = HeartbeatRequest { node: node.to_string(), put, ..HeartbeatRequest::default() };
            let registered = core.with_cluster(|cluster, _| cluster.node(node).unwrap().node.clone());
            let process = RegisteredNode { id: node, incarnation: registered.incarnation };
            heartbeat(&core, process, &registered.xfer_addr(), request).await.unwrap()
        };
        assert!(leaves().await);
        assert!(order(&core, SafeModeActionProto::SafemodeEnter).await.unwrap());
        assert!(!leaves().await, "it was thought of before");
        assert!(core.leader().surplus.take_ask(node), "and is looked at again");
        for put in [&[block][..], &[]] {
            assert_eq!(beat(put).await.delete, []);
            assert_eq!(core.leader().undecided.of(node), [], "it would be looked up again");
            assert_eq!(core.leader().withheld_deletions.of(node).len(), 1);
        }
        assert!(!order(&core, SafeModeActionProto::SafemodeLeave).await.unwrap());
        assert_eq!(beat(&[]).await.delete.iter().map(|order| order.block).collect::<Vec<_>>(), [block.0]);
        assert_eq!(core.leader().withheld_deletions.of(node), []);
        drop(core);
        metad.shutdown().await;
    }
}
