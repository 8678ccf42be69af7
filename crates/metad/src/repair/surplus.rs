//! Deletion of surplus replicas: other nodes are asked first whether they have the block. `lead::Clearance` decides.

use super::compare::{answers, look_up};
use super::error::RepairError;
use crate::core::Core;
use lead::{Clearance, Cleared};
use std::sync::Arc;
use std::time::Duration;
use types::ContainerId;

/// The longest a round asks.
const ROUND_MAX: Duration = Duration::from_secs(2);
/// Questions a round.
const ROUND_COUNT: usize = 50;

pub(super) async fn round(core: &Arc<Core>) -> Result<(), RepairError> {
    let begun = core.monotonic();
    core.leader().surplus.expire(begun);
    for _ in 0..ROUND_COUNT {
        let now = core.monotonic();
        if now.saturating_sub(begun) > ROUND_MAX {
            break; // others have their turn
        }
        let Some(home) = core.leader().surplus.next(now) else { break };
        if let Err(error) = ask(core, home).await {
            core.leader().surplus.asked(home, now, false);
            return Err(error);
        }
    }
    Ok(())
}

async fn ask(core: &Arc<Core>, home: ContainerId) -> Result<(), RepairError> {
    let mut clearance = core.with_repair_context(|context| Clearance::begin(home, context));
    let found = look_up(core, clearance.blocks()).await?;
    let nodes = core.with_repair_context(|context| clearance.on_found(found, context));
    let answers = answers(core, clearance.asked(), &nodes).await;
    for Cleared { block, node, copies } in core.with_repair_context(|context| clearance.on_answers(&answers, context)) {
        tracing::info!(%block, %node, copies, "surplus replica ordered deleted");
    }
    Ok(())
}
