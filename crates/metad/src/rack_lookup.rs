//! Look-up of a machine's rack with the topology script.
//!
//! Promise: only the registration of an unknown node waits for the script. Clients continue without an answer after
//! [`CLIENT_WAIT`], and known nodes keep their racks until the script answers otherwise.

use crate::core::Core;
use crate::session::Session;
use crate::topology_script::{ASK_WAIT, REST};
use blocks::Node;
use io::time::{sleep, timeout};
use std::sync::Arc;
use std::time::Duration;

/// Of a client's first call. A short script has answered by then.
const CLIENT_WAIT: Duration = Duration::from_millis(250);
const _: () = assert!(CLIENT_WAIT.as_millis() < ASK_WAIT.as_millis());
const TRY_COUNT: usize = 20;
/// Clients asked about at a time; others have no rack until their turn comes.
const CLIENT_COUNT_MAX: usize = 1000;

/// Learns a client's rack from the script, if there is one, before near nodes are looked for.
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
            core.with_cluster(|cluster, _| cluster.on_rack_found(host, rack));
        }
    });
    let _in_time = timeout(CLIENT_WAIT, asked).await;
}

/// The rack of a node whose own configuration names none.
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
            tracing::warn!(node = %id, error, "rack of a datanode not recorded");
        }
    });
    before.unwrap_or_else(|| node.rack.clone())
}

/// Asks until the script answers, for ten minutes, and records a new answer.
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
    tracing::info!(node = %id, from = node.rack, to = rack, "datanode changed its rack");
    let answer = core.change_blocks(blocks::Command::Register(Node { rack, ..node })).await;
    answer.map_err(|error| error.to_string())?.map(|_| ()).map_err(|refused| refused.to_string())
}
