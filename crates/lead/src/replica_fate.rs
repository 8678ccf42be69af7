//! What becomes of a replica that a node tells of, by what the namespace says of its block.
//!
//! Promise: a replica is ordered away at once only when no file owns its block and none can come to own it. One whose
//! place a younger one took, or whose home is elsewhere, may be the best that is left: it is surplus, and goes when the
//! members of the home have said that they have the block ([`crate::Surplus`]). What the namespace cannot know yet (a
//! block of a container or an index that was never given out here) is left alone. What is told while its block is still
//! written must be judged again until the block is complete: [`Undecided`] keeps it.

use crate::cluster::Cluster;
use namespace::BlockView;
use std::collections::BTreeMap;
use types::mutation::{self, Mutation};
use types::{BlockId, ContainerId, FileId, Generation, NodeId};

/// A replica, as its node tells of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Told {
    pub block: BlockId,
    pub generation: Generation,
    pub len: u64,
    /// Whose it is and where it is at home, if the node knows.
    pub file: Option<FileId>,
    pub home: Option<ContainerId>,
    /// It was put, and is as it was put: others can read it. One that is open, or waits for recovery, is no source of
    /// copies.
    pub finalized: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    Stays,
    /// It stays, and its node is to be told whose it is.
    Owned,
    /// It must go, at the generation that was told and below.
    Goes,
    /// It goes once those who should have the block were asked and have it.
    Surplus,
    /// Its block was never given out here. It may be from a time this store has forgotten: a log that was put back from
    /// an old copy, for example.
    Strange,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Judgement {
    pub fate: Fate,
    /// It depends on what becomes of the block, or on who comes back: judge it again later.
    pub again: bool,
}

impl Cluster {
    /// `may_be_put`: somebody holds the block on lease, to put a file with it. To be looked at before `wanted`: what
    /// nobody holds then, and has no owner after, will have none.
    pub fn judge(&self, node: NodeId, told: &Told, wanted: Option<&BlockView>, may_be_put: bool) -> Judgement {
        let Some(wanted) = wanted else {
            if may_be_put && !mutation::is(Mutation::DeleteLeased) {
                return Judgement { fate: Fate::Stays, again: true };
            }
            let fate = if self.was_given_out(told.block) { Fate::Goes } else { Fate::Strange };
            return Judgement { fate, again: false };
        };
        let stale = wanted.complete && told.generation < wanted.generation && !mutation::is(Mutation::KeepStale);
        // While a block is written its chain may have nodes that its home has not yet.
        let elsewhere = wanted.complete && !self.is_member(wanted.home, node) && !mutation::is(Mutation::KeepElsewhere);
        if stale || elsewhere {
            return Judgement { fate: Fate::Surplus, again: false };
        }
        let known = told.file == Some(wanted.file) && told.home == Some(wanted.home);
        Judgement { fate: if known { Fate::Stays } else { Fate::Owned }, again: !wanted.complete }
    }
}

/// Replicas kept of one node; each takes about a hundred bytes. A young leader decides about none that has no owner.
const KEPT_COUNT_MAX: usize = 20_000;

/// Replicas that nodes told of while their blocks were still written, when nobody can say yet whether they are wanted.
///
/// A node tells of a replica once: when it was put, or some seconds after its chain broke off. The block may be
/// completed much later, and by other nodes: a chain that was mended without this one, a recovery it took no part in.
/// So what was told is kept, and judged again with each heartbeat. If it is lost, by a restart or because there is too
/// much, the node's next catalogue tells it again.
#[derive(Debug, Default)]
pub struct Undecided {
    of: BTreeMap<NodeId, BTreeMap<BlockId, Told>>,
}

impl Undecided {
    pub fn keep(&mut self, node: NodeId, told: Told) {
        let kept = self.of.entry(node).or_default();
        if kept.len() < KEPT_COUNT_MAX || kept.contains_key(&told.block) {
            kept.insert(told.block, told);
        }
    }

    /// Something that `node` told is still undecided.
    pub fn has(&self, node: NodeId) -> bool {
        self.of.contains_key(&node)
    }

    /// All that `node` told, to be judged again. It stays undecided until that is done, or a drain could end in
    /// between.
    pub fn of(&self, node: NodeId) -> Vec<Told> {
        self.of.get(&node).into_iter().flat_map(BTreeMap::values).copied().collect()
    }

    /// `told` was judged; what came after it is judged next.
    pub fn settle(&mut self, node: NodeId, told: &Told) {
        let Some(kept) = self.of.get_mut(&node) else { return };
        if kept.get(&told.block) == Some(told) {
            kept.remove(&told.block);
        }
        if kept.is_empty() {
            self.of.remove(&node);
        }
    }

    /// The limit, and that nothing is listed for nothing. Looks at everything.
    pub fn check(&self) {
        for (node, kept) in &self.of {
            assert!(!kept.is_empty(), "{node} is listed, and nothing of it is undecided");
            assert!(kept.len() <= KEPT_COUNT_MAX, "{} replicas of {node} are undecided", kept.len());
            assert!(kept.iter().all(|(block, told)| told.block == *block), "a replica is listed under its block");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use blocks::{Command, Node, apply};
    use types::rows::MemoryRows;
    use types::{InodeId, PipelineId};

    const HOME: ContainerId = ContainerId(1);
    const FILE: FileId = InodeId(16_386);

    fn node(number: u8) -> NodeId {
        NodeId([number; 16])
    }

    /// Nodes 1 and 2 hold container 1, of which 10 indexes were given out.
    fn cluster() -> Cluster {
        let mut rows = MemoryRows::default();
        let members = vec![node(1), node(2)];
        for command in [
            Command::Register(Node::example(1, "/r")),
            Command::Register(Node::example(2, "/r")),
            Command::CreateSet { members, wanted: 2, planned: true },
            Command::OpenContainer { pipeline: PipelineId(1) },
            Command::LeaseIndexes { container: HOME, from: 0, up_to: 10, lessee: 1, len: 0 },
        ] {
            apply(&mut rows, &command).unwrap().unwrap();
        }
        Cluster::load(&rows, 1).unwrap()
    }

    fn told() -> Told {
        let block = BlockId::new(HOME, 3);
        Told { block, generation: Generation(1005), len: 5, file: Some(FILE), home: Some(HOME), finalized: true }
    }

    fn wanted() -> BlockView {
        BlockView {
            file: FILE,
            generation: Generation(1005),
            home: HOME,
            complete: true,
            block: BlockId(0),
            len: 0,
            offset: 0,
        }
    }

    #[test]
    fn a_replica_goes_only_when_the_namespace_says_so() {
        let check = |number: u8, told: Told, wanted: Option<BlockView>| {
            cluster().judge(node(number), &told, wanted.as_ref(), false).fate
        };
        let open = Some(BlockView { complete: false, ..wanted() });
        let whole = Some(wanted());
        let stale = Told { generation: Generation(1004), ..told() };
        assert_eq!(check(1, told(), whole), Fate::Stays);
        assert_eq!(check(1, Told { file: None, ..told() }, whole), Fate::Owned, "told whose it is");
        assert_eq!(check(1, stale, whole), Fate::Surplus);
        assert_eq!(check(1, stale, open), Fate::Stays, "the chain may be mended under it");
        assert_eq!(check(3, told(), whole), Fate::Surplus, "the home is elsewhere");
        assert_eq!(check(3, told(), open), Fate::Stays, "the home may follow");
        assert_eq!(check(1, told(), None), Fate::Goes);
        let held = cluster().judge(node(1), &told(), None, true);
        assert_eq!(held, Judgement { fate: Fate::Stays, again: true }, "its client may still put it");
        assert_eq!(check(1, Told { block: BlockId::new(HOME, 10), ..told() }, None), Fate::Strange, "never given out");
        assert_eq!(check(1, Told { block: BlockId::new(ContainerId(9), 0), ..told() }, None), Fate::Strange);
    }

    #[test]
    fn the_last_word_about_a_block_counts_and_there_is_a_bound() {
        let told = |index: u32, generation| Told {
            block: BlockId::new(HOME, index),
            generation: Generation(generation),
            ..told()
        };
        let mut undecided = Undecided::default();
        undecided.keep(node(1), told(5, 1001));
        undecided.check();
        undecided.keep(node(1), told(5, 1002));
        undecided.check();
        undecided.keep(node(2), told(5, 1001));
        undecided.check();
        assert_eq!(undecided.of(node(1)), [told(5, 1002)]);
        undecided.settle(node(1), &told(5, 1001));
        undecided.check();
        assert!(undecided.has(node(1)), "another word was judged");
        undecided.settle(node(1), &told(5, 1002));
        undecided.check();
        assert_eq!((undecided.of(node(1)), undecided.has(node(1)), undecided.has(node(2))), (vec![], false, true));
        for index in 0..2 * KEPT_COUNT_MAX as u32 {
            undecided.keep(node(1), told(index, 1001));
        }
        undecided.keep(node(1), told(3, 1009));
        undecided.check();
        let kept = undecided.of(node(1));
        assert_eq!((kept.len(), kept[3]), (KEPT_COUNT_MAX, told(3, 1009)));
    }
}
