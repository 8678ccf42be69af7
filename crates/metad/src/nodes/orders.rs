//! The answer to a datanode, with its orders.

use crate::core::Core;
use crate::refusal;
use hdfs::Exception;
use types::{BlockId, NodeId};
use wire::node::Orders;

/// Orders to delete are sent only if this server still led when they were decided. A leader that was suspended
/// meanwhile does not know what another one has committed since. Nor are they sent in safe mode, which may have begun
/// since.
pub(crate) async fn command(core: &Core, node: NodeId, mut orders: Orders) -> Result<Orders, Exception> {
    if !orders.delete.is_empty() {
        let confirmed = core.raft.confirm().await;
        let leads = matches!(confirmed, Ok(term) if term == core.term) && !core.is_broken();
        let is_safe_mode = core.safe_mode().map_err(refusal::rows)?.is_some();
        if !leads || is_safe_mode {
            let dropped = std::mem::take(&mut orders.delete);
            if let Some(mut leader) = core.leader_unless_broken() {
                leader.on_orders_dropped(node, dropped.iter().map(|deletion| BlockId(deletion.block)));
            }
        }
        confirmed.map_err(refusal::raft)?;
        if !leads {
            return Err(refusal::standby(None));
        }
    }
    Ok(Orders { term: core.node_term(), ..orders })
}
