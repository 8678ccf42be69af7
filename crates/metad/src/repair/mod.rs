//! Restores missing copies and runs administrators' jobs. This module calls datanodes, reads rows and proposes; `lead`
//! decides.
//!
//! ```text
//!   lost node, short pipeline, drain ──▶ membership ──▶ SetMembers ─────┐
//!   recovery, append, damage ──▶ doubtful blocks ───────────────────────┼──▶ compare: members are asked, digest first
//!   audit of all containers, slowly ────────────────────────────────────┘       ├─ nothing lacks: Whole (log)
//!   setReplication ──▶ resize: copies, then MoveBlocks (log)                    └─ lacks ──orders──▶ node copies
//!   surplus replicas ──▶ surplus: deleted once other nodes confirmed the block
//!   complaints ──▶ complaints: their nodes verify the replicas, beside all this
//!   blocks with too few copies, for reports ──▶ census, which decides nothing
//!   sealed containers ──▶ hash_trees: members' hash trees over the checksums, down to where they differ
//! ```
//!
//! Promise: each round is bounded. A node that does not answer delays a round once, not each call. No node counts as
//! lost before this leader has received heartbeats for `lost_after_ms`. A replica is deleted only after other nodes
//! confirmed that they have the block.

mod balance;
pub(crate) mod census;
mod compare;
pub(crate) mod complaints;
mod error;
pub(crate) mod hash_trees;
pub(crate) mod jobs;
mod membership;
pub(crate) mod node_jobs;
mod resize;
mod rules;
pub(crate) mod schedule;
mod surplus;

pub(crate) use compare::has_whole;
pub(crate) use error::RepairError;
pub(crate) use rules::{askable, rules};

use crate::core::Core;
use crate::task_fault::TakenWork;
use io::time::timeout;
use std::sync::Arc;
use std::time::Duration;

/// Between rounds if nobody calls for one.
const ROUND_EACH: Duration = Duration::from_secs(1);
/// Between looks at the members of all pipelines.
const MEMBERS_EACH: Duration = Duration::from_millis(500);
/// Between rounds at least.
const ROUND_PAUSE: Duration = Duration::from_millis(100);

/// Looks after the blocks until the task is dropped.
pub(crate) async fn run(core: Arc<Core>) {
    let _taken = TakenWork(Arc::clone(&core));
    loop {
        let now = core.monotonic();
        core.leader().audit(now);
        if let Err(error) = round(&core).await {
            crate::task_fault::fault(&error).await;
        }
        io::time::sleep(ROUND_PAUSE).await;
        let _ = timeout(ROUND_EACH, core.repair_wake.notified()).await;
    }
}

/// Looks after the members of pipelines until the task is dropped: by itself, since comparing waits for datanodes that
/// may not answer.
pub(crate) async fn run_members(core: Arc<Core>) {
    let _taken = TakenWork(Arc::clone(&core));
    loop {
        if let Err(error) = membership::round(&core).await {
            crate::task_fault::fault(&error).await;
        }
        io::time::sleep(MEMBERS_EACH).await;
    }
}

async fn round(core: &Arc<Core>) -> Result<(), RepairError> {
    compare::round(core).await?;
    // Copies are made in safe mode, too; no replica is deleted, and no container moves for any other reason.
    let is_frozen = core.safe_mode()?.is_some();
    if !is_frozen {
        resize::round(core).await?;
        surplus::round(core).await?;
    }
    jobs::round(core).await?;
    if !is_frozen {
        schedule::round(core).await?;
        balance::begin_moves(core).await?;
    }
    jobs::write_ends(core).await
}
