//! Replicas that datanodes report, and pages of catalogues. Each replica is looked up in the rows, and judged by
//! `lead::Leader`.

use super::messages::{deletion, node_id, reported_replica};
use crate::core::Core;
use crate::refusal;
use hdfs::Exception;
use lead::{LookedUp, ReportedReplica};
use namespace::{BlockView, read};
use std::sync::Arc;
use std::time::Duration;
use types::rows::{Rows, RowsError};
use types::{BlockId, ContainerId, FileId, NodeId};
use wire::node::{CatalogueRequest, Orders, Owner, PAGE_COUNT_MAX};

/// Replicas that a message may report: a page of those that were put, and one of stale ones.
const REPORT_COUNT_MAX: usize = 2 * PAGE_COUNT_MAX;

/// Replicas looked up under one view.
pub(super) const VIEW_COUNT: usize = 500;

/// A page of all that a node has. What it lacks is a matter of repair.
pub(super) async fn catalogue(core: &Arc<Core>, request: CatalogueRequest) -> Result<Orders, Exception> {
    let node = node_id(&request.node)?;
    if !core.leader().on_catalogue(node, request.from == 0, core.monotonic()) {
        return Ok(Orders::default());
    }
    check_replicas(request.replicas.len())?;
    let orders = reconcile(core, node, request.replicas.iter().map(reported_replica).collect()).await?;
    if request.through == u64::MAX {
        core.leader().on_catalogue_complete(node);
    }
    Ok(orders)
}

pub(super) fn check_replicas(count: usize) -> Result<(), Exception> {
    if count > REPORT_COUNT_MAX {
        return Err(refusal::illegal(format!("{count} replicas in one message; send at most {REPORT_COUNT_MAX}")));
    }
    Ok(())
}

/// Decides about replicas that a node reported.
pub(super) async fn reconcile(
    core: &Arc<Core>,
    node: NodeId,
    replicas: Vec<ReportedReplica>,
) -> Result<Orders, Exception> {
    let mut orders = Orders { known: true, ..Orders::default() };
    if replicas.is_empty() {
        return Ok(orders);
    }
    let at = core;
    let core = Arc::clone(core);
    at.chore(move || {
        let mut strange = Vec::new();
        let is_safe_mode = core.safe_mode().map_err(refusal::rows)?.is_some();
        for page in replicas.chunks(VIEW_COUNT) {
            let now = core.monotonic();
            let found = owners(&core, page, now)?;
            let judged = core.leader().decide_replicas(node, &found, is_safe_mode, now);
            if judged.has_surplus {
                core.repair_wake.notify_one();
            }
            let owner = |(block, file, home): (BlockId, FileId, ContainerId)| Owner {
                block: block.0,
                file: file.0,
                home: home.0,
            };
            orders.delete.extend(judged.delete.into_iter().map(deletion));
            orders.owners.extend(judged.owners.into_iter().map(owner));
            strange.extend(judged.strange);
        }
        if let Some(block) = strange.first() {
            let count = strange.len();
            tracing::warn!(%block, count, %node, "replicas of unknown blocks ignored");
        }
        Ok(orders)
    })
    .await
}

/// What the rows have of each of these replicas, and whether a client may still put it.
pub(super) fn owners(core: &Core, page: &[ReportedReplica], now: Duration) -> Result<Vec<LookedUp>, Exception> {
    // Before the rows are read: a block that no client may put at this moment can only have an owner already.
    let may_be_put = core.leader().may_be_put(page, now);
    let found = core.rows_here(|rows| look_up(rows, page))?;
    assert_eq!((found.len(), may_be_put.len()), (page.len(), page.len()), "each replica is judged by its own block");
    let found = page.iter().zip(found).zip(may_be_put);
    Ok(found.map(|((reported, wanted), may_be_put)| (*reported, wanted, may_be_put)).collect())
}

pub(super) fn look_up(rows: &dyn Rows, replicas: &[ReportedReplica]) -> Result<Vec<Option<BlockView>>, RowsError> {
    let find = |reported: &ReportedReplica| Ok(read::file_of_block(rows, reported.block)?.map(|(_, view)| view));
    replicas.iter().map(find).collect()
}
