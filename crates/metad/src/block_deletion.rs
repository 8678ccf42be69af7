//! Deletion of what users removed: trees in the namespace, then replicas on the datanodes, then the memory of both.
//!
//! Each step is small and a log entry of its own, so a deleted tree of a million files delays no other change.

use crate::change_error::ChangeError;
use crate::core::Core;
use lead::Leader;
use namespace::{ForgetDoomed, Reap, Reply, read};
use types::rows::RowsError;

/// Inodes and blocks freed by one entry of the log.
const REAP_COUNT: u32 = 1000;
const _: () = assert!(REAP_COUNT <= namespace::BLOCKS_CHANGED_MAX);
/// Rows of doomed blocks forgotten at a time.
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
    let (led, now) = (core.uptime(), core.monotonic());
    core.leader().drop_unreachable(led, now);
    if core.safe_mode()?.is_some() {
        return Ok(());
    }
    forget(core).await?;
    feed(core).await?;
    loop {
        if !core.leader().doomed.has_room() {
            return Ok(());
        }
        if !core.chore_rows(read::has_deleted_trees).await? {
            return Ok(());
        }
        core.change_unasked(Reap { inodes_max: REAP_COUNT }).await?;
    }
}

/// Takes the doomed blocks up that were doomed before this leader, or when there was no room for more.
async fn feed(core: &Core) -> Result<(), RowsError> {
    loop {
        let next = core.leader().doomed.next_page();
        let Some(page) = next else { return Ok(()) };
        let rows = core.chore_rows(move |rows| read::doomed_blocks(rows, page.after, page.count)).await?;
        core.with_leader(|Leader { cluster, doomed, .. }, _| doomed.on_page(page, &rows, cluster));
    }
}

async fn forget(core: &Core) -> Result<(), ReapError> {
    loop {
        let blocks = core.leader().doomed.take_forgettable(PAGE_COUNT);
        if blocks.is_empty() {
            return Ok(());
        }
        // What is not forgotten now is found by its rows again.
        let reload =
            |_: &ChangeError| core.leader_unless_broken().into_iter().for_each(|mut leader| leader.doomed.reload());
        let forgotten = core.change_unasked(ForgetDoomed { blocks }).await.inspect_err(reload);
        let reply = forgotten?;
        assert!(matches!(reply, Reply::Done), "what is forgotten is answered by Done, not {reply:?}");
    }
}
