//! Verification of replicas that were reported as damaged, by their own nodes. Damaged replicas that are the last of
//! their block are verified again from time to time.
//!
//! Promise: a few nodes verify at a time, one replica each, beside all other work. A node that hangs delays only
//! complaints about itself. A fault may have been temporary, of a disk or a cable: a mark as damaged is removed when
//! the replica verifies.

use super::rules::askable;
use crate::core::Core;
use io::stage::timeout;
use io::task::{Owned, spawn_owned};
use namespace::read;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use types::{BlockId, Fitness, NodeId};

/// Nodes that read at a time. Each may have a whole block to read.
const READING_COUNT_MAX: usize = 8;
/// Also without a call for it, since replicas are read again by the clock.
const ROUND_EACH: Duration = Duration::from_secs(1);

/// Who reads just now. They stop when this is dropped.
type Reading = BTreeMap<NodeId, Owned<()>>;

/// Has replicas read until the task is dropped.
pub(crate) async fn run(core: Arc<Core>) {
    let mut reading = Reading::new();
    loop {
        round(&core, &mut reading);
        let _ = timeout(ROUND_EACH, core.reported.notified()).await;
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
            let is_known = verify(&at, block, node).await;
            at.with_leader(|leader, _| match is_known {
                true => leader.complaints.on_read(block, node),
                false => leader.complaints.on_unread(block, node, at.monotonic()),
            });
            at.reported.notify_one();
        };
        reading.insert(node, spawn_owned("verify", task));
    }
}

/// The node is asked to read the replica, and believed. False: it did not say how it is.
async fn verify(core: &Arc<Core>, block: BlockId, node: NodeId) -> bool {
    let Ok(found) = core.chore_rows(move |rows| read::file_of_block(rows, block)).await else { return false };
    let Some((_, view)) = found else {
        // Its file was deleted meanwhile, and the node may be another one by now, which never says that it deleted it.
        core.leader().repair.forget_block(block);
        return true;
    };
    let nodes = askable(core, [node]);
    let answers = crate::ask::verify(core, &nodes, block, view.generation, view.len).await;
    let Some((_, Some(fitness))) = answers.first() else { return false };
    match fitness {
        Fitness::Fit => {
            let was_bad = core.with_leader(|leader, _| {
                leader.complaints.on_verified(block, node, core.monotonic());
                leader.repair.on_verified(block, node)
            });
            tracing::info!(%block, %node, was_bad, "reported replica verified as sound");
        }
        Fitness::Busy => return false,
        Fitness::Absent | Fitness::Readable => {
            let repair = &mut core.leader().repair;
            repair.forget_bad(block, node);
            repair.doubt(block);
        }
        Fitness::Unfit => core.leader().repair.on_bad(block, node, view.generation),
    }
    core.repair_wake.notify_one();
    true
}
