//! The state of the node in numbers, for people and monitors.

use crate::node::Node;
use host::version::VERSION;
use serde_json::{Value, json};

pub(crate) fn status(node: &Node) -> Value {
    let disks = node.replicas.disks.reports().into_iter().map(|disk| {
        json!({
            "dir": disk.dir, "volume": disk.volume, "failure": disk.failure, "capacity_len": disk.capacity_len,
            "used_len": disk.used_len, "free_len": disk.free_len, "replicas": disk.replica_count,
            "streams": disk.stream_count, "unread_ms": disk.unread_ms,
        })
    });
    json!({
        "version": VERSION,
        "node": node.replicas.disks.node_id().to_string(),
        "pool": node.replicas.disks.pool(),
        "registered": node.is_registered(),
        "uptime_s": node.replicas.now().as_secs(),
        "transfers": node.admission.transfer_count(),
        "disks": disks.collect::<Vec<_>>(),
    })
}
