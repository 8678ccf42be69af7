//! Resizing of files whose replication was changed: their blocks move, under their ids, into containers of that
//! replication. `lead::Resizing` decides.
//!
//! ```text
//! setReplication ──▶ RESIZED ──▶ a pipeline of that size near the old one ──▶ copies where it lacks them
//!                    ──▶ MoveBlocks ──▶ ForgetResized
//!                              └ excess replicas: surplus
//! ```

use super::compare::answers;
use super::error::RepairError;
use crate::core::Core;
use lead::{Leader, Plan, Resizing, Transfer};
use namespace::read;
use namespace::{BlockMove, BlockView, ForgetResized, MoveBlocks};
use std::sync::Arc;
use types::{ContainerId, FileId};

/// Blocks of one file at a time.
const PAGE_COUNT: usize = 500;
/// Changes that the choice of a set may need: the set, a container, the end of a full one.
const PROPOSAL_COUNT_MAX: usize = 6;

pub(super) async fn round(core: &Arc<Core>) -> Result<(), RepairError> {
    let (after, count) = core.leader().resizes.page();
    let files = core.chore_rows(move |rows| read::resized_files(rows, after, count)).await?;
    let has_more = core.leader().resizes.on_page(&files);
    if has_more {
        core.repair_wake.notify_one();
    }
    for file in files {
        let now = core.monotonic();
        let (is_full, is_due) =
            core.with_leader(|leader, _| (leader.repair.is_full(), leader.resizes.is_due(file, now)));
        if is_full {
            return Ok(());
        }
        if is_due {
            let is_done = resize(core, file).await?;
            let now = core.monotonic();
            core.leader().resizes.on_looked(file, is_done, now);
        }
    }
    Ok(())
}

/// True: nothing is left to do for the file.
async fn resize(core: &Arc<Core>, file: FileId) -> Result<bool, RepairError> {
    let mut offset = Some(0);
    let mut resizing = Resizing::default();
    while let Some(from) = offset {
        let found = core.chore_rows(move |rows| read::file_replicas(rows, file, from, PAGE_COUNT)).await?;
        let Some(found) = found else { break };
        offset = found.next_offset;
        let blocks = found.blocks;
        let by_home =
            core.with_repair_context(|context| resizing.on_page(found.replication, found.is_open, blocks, context));
        for (home, blocks) in by_home {
            if let Some(to) = target(core, home, &resizing, &blocks).await? {
                move_to(core, home, to, &blocks).await?;
            }
        }
    }
    if resizing.is_done() {
        core.change_unasked(ForgetResized { file, replication: resizing.replication() }).await?;
    }
    Ok(resizing.is_done())
}

/// The container that takes blocks of `home`.
async fn target(
    core: &Arc<Core>,
    home: ContainerId,
    resizing: &Resizing,
    blocks: &[BlockView],
) -> Result<Option<ContainerId>, RepairError> {
    for _ in 0..PROPOSAL_COUNT_MAX {
        let now = core.monotonic();
        let plan = core.with_leader(|Leader { cluster, repair, .. }, random| {
            resizing.target(home, blocks, cluster, repair, now, random)
        });
        match plan {
            Ok(Plan::Use(to)) => return Ok(Some(to)),
            Ok(Plan::Propose(command)) => {
                if let Err(refused) = core.change_blocks(command).await? {
                    tracing::debug!(%refused, "choice of a pipeline superseded");
                }
            }
            Err(error) => {
                let replication = resizing.replication();
                tracing::debug!(%home, replication, %error, "no pipeline for another replication");
                return Ok(None);
            }
        }
    }
    Ok(None)
}

async fn move_to(
    core: &Arc<Core>,
    from: ContainerId,
    to: ContainerId,
    blocks: &[BlockView],
) -> Result<(), RepairError> {
    let (mut transfer, nodes) = core.with_repair_context(|context| {
        let transfer = Transfer::begin(from, to, blocks, context);
        let nodes = transfer.to_ask(context);
        (transfer, nodes)
    });
    let answers = answers(core, blocks, &nodes).await;
    core.with_repair_context(|context| transfer.on_answers(blocks, &answers, context));
    if transfer.ready().is_empty() {
        return Ok(());
    }
    let one = |wanted: &BlockView| BlockMove { block: wanted.block, generation: wanted.generation, from, to };
    core.change_unasked(MoveBlocks { moves: transfer.ready().iter().map(one).collect() }).await?;
    core.with_repair_context(|context| transfer.on_moved(context));
    Ok(())
}
