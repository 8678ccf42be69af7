//! Lengths of blocks as their writers named them, until a node that has the block confirms them.
//!
//! ```text
//! a writer completes a block ──on_claimed_len──▶ unconfirmed ──a node reports it, or is asked──▶ counts
//!                                                     │ no report in time: the block is compared by itself
//!                                                     └──no node has it──▶ missing, as `Repair` counts it
//! ```
//!
//! Promise: a length that a writer named and no node confirmed fills no container, and no node needs room for it. So a
//! container takes blocks until its nodes have as many bytes as it should have, whatever writers claim.

use crate::cluster::Cluster;
use crate::named_lengths::Claim;
use std::collections::BTreeMap;
use std::time::Duration;
use types::{BlockId, ContainerId};

/// Claims remembered, each about a hundred bytes: of some seconds. With more, those beyond count as if they were
/// confirmed.
const CLAIM_COUNT_MAX: usize = 100_000;
/// A node reports what it was given with its next heartbeat. What it did not report until then is asked for.
const REPORTED_AFTER: Duration = Duration::from_secs(30);
/// Blocks asked for at a time.
const OVERDUE_COUNT_MAX: usize = 1000;

impl Cluster {
    /// A writer claims that its block in `home` has `len` bytes, `grown` more than were counted of it before.
    pub fn on_claimed_len(&mut self, now: Duration, home: ContainerId, (block, len): (BlockId, u64), grown: u64) {
        if grown == 0 {
            return;
        }
        self.on_written(home, grown);
        // An earlier claim for another container counts there; that one is measured anew.
        let before = self.take_claim(block).filter(|before| before.home == home).map_or(0, |before| before.grown);
        if self.claims.by_block.len() < CLAIM_COUNT_MAX && self.containers.contains_key(&home) {
            self.keep_claim(block, Claim { home, len, grown: before.saturating_add(grown), since: now });
        }
    }

    /// A node has a finalized replica of `block`, of this length.
    pub fn on_confirmed_len(&mut self, block: BlockId, len: u64) {
        let Some(claim) = self.claims.by_block.get(&block).copied() else { return };
        let grown = claim.grown.min(claim.len.saturating_sub(len));
        if grown < claim.grown {
            self.take_claim(block);
            if grown > 0 {
                self.keep_claim(block, Claim { grown, ..claim });
            }
        }
    }

    /// A node has all of it that is recorded; or it is gone, or counts as missing. False: nothing was claimed of it.
    pub(crate) fn forget_claim(&mut self, block: BlockId) -> bool {
        self.take_claim(block).is_some()
    }

    /// Blocks that no node has reported in time, some of them; again after as long if nothing comes of it.
    pub(crate) fn take_overdue(&mut self, now: Duration) -> Vec<BlockId> {
        let is_overdue = |since: &Duration| *since + REPORTED_AFTER < now;
        let overdue = self.claims.by_age.iter().take_while(|(since, _)| is_overdue(since)).take(OVERDUE_COUNT_MAX);
        let overdue: Vec<BlockId> = overdue.map(|(_, block)| *block).collect();
        for block in &overdue {
            if let Some(claim) = self.claims.remove(*block) {
                self.claims.insert(*block, Claim { since: now, ..claim });
            }
        }
        overdue
    }

    /// Bytes that writers named, and no node has confirmed.
    pub fn unconfirmed_len(&self) -> u128 {
        self.containers.values().map(|container| container.unconfirmed_len).sum()
    }

    fn keep_claim(&mut self, block: BlockId, claim: Claim) {
        self.claims.insert(block, claim);
        let more = u128::from(claim.grown);
        self.change_container(claim.home, |container| container.unconfirmed_len += more);
    }

    fn take_claim(&mut self, block: BlockId) -> Option<Claim> {
        let claim = self.claims.remove(block)?;
        let less = u128::from(claim.grown);
        self.change_container(claim.home, |container| container.unconfirmed_len -= less);
        Some(claim)
    }

    /// What is unconfirmed of each container is the sum of what is of its blocks.
    pub(crate) fn check_claims(&self) {
        let mut sums: BTreeMap<ContainerId, u128> = BTreeMap::new();
        for (block, claim) in &self.claims.by_block {
            *sums.entry(claim.home).or_default() += u128::from(claim.grown);
            assert!(self.claims.by_age.contains(&(claim.since, *block)), "{block} is listed by age");
        }
        assert_eq!(self.claims.by_age.len(), self.claims.by_block.len(), "each claim is listed by age once");
        for (home, container) in &self.containers {
            assert_eq!(container.unconfirmed_len, sums.remove(home).unwrap_or_default(), "unconfirmed in {home}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::NodeUsage;
    use crate::compare_answer::Answers;
    use crate::first_choice::First;
    use crate::liveness::LivenessRules;
    use crate::repair::Repair;
    use crate::repair_context::RepairContext;
    use crate::surplus::Surplus;
    use blocks::{Command, Node, apply};
    use namespace::BlockView;
    use std::collections::BTreeSet;
    use types::Fitness;
    use types::rows::MemoryRows;
    use types::{Generation, InodeId, NodeId, PipelineId};

    const HOME: ContainerId = ContainerId(1);
    const NOW: Duration = Duration::from_secs(1);
    const LEN_MAX: u64 = 1000;

    fn node(number: u8) -> NodeId {
        NodeId([number; 16])
    }

    fn block(index: u32) -> BlockId {
        BlockId::new(HOME, index)
    }

    /// Two nodes hold a container that is full with 1000 bytes.
    fn cluster() -> Cluster {
        let (mut rows, members) = (MemoryRows::default(), vec![node(1), node(2)]);
        let mut commands: Vec<Command> = (1..=2).map(|number| Command::Register(Node::example(number, "/r"))).collect();
        commands.push(Command::CreateSet { members, wanted: 2, planned: true });
        commands.push(Command::OpenContainer { pipeline: PipelineId(1) });
        commands.iter().for_each(|command| _ = apply(&mut rows, command).unwrap().unwrap());
        let mut cluster = Cluster::load(&rows, 1).unwrap();
        cluster.set_container_len_max(LEN_MAX);
        (1..=2).for_each(|number| cluster.on_registered(NOW, node(number), NodeUsage::default()));
        cluster
    }

    fn is_sealed_next(cluster: &Cluster) -> bool {
        cluster.check();
        matches!(cluster.ahead(2, NOW, &mut First), Some(Command::Seal { .. }))
    }

    /// A writer names a terabyte and has written a byte: its container stays open. One that has written what it names
    /// fills it.
    #[test]
    fn a_container_is_full_when_its_nodes_say_so() {
        let mut cluster = cluster();
        let lie = 1 << 40;
        cluster.on_claimed_len(NOW, HOME, (block(0), lie), lie);
        assert!(!is_sealed_next(&cluster));
        cluster.on_confirmed_len(block(0), 1);
        assert_eq!(cluster.containers[&HOME].held_len(), 1);
        assert!(!is_sealed_next(&cluster));
        for (index, len) in [(1, 600), (2, 398)] {
            cluster.on_claimed_len(NOW, HOME, (block(index), len), len);
            cluster.on_confirmed_len(block(index), len);
            assert!(!is_sealed_next(&cluster));
        }
        // It was appended to.
        cluster.on_claimed_len(NOW, HOME, (block(1), 601), 1);
        assert!(!is_sealed_next(&cluster));
        cluster.on_confirmed_len(block(1), 600);
        assert!(!is_sealed_next(&cluster), "what a node had before");
        cluster.on_confirmed_len(block(1), 601);
        assert!(is_sealed_next(&cluster));
    }

    /// What was not reported in time is asked for: it counts if a node has it, and as missing if none has.
    #[test]
    fn what_no_node_reports_is_asked_for() {
        let mut cluster = cluster();
        let (mut repair, mut surplus) = (Repair::default(), Surplus::default());
        for index in 0..3 {
            cluster.on_claimed_len(NOW, HOME, (block(index), 400), 400);
        }
        let mut watch = |cluster: &mut Cluster, now| {
            let rules = LivenessRules {
                now,
                receiving_since: Duration::ZERO,
                lost_after: Duration::from_secs(1000),
                usual_replication: 2,
            };
            let mut context = RepairContext { cluster, repair: &mut repair, surplus: &mut surplus, rules };
            context.watch(&mut BTreeSet::new());
            let doubted = context.repair.take_doubts(10);
            let expected = |index| BlockView {
                block: block(index),
                generation: Generation(1),
                len: 400,
                file: InodeId(20_000),
                home: HOME,
                complete: true,
                written_for: None,
                offset: 0,
            };
            // The third was deleted.
            let found = doubted.iter().map(|block| (*block, (block.index() < 2).then(|| expected(block.index()))));
            let members = [node(1), node(2)];
            for (_, blocks) in context.sort_doubts(found.collect::<Vec<_>>()) {
                let said = |id| (id, Some(vec![Fitness::Fit, Fitness::Absent]));
                context.on_doubted(&blocks, &members, &Answers::new(blocks.len(), members.map(said)));
            }
            cluster.check();
            doubted.len()
        };
        assert_eq!(watch(&mut cluster, NOW + REPORTED_AFTER), 0);
        assert_eq!(watch(&mut cluster, NOW + REPORTED_AFTER * 2), 3);
        assert!(cluster.claims.by_block.is_empty());
        let container = &cluster.containers[&HOME];
        assert_eq!((container.len, container.missing_len, container.held_len()), (1200, 400, 800));
        assert_eq!(watch(&mut cluster, NOW + REPORTED_AFTER * 4), 0, "it is settled");
    }

    /// With more claims than are remembered those beyond count at once.
    #[test]
    fn claims_are_bounded() {
        let mut cluster = cluster();
        let count = CLAIM_COUNT_MAX as u32 + 10;
        (0..count).for_each(|index| cluster.on_claimed_len(NOW, HOME, (block(index), 1), 1));
        assert_eq!((cluster.claims.by_block.len(), cluster.containers[&HOME].held_len()), (CLAIM_COUNT_MAX, 10));
        cluster.check();
    }
}
