//! Freeing what was deleted: trees in the namespace, then replicas on the datanodes, then the memory of both.
//!
//! Each step is small and goes through the log by itself, so a deleted tree of a million files holds nobody up.

use crate::change_error::ChangeError;
use crate::core::Core;
use lead::SILENCE_MAX;
use namespace::{DoomedBlock, ForgetDoomed, Reap, Reply, read};
use types::rows::RowsError;

/// Inodes and blocks freed by one entry of the log.
const REAP_COUNT: u32 = 1000;
const _: () = assert!(REAP_COUNT <= namespace::BLOCKS_CHANGED_MAX);
/// Rows of doomed blocks read, or forgotten, at a time.
const PAGE_COUNT: usize = 1000;

#[derive(Debug, thiserror::Error)]
pub(crate) enum ReapError {
    #[error(transparent)]
    Change(#[from] ChangeError),
    #[error(transparent)]
    Rows(#[from] RowsError),
}

/// One round. Costs a look at one table if there is nothing to do.
pub(crate) async fn round(core: &Core) -> Result<(), ReapError> {
    drop_unreachable_nodes(core);
    if core.safe_mode()?.is_some() {
        return Ok(());
    }
    forget(core).await?;
    if core.take_unfed() {
        feed(core).await.inspect_err(|_| core.reload_doomed_rows())?;
    }
    loop {
        if !core.leader().doomed.has_room() {
            core.reload_doomed_rows();
            return Ok(());
        }
        if !core.chore_rows(read::has_deleted_trees).await? {
            return Ok(());
        }
        core.change_unasked(Reap { inodes_max: REAP_COUNT }).await?;
    }
}

/// Takes the doomed blocks up that were doomed before this leader, or when there was no room for more. What is known
/// already changes nothing.
async fn feed(core: &Core) -> Result<(), RowsError> {
    let mut after = None;
    while core.leader().doomed.has_room() {
        let page = core.chore_rows(move |rows| read::doomed_blocks(rows, after, PAGE_COUNT)).await?;
        let Some(last) = page.last() else { break };
        assert!(page.len() <= PAGE_COUNT, "{} rows are read at a time", page.len());
        assert!(after.is_none_or(|after| after < *last), "rows from {last:?} on were read before");
        after = Some(*last);
        owe(core, page);
    }
    Ok(())
}

fn owe(core: &Core, blocks: Vec<DoomedBlock>) {
    core.with_leader(|leader, _| {
        for block in blocks {
            leader.doomed.feed(block, leader.cluster.member_ids(block.home));
        }
    });
}

/// Nobody waits for a node that is gone: when it is back, also without having registered anew, it is asked for its
/// catalogue, which puts it right.
fn drop_unreachable_nodes(core: &Core) {
    let now = core.monotonic();
    if core.uptime() <= SILENCE_MAX {
        return; // All are silent just after a start.
    }
    core.with_leader(|leader, _| {
        let live = |id| leader.cluster.node(id).is_some_and(|member| member.is_live(now));
        let lost: Vec<_> = leader.doomed.pending_nodes().filter(|id| !live(*id)).collect();
        for node in lost {
            leader.doomed.on_lost(node);
            leader.surplus.ask_all(node);
        }
    });
}

async fn forget(core: &Core) -> Result<(), ReapError> {
    loop {
        let blocks = core.leader().doomed.take_forgettable(PAGE_COUNT);
        if blocks.is_empty() {
            return Ok(());
        }
        // What is not forgotten now is found by its rows again.
        let forgotten = core.change_unasked(ForgetDoomed { blocks }).await.inspect_err(|_| core.reload_doomed_rows());
        let reply = forgotten?;
        assert!(matches!(reply, Reply::Done), "what is forgotten is answered by Done, not {reply:?}");
    }
}
