//! Verification of replicas that were reported as damaged, by their own nodes. Damaged replicas that are the last of
//! their block are verified again from time to time.
//!
//! Promise: a few nodes verify at a time, one replica each, beside all other work. A node that hangs delays only
//! complaints about itself. A fault may have been temporary, of a disk or a cable: a mark as damaged is removed when
//! the replica verifies.

use super::rules::askable;
use crate::core::Core;
use io::task::{Owned, spawn_owned};
use io::time::timeout;
use lead::Verified;
use namespace::read;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use types::{BlockId, NodeId};

/// Nodes that read at a time. Each may have a whole block to read.
const READING_COUNT_MAX: usize = 8;
/// Also without a call for it, since replicas are read again by the clock.
const ROUND_EACH: Duration = Duration::from_secs(1);

/// Nodes that verify a replica now. Their tasks end when this is dropped.
type Reading = BTreeMap<NodeId, Owned<()>>;

/// Has replicas read until the task is dropped.
pub(crate) async fn run(core: Arc<Core>) {
    let mut reading = Reading::new();
    loop {
        round(&core, &mut reading);
        let _ = timeout(ROUND_EACH, core.complaint_wake.notified()).await;
    }
}

fn round(core: &Arc<Core>, reading: &mut Reading) {
    reading.retain(|_, task| !task.is_finished());
    while reading.len() < READING_COUNT_MAX {
        let free = |node: NodeId| !reading.contains_key(&node);
        let next = core.with_leader(|leader, _| {
            let now = core.monotonic();
            let reported = leader.complaints.take(now, free);
            reported.or_else(|| leader.repair.next_to_reread(now, free))
        });
        let Some((block, node)) = next else { return };
        let at = Arc::clone(core);
        let task = async move {
            verify(&at, block, node).await;
            at.complaint_wake.notify_one();
        };
        reading.insert(node, spawn_owned("verify", task));
    }
}

/// Has the node verify its replica; `Leader::on_verified` decides.
async fn verify(core: &Arc<Core>, block: BlockId, node: NodeId) {
    let Ok(found) = core.chore_rows(move |rows| read::file_of_block(rows, block)).await else {
        core.leader().complaints.on_unread(block, node, core.monotonic());
        return;
    };
    let view = found.map(|(_, view)| view);
    let fitness = match &view {
        Some(view) => {
            let nodes = askable(core, [node]);
            let answers = crate::node_questions::verify(core, &nodes, block, view.generation, view.len).await;
            answers.first().and_then(|(_, fitness)| *fitness)
        }
        None => None,
    };
    let verified = core.leader().on_verified(block, node, view.as_ref(), fitness, core.monotonic());
    if let Verified::Sound { was_damaged } = verified {
        tracing::info!(%block, %node, was_damaged, "reported replica verified as sound");
    }
    if verified.wakes_repair() {
        core.repair_wake.notify_one();
    }
}
