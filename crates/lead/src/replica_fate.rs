//! Fate of a reported replica, by what the namespace has of its block.
//!
//! Promise: a replica is ordered deleted at once only when no file owns its block and none can come to own it. A stale
//! replica, or one whose home is elsewhere, may be the best that is left. It is surplus, and is deleted when the
//! members of the home have confirmed the block ([`crate::Surplus`]). A block of a container or index that was never
//! given out here is unknown to the namespace and left alone. A replica reported while its block is being written is
//! judged again when the block is complete; [`Undecided`] keeps it. Where the rows were restored from a backup, a
//! replica that they may have forgotten is listed, and stays ([`crate::FoundBlocks`]); so does one that is younger than
//! its row, and was appended to since where its home was then.

use crate::cluster::Cluster;
use namespace::BlockView;
use std::collections::BTreeMap;
use std::time::Duration;
use types::mutation::{self, Mutation};
use types::{BlockId, ContainerId, FileId, Generation, NodeId};

/// A replica, as its node reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReportedReplica {
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
pub enum ReplicaFate {
    Stays,
    /// It is kept, and its node is to learn its file.
    Owned,
    /// It must be deleted, at the reported generation and below.
    Goes,
    /// It is deleted once the nodes that should have the block were asked and have it.
    Surplus,
    /// Its block was never given out here. It may be from a time this store has forgotten: a log that was put back from
    /// an old copy, for example.
    Strange,
    /// Its block has no owner in these rows, which were restored from a backup that may be older than the block; or its
    /// home is elsewhere by them, and it may have bytes that were appended after the backup.
    Found,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Judgement {
    pub fate: ReplicaFate,
    /// It depends on what becomes of the block, or on nodes that return: judge it again later.
    pub again: bool,
}

impl Cluster {
    /// `may_be_put`: a client holds the block on lease, to put a file with it. To be read before `wanted`: a block that
    /// had no lease then, and has no owner after, will have none.
    pub fn decide_fate(
        &self,
        node: NodeId,
        reported: &ReportedReplica,
        wanted: Option<&BlockView>,
        may_be_put: bool,
    ) -> Judgement {
        let Some(wanted) = wanted else {
            if may_be_put && !mutation::is(Mutation::DeleteLeased) {
                return Judgement { fate: ReplicaFate::Stays, again: true };
            }
            if self.may_be_forgotten(reported.block) && !mutation::is(Mutation::DeleteFound) {
                return Judgement { fate: ReplicaFate::Found, again: false };
            }
            let is_ours = self.was_given_out(reported.block) || self.was_released(reported.block);
            let fate = if is_ours { ReplicaFate::Goes } else { ReplicaFate::Strange };
            return Judgement { fate, again: false };
        };
        let stale = wanted.complete && reported.generation < wanted.generation;
        // While a block is written its chain may have nodes that its home has not yet.
        let elsewhere = wanted.complete && !self.is_member(wanted.home, node) && !mutation::is(Mutation::KeepElsewhere);
        let is_younger = reported.generation > wanted.generation && !mutation::is(Mutation::DeleteFound);
        if elsewhere && is_younger && self.may_be_forgotten(reported.block) {
            return Judgement { fate: ReplicaFate::Found, again: false };
        }
        if stale || elsewhere {
            return Judgement { fate: ReplicaFate::Surplus, again: false };
        }
        let known = reported.file == Some(wanted.replica_file()) && reported.home == Some(wanted.home);
        Judgement { fate: if known { ReplicaFate::Stays } else { ReplicaFate::Owned }, again: !wanted.complete }
    }
}

/// Replicas kept of one node; each takes about a hundred bytes. A young leader decides about none that has no owner.
const KEPT_COUNT_MAX: usize = 20_000;
/// Replicas kept of all nodes, of which there may be thousands: 20 MB. A guess, far above what is written at a time.
const TOTAL_COUNT_MAX: usize = 10 * KEPT_COUNT_MAX;
/// Between two judgements of all that is kept of a node: each looks up all their rows, and a node may send heartbeats
/// as often as it likes.
const JUDGE_EACH: Duration = Duration::from_secs(1);

/// Replicas that nodes reported while their blocks were still being written, when it is not known yet whether they are
/// wanted.
///
/// A node reports a replica once: when it was put, or some seconds after its chain broke off. The block may be
/// completed much later, and by other nodes: by a repaired chain without this one, or a recovery it took no part in. So
/// the report is kept, and judged again with later heartbeats. If it is lost, by a restart or because there are too
/// many, the node's next catalogue reports it again.
#[derive(Debug, Default)]
pub struct Undecided {
    of: BTreeMap<NodeId, Kept>,
    /// Of all nodes.
    count: usize,
}

/// What is kept of one node.
#[derive(Debug, Default)]
struct Kept {
    replicas: BTreeMap<BlockId, ReportedReplica>,
    /// When it was all judged again last.
    judged: Option<Duration>,
}

impl Undecided {
    /// False: there is no room. It is reported again with a later catalogue.
    pub fn keep(&mut self, node: NodeId, reported: ReportedReplica) -> bool {
        let kept_of_node = self.of.get(&node).map_or(0, |kept| kept.replicas.len());
        let has_room = kept_of_node < KEPT_COUNT_MAX && self.count < TOTAL_COUNT_MAX;
        if !has_room && !self.of.get(&node).is_some_and(|kept| kept.replicas.contains_key(&reported.block)) {
            return false;
        }
        if self.of.entry(node).or_default().replicas.insert(reported.block, reported).is_none() {
            self.count += 1;
        }
        true
    }

    /// Some report of `node` is still undecided.
    pub fn has(&self, node: NodeId) -> bool {
        self.of.contains_key(&node)
    }

    pub(crate) fn contains(&self, node: NodeId, block: BlockId) -> bool {
        self.of.get(&node).is_some_and(|kept| kept.replicas.contains_key(&block))
    }

    /// All reports of `node`, to be judged again; nothing if that was done a moment ago. They stay undecided until they
    /// are judged, or a drain could end in between.
    pub fn due(&mut self, node: NodeId, now: Duration) -> Vec<ReportedReplica> {
        let Some(kept) = self.of.get_mut(&node) else { return Vec::new() };
        if kept.judged.is_some_and(|at| now.saturating_sub(at) < JUDGE_EACH) {
            return Vec::new();
        }
        kept.judged = Some(now);
        kept.replicas.values().copied().collect()
    }

    /// All undecided reports of `node`.
    pub fn of(&self, node: NodeId) -> Vec<ReportedReplica> {
        self.of.get(&node).into_iter().flat_map(|kept| kept.replicas.values()).copied().collect()
    }

    /// `reported` was judged, and with it what `node` reported of the block before; what it reported since is still to
    /// be judged.
    pub fn settle(&mut self, node: NodeId, reported: &ReportedReplica) {
        let Some(kept) = self.of.get_mut(&node) else { return };
        let is_over = |kept: &ReportedReplica| {
            kept == reported || (kept.generation, kept.finalized) < (reported.generation, reported.finalized)
        };
        if kept.replicas.get(&reported.block).is_some_and(is_over) {
            kept.replicas.remove(&reported.block);
            self.count -= 1;
        }
        if kept.replicas.is_empty() {
            self.of.remove(&node);
        }
    }

    /// `node` is lost. True: some of its replicas were undecided; it has to report them again if it returns.
    pub fn forget(&mut self, node: NodeId) -> bool {
        let Some(kept) = self.of.remove(&node) else { return false };
        self.count -= kept.replicas.len();
        true
    }

    /// The limits, and that nothing is listed for nothing. Looks at everything.
    pub fn check(&self) {
        for (node, Kept { replicas: kept, .. }) in &self.of {
            assert!(!kept.is_empty(), "{node} is listed, and nothing of it is undecided");
            assert!(kept.len() <= KEPT_COUNT_MAX, "{} replicas of {node} are undecided", kept.len());
            assert!(
                kept.iter().all(|(block, reported)| reported.block == *block),
                "a replica is listed under its block"
            );
        }
        let count: usize = self.of.values().map(|kept| kept.replicas.len()).sum();
        assert_eq!(self.count, count, "the replicas that are undecided");
        assert!(count <= TOTAL_COUNT_MAX, "{count} replicas are undecided");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use blocks::{Command, Node, apply};
    use types::rows::MemoryRows;
    use types::{InodeId, Millis, PipelineId};

    const HOME: ContainerId = ContainerId(1);
    const FILE: FileId = InodeId(16_386);

    fn node(number: u8) -> NodeId {
        NodeId([number; 16])
    }

    /// Nodes 1 and 2 hold container 1, of which 10 indexes were given out.
    fn rows() -> MemoryRows {
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
        rows
    }

    fn cluster() -> Cluster {
        Cluster::load(&rows(), 1).unwrap()
    }

    fn reported() -> ReportedReplica {
        let block = BlockId::new(HOME, 3);
        ReportedReplica {
            block,
            generation: Generation(1005),
            len: 5,
            file: Some(FILE),
            home: Some(HOME),
            finalized: true,
        }
    }

    fn wanted() -> BlockView {
        BlockView {
            file: FILE,
            generation: Generation(1005),
            home: HOME,
            complete: true,
            written_for: None,
            block: BlockId(0),
            len: 0,
            offset: 0,
        }
    }

    #[test]
    fn a_replica_goes_only_when_the_namespace_says_so() {
        let check = |number: u8, reported: ReportedReplica, wanted: Option<BlockView>| {
            cluster().decide_fate(node(number), &reported, wanted.as_ref(), false).fate
        };
        let open = Some(BlockView { complete: false, ..wanted() });
        let whole = Some(wanted());
        let stale = ReportedReplica { generation: Generation(1004), ..reported() };
        assert_eq!(check(1, reported(), whole), ReplicaFate::Stays);
        assert_eq!(
            check(1, ReportedReplica { file: None, ..reported() }, whole),
            ReplicaFate::Owned,
            "told whose it is"
        );
        assert_eq!(check(1, stale, whole), ReplicaFate::Surplus);
        assert_eq!(check(1, stale, open), ReplicaFate::Stays, "the chain may be mended under it");
        assert_eq!(check(3, reported(), whole), ReplicaFate::Surplus, "the home is elsewhere");
        assert_eq!(check(3, reported(), open), ReplicaFate::Stays, "the home may follow");
        assert_eq!(check(1, reported(), None), ReplicaFate::Goes);
        let held = cluster().decide_fate(node(1), &reported(), None, true);
        assert_eq!(held, Judgement { fate: ReplicaFate::Stays, again: true }, "its client may still put it");
        assert_eq!(
            check(1, ReportedReplica { block: BlockId::new(HOME, 10), ..reported() }, None),
            ReplicaFate::Strange,
            "never given out"
        );
        assert_eq!(
            check(1, ReportedReplica { block: BlockId::new(ContainerId(9), 0), ..reported() }, None),
            ReplicaFate::Strange
        );
    }

    /// Indexes that the backup does not know as given out may have been since: such blocks are kept like all others,
    /// and go with them.
    #[test]
    fn what_a_backup_did_not_know_stays_until_it_is_released() {
        let mut rows = rows();
        blocks::restore(&mut rows, Millis(1), Millis(2)).unwrap();
        let later = ReportedReplica { block: BlockId::new(HOME, 10), ..reported() };
        let fate = |rows: &MemoryRows, reported: ReportedReplica| {
            Cluster::load(rows, 1).unwrap().decide_fate(node(1), &reported, None, false).fate
        };
        assert_eq!([reported(), later].map(|replica| fate(&rows, replica)), [ReplicaFate::Found; 2]);
        let mut leading = Cluster::load(&rows, 1).unwrap();
        let release = Command::ReleaseFound { at: Millis(3) };
        let answer = apply(&mut rows, &release).unwrap();
        leading.on_applied(&release, &answer);
        assert_eq!([reported(), later].map(|replica| fate(&rows, replica)), [ReplicaFate::Goes; 2]);
        assert_eq!(leading.decide_fate(node(1), &later, None, false).fate, ReplicaFate::Goes);
        let strange = ReportedReplica { block: BlockId::new(ContainerId(1 << 40), 0), ..reported() };
        assert_eq!(fate(&rows, strange), ReplicaFate::Strange, "no backup makes it ours");
    }

    /// Its home was moved after the backup, and then it was appended to in place.
    #[test]
    fn what_was_appended_elsewhere_after_a_backup_stays_until_it_is_released() {
        let mut rows = rows();
        let fate = |rows: &MemoryRows, number: u8, generation, complete| {
            let reported = ReportedReplica { generation: Generation(generation), len: 9, ..reported() };
            let wanted = BlockView { complete, ..wanted() };
            let judged = Cluster::load(rows, 1).unwrap().decide_fate(node(number), &reported, Some(&wanted), false);
            (judged.fate, judged.again)
        };
        assert_eq!(fate(&rows, 3, 1006, true), (ReplicaFate::Surplus, false), "nothing was restored");
        blocks::restore(&mut rows, Millis(1), Millis(2)).unwrap();
        assert_eq!(fate(&rows, 3, 1006, true), (ReplicaFate::Found, false));
        assert_eq!(fate(&rows, 3, 1005, true), (ReplicaFate::Surplus, false), "the row has all of it");
        assert_eq!(fate(&rows, 3, 1004, true), (ReplicaFate::Surplus, false));
        assert_eq!(fate(&rows, 1, 1006, true), (ReplicaFate::Stays, false), "it is at home");
        assert_eq!(fate(&rows, 3, 1006, false), (ReplicaFate::Stays, true), "judged when it is complete");
        apply(&mut rows, &Command::ReleaseFound { at: Millis(3) }).unwrap().unwrap();
        assert_eq!(fate(&rows, 3, 1006, true), (ReplicaFate::Surplus, false));
    }

    #[test]
    fn the_last_word_about_a_block_counts_and_there_is_a_bound() {
        let reported = |index: u32, generation| ReportedReplica {
            block: BlockId::new(HOME, index),
            generation: Generation(generation),
            ..reported()
        };
        let mut undecided = Undecided::default();
        undecided.keep(node(1), reported(5, 1001));
        undecided.check();
        undecided.keep(node(1), reported(5, 1002));
        undecided.check();
        undecided.keep(node(2), reported(5, 1001));
        undecided.check();
        assert_eq!(undecided.of(node(1)), [reported(5, 1002)]);
        undecided.settle(node(1), &reported(5, 1001));
        undecided.check();
        assert!(undecided.has(node(1)), "another word was judged");
        undecided.settle(node(1), &reported(5, 1002));
        undecided.check();
        assert_eq!((undecided.of(node(1)), undecided.has(node(1)), undecided.has(node(2))), (vec![], false, true));
        for index in 0..2 * KEPT_COUNT_MAX as u32 {
            undecided.keep(node(1), reported(index, 1001));
        }
        undecided.keep(node(1), reported(3, 1009));
        undecided.check();
        let kept = undecided.of(node(1));
        assert_eq!((kept.len(), kept[3]), (KEPT_COUNT_MAX, reported(3, 1009)));
    }

    /// Many nodes that nobody knows may register and tell of as much as they like.
    #[test]
    fn what_all_nodes_tell_has_a_bound_and_a_lost_node_gives_its_place_back() {
        let reported = |index: usize| ReportedReplica { block: BlockId::new(HOME, index as u32), ..reported() };
        let mut undecided = Undecided::default();
        for number in 1..=12 {
            for index in 0..KEPT_COUNT_MAX {
                undecided.keep(node(number), reported(index));
            }
        }
        undecided.check();
        assert_eq!((undecided.count, undecided.has(node(11))), (TOTAL_COUNT_MAX, false));
        assert!(undecided.forget(node(1)) && !undecided.forget(node(11)));
        undecided.keep(node(11), reported(0));
        undecided.check();
        assert!(undecided.has(node(11)) && !undecided.has(node(1)));
    }

    /// However often it sends heartbeats.
    #[test]
    fn what_a_node_told_is_judged_again_once_a_second() {
        let at = Duration::from_millis;
        let mut undecided = Undecided::default();
        undecided.keep(node(1), reported());
        let counts = [10_000, 10_001, 10_999, 11_000, 11_500].map(|ms| undecided.due(node(1), at(ms)).len());
        assert_eq!(counts, [1, 0, 0, 1, 0]);
        assert!(undecided.has(node(1)), "it is not decided by that");
    }
}
