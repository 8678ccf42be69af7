//! Replicas that belong nowhere, and replicas that somebody called bad: both are asked about before anything is done.

use super::compare::{fitness, verify};
use super::{RepairError, askable};
use crate::core::Core;
use blocks::Told;
use namespace::{BlockView, read};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;
use std::time::Duration;
use types::{BlockId, ContainerId, NodeId};
use wire::node::Fitness;

/// For one datanode to read a replica from end to end.
pub(super) const VERIFY_MAX: Duration = Duration::from_secs(120);
/// Replicas of one container asked about at a time.
const PAGE_COUNT: usize = 1000;
/// The longest a round asks.
const ROUND_MAX: Duration = Duration::from_secs(2);
/// Questions a round.
const ROUND_COUNT: usize = 50;
/// Replicas called bad that are read in one round: each may be a whole block.
const VERIFY_COUNT: usize = 4;

pub(super) async fn round(core: &Arc<Core>) -> Result<(), RepairError> {
    for _ in 0..VERIFY_COUNT {
        let Some((block, node)) = core.take_reported() else { break };
        verify(core, block, node).await?;
    }
    let begun = core.monotonic();
    core.surplus().expire(begun);
    for _ in 0..ROUND_COUNT {
        let now = core.monotonic();
        if now.saturating_sub(begun) > ROUND_MAX {
            break; // others have their turn
        }
        let Some(home) = core.surplus().next(now) else { break };
        let settled_all = ask(core, home).await?;
        core.surplus().asked(home, core.monotonic(), settled_all);
    }
    Ok(())
}

/// True: all that was asked about is settled.
async fn ask(core: &Arc<Core>, home: ContainerId) -> Result<bool, RepairError> {
    let kept = core.surplus().of(home, PAGE_COUNT);
    let mut views: BTreeMap<BlockId, Option<BlockView>> = BTreeMap::new();
    {
        let store = core.machine.store().view();
        for (_, told) in &kept {
            if let Entry::Vacant(unknown) = views.entry(told.block) {
                unknown.insert(read::file_of_block(&store, told.block)?.map(|(_, view)| view));
            }
        }
    }
    // What is being written again is judged when it is complete.
    let asked: Vec<BlockView> =
        views.values().flatten().filter(|view| view.complete && view.home == home).copied().collect();
    let usual = core.config.replication;
    let members = || {
        core.with_cluster(|cluster, _| {
            let row = cluster.pipeline(cluster.container(home)?.pipeline).map(|pipeline| &pipeline.row)?;
            Some((row.epoch, row.members.clone(), row.wanted_or(usual)))
        })
    };
    let before = members();
    let (ids, wanted) = before.clone().map_or((Vec::new(), usual), |(_, ids, wanted)| (ids, wanted));
    let nodes = askable(core, ids.iter().copied());
    let fit = fitness(core, &asked, &nodes).await;
    let place: BTreeMap<BlockId, usize> = asked.iter().enumerate().map(|(place, view)| (view.block, place)).collect();
    if members() != before {
        return Ok(false);
    }
    let mut settled_all = true;
    for (node, told) in kept {
        let Some(at) = place.get(&told.block).copied() else {
            core.surplus().forget(home, node, told.block);
            match views.get(&told.block).copied().flatten() {
                Some(view) if view.complete => moved(core, node, told, &view),
                Some(_) => {}
                // Its file was deleted meanwhile, and only the members of its home are told so: it is judged like any other.
                None => core.undecided().keep(node, told),
            }
            continue;
        };
        let view = &asked[at];
        let is_old = told.generation < view.generation;
        if ids.contains(&node) && !is_old {
            core.surplus().forget(home, node, told.block);
            continue;
        }
        let has = |id: &NodeId| fit.get(id).is_some_and(|list| list[at] == Fitness::Fit);
        let copies = ids.iter().filter(|id| **id != node && has(id)).count();
        // One sound copy of today makes an old one worthless; one that is as good goes only if there are enough.
        let enough = if is_old { 1 } else { usize::from(wanted).max(1) };
        if copies >= enough {
            tracing::info!(block = %told.block, %node, copies, "a replica that is not needed goes");
            core.surplus().let_go(home, node, told, core.monotonic());
        } else {
            settled_all = false;
            core.repair().doubt(told.block);
        }
    }
    Ok(settled_all)
}

/// The block has got another home meanwhile, which `node` may be of.
fn moved(core: &Core, node: NodeId, told: Told, view: &BlockView) {
    let belongs = core.with_cluster(|cluster, _| cluster.is_member(view.home, node));
    if !belongs || told.generation < view.generation {
        core.surplus().keep(node, told, view.home, core.monotonic());
    }
}
