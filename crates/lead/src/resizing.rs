//! Resizing of files whose replication was changed: their blocks move, under their ids, into containers of that
//! replication.
//!
//! ```text
//! Resizing: pages of the file ──▶ blocks by home ──target──▶ Transfer: old and new members are asked ──▶ lacks: Repair
//!                                      └ all new members have it: ready ──▶ (the log) ──▶ on_moved: surplus
//! ```
//!
//! Promise: a block moves only when every member of its new container has confirmed that it has the block.

use crate::cluster::Cluster;
use crate::compare_answer::Answers;
use crate::comparison::{is_lacking, lack};
use crate::placement::{PlaceError, Plan};
use crate::repair::Repair;
use crate::repair_context::RepairContext;
use crate::replica_fate::ReportedReplica;
use namespace::BlockView;
use std::collections::BTreeMap;
use std::time::Duration;
use types::{ContainerId, Fitness, NodeId, Random};

/// A file on its way.
#[derive(Clone, Copy, Debug, Default)]
pub struct Resizing {
    is_waiting: bool,
    replication: u16,
}

impl Resizing {
    /// Some of the file's blocks, and the replication it should have. Answers those that should move now, by the
    /// container they are in.
    pub fn on_page(
        &mut self,
        replication: u16,
        is_open: bool,
        blocks: impl IntoIterator<Item = BlockView>,
        context: &mut RepairContext<'_>,
    ) -> BTreeMap<ContainerId, Vec<BlockView>> {
        self.replication = replication;
        self.is_waiting |= is_open;
        let mut by_home: BTreeMap<ContainerId, Vec<BlockView>> = BTreeMap::new();
        for wanted in blocks {
            if context.cluster.wanted(wanted.home) == replication {
                // It may have been on its way elsewhere: what was copied there already is surplus.
                context.repair.end_moving(wanted.block);
                continue;
            }
            self.is_waiting = true;
            // What is being copied will be looked at when it is.
            if wanted.complete && !context.repair.is_copied(wanted.block) {
                by_home.entry(wanted.home).or_default().push(wanted);
            }
        }
        by_home
    }

    /// All pages were shown. True: nothing is left to do.
    pub fn is_done(&self) -> bool {
        !self.is_waiting
    }

    /// As it was recorded last.
    pub fn replication(&self) -> u16 {
        self.replication
    }

    /// The container that takes `blocks` of `from`.
    pub fn target(
        &self,
        from: ContainerId,
        blocks: &[BlockView],
        cluster: &Cluster,
        repair: &Repair,
        now: Duration,
        random: &mut dyn Random,
    ) -> Result<Plan<ContainerId>, PlaceError> {
        // One that was begun with is gone on with.
        let begun = blocks.iter().find_map(|wanted| repair.moving_to(wanted.block));
        if let Some(to) = begun.filter(|to| cluster.wanted(*to) == self.replication) {
            return Ok(Plan::Use(to));
        }
        let len = types::len::total(blocks.iter().map(|wanted| wanted.len));
        cluster.home_of_size(from, self.replication, len, now, random)
    }
}

/// Blocks of one container that are to be in another.
#[derive(Clone, Debug)]
pub struct Transfer {
    from: ContainerId,
    to: ContainerId,
    old: Vec<NodeId>,
    new: Vec<NodeId>,
    /// Nodes that may have copies outside any home: made for another container, before the file's replication changed
    /// again. They may be the last.
    strays: Vec<NodeId>,
    ready: Vec<BlockView>,
}

impl Transfer {
    pub fn begin(from: ContainerId, to: ContainerId, blocks: &[BlockView], context: &RepairContext<'_>) -> Self {
        let RepairContext { cluster, repair, surplus, .. } = context;
        let (old, new) = (cluster.member_ids(from).to_vec(), cluster.member_ids(to).to_vec());
        let mut strays: Vec<NodeId> = Vec::new();
        for BlockView { block, generation, len, .. } in blocks {
            strays.extend(repair.moving_to(*block).into_iter().flat_map(|home| cluster.member_ids(home)));
            strays.extend(surplus.sources(*block, *generation, *len));
        }
        strays.sort_unstable();
        strays.dedup();
        strays.retain(|id| !old.contains(id) && !new.contains(id));
        Self { from, to, old, new, strays, ready: Vec::new() }
    }

    /// Nodes that have the blocks, or are to have them, and can be asked.
    pub fn to_ask(&self, context: &RepairContext<'_>) -> Vec<NodeId> {
        let both = self.new.iter().chain(self.old.iter().filter(|id| !self.new.contains(id)));
        context.cluster.askable(&context.rules, both.chain(&self.strays).copied())
    }

    /// The answers. Notes lacking replicas; blocks without any are ready.
    pub fn on_answers(&mut self, blocks: &[BlockView], answers: &Answers, context: &mut RepairContext<'_>) {
        let RepairContext { repair, surplus, .. } = context;
        for (at, wanted) in blocks.iter().enumerate() {
            let said: BTreeMap<NodeId, Fitness> =
                answers.nodes().filter_map(|id| Some((id, answers.of(id, at, wanted, repair, surplus)?))).collect();
            if self.new.iter().all(|id| said.get(id) == Some(&Fitness::Fit)) {
                let silent = self.new.iter().find(|id| answers.is_silent(**id));
                assert_eq!(silent, None, "{} moves to {} before all its members answered", wanted.block, self.to);
                self.ready.push(*wanted);
                continue;
            }
            let of = |fitness| said.iter().filter(move |(_, said)| **said == fitness).map(|(id, _)| *id);
            let mut sources: Vec<NodeId> = of(Fitness::Fit).collect();
            if sources.is_empty() {
                sources = of(Fitness::Readable).collect();
            }
            if sources.is_empty() {
                repair.doubt(wanted.block);
                continue;
            }
            repair.set_moving(wanted.block, self.to);
            for (node, unfit) in self.new.iter().filter_map(|node| Some((*node, is_lacking(said.get(node).copied()?)?)))
            {
                repair.on_lack(lack(wanted, self.to, node, sources.clone(), unfit));
            }
        }
    }

    /// Blocks that all new members have.
    pub fn ready(&self) -> &[BlockView] {
        &self.ready
    }

    /// The ready blocks have their home there now, unless another change came between.
    pub fn on_moved(self, context: &mut RepairContext<'_>) {
        let now = context.rules.now;
        for view in self.ready {
            let (BlockView { block, generation, len, .. }, file) = (view, view.replica_file());
            context.repair.end_moving(block);
            context.cluster.on_written(self.to, len);
            let reported =
                ReportedReplica { block, generation, len, file: Some(file), home: Some(self.from), finalized: true };
            for node in self.old.iter().filter(|id| !self.new.contains(id)) {
                context.surplus.keep(*node, reported, self.to, now);
            }
        }
    }
}
