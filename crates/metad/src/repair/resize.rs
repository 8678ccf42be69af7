//! Files whose replication was changed: their blocks move, under their ids, into containers of that replication.
//!
//! ```text
//! setReplication ──▶ RESIZED ──▶ a set of that size near the old one ──▶ copies where it lacks them ──▶ MoveBlocks ──▶ ForgetResized
//!                                                                                                        └ what is too much: surplus
//! ```

use super::compare::{fitness, lack};
use super::{RepairError, askable};
use crate::core::Core;
use blocks::{Plan, Told};
use namespace::read;
use namespace::{BlockMove, BlockView, ForgetResized, MoveBlocks};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use types::{ContainerId, FileId, NodeId};
use wire::node::Fitness;

/// Files looked at in a round, and blocks of one file at a time.
const FILE_COUNT: usize = 100;
const PAGE_COUNT: usize = 500;
/// Changes that the choice of a set may need: the set, a container, the end of a full one.
const PROPOSAL_COUNT_MAX: usize = 6;

/// A file that waits for copies, or for its writer.
const LOOK_AGAIN_AFTER: Duration = Duration::from_millis(300);

/// Where the next round goes on.
#[derive(Debug, Default)]
pub(super) struct Turn {
    after: Option<FileId>,
    /// Files whose copies are under way, and when they are looked at again.
    resting: BTreeMap<FileId, Duration>,
}

pub(super) async fn round(core: &Arc<Core>, turn: &mut Turn) -> Result<(), RepairError> {
    let files = {
        let view = core.machine.store().view();
        read::resized_files(&view, turn.after, FILE_COUNT)?
    };
    turn.after = files.last().copied().filter(|_| files.len() == FILE_COUNT);
    if turn.after.is_some() {
        core.repair_wake.notify_one();
    }
    for file in files {
        if core.repair().is_full() {
            return Ok(());
        }
        if turn.resting.get(&file).is_some_and(|until| *until > core.monotonic()) {
            continue;
        }
        turn.resting.remove(&file);
        if !resize(core, file).await? {
            turn.resting.insert(file, core.monotonic() + LOOK_AGAIN_AFTER);
        }
    }
    let now = core.monotonic();
    turn.resting.retain(|_, until| *until > now);
    Ok(())
}

/// True: nothing is left to do for the file.
async fn resize(core: &Arc<Core>, file: FileId) -> Result<bool, RepairError> {
    let mut offset = Some(0);
    let mut done = true;
    let mut replication = 0;
    while let Some(from) = offset {
        let found = {
            let view = core.machine.store().view();
            read::file_replicas(&view, file, from, PAGE_COUNT)?
        };
        let Some(found) = found else { break };
        (offset, replication) = (found.next_offset, found.replication);
        done &= !found.is_open;
        let mut by_home: BTreeMap<ContainerId, Vec<BlockView>> = BTreeMap::new();
        core.with_cluster(|cluster, _| {
            for view in found.blocks {
                if cluster.wanted(view.home) == found.replication {
                    continue;
                }
                done = false;
                if view.complete {
                    by_home.entry(view.home).or_default().push(view);
                }
            }
        });
        for (home, mut views) in by_home {
            // What is being copied will be looked at when it is.
            views.retain(|view| !core.repair().is_copied(view.block));
            if views.is_empty() {
                continue;
            }
            if let Some(to) = target(core, home, replication, &views).await? {
                move_to(core, home, to, &views).await?;
            }
        }
    }
    if done {
        core.change_unasked(ForgetResized { file, replication }).await?;
    }
    Ok(done)
}

/// The container that takes blocks of `home`.
async fn target(
    core: &Arc<Core>,
    home: ContainerId,
    replication: u16,
    views: &[BlockView],
) -> Result<Option<ContainerId>, RepairError> {
    // One that was begun with is gone on with.
    let begun = views.iter().find_map(|view| core.repair().moving_to(view.block));
    if let Some(to) = begun
        && core.with_cluster(|cluster, _| cluster.wanted(to)) == replication
    {
        return Ok(Some(to));
    }
    let len = views.iter().map(|view| view.len).sum();
    for _ in 0..PROPOSAL_COUNT_MAX {
        let now = core.monotonic();
        let plan = core.with_cluster(|cluster, random| cluster.home_of_size(home, replication, len, now, random));
        match plan {
            Ok(Plan::Use(to)) => return Ok(Some(to)),
            Ok(Plan::Propose(command)) => {
                if let Err(refused) = core.change_blocks(command).await? {
                    tracing::debug!(%refused, "the choice of a set was overtaken");
                }
            }
            Err(error) => {
                tracing::debug!(%home, replication, %error, "no set for another replication");
                return Ok(None);
            }
        }
    }
    Ok(None)
}

async fn move_to(core: &Arc<Core>, home: ContainerId, to: ContainerId, views: &[BlockView]) -> Result<(), RepairError> {
    let (old, new) =
        core.with_cluster(|cluster, _| (cluster.member_ids(home).to_vec(), cluster.member_ids(to).to_vec()));
    let both: Vec<NodeId> = new.iter().chain(old.iter().filter(|id| !new.contains(id))).copied().collect();
    let fit = fitness(core, views, &askable(core, both)).await;
    let mut ready = Vec::new();
    let now = core.monotonic();
    for (place, view) in views.iter().enumerate() {
        let of = |id: &NodeId| fit.get(id).map(|list| list[place]);
        if new.iter().all(|id| of(id) == Some(Fitness::Fit)) {
            ready.push(*view);
            continue;
        }
        let mut sources: Vec<NodeId> = fit.keys().filter(|id| of(id) == Some(Fitness::Fit)).copied().collect();
        sources.retain(|id| !core.repair().is_bad(view.block, *id));
        if sources.is_empty() {
            core.repair().doubt(view.block);
            continue;
        }
        let mut repair = core.repair();
        repair.set_moving(view.block, to);
        for node in &new {
            if let Some(fitness) = of(node).filter(|fitness| !matches!(fitness, Fitness::Fit | Fitness::Busy)) {
                repair.on_lack(lack(view, to, *node, sources.clone(), fitness == Fitness::Unfit));
            }
        }
    }
    if ready.is_empty() {
        return Ok(());
    }
    let one = |view: &BlockView| BlockMove { block: view.block, generation: view.generation, from: home, to };
    core.change_unasked(MoveBlocks { moves: ready.iter().map(one).collect() }).await?;
    for view in ready {
        core.repair().end_moving(view.block);
        core.with_cluster(|cluster, _| cluster.on_written(to, view.len));
        let told = Told {
            block: view.block,
            generation: view.generation,
            len: view.len,
            file: Some(view.file),
            home: Some(home),
        };
        for node in old.iter().filter(|id| !new.contains(id)) {
            core.surplus().keep(*node, told, to, now);
        }
    }
    Ok(())
}
