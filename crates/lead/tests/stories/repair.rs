//! Repair from a seed: a leader made of `Repair` and `Surplus`, as small as it can be, over nodes that are a map each.
//! Nodes come and go, restart and hang, replicas rot, files are appended to and deleted, replications change, leaders
//! change.
//!
//! What must hold: no replica goes while fewer than wanted others are left; what is under way is bounded; when nothing
//! happens any more, everything that can be repaired is, and what cannot is named.

use lead::{Answers, Lack, Outcome, PlannedCopy, Repair, ReportedReplica, Surplus};
use namespace::BlockView;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use types::random::Seeded;
use types::{BlockId, ContainerId, Fitness, Generation, InodeId, NodeId, Random};

const NODE_COUNT: usize = 7;
const LOST_AFTER: Duration = Duration::from_secs(15);
const MB: u64 = 1 << 20;
/// As in `repair.rs`; blocks here are at most a quarter of these.
const ORDERED_LEN_MAX: u64 = 256 * MB;
const ORDERED_COUNT_MAX: usize = 400;
const CATALOGUE_EACH: u64 = 600;
/// Seconds between looks at all that must hold: each takes longer than the second itself.
const CHECKED_EACH: u64 = 16;
const TOLD_FOR: Duration = Duration::from_secs(5);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Replica {
    generation: Generation,
    len: u64,
    good: bool,
}

#[derive(Debug, Default)]
struct Node {
    up: bool,
    /// Beats, and answers no question.
    hangs: bool,
    /// Copies nothing: its disk is full.
    full: bool,
    replicas: BTreeMap<BlockId, Replica>,
    /// With the era of the leader who ordered it.
    queue: Vec<(u64, PlannedCopy)>,
    put: BTreeSet<BlockId>,
    deleted: BTreeSet<BlockId>,
    failures: Vec<(Duration, Failure)>,
    failure_count: u64,
    bad: BTreeSet<BlockId>,
    registered: bool,
    tells_all: bool,
    seen: Duration,
}

#[derive(Clone, Copy, Debug)]
struct Failure {
    number: u64,
    block: BlockId,
    source: Option<NodeId>,
    corrupt: bool,
}

#[derive(Clone, Copy, Debug)]
struct Block {
    home: ContainerId,
    generation: Generation,
    len: u64,
}

struct World {
    seed: u64,
    random: Seeded,
    now: Duration,
    nodes: Vec<Node>,
    members: BTreeMap<ContainerId, Vec<NodeId>>,
    blocks: BTreeMap<BlockId, Block>,
    repair: Repair,
    surplus: Surplus,
    reported: BTreeSet<(BlockId, NodeId)>,
    receiving_since: Duration,
    /// Who was lost when that was looked at last.
    lost: BTreeSet<NodeId>,
    /// Counts leaders.
    era: u64,
    /// How many others had it when a replica was let go.
    confirmed: BTreeMap<(BlockId, NodeId), usize>,
}

fn id(number: usize) -> NodeId {
    NodeId([number as u8 + 1; 16])
}

fn number(id: NodeId) -> usize {
    usize::from(id.0[0]) - 1
}

impl World {
    fn new(seed: u64) -> Self {
        let up = || Node { up: true, registered: true, tells_all: true, ..Node::default() };
        let mut world = Self {
            seed,
            random: Seeded(seed),
            now: Duration::from_secs(100),
            nodes: (0..NODE_COUNT).map(|_| up()).collect(),
            members: BTreeMap::new(),
            blocks: BTreeMap::new(),
            repair: Repair::default(),
            surplus: Surplus::default(),
            reported: BTreeSet::new(),
            receiving_since: Duration::ZERO,
            lost: BTreeSet::new(),
            era: 0,
            confirmed: BTreeMap::new(),
        };
        for home in 1..=4 {
            let home = ContainerId(home);
            let replication = 1 + world.random.below(3);
            let mut members = BTreeSet::new();
            while members.len() < replication {
                members.insert(id(world.random.below(NODE_COUNT)));
            }
            world.members.insert(home, members.iter().copied().collect());
            for index in 0..1 + world.random.below(25) {
                let len = (1 + world.random.below(64) as u64) * MB;
                let block = BlockId::new(home, index as u32);
                world.blocks.insert(block, Block { home, generation: Generation(1001), len });
                for member in &members {
                    let replica = Replica { generation: Generation(1001), len, good: true };
                    world.nodes[number(*member)].replicas.insert(block, replica);
                }
            }
        }
        world
    }

    fn is_lost(&self, node: NodeId) -> bool {
        let since = self.nodes[number(node)].seen.max(self.receiving_since);
        self.now.saturating_sub(self.receiving_since) > LOST_AFTER && self.now.saturating_sub(since) > LOST_AFTER
    }

    fn suspect_of(&mut self, node: NodeId, at: Duration) {
        let homes = self.members.iter().filter(|(_, members)| members.contains(&node)).map(|(home, _)| *home);
        for home in homes.collect::<Vec<_>>() {
            self.repair.suspect(home, at);
        }
    }

    // ── what happens ──

    fn happen(&mut self) {
        let node = self.random.below(NODE_COUNT);
        let some_block = |world: &mut Self| {
            let count = world.blocks.len();
            (count > 0).then(|| *world.blocks.keys().nth(world.random.below(count)).unwrap())
        };
        match self.random.below(24) {
            0 | 1 if self.nodes.iter().filter(|node| node.up).count() > 2 => {
                // It dies, and forgets what is not on its disk.
                let old = std::mem::take(&mut self.nodes[node]);
                self.nodes[node] = Node {
                    replicas: old.replicas,
                    bad: BTreeSet::new(),
                    seen: old.seen,
                    full: old.full,
                    ..Node::default()
                };
            }
            2..=4 => {
                let node = &mut self.nodes[node];
                if !node.up {
                    (node.up, node.registered, node.tells_all) = (true, false, true);
                }
            }
            5 => self.nodes[node].hangs = true,
            6 | 7 => self.nodes[node].hangs = false,
            8 => self.nodes[node].full ^= true,
            9..=11 => {
                // A replica rots; somebody reads it at once, or a copy does.
                if let Some(block) = some_block(self) {
                    let found = self.random.below(2) == 0;
                    if let Some(replica) = self.nodes[node].replicas.get_mut(&block) {
                        replica.good = false;
                        if found {
                            self.reported.insert((block, id(node)));
                        }
                    }
                }
            }
            12 => {
                if let Some(block) = some_block(self) {
                    self.delete_file(block);
                }
            }
            13 | 14 => {
                if let Some(block) = some_block(self) {
                    self.append(block);
                }
            }
            15 | 16 => self.resize(),
            17 if self.random.below(3) == 0 => self.change_leader(),
            18 => {
                if let Some(block) = some_block(self) {
                    self.repair.doubt(block);
                }
            }
            19 => {
                // A reader that is wrong.
                if let Some(block) = some_block(self) {
                    self.reported.insert((block, id(node)));
                }
            }
            20 => {
                // A replica vanishes: somebody tidied up by hand.
                // Not one that others were told to rely on a moment ago.
                let relied_on = |world: &Self, block| {
                    (0..NODE_COUNT).any(|at| world.surplus.is_leaving(block, id(at), Generation(0)))
                };
                if let Some(block) = some_block(self)
                    && self.copies(block) > 1
                    && !relied_on(self, block)
                {
                    self.nodes[node].replicas.remove(&block);
                    let home = self.blocks[&block].home;
                    self.repair.suspect(home, self.now); // as the audit does
                }
            }
            _ => {}
        }
    }

    /// Copies that could be read, wherever they are.
    fn copies(&self, block: BlockId) -> usize {
        let Block { generation, .. } = self.blocks[&block];
        let good =
            |node: &&Node| node.replicas.get(&block).is_some_and(|have| have.good && have.generation >= generation);
        self.nodes.iter().filter(good).count()
    }

    fn delete_file(&mut self, block: BlockId) {
        let Block { home, .. } = self.blocks.remove(&block).unwrap();
        // The members are told; the others when they tell of it.
        for member in self.members[&home].clone() {
            let node = &mut self.nodes[number(member)];
            if node.up && node.replicas.remove(&block).is_some() {
                node.deleted.insert(block);
            }
        }
    }

    /// Under a new generation, by those who are there; the others have an old one then.
    fn append(&mut self, block: BlockId) {
        let Block { home, generation, len } = self.blocks[&block];
        let able = |node: &Node| {
            let fits = |have: &Replica| have.good && have.generation == generation;
            node.up && !node.hangs && node.replicas.get(&block).is_some_and(fits)
        };
        let chain: Vec<usize> =
            self.members[&home].iter().map(|member| number(*member)).filter(|at| able(&self.nodes[*at])).collect();
        if chain.is_empty() {
            return;
        }
        let (generation, len) = (Generation(generation.0 + 1), len + MB);
        for at in chain {
            self.nodes[at].replicas.insert(block, Replica { generation, len, good: true });
            self.nodes[at].put.insert(block);
        }
        self.blocks.insert(block, Block { home, generation, len });
        self.repair.doubt(block); // not all members may have taken part
    }

    /// Another replication: one more member, or one less.
    fn resize(&mut self) {
        let homes: Vec<ContainerId> = self.members.keys().copied().collect();
        let home = homes[self.random.below(homes.len())];
        let more = self.random.below(2) == 0;
        let newcomer = id(self.random.below(NODE_COUNT));
        let members = self.members.get_mut(&home).unwrap();
        if more && members.len() < 4 && !members.contains(&newcomer) && self.nodes[number(newcomer)].up {
            members.push(newcomer);
        } else if !more && members.len() > 1 {
            let out = members.remove(self.random.below(members.len()));
            self.surplus.ask_all(out);
            self.repair.on_left(out, &BTreeSet::from([home]), self.now);
        }
        self.repair.suspect(home, self.now);
    }

    /// All that was remembered is lost. The next one gets all catalogues, and looks at all containers once.
    fn change_leader(&mut self) {
        (self.repair, self.surplus) = (Repair::default(), Surplus::default());
        self.reported.clear();
        self.era += 1;
        self.receiving_since = self.now;
        self.lost.clear();
        for home in self.members.keys() {
            self.repair.suspect(*home, self.now);
        }
        for node in &mut self.nodes {
            node.tells_all = true;
        }
    }

    // ── nodes ──

    fn reported(&self, node: usize, block: BlockId) -> ReportedReplica {
        let have = self.nodes[node].replicas[&block];
        ReportedReplica { block, generation: have.generation, len: have.len, file: None, home: None, finalized: true }
    }

    /// What becomes of a replica that a node reports.
    fn judge(&mut self, node: usize, block: BlockId) {
        let reported = self.reported(node, block);
        let Some(wanted) = self.blocks.get(&block).copied() else {
            self.nodes[node].replicas.remove(&block);
            self.nodes[node].deleted.insert(block);
            return;
        };
        let is_member = self.members[&wanted.home].contains(&id(node));
        if (!is_member || reported.generation < wanted.generation) && !self.repair.wants(id(node), block) {
            self.surplus.keep(id(node), reported, wanted.home, self.now);
        }
    }

    fn beat(&mut self, at: usize) {
        let (now, node_id) = (self.now, id(at));
        let node = &mut self.nodes[at];
        node.seen = now;
        if !node.registered {
            node.registered = true;
            let _read_again = self.repair.on_registered(node_id);
            self.suspect_of(node_id, now + Duration::from_secs(2));
        }
        for block in std::mem::take(&mut self.nodes[at].put) {
            let Some(have) = self.nodes[at].replicas.get(&block).copied() else { continue };
            self.surplus.stays(node_id, block);
            self.repair.on_put(node_id, block, have.generation, now);
            self.judge(at, block);
        }
        self.nodes[at].failures.retain(|(since, _)| now.saturating_sub(*since) <= TOLD_FOR);
        for (_, Failure { number, block, source, corrupt }) in self.nodes[at].failures.clone() {
            if self.repair.is_news(node_id, number) {
                self.repair.on_failed(node_id, block, source, now);
                self.reported.extend(source.filter(|_| corrupt).map(|source| (block, source)));
            }
        }
        for block in std::mem::take(&mut self.nodes[at].bad) {
            let Some(have) = self.nodes[at].replicas.get(&block) else { continue };
            self.repair.on_bad(block, node_id, have.generation);
        }
        let copying: BTreeSet<BlockId> = self.nodes[at].queue.iter().map(|(_, copy)| copy.block).collect();
        self.repair.on_working(node_id, &copying, now);
        for block in std::mem::take(&mut self.nodes[at].deleted) {
            self.repair.forget_bad(block, node_id);
            self.surplus.stays(node_id, block);
        }
        let by_clock = now.as_secs() % CATALOGUE_EACH == at as u64 * 7;
        if std::mem::take(&mut self.nodes[at].tells_all) || self.surplus.take_ask(node_id) || by_clock {
            self.surplus.on_catalogue_begun(node_id, now);
            for block in self.nodes[at].replicas.keys().copied().collect::<Vec<_>>() {
                self.judge(at, block);
            }
            self.surplus.on_catalogue_complete(node_id);
        }
        for reported in self.surplus.orders(node_id, now) {
            self.order_away(at, reported);
        }
        let orders = self.repair.orders(node_id, now);
        assert!(orders.len() <= ORDERED_COUNT_MAX, "seed {}", self.seed);
        if self.random.below(20) == 0 {
            return; // the answer is lost
        }
        for copy in orders {
            // What a leader before has ordered is still under way, perhaps.
            if !copying.contains(&copy.block) {
                self.nodes[at].queue.push((self.era, copy));
            }
        }
        // Of copies that are not wanted any more nobody tells the node.
        let is_ours = |(era, copy): &&(u64, PlannedCopy)| *era == self.era && self.repair.wants(node_id, copy.block);
        let ours: Vec<&PlannedCopy> = self.nodes[at].queue.iter().filter(is_ours).map(|(_, copy)| copy).collect();
        let blocks: BTreeSet<BlockId> = ours.iter().map(|copy| copy.block).collect();
        assert_eq!(blocks.len(), ours.len(), "seed {}: a block is ordered twice", self.seed);
        let len: u64 = ours.iter().map(|copy| copy.len).sum();
        assert!(len <= ORDERED_LEN_MAX || ours.len() == 1, "seed {}: {} MB at a time", self.seed, len / MB);
    }

    /// What was kept as surplus is judged again, and goes.
    fn order_away(&mut self, at: usize, reported: ReportedReplica) {
        let node_id = id(at);
        if let Some(wanted) = self.blocks.get(&reported.block).copied() {
            let members = &self.members[&wanted.home];
            let is_surplus = !members.contains(&node_id) || reported.generation < wanted.generation;
            if !is_surplus || self.repair.wants(node_id, reported.block) {
                self.surplus.stays(node_id, reported.block);
                return;
            }
            let is_bad = |member: &&NodeId| {
                **member != node_id && self.repair.is_bad(reported.block, **member, wanted.generation)
            };
            if members.iter().any(|member| is_bad(&member)) {
                self.surplus.stays(node_id, reported.block);
                self.surplus.keep(node_id, reported, wanted.home, self.now);
                return;
            }
            // Who was here until a moment ago, is not known to be damaged, has it and keeps it.
            let others = (0..NODE_COUNT).map(id).filter(|other| {
                let node = &self.nodes[number(*other)];
                let heard = self.now.saturating_sub(node.seen) <= LOST_AFTER;
                let has = node.replicas.get(&reported.block).is_some_and(|have| have.generation >= wanted.generation);
                let stays = !self.surplus.is_leaving(reported.block, *other, wanted.generation);
                *other != node_id
                    && heard
                    && has
                    && stays
                    && !self.repair.is_bad(reported.block, *other, wanted.generation)
            });
            let enough = if reported.generation < wanted.generation { 1 } else { members.len() };
            let enough = enough.min(self.confirmed[&(reported.block, node_id)]);
            let count = others.count();
            assert!(
                count >= enough,
                "seed {} at {:?}: {} goes from {node_id}, {count} of {enough} others have it",
                self.seed,
                self.now,
                reported.block
            );
        }
        let node = &mut self.nodes[at];
        if node.replicas.get(&reported.block).is_some_and(|have| have.generation <= reported.generation) {
            node.replicas.remove(&reported.block);
            node.deleted.insert(reported.block);
        }
    }

    /// A second's work: a few copies.
    fn work(&mut self, at: usize) {
        for _ in 0..1 + self.random.below(3) {
            if self.nodes[at].queue.is_empty() {
                return;
            }
            let (_, copy) = self.nodes[at].queue.remove(0);
            let here = self.nodes[at].replicas.get(&copy.block).copied();
            if here.is_some_and(|have| have.generation > copy.generation)
                || here.is_some_and(|have| have.generation == copy.generation && have.len >= copy.len && !copy.unfit)
            {
                self.nodes[at].put.insert(copy.block);
                continue;
            }
            let mut failures = Vec::new();
            let mut came = None;
            if self.nodes[at].full {
                failures.push((None, false));
            } else {
                for source in &copy.sources {
                    let from = &self.nodes[number(*source)];
                    let have = from.replicas.get(&copy.block);
                    match have.filter(|have| from.up && have.generation >= copy.generation && have.len >= copy.len) {
                        Some(have) if have.good => {
                            came = Some(*have);
                            break;
                        }
                        Some(_) => failures.push((Some(*source), true)),
                        None => failures.push((Some(*source), false)),
                    }
                }
            }
            let node = &mut self.nodes[at];
            if let Some(have) = came {
                node.replicas.insert(copy.block, Replica { generation: copy.generation.max(have.generation), ..have });
                node.put.insert(copy.block);
            } else {
                for (source, corrupt) in failures {
                    node.failure_count += 1;
                    let failure = Failure { number: node.failure_count, block: copy.block, source, corrupt };
                    node.failures.push((self.now, failure));
                }
            }
        }
    }

    // ── the leader ──

    /// Members that are lost are replaced, if somebody has what they had.
    fn repair(&mut self) {
        let lost: BTreeSet<NodeId> = (0..NODE_COUNT).map(id).filter(|node| self.is_lost(*node)).collect();
        let changed: Vec<NodeId> = lost.symmetric_difference(&self.lost).copied().collect();
        self.lost = lost;
        for node in changed {
            if self.lost.contains(&node) {
                self.repair.on_lost(node, self.now);
            }
            self.suspect_of(node, self.now);
        }
        for (home, members) in self.members.clone() {
            let Some(gone) = members.iter().find(|member| self.lost.contains(member)) else { continue };
            let able = |node: &NodeId| self.nodes[number(*node)].up && !self.lost.contains(node);
            let newcomers: Vec<NodeId> =
                (0..NODE_COUNT).map(id).filter(|node| able(node) && !members.contains(node)).collect();
            if newcomers.is_empty() || !members.iter().any(|member| !self.lost.contains(member)) {
                continue;
            }
            let newcomer = newcomers[self.random.below(newcomers.len())];
            let others = members.iter().copied().filter(|member| member != gone).chain([newcomer]).collect();
            self.repair.on_left(*gone, &BTreeSet::from([home]), self.now);
            self.members.insert(home, others);
            self.repair.on_members(home, self.now);
        }
    }

    fn askable(&self, home: ContainerId) -> Vec<NodeId> {
        self.members[&home].iter().copied().filter(|node| !self.is_lost(*node)).collect()
    }

    /// `None`: no answer.
    fn says(&self, node: NodeId, block: BlockId) -> Option<Fitness> {
        let asked = &self.nodes[number(node)];
        if !asked.up || asked.hangs {
            return None;
        }
        let wanted = self.blocks[&block];
        let have = asked.replicas.get(&block).filter(|have| have.generation >= wanted.generation);
        let Some(have) = have else { return Some(Fitness::Absent) };
        Some(if have.len < wanted.len { Fitness::Unfit } else { Fitness::Fit })
    }

    /// What a leader may think of it.
    fn is_fit(&self, node: NodeId, block: BlockId) -> bool {
        let wanted = self.blocks[&block].generation;
        let goes = self.surplus.is_leaving(block, node, wanted) || self.repair.is_bad(block, node, wanted);
        self.says(node, block) == Some(Fitness::Fit) && !goes
    }

    fn compare_list(&mut self, blocks: &[BlockId], members: &[NodeId]) -> Outcome {
        let expected = |block: &BlockId| {
            let Block { home, generation, len } = self.blocks[block];
            BlockView {
                block: *block,
                generation,
                len,
                file: InodeId(7),
                home,
                complete: true,
                offset: 0,
                written_for: None,
            }
        };
        let wanted: Vec<BlockView> = blocks.iter().map(expected).collect();
        let said = |node: &NodeId| (*node, blocks.iter().map(|block| self.says(*node, *block)).collect());
        let answers = Answers::new(blocks.len(), members.iter().map(said));
        let is_live = |node: NodeId| self.nodes[number(node)].up;
        self.repair.on_list(&wanted, members, &answers, &self.surplus, &is_live)
    }

    fn compare(&mut self) {
        for block in self.repair.take_doubts(50) {
            let Some(Block { home, .. }) = self.blocks.get(&block).copied() else {
                self.repair.forget_block(block);
                continue;
            };
            let members = self.askable(home);
            if self.compare_list(&[block], &members).unanswered > 0 {
                self.repair.doubt(block);
            }
        }
        for _ in 0..10 {
            let Some(home) = self.repair.next_check(self.now) else { break };
            let members = self.askable(home);
            self.repair.begin(home);
            let blocks: Vec<BlockId> =
                self.blocks.iter().filter(|(_, block)| block.home == home).map(|(block, _)| *block).collect();
            let Outcome { lacks, missing, unanswered, .. } = self.compare_list(&blocks, &members);
            if missing > 0 || unanswered > 0 {
                self.repair.retry(home, self.now);
            } else if lacks == 0 && !self.repair.is_open(home) {
                self.repair.on_whole(home);
            }
        }
    }

    fn settle_surplus(&mut self) {
        self.surplus.expire(self.now);
        for _ in 0..10 {
            let Some(home) = self.surplus.next(self.now) else { break };
            let members = self.members[&home].clone();
            let mut settled_all = true;
            for (node, reported) in self.surplus.next_of(home, 1000) {
                let Some(wanted) = self.blocks.get(&reported.block).copied() else {
                    self.surplus.approve_deletion(home, node, reported, self.now);
                    continue;
                };
                let is_old = reported.generation < wanted.generation;
                if members.contains(&node) && !is_old {
                    self.surplus.forget(home, node, reported.block);
                    continue;
                }
                let has = |id: &NodeId| !self.is_lost(*id) && self.is_fit(*id, reported.block);
                let copies = members.iter().filter(|id| **id != node && has(id)).count();
                if copies >= if is_old { 1 } else { members.len() } {
                    self.confirmed.insert((reported.block, node), copies);
                    self.surplus.approve_deletion(home, node, reported, self.now);
                } else {
                    settled_all = false;
                    self.repair.doubt(reported.block);
                }
            }
            self.surplus.asked(home, self.now, settled_all);
        }
    }

    /// Replicas that were called bad are read.
    fn verify(&mut self) {
        let again = self.repair.next_to_reread(self.now, |_| true);
        let reported = std::mem::take(&mut self.reported);
        for (block, node) in reported.into_iter().chain(again) {
            let Some(wanted) = self.blocks.get(&block).copied() else { continue };
            let asked = &self.nodes[number(node)];
            if !asked.up || asked.hangs {
                continue;
            }
            match asked.replicas.get(&block).filter(|have| have.generation >= wanted.generation) {
                None => self.repair.doubt(block),
                Some(have) if have.good => {
                    self.repair.on_verified(block, node);
                }
                Some(have) => self.repair.on_bad(block, node, have.generation),
            }
        }
    }

    fn second(&mut self) {
        self.now += Duration::from_secs(1);
        for at in 0..NODE_COUNT {
            if self.nodes[at].up {
                self.beat(at);
                self.work(at);
            }
        }
        self.repair();
        self.compare();
        self.settle_surplus();
        self.verify();
        if self.now.as_secs().is_multiple_of(CHECKED_EACH) {
            self.repair.check();
            self.surplus.check();
        }
        let progress = self.repair.progress();
        let under_way: usize = self.nodes.iter().map(|node| node.queue.len()).sum();
        assert!(progress.ordered_count <= progress.lack_count, "seed {}: {progress:?}", self.seed);
        assert!(under_way <= NODE_COUNT * ORDERED_COUNT_MAX);
    }

    // ── the end ──

    /// Nothing happens any more; who is down stays down, all others are well. A scrub finds what rotted.
    fn come_to_rest(&mut self) {
        for node in &mut self.nodes {
            (node.hangs, node.full) = (false, false);
        }
        for at in 0..NODE_COUNT {
            let rotten = self.nodes[at].replicas.iter().filter(|(_, have)| !have.good).map(|(block, _)| *block);
            for block in rotten.collect::<Vec<_>>() {
                self.nodes[at].bad.insert(block);
            }
        }
        for home in self.members.keys() {
            self.repair.suspect(*home, self.now); // the audit
        }
        for _ in 0..4 * 600 {
            self.second();
        }
    }

    fn check_rest(&self) {
        let seed = self.seed;
        let up = |node: &NodeId| self.nodes[number(*node)].up;
        for (block, wanted) in &self.blocks {
            let good = |node: &&NodeId| {
                let have = self.nodes[number(**node)].replicas.get(block);
                up(node) && have.is_some_and(|have| have.good && have.generation >= wanted.generation)
            };
            let all: Vec<NodeId> = (0..NODE_COUNT).map(id).collect();
            let anywhere = all.iter().filter(good).count();
            let members = &self.members[&wanted.home];
            let there = members.iter().filter(good).count();
            let able = members.iter().filter(|node| up(node)).count();
            if anywhere > 0 {
                assert_eq!(there, able, "seed {seed}: {block} is on {there} of {able} members that are here");
                if able == members.len() {
                    assert_eq!(anywhere, there, "seed {seed}: {block} has copies that nobody wants");
                }
                assert!(!self.repair.is_missing(*block), "seed {seed}: {block} is called missing");
            } else {
                assert!(self.repair.is_missing(*block), "seed {seed}: nobody has {block}, and nobody says so");
            }
        }
        for node in self.nodes.iter().filter(|node| node.up) {
            let strange = node.replicas.keys().filter(|block| !self.blocks.contains_key(block)).count();
            assert_eq!(strange, 0, "seed {seed}: replicas of deleted files are left");
            assert!(node.queue.is_empty(), "seed {seed}: copies are still under way");
        }
        assert_eq!(self.repair.progress().lack_count, 0, "seed {seed}");
        assert_eq!(self.repair.progress().ordered_count, 0, "seed {seed}");
    }
}

fn history(seed: u64) {
    let mut world = World::new(seed);
    for second in 0..400 {
        if second % 20 < 12 && world.random.below(2) == 0 {
            world.happen();
        }
        world.second();
    }
    world.come_to_rest();
    world.check_rest();
}

#[test]
fn whatever_happens_all_that_can_be_healed_is() {
    for seed in 0..150 {
        history(seed);
    }
}

fn lack(block: BlockId, node: NodeId, sources: &[NodeId]) -> Lack {
    Lack {
        block,
        generation: Generation(1001),
        len: MB,
        file: InodeId(7),
        home: block.born_in(),
        node,
        sources: sources.to_vec(),
        unfit: false,
    }
}

/// A block that was missing is not called so any more once somebody has put it, whoever found that out.
#[test]
fn what_came_back_is_not_missing() {
    let (one, two) = (BlockId::new(ContainerId(1), 1), BlockId::new(ContainerId(1), 2));
    let mut repair = Repair::default();
    assert!(repair.on_lack(lack(one, id(0), &[])));
    assert!(!repair.on_lack(lack(one, id(1), &[])), "it is known");
    assert!(repair.on_lack(lack(two, id(0), &[])));
    repair.on_put(id(2), one, Generation(1000), Duration::ZERO);
    assert_eq!(repair.progress().missing_count, 2, "an old one");
    repair.on_put(id(2), one, Generation(1001), Duration::ZERO);
    assert_eq!(repair.missing().map(|missing| missing.block).collect::<Vec<_>>(), [two]);
    repair.forget_block(two);
    assert_eq!(repair.progress().missing_count, 0);
}

/// The only replica was called damaged: it is read again, later and later, and cleared when it reads well.
#[test]
fn a_bad_replica_without_another_is_read_again() {
    let block = BlockId::new(ContainerId(1), 1);
    let mut repair = Repair::default();
    let at = Duration::from_secs;
    repair.on_bad(block, id(0), Generation(1001));
    assert_eq!(repair.next_to_reread(at(1000), |_| true), None, "others may have it");
    repair.on_lack(lack(block, id(0), &[]));
    let turns: Vec<u64> = (1000..2000).filter(|now| repair.next_to_reread(at(*now), |_| true).is_some()).collect();
    assert_eq!(turns, [1020, 1040, 1080, 1160, 1320, 1640]);
    assert_eq!(repair.next_to_reread(at(5000), |node| node != id(0)), None, "its node has no time");
    assert!(repair.on_verified(block, id(0)) && !repair.is_bad(block, id(0), Generation(1001)));
    assert_eq!(repair.take_doubts(10), [block], "its home is compared again");
}

/// A disk fails, and with it all copies to it at once: the next attempt waits for that once, not for each of them; and
/// who takes the node's place does not wait at all.
#[test]
fn however_many_copies_fail_it_was_one_attempt() {
    let (home, at) = (ContainerId(1), Duration::from_secs);
    let mut repair = Repair::default();
    let due = |repair: &mut Repair, node: NodeId, fails: bool, now: Duration| {
        let blocks = (1..=20).map(|index| BlockId::new(home, index));
        blocks.clone().for_each(|block| assert!(repair.on_lack(lack(block, node, &[id(5)]))));
        assert_eq!(repair.orders(node, now).len(), 20);
        for (number, block) in blocks.enumerate() {
            match fails {
                true => repair.on_failed(node, block, None, now),
                false => repair.on_put(node, block, Generation(1001), now),
            }
            assert_eq!(repair.next_due().is_some(), number == 19, "after the last one");
        }
        let due = repair.next_due().unwrap();
        assert_eq!(repair.next_check(due), Some(home));
        due - now
    };
    let pauses: Vec<Duration> = [10, 20, 30].map(|now| due(&mut repair, id(0), true, at(now))).into();
    assert_eq!(pauses, [at(2), at(4), at(8)]);
    repair.on_members(home, at(40));
    assert_eq!(repair.next_check(at(40)), Some(home));
    assert_eq!(due(&mut repair, id(1), false, at(41)), Duration::ZERO);
    assert_eq!(due(&mut repair, id(1), true, at(42)), at(2));
}
