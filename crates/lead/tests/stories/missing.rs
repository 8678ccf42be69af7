//! What nobody has, or nobody who is here, must not keep the rest from being repaired. The shipped rules are played
//! with nodes that say what the test has them say.

use crate::next_change::next_change;
use blocks::{Command, Node, Service, apply};
use lead::{Answers, Cluster, Comparison, LivenessRules, NodeUsage, Repair, RepairContext, Surplus};
use namespace::BlockView;
use std::collections::BTreeSet;
use std::time::Duration;
use types::random::Seeded;
use types::rows::MemoryRows;
use types::{BlockId, ContainerId, Fitness, Generation, InodeId, NodeId, PipelineId, StorageUsage};

const SECOND: Duration = Duration::from_secs(1);
const LOST_AFTER: Duration = Duration::from_secs(15);
const NODE_COUNT: u8 = 8;
const CHANGES_MAX: usize = 50;
const SICK: ContainerId = ContainerId(1);
const SOUND: ContainerId = ContainerId(2);

/// Eight nodes; the first three hold two containers.
struct World {
    rows: MemoryRows,
    cluster: Cluster,
    repair: Repair,
    surplus: Surplus,
    now: Duration,
    up: BTreeSet<u8>,
}

fn id(number: u8) -> NodeId {
    NodeId([number; 16])
}

impl World {
    fn new() -> Self {
        let rows = MemoryRows::default();
        let cluster = Cluster::load(&rows, 1).unwrap();
        let (repair, surplus) = (Repair::default(), Surplus::default());
        let up: BTreeSet<u8> = (1..=NODE_COUNT).collect();
        let mut world = Self { rows, cluster, repair, surplus, now: 100 * SECOND, up };
        (1..=NODE_COUNT).for_each(|number| world.apply(&Command::Register(Node::example(number, "/r"))));
        world.hear();
        world.apply(&Command::CreateSet { members: vec![id(1), id(2), id(3)], wanted: 3, planned: true });
        (0..2).for_each(|_| world.apply(&Command::OpenContainer { pipeline: PipelineId(1) }));
        world
    }

    fn apply(&mut self, command: &Command) {
        let reply = apply(&mut self.rows, command).unwrap();
        reply.as_ref().unwrap();
        self.cluster.on_applied(command, &reply);
        self.cluster.check();
        self.repair.check();
        self.surplus.check();
    }

    fn hear(&mut self) {
        let usage = NodeUsage {
            storage: StorageUsage { capacity_len: 1 << 40, used_len: 1 << 30, free_len: 1 << 39 },
            transfer_count: 0,
        };
        self.up.iter().for_each(|number| self.cluster.on_registered(self.now, id(*number), usage));
    }

    fn rules(&self) -> LivenessRules {
        LivenessRules { now: self.now, receiving_since: Duration::ZERO, lost_after: LOST_AFTER, usual_replication: 3 }
    }

    /// All changes of members that there are to make; then `compared` are asked, which all have but of the sick one.
    fn round(&mut self, compared: &[ContainerId]) {
        self.now += SECOND;
        self.hear();
        for changes in 0.. {
            let Some(command) = next_change(&self.cluster, &self.rules(), &mut Seeded(1)) else { break };
            self.apply(&command);
            assert!(changes < CHANGES_MAX, "it comes to an end");
        }
        compared.iter().for_each(|home| self.compare(*home));
    }

    fn compare(&mut self, home: ContainerId) {
        let rules = self.rules();
        let mut context =
            RepairContext { cluster: &mut self.cluster, repair: &mut self.repair, surplus: &mut self.surplus, rules };
        let mut comparison = Comparison::begin(home, &mut context).unwrap();
        let expected = BlockView {
            block: BlockId::new(home, 1),
            generation: Generation(1001),
            len: 1 << 20,
            file: InodeId(20_000),
            home,
            complete: true,
            written_for: None,
            offset: 0,
        };
        let fitness = if home == SICK { Fitness::Unfit } else { Fitness::Fit };
        let said: Vec<_> = comparison.members().iter().map(|node| (*node, Some(vec![fitness]))).collect();
        comparison.on_list(&[expected], &Answers::new(1, said), &mut context);
        if let Some((pipeline, epoch)) = comparison.end(&mut context).whole {
            self.apply(&Command::Whole { containers: vec![(home, pipeline, epoch)] });
        }
    }

    fn lose(&mut self, number: u8, compared: &[ContainerId]) {
        self.up.remove(&number);
        self.now += LOST_AFTER + SECOND;
        (0..5).for_each(|_| self.round(compared));
    }

    fn members(&self, home: ContainerId) -> Vec<u8> {
        self.cluster.member_ids(home).iter().map(|node| node.0[0]).collect()
    }

    fn is_healed(&self, home: ContainerId) -> bool {
        let members = self.members(home);
        members.len() == 3 && members.iter().all(|node| self.up.contains(node))
    }
}

/// A writer said that its block is longer than what it wrote, or it is lost on all nodes.
#[test]
fn a_missing_block_keeps_no_node_from_being_drained_and_nothing_from_being_healed() {
    let mut world = World::new();
    world.apply(&Command::SetService { node: id(3), service: Service::Draining });
    (0..20).for_each(|_| world.round(&[SICK, SOUND]));
    assert!(world.cluster.pipelines_of(id(3)).is_empty(), "the drain has ended");
    assert!(world.repair.is_missing(BlockId::new(SICK, 1)), "and the block is missing still");
    for lost in [3, 2, 1] {
        world.lose(lost, &[SICK, SOUND]);
        assert!(world.is_healed(SICK) && world.is_healed(SOUND), "without {lost}: {:?}", world.members(SOUND));
    }
}

/// A log is kept open in one container, which is not whole on those who join as long as it is; the nodes that it began
/// on are lost one after the other. It waits for them, and the others do not wait with it.
#[test]
fn what_lags_in_one_container_keeps_no_other_one_from_being_healed() {
    let mut world = World::new();
    for lost in [3, 2] {
        world.lose(lost, &[SOUND]);
        assert!(world.is_healed(SICK) && world.is_healed(SOUND));
    }
    world.lose(1, &[SOUND]);
    assert!(world.is_healed(SOUND), "{:?}", world.members(SOUND));
    assert!(world.members(SICK).contains(&1), "it alone has all of it: {:?}", world.members(SICK));
}
