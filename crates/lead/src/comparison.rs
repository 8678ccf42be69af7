//! Comparison of a container: the blocks its members should have against those they report.
//!
//! ```text
//! begin ──▶ for each page of the container's blocks: on_open ──▶ are_alike? ──no──▶ on_list ──▶ lacks, doubts: Repair
//!                                                                                      └──▶ end: whole, or again later
//! ```
//!
//! Promise: a container is marked whole under two conditions.
//!
//! - Every member that is not lost has reported, since the comparison began, every complete block that any live node
//!   has.
//! - While a member is joining, no block is open whose chain that member may not be in.
//!
//! A block that no node has is missing. It is looked for again, but does not delay the rest. It is passed over only if
//! a member that has everything else was asked, and every live former member has reported its replicas. A node that
//! returns with the block reports it, and it is copied then.

use crate::compare_answer::Answers;
use crate::repair::{Lack, Repair};
use crate::repair_context::RepairContext;
use crate::surplus::Surplus;
use namespace::BlockView;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use types::mutation::{self, Mutation};
use types::{BlockId, ContainerId, Epoch, Fitness, NodeId, PipelineId};

/// Between comparisons of a container that waits for changes that no event reports: blocks begun before its members
/// joined, and copies made for another container.
const LOOK_AGAIN_AFTER: Duration = Duration::from_secs(3);

/// What came of asking about some blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Replicas to copy.
    pub lacks: usize,
    /// Blocks of which no node has a copy.
    pub missing: usize,
    /// Bytes of those that are not known by name, as there are too many.
    pub unnamed_len: u64,
    /// Members that did not answer, and blocks that are being written.
    pub unanswered: usize,
}

/// What came of comparing a container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Compared {
    /// The pipeline, and its epoch of which all are whole, if that is news.
    pub whole: Option<(PipelineId, Epoch)>,
    /// Blocks of which no node has a copy, if all were asked.
    pub missing: usize,
}

/// A container that is being compared.
#[derive(Clone, Debug)]
pub struct Comparison {
    home: ContainerId,
    pipeline: PipelineId,
    epoch: Epoch,
    is_joining: bool,
    members: Vec<NodeId>,
    open: BTreeSet<BlockId>,
    sum: Outcome,
}

impl Comparison {
    /// `None`: there is no such container.
    pub fn begin(home: ContainerId, context: &mut RepairContext<'_>) -> Option<Self> {
        let pipeline = context.cluster.container(home)?.pipeline;
        let row = &context.cluster.pipeline(pipeline)?.row;
        let (epoch, is_joining) = (row.epoch, !row.joining.is_empty());
        context.repair.begin(home);
        let members = context.members_to_ask(home);
        let (open, sum) = (BTreeSet::new(), Outcome::default());
        Some(Self { home, pipeline, epoch, is_joining, members, open, sum })
    }

    /// The nodes to ask.
    pub fn members(&self) -> &[NodeId] {
        &self.members
    }

    /// Blocks of the container that are still written.
    pub fn on_open(&mut self, open: &[BlockId], repair: &mut Repair) {
        // These are not compared now. A member that returned with an empty disk, or joined, has none of them: they are
        // compared when complete.
        open.iter().for_each(|block| repair.doubt(*block));
        if self.is_joining {
            self.open.extend(open);
        }
    }

    /// `same` are those whose digest of `blocks` is as it should be. True: the list need not be asked for.
    pub fn are_alike(&self, blocks: &[BlockView], same: &[NodeId], repair: &mut Repair, surplus: &Surplus) -> bool {
        let is_bad = |wanted: &BlockView, id: NodeId| {
            repair.is_bad(wanted.block, id, wanted.generation)
                || surplus.is_leaving(wanted.block, id, wanted.generation)
        };
        let alike = !self.members.is_empty()
            && self.members.iter().all(|id| same.contains(id) && !blocks.iter().any(|wanted| is_bad(wanted, *id)));
        if alike && (repair.absent().next().is_some() || repair.bad().next().is_some()) {
            blocks.iter().for_each(|wanted| self.members.iter().for_each(|id| repair.on_fit(wanted.block, *id)));
        }
        alike
    }

    pub fn on_list(&mut self, blocks: &[BlockView], answers: &Answers, context: &mut RepairContext<'_>) {
        let Outcome { lacks, missing, unnamed_len, unanswered } = context.on_list(blocks, &self.members, answers);
        self.sum.lacks += lacks;
        self.sum.missing += missing;
        self.sum.unnamed_len = self.sum.unnamed_len.saturating_add(unnamed_len);
        self.sum.unanswered += unanswered;
    }

    /// False: so much is to be copied already that the rest is compared later.
    pub fn goes_on(&mut self, repair: &Repair) -> bool {
        let is_full = repair.is_full();
        self.sum.unanswered += usize::from(is_full);
        !is_full
    }

    /// All pages were compared, or it does not go on.
    pub fn end(self, context: &mut RepairContext<'_>) -> Compared {
        let passes_over = self.passes_over_missing(context);
        let Self { home, epoch, mut sum, .. } = self;
        if mutation::is(Mutation::WholeUnanswered) {
            sum.unanswered = 0;
        }
        let RepairContext { cluster, repair, rules, .. } = context;
        let now = rules.now;
        // What was not looked at, or not by all, may still be missing as it was before.
        if sum.unanswered == 0 {
            repair.set_unnamed_len(home, sum.unnamed_len);
        }
        let Some(container) = cluster.container(home) else { return Compared { whole: None, missing: 0 } };
        let (of, whole_at) = (container.pipeline, container.epoch);
        // Lost members cannot answer; all others must have answered.
        let must_say = |id: &NodeId| !rules.is_lost(cluster.node(*id));
        let all_asked = mutation::is(Mutation::WholeUnanswered)
            || cluster.member_ids(home).iter().all(|id| self.members.contains(id) || !must_say(id));
        // A node that has not registered yet after a start may have what the others lack.
        let not_yet = Compared { whole: None, missing: if all_asked { sum.missing } else { 0 } };
        // With another pipeline it is counted by other epochs.
        let is_moved = of != self.pipeline;
        if sum.unanswered == 0 && all_asked && !is_moved {
            repair.on_compared(home, self.is_joining.then_some((self.pipeline, epoch)));
            cluster.on_compared(home, epoch);
        }
        if sum.missing > 0 && !passes_over || sum.unanswered > 0 || !all_asked || is_moved {
            repair.retry(home, now);
            return not_yet;
        }
        let is_copied = sum.lacks == 0 && !repair.is_open(home);
        if self.is_joining && !repair.old_open_blocks_closed(home, (self.pipeline, epoch), &self.open) {
            // No member in their chains may be removed before they are complete, and copied.
            repair.suspect(home, now + LOOK_AGAIN_AFTER);
            if is_copied {
                // A log may stay open for hours; what was complete before is read from the new member meanwhile.
                cluster.on_copied(home, epoch);
            }
            return not_yet;
        }
        if !is_copied {
            if !repair.is_open(home) && !repair.is_due(home) {
                // What lacks is being copied for the container that the block moves to, and no event here reports when
                // that is done. Nothing has failed, so the pause does not grow.
                repair.suspect(home, now + LOOK_AGAIN_AFTER);
            }
            return not_yet;
        }
        let nothing_lacks = sum.lacks == 0 && sum.unanswered == 0 && (sum.missing == 0 || passes_over);
        assert!(
            nothing_lacks && all_asked && !repair.is_open(home),
            "{home} is whole though it lacks replicas: {sum:?}"
        );
        let is_news = whole_at < epoch && !self.members.is_empty();
        repair.forget_old_open_blocks(home);
        repair.on_whole(home);
        if sum.missing > 0 {
            repair.retry(home, now);
        }
        Compared { whole: is_news.then_some((self.pipeline, epoch)), missing: sum.missing }
    }

    /// Whether a block that no member has is nowhere else either, as far as live nodes can tell. Some of those asked
    /// had all of the container before, and all live former members have reported since.
    fn passes_over_missing(&self, context: &RepairContext<'_>) -> bool {
        let RepairContext { cluster, surplus, rules, .. } = context;
        let row = cluster.pipeline(self.pipeline).map(|pipeline| &pipeline.row);
        let mut former = row.into_iter().flat_map(|row| &row.former);
        self.members.iter().any(|id| cluster.has_complete(self.home, *id))
            && former.all(|id| rules.is_lost(cluster.node(*id)) || surplus.has_full_catalogue(*id))
    }
}

impl RepairContext<'_> {
    /// Notes what `members` lack of `blocks`.
    pub(crate) fn on_list(&mut self, blocks: &[BlockView], members: &[NodeId], answers: &Answers) -> Outcome {
        let is_live = |id: NodeId| self.cluster.node(id).is_some_and(|member| member.is_live(self.rules.now));
        let outcome = self.repair.on_list(blocks, members, answers, self.surplus, &is_live);
        let mut is_counted_anew = false;
        for (at, wanted) in blocks.iter().enumerate() {
            if answers.is_any_fit(at) {
                // As long as it is recorded, which may be less than was claimed: it was truncated since.
                self.cluster.forget_claim(wanted.block);
            } else if self.repair.is_missing(wanted.block) {
                is_counted_anew |= self.cluster.forget_claim(wanted.block);
            }
        }
        if is_counted_anew {
            self.cluster.set_missing(self.repair.missing_lens());
        }
        outcome
    }

    /// What the namespace has of blocks that were doubted; see [`Repair::sort_doubts`].
    pub fn sort_doubts(
        &mut self,
        found: impl IntoIterator<Item = (BlockId, Option<BlockView>)>,
    ) -> BTreeMap<ContainerId, Vec<BlockView>> {
        let found: Vec<(BlockId, Option<BlockView>)> = found.into_iter().collect();
        for (block, _) in found.iter().filter(|(_, wanted)| wanted.is_none()) {
            self.cluster.forget_claim(*block);
        }
        self.repair.sort_doubts(found)
    }
}

impl Repair {
    /// What the namespace has of doubtful blocks: by home, those that can be compared. One that is still being written
    /// stays doubtful.
    fn sort_doubts(
        &mut self,
        found: impl IntoIterator<Item = (BlockId, Option<BlockView>)>,
    ) -> BTreeMap<ContainerId, Vec<BlockView>> {
        let mut by_home: BTreeMap<ContainerId, Vec<BlockView>> = BTreeMap::new();
        for (block, wanted) in found {
            match wanted {
                Some(wanted) if wanted.complete => by_home.entry(wanted.home).or_default().push(wanted),
                Some(_) => self.doubt(block),
                None => self.forget_block(block),
            }
        }
        by_home
    }

    /// The answers of `members` about `blocks`, which should be on all of them. `is_live`: whether a node can be read
    /// from.
    pub fn on_list(
        &mut self,
        blocks: &[BlockView],
        members: &[NodeId],
        answers: &Answers,
        surplus: &Surplus,
        is_live: &dyn Fn(NodeId) -> bool,
    ) -> Outcome {
        let silent_count = members.iter().filter(|id| answers.is_silent(**id)).count();
        let mut outcome = Outcome { unanswered: silent_count, ..Outcome::default() };
        for (at, wanted) in blocks.iter().enumerate() {
            let said: Vec<(NodeId, Option<Fitness>)> =
                members.iter().map(|id| (*id, answers.of(*id, at, wanted, self, surplus))).collect();
            for (node, fitness) in &said {
                match fitness {
                    Some(Fitness::Fit) => self.on_fit(wanted.block, *node),
                    Some(fitness) if is_lacking(*fitness).is_some() => self.on_absent(wanted.block, *node, wanted.home),
                    _ => {}
                }
            }
            if !said.is_empty() && said.iter().all(|(_, fitness)| *fitness == Some(Fitness::Fit)) {
                self.found(wanted.block);
                continue;
            }
            let mut sources = of_fitness(&said, Fitness::Fit);
            sources.extend(
                surplus.sources(wanted.block, wanted.generation, wanted.len).into_iter().filter(|id| is_live(*id)),
            );
            sources.retain(|id| !self.is_bad(wanted.block, *id, wanted.generation));
            if sources.is_empty() {
                sources = of_fitness(&said, Fitness::Readable);
            }
            if said.iter().any(|(_, fitness)| *fitness == Some(Fitness::Busy)) {
                outcome.unanswered += 1;
                self.doubt(wanted.block);
            } else if !sources.is_empty() {
                self.found(wanted.block);
            } else {
                // A node that did not answer may have it.
                outcome.missing += usize::from(silent_count == 0);
            }
            for (node, unfit) in said.iter().filter_map(|(node, fitness)| Some((*node, is_lacking((*fitness)?)?))) {
                outcome.lacks += usize::from(!sources.is_empty());
                self.on_lack(lack(wanted, wanted.home, node, sources.clone(), unfit));
            }
            if members.is_empty() && sources.is_empty() {
                self.on_lack(lack(wanted, wanted.home, NodeId([0; 16]), Vec::new(), false));
            }
            if sources.is_empty() && outcome.unanswered == 0 && !self.is_missing(wanted.block) {
                outcome.unnamed_len = outcome.unnamed_len.saturating_add(wanted.len);
            }
        }
        outcome
    }
}

fn of_fitness(said: &[(NodeId, Option<Fitness>)], fitness: Fitness) -> Vec<NodeId> {
    said.iter().filter(|(_, said)| *said == Some(fitness)).map(|(node, _)| *node).collect()
}

/// Whether a node with this answer needs a copy, and then whether its replica is unfit.
pub(crate) fn is_lacking(fitness: Fitness) -> Option<bool> {
    match fitness {
        Fitness::Fit | Fitness::Busy => None,
        Fitness::Absent | Fitness::Readable => Some(false),
        Fitness::Unfit => Some(true),
    }
}

pub(crate) fn lack(wanted: &BlockView, home: ContainerId, node: NodeId, sources: Vec<NodeId>, unfit: bool) -> Lack {
    let BlockView { block, generation, len, .. } = *wanted;
    let file = wanted.replica_file();
    Lack { block, generation, len, file, home, node, sources, unfit }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Cluster, LivenessRules, NodeUsage};
    use blocks::{Command, Node, apply};
    use types::rows::MemoryRows;
    use types::{Generation, InodeId};

    const HOME: ContainerId = ContainerId(1);
    const NOW: Duration = Duration::from_secs(100);

    fn id(number: u8) -> NodeId {
        NodeId([number; 16])
    }

    fn wanted(index: u32) -> BlockView {
        let block = BlockId::new(HOME, index);
        BlockView {
            block,
            generation: Generation(1001),
            len: 5,
            file: InodeId(7),
            home: HOME,
            complete: true,
            written_for: None,
            offset: 0,
        }
    }

    /// Nodes 1 to 3, here for long; the first two hold a container.
    struct World {
        rows: MemoryRows,
        cluster: Cluster,
        repair: Repair,
        surplus: Surplus,
    }

    impl World {
        fn new() -> Self {
            let rows = MemoryRows::default();
            let cluster = Cluster::load(&rows, 1).unwrap();
            let mut world = Self { rows, cluster, repair: Repair::default(), surplus: Surplus::default() };
            for number in 1..=3 {
                world.apply(&Command::Register(Node::example(number, "/r")));
                world.cluster.on_registered(NOW, id(number), NodeUsage::default());
            }
            world.apply(&Command::CreateSet { members: vec![id(1), id(2)], wanted: 2, planned: true });
            world.apply(&Command::OpenContainer { pipeline: PipelineId(1) });
            world
        }

        fn apply(&mut self, command: &Command) {
            let reply = apply(&mut self.rows, command).unwrap();
            reply.as_ref().unwrap();
            self.cluster.on_applied(command, &reply);
        }

        fn repair_context(&mut self) -> RepairContext<'_> {
            let Self { cluster, repair, surplus, .. } = self;
            let (receiving_since, lost_after) = (Duration::ZERO, Duration::from_secs(15));
            let rules = LivenessRules { now: NOW, receiving_since, lost_after, usual_replication: 2 };
            RepairContext { cluster, repair, surplus, rules }
        }

        /// Compares blocks 0, 1, … : a letter for each member says what it has of it, `F`it, `R`eadable, `A`bsent,
        /// `U`nfit, `B`usy; `-` no answer.
        fn compare(&mut self, said: &[&str], open: &[BlockId]) -> Compared {
            let mut context = self.repair_context();
            let mut comparison = Comparison::begin(HOME, &mut context).expect("a container");
            let blocks: Vec<BlockView> = (0..said.len() as u32).map(wanted).collect();
            let of = |letter: u8| match letter {
                b'F' => Some(Fitness::Fit),
                b'R' => Some(Fitness::Readable),
                b'A' => Some(Fitness::Absent),
                b'U' => Some(Fitness::Unfit),
                b'B' => Some(Fitness::Busy),
                _ => None,
            };
            let list = |at: usize| said.iter().map(|letters| of(letters.as_bytes()[at])).collect();
            let answers = Answers::new(
                said.len(),
                comparison.members.clone().into_iter().enumerate().map(|(at, id)| (id, list(at))),
            );
            comparison.on_open(open, context.repair);
            comparison.on_list(&blocks, &answers, &mut context);
            let compared = comparison.end(&mut context);
            self.cluster.check();
            self.repair.check();
            self.surplus.check();
            compared
        }

        /// Who is to copy block 0, from whom.
        fn lacks(&self) -> Vec<(NodeId, Vec<NodeId>, bool)> {
            let of_first = self.repair.lacks().filter(|lack| lack.block == wanted(0).block);
            of_first.map(|lack| (lack.node, lack.sources.clone(), lack.unfit)).collect()
        }
    }

    /// The path that a page of a healthy store takes: nobody is asked for a list, unless something else is known.
    #[test]
    fn members_with_the_same_digest_are_alike_unless_a_replica_of_theirs_is_not_to_be_believed() {
        let (mut world, blocks) = (World::new(), [wanted(0), wanted(1)]);
        let are_alike = |world: &mut World, same: &[NodeId]| {
            let comparison = Comparison::begin(HOME, &mut world.repair_context()).expect("a container");
            let are_alike = comparison.are_alike(&blocks, same, &mut world.repair, &world.surplus);
            world.repair.check();
            are_alike
        };
        let both = [id(1), id(2)];
        assert!(are_alike(&mut world, &both));
        assert!(!are_alike(&mut world, &both[..1]), "the other one differs, or did not answer");
        // Replicas of one generation have one digest, sound or not.
        let Generation(generation) = blocks[0].generation;
        world.repair.on_bad(blocks[0].block, id(2), Generation(generation));
        assert!(!are_alike(&mut world, &both));
        world.repair.forget_bad(blocks[0].block, id(2));
        world.repair.on_bad(blocks[0].block, id(2), Generation(generation - 1));
        assert!(are_alike(&mut world, &both));
        assert_eq!(world.repair.bad().count(), 0, "the damaged one was replaced");
        world.compare(&["AF", "FF"], &[]);
        assert_eq!(world.repair.absent().count(), 1);
        assert!(are_alike(&mut world, &both));
        assert_eq!(world.repair.absent().count(), 0, "it came meanwhile");
        let BlockView { block, generation, len, file, home, .. } = blocks[1];
        let reported =
            crate::ReportedReplica { block, generation, len, file: Some(file), home: Some(home), finalized: true };
        world.surplus.approve_deletion(home, id(1), reported, NOW);
        assert!(!are_alike(&mut world, &both), "its node was told to delete it");
    }

    #[test]
    fn who_lacks_a_block_copies_it_from_who_has_it() {
        let mut world = World::new();
        world.compare(&["FA", "FF"], &[]);
        assert_eq!(world.lacks(), [(id(2), vec![id(1)], false)]);
        let mut world = World::new();
        world.compare(&["UF", "FF"], &[]);
        assert_eq!(world.lacks(), [(id(1), vec![id(2)], true)]);
    }

    /// Its disk was made read-only by the system: what is on it is lost with the next start, and can be saved now.
    #[test]
    fn a_last_copy_that_is_only_readable_is_copied_and_never_counted() {
        let mut world = World::new();
        let compared = world.compare(&["RA"], &[]);
        assert_eq!(compared, Compared { whole: None, missing: 0 });
        assert!(!world.repair.is_missing(wanted(0).block));
        // Its own node copies it to another of its disks.
        assert_eq!(world.lacks(), [(id(1), vec![id(1)], false), (id(2), vec![id(1)], false)]);
        let mut world = World::new();
        world.compare(&["RF"], &[]);
        assert_eq!(world.lacks(), [(id(1), vec![id(2)], false)], "a sound one is read rather");
        let mut world = World::new();
        world.repair.on_bad(wanted(0).block, id(1), wanted(0).generation);
        assert_eq!(world.compare(&["RA"], &[]).missing, 1, "it was read, and is damaged");
    }

    /// It was damaged behind its sixth byte, and a recovery cut it there. Its node, which read it for that, says later
    /// that what it read was damaged.
    #[test]
    fn damage_of_an_earlier_generation_is_none_of_a_recovered_replica() {
        let mut world = World::new();
        world.repair.on_put(id(1), wanted(0).block, wanted(0).generation, NOW);
        world.repair.on_bad(wanted(0).block, id(1), Generation(1000));
        let compared = world.compare(&["FA"], &[]);
        assert_eq!(compared, Compared { whole: None, missing: 0 });
        assert_eq!(world.lacks(), [(id(2), vec![id(1)], false)]);
        assert_eq!(world.repair.bad().next(), None, "nobody needs to know it any more");
    }

    #[test]
    fn what_nobody_has_is_missing_until_somebody_has() {
        let mut world = World::new();
        assert_eq!(world.compare(&["AA", "FF"], &[]).missing, 1);
        assert!(world.repair.is_missing(wanted(0).block));
        assert_eq!(world.compare(&["A-"], &[]).missing, 0, "who is silent may have it");
        world.compare(&["FF"], &[]);
        assert!(!world.repair.is_missing(wanted(0).block));
    }

    /// More is missing than can be named. What the container has lost takes nobody's room all the same, and counts
    /// once.
    #[test]
    fn what_is_missing_without_a_name_takes_no_room() {
        let mut world = World::new();
        for index in 0.. {
            let elsewhere = BlockView { home: ContainerId(2), ..wanted(1000 + index) };
            world.repair.on_lack(lack(&elsewhere, elsewhere.home, id(1), Vec::new(), false));
            if world.repair.is_missing_full() {
                break;
            }
        }
        world.cluster.on_written(HOME, 100);
        let held_len = |world: &mut World| {
            world.repair_context().watch(&mut BTreeSet::new());
            world.cluster.check();
            world.cluster.container(HOME).unwrap().held_len()
        };
        for _ in 0..2 {
            world.compare(&["AU", "FF", "AA"], &[]);
            assert!(!world.repair.is_missing(wanted(0).block));
            assert_eq!(held_len(&mut world), 100 - 2 * 5);
        }
        world.compare(&["FF", "F-", "AA"], &[]);
        assert_eq!(held_len(&mut world), 100 - 2 * 5, "one did not answer: as before");
        world.compare(&["FF", "FF", "AA"], &[]);
        assert_eq!(held_len(&mut world), 100 - 5);
        world.compare(&["FF", "FF", "FF"], &[]);
        assert_eq!(held_len(&mut world), 100);
    }

    /// Somebody who is no member has it, and says so later than they say that they have not.
    #[test]
    fn what_no_member_has_is_compared_when_somebody_else_tells_of_it() {
        let mut world = World::new();
        let block = wanted(0).block;
        world.compare(&["AA", "FF"], &[]);
        world.repair.on_surplus(wanted(1).block);
        assert_eq!(world.repair.take_doubts(10), [], "all have this one");
        world.repair.on_surplus(block);
        assert_eq!(world.repair.take_doubts(10), [block]);
        world.compare(&["FF", "FA"], &[]);
        world.repair.on_surplus(wanted(1).block);
        assert_eq!(world.repair.take_doubts(10), [], "that one is being copied");
    }

    #[test]
    fn a_container_is_whole_when_all_have_said_so_and_nobody_who_joined_may_lack_an_open_block() {
        let mut world = World::new();
        let members = vec![id(2), id(3)];
        world.apply(&Command::SetMembers { pipeline: PipelineId(1), epoch: Epoch(1), members });
        let open = [BlockId::new(HOME, 9)];
        assert_eq!(world.compare(&["FF"], &open).whole, None, "node 3 is not in its chain");
        assert_eq!(
            world.compare(&["FF"], &[BlockId::new(HOME, 10)]).whole,
            Some((PipelineId(1), Epoch(2))),
            "it joined before this one"
        );
        for letters in ["FA", "F-", "FB", "FU"] {
            let mut world = World::new();
            let members = vec![id(2), id(3)];
            world.apply(&Command::SetMembers { pipeline: PipelineId(1), epoch: Epoch(1), members });
            assert_eq!(world.compare(&[letters], &[]).whole, None, "{letters}");
        }
    }

    /// Its writer said that there is more of it than it wrote, or all its replicas are lost: the rest is repaired all
    /// the same, and the block stays missing.
    #[test]
    fn a_block_that_nobody_has_keeps_no_container_from_being_whole() {
        let join = |world: &mut World| {
            let members = vec![id(2), id(3)];
            world.apply(&Command::SetMembers { pipeline: PipelineId(1), epoch: Epoch(1), members });
            world.surplus.ask_all(id(1));
        };
        let whole = Some((PipelineId(1), Epoch(2)));
        for nobody in ["UA", "UU", "AA"] {
            let mut world = World::new();
            join(&mut world);
            let told_before = world.compare(&[nobody, "FF"], &[]);
            assert_eq!(told_before, Compared { whole: None, missing: 1 }, "node 1 is here, and may have it");
            world.surplus.on_catalogue_begun(id(1), NOW);
            world.surplus.on_catalogue_complete(id(1));
            assert_eq!(world.compare(&[nobody, "FF"], &[]).whole, None, "that may be from before it went");
            assert!(world.surplus.take_ask(id(1)));
            world.surplus.on_catalogue_begun(id(1), NOW);
            world.surplus.on_catalogue_complete(id(1));
            assert_eq!(world.compare(&[nobody, "FA"], &[]).whole, None, "the rest is copied first");
            world.repair.on_put(id(3), wanted(1).block, Generation(1001), NOW);
            assert_eq!(world.repair.next_check(NOW), Some(HOME));
            assert_eq!(world.compare(&[nobody, "FF"], &[]), Compared { whole, missing: 1 });
            assert!(world.repair.is_missing(wanted(0).block));
            assert!(world.repair.next_due().is_some_and(|due| due > NOW), "it is looked for again");
            world.repair.on_surplus(wanted(0).block);
            assert_eq!(world.repair.take_doubts(10), [wanted(0).block], "somebody came back with it");
        }
    }

    /// The only member with any of it is silent: that the others have nothing tells nothing.
    #[test]
    fn what_only_a_silent_member_has_is_waited_for() {
        let mut world = World::new();
        let members = vec![id(2), id(3)];
        world.apply(&Command::SetMembers { pipeline: PipelineId(1), epoch: Epoch(1), members });
        world.surplus.on_catalogue_complete(id(1));
        world.cluster.nodes.get_mut(&id(2)).unwrap().seen = None;
        assert_eq!(world.compare(&["A", "A"], &[]), Compared { whole: None, missing: 2 });
    }

    /// The node copies it already, for a container that the block moves to: that copy's end has nobody look at this one
    /// again.
    #[test]
    fn a_container_whose_only_lack_is_copied_for_another_one_is_compared_again() {
        let mut world = World::new();
        let elsewhere = lack(&wanted(0), ContainerId(2), id(2), vec![id(1)], false);
        assert!(world.repair.on_lack(elsewhere));
        for _ in 0..9 {
            assert_eq!(world.compare(&["FA"], &[]).whole, None);
            assert_eq!(world.repair.next_check(NOW + LOOK_AGAIN_AFTER), Some(HOME), "however long it takes");
        }
        assert_eq!(world.compare(&["FA"], &[]).whole, None);
        world.repair.on_put(id(2), wanted(0).block, Generation(1001), NOW);
        let later = NOW + Duration::from_secs(10);
        let again: BTreeSet<ContainerId> = std::iter::from_fn(|| world.repair.next_check(later)).collect();
        assert_eq!(again, BTreeSet::from([HOME, ContainerId(2)]));
    }

    /// One that is silent for a moment is not lost, and may have what others have not.
    #[test]
    fn a_member_that_was_not_asked_keeps_a_container_from_being_whole() {
        let mut world = World::new();
        let mut context = world.repair_context();
        let mut comparison = Comparison::begin(HOME, &mut context).unwrap();
        comparison.members.pop();
        comparison.end(&mut context);
        assert!(world.repair.next_due().is_some_and(|due| due > NOW), "again, later");
    }
}
