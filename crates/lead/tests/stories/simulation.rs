//! Whole histories of a cluster from a seed: nodes come and go, leaders change, blocks are placed, chains lose nodes.
//!
//! What must hold after every step stands in `World::check` and beside the step itself. A failure prints its seed.

use blocks::{Command, Node, apply};
use lead::{Allocation, Ask, Cluster, NodeUsage, PlaceError, Plan, SILENCE_MAX};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use types::random::Seeded;
use types::rows::MemoryRows;
use types::{BlockId, ContainerId, NodeId, Random, StorageUsage};

const GB: u64 = 1 << 30;

struct World {
    rows: MemoryRows,
    log: Vec<Command>,
    /// Proposals that another leader, or an impatient task, makes again later, when they are overtaken.
    late: Vec<Command>,
    /// The leader, and perhaps one that does not know yet that it is none any more.
    leaders: Vec<Cluster>,
    now: Duration,
    random: Seeded,
    given: BTreeSet<BlockId>,
    beating: BTreeMap<NodeId, Duration>,
    free: BTreeMap<NodeId, u64>,
    lessee: u64,
}

impl World {
    fn new(seed: u64) -> Self {
        let rows = MemoryRows::default();
        let leaders = vec![Cluster::load(&rows, 1).unwrap()];
        Self {
            rows,
            log: Vec::new(),
            late: Vec::new(),
            leaders,
            now: Duration::from_secs(1),
            random: Seeded(seed),
            given: BTreeSet::new(),
            beating: BTreeMap::new(),
            free: BTreeMap::new(),
            lessee: 1,
        }
    }

    fn node(number: usize) -> Node {
        Node::example(number as u8, &format!("/rack{}", number % 3))
    }

    /// Every leader follows the log, also a deposed one.
    fn propose(&mut self, command: Command) {
        let reply = apply(&mut self.rows, &command).unwrap();
        for leader in &mut self.leaders {
            leader.on_applied(&command, &reply);
        }
        self.log.push(command);
    }

    fn join(&mut self, number: usize) {
        let node = Self::node(number);
        let id = node.id;
        let free_len = [0, GB, 100 * GB, 1000 * GB][self.random.below(4)];
        self.propose(Command::Register(node));
        let usage =
            NodeUsage { storage: StorageUsage { capacity_len: 1000 * GB, used_len: 0, free_len }, transfer_count: 0 };
        for leader in &mut self.leaders {
            leader.on_registered(self.now, id, usage);
        }
        self.beating.insert(id, self.now);
        self.free.insert(id, free_len);
    }

    fn beat(&mut self) {
        for (id, last) in &mut self.beating {
            let usage = NodeUsage {
                storage: StorageUsage { capacity_len: 1000 * GB, used_len: 0, free_len: self.free[id] },
                transfer_count: self.random.below(5) as u32,
            };
            for leader in &mut self.leaders {
                leader.on_heartbeat(self.now, *id, usage);
            }
            *last = self.now;
        }
    }

    fn able(&self, leader: usize, ask: &Ask) -> BTreeSet<NodeId> {
        let live = self.leaders[leader].nodes().filter(|member| {
            member.seen().is_some_and(|seen| self.now - seen <= SILENCE_MAX) && member.usage.free_len >= ask.block_len
        });
        live.map(|member| member.node.id).filter(|id| !ask.excluded.contains(id)).collect()
    }

    fn place(&mut self) {
        let leader = self.random.below(self.leaders.len());
        let some_node = |world: &mut Self| Self::node(world.random.below(12)).id;
        let ask = Ask {
            replication: [1, 2, 3, 3, 3, 5][self.random.below(6)],
            block_len: 128 << 20,
            client_host: (self.random.below(2) == 0).then(|| Self::node(self.random.below(12)).host),
            excluded: if self.random.below(4) == 0 { vec![some_node(self)] } else { Vec::new() },
            favored: if self.random.below(8) == 0 { vec![some_node(self)] } else { Vec::new() },
        };
        let able = self.able(leader, &ask);
        for _ in 0..20 {
            match self.leaders[leader].place(&ask, self.now, &mut self.random) {
                Ok(Plan::Propose(command)) => {
                    if self.random.below(4) == 0 {
                        self.late.push(command.clone());
                    }
                    self.propose(command);
                }
                Ok(Plan::Use(allocation)) => {
                    // The only one is better than none, if it came back since it may have been excluded.
                    let able = match able.is_empty() {
                        true => self.able(leader, &Ask { excluded: Vec::new(), ..ask.clone() }),
                        false => able,
                    };
                    return self.placed(leader, &ask, &able, &allocation);
                }
                Err(PlaceError::NoNodes { .. }) => return assert!(able.is_empty(), "refused with {able:?} able"),
                Err(error) => panic!("{error}"),
            }
        }
        panic!("a block is not placed after 20 proposals");
    }

    fn placed(&mut self, leader: usize, ask: &Ask, able: &BTreeSet<NodeId>, allocation: &Allocation) {
        let chosen: BTreeSet<NodeId> = allocation.nodes.iter().copied().collect();
        assert!(chosen.is_subset(able), "{chosen:?} of {able:?}");
        assert_eq!(chosen.len(), allocation.nodes.len());
        assert_eq!(chosen.len(), able.len().min(usize::from(ask.replication)));
        assert_eq!(self.leaders[leader].member_ids(allocation.home), chosen.iter().copied().collect::<Vec<_>>());
        assert_eq!(allocation.block.born_in(), allocation.home);
        assert!(self.given.insert(allocation.block), "{:?} given twice", allocation.block);
        let host = ask.client_host.as_deref();
        let is_local = |id: &NodeId| {
            let member = self.leaders[leader].node(*id);
            host.is_some_and(|host| member.is_some_and(|member| member.node.is_on(host)))
        };
        if allocation.nodes.iter().any(is_local) {
            assert!(is_local(&allocation.nodes[0]), "the client's own node comes first");
        }
        let len = [100, 1 << 20, 128 << 20, GB][self.random.below(4)];
        for leader in &mut self.leaders {
            leader.on_written(allocation.home, len);
        }
    }

    /// A chain lost its first node and took another in.
    fn recover(&mut self) {
        let Some(block) = self.given.iter().nth(self.random.below(self.given.len().max(1))).copied() else { return };
        let home = block.born_in();
        let existing: Vec<NodeId> = self.leaders[0].member_ids(home).iter().skip(1).copied().collect();
        let ask = Ask { replication: 3, block_len: 1, ..Ask::default() };
        let more = self.leaders[0].additional(&existing, 1, &ask, self.now, &mut self.random);
        let able = self.able(0, &ask);
        assert!(more.iter().all(|id| able.contains(id) && !existing.contains(id)));
        let nodes: Vec<NodeId> = existing.into_iter().chain(more).collect();
        if nodes.is_empty() {
            return;
        }
        for _ in 0..5 {
            match self.leaders[0].home_for(&nodes, home).unwrap() {
                Plan::Propose(command) => self.propose(command),
                Plan::Use(home) => {
                    let set: BTreeSet<NodeId> = nodes.iter().copied().collect();
                    assert_eq!(self.leaders[0].member_ids(home), set.into_iter().collect::<Vec<_>>());
                    return;
                }
            }
        }
        panic!("no home after 5 proposals");
    }

    fn change_leader(&mut self) {
        self.lessee += 1;
        let next = Cluster::load(&self.rows, self.lessee).unwrap();
        let old = self.leaders.remove(0);
        self.leaders = vec![next];
        if self.random.below(2) == 0 {
            self.leaders.push(old);
        }
        self.beating.clear();
    }

    fn prepare(&mut self) {
        for step in 0.. {
            let Some(command) = self.leaders[0].ahead(3, self.now, &mut self.random) else { break };
            self.propose(command);
            assert!(step < 500, "preparing never ends");
        }
    }

    /// The picture in memory is the one in the rows.
    fn check(&self) {
        let fresh = Cluster::load(&self.rows, 0).unwrap();
        for leader in &self.leaders {
            leader.check();
            let sets = |cluster: &Cluster| -> Vec<_> {
                cluster.pipelines().map(|(id, pipeline)| (id, pipeline.row.clone())).collect()
            };
            assert_eq!(sets(leader), sets(&fresh));
            let containers = |cluster: &Cluster| -> Vec<_> {
                cluster.containers().map(|(id, container)| (id, container.pipeline, container.state)).collect()
            };
            assert_eq!(containers(leader), containers(&fresh));
        }
        let mut seen = BTreeSet::new();
        let mut sets = fresh.pipelines().map(|(_, pipeline)| (pipeline.row.members.clone(), pipeline.row.wanted));
        assert!(sets.all(|set| seen.insert(set)), "one id for each set");
    }
}

fn history(seed: u64) {
    let mut world = World::new(seed);
    for _ in 0..400 {
        world.now += Duration::from_millis(world.random.below(3000) as u64);
        match world.random.below(20) {
            0 => {
                let number = world.random.below(12);
                world.join(number);
            }
            1 => {
                // A node falls silent.
                let ids: Vec<NodeId> = world.beating.keys().copied().collect();
                if !ids.is_empty() {
                    let id = ids[world.random.below(ids.len())];
                    world.beating.remove(&id);
                }
            }
            2 if world.random.below(4) == 0 => world.change_leader(),
            3 => world.prepare(),
            4 => world.recover(),
            5 if !world.late.is_empty() => {
                let command = world.late.swap_remove(0);
                world.propose(command);
            }
            5..=9 => world.beat(),
            _ => world.place(),
        }
        world.check();
    }
    let mut replayed = MemoryRows::default();
    for command in &world.log {
        let _ = apply(&mut replayed, command).unwrap();
    }
    assert_eq!(replayed, world.rows, "the log alone makes the rows");
}

#[test]
fn no_history_breaks_a_promise() {
    for seed in 0..100 {
        let outcome = std::panic::catch_unwind(|| history(seed));
        assert!(outcome.is_ok(), "seed {seed}");
    }
}

/// Thirty nodes, three a block: new blocks go to few sets, each over more than one rack, evenly, and without waiting.
#[test]
fn a_prepared_cluster_places_without_a_proposal() {
    let mut world = World::new(7);
    for number in 0..30 {
        world.join(number);
        world.free.insert(World::node(number).id, 1000 * GB);
    }
    world.beat();
    world.prepare();
    let mut blocks_of: BTreeMap<NodeId, usize> = BTreeMap::new();
    let mut sets = BTreeSet::new();
    let ask = Ask { replication: 3, block_len: GB, ..Ask::default() };
    for _ in 0..1000 {
        world.prepare();
        let plan = world.leaders[0].place(&ask, world.now, &mut world.random).unwrap();
        let Plan::Use(allocation) = plan else { panic!("{plan:?} was not prepared") };
        let racks: BTreeSet<u8> = allocation.nodes.iter().map(|id| id.0[0] % 3).collect();
        assert!(racks.len() > 1, "{allocation:?} on one rack");
        for node in &allocation.nodes {
            *blocks_of.entry(*node).or_default() += 1;
        }
        sets.insert(world.leaders[0].member_ids(allocation.home).to_vec());
    }
    assert!(sets.len() <= 90, "{} sets", sets.len());
    assert_eq!(blocks_of.len(), 30);
    assert!(blocks_of.values().all(|count| (50..=150).contains(count)), "{blocks_of:?}");
}

/// Five gigabytes, then the next container; the old one is sealed.
#[test]
fn full_containers_are_sealed() {
    let mut world = World::new(1);
    for number in 0..3 {
        world.join(number);
        world.free.insert(World::node(number).id, 1000 * GB);
    }
    world.beat();
    let ask = Ask { replication: 3, block_len: 1, ..Ask::default() };
    let mut homes: BTreeMap<ContainerId, u64> = BTreeMap::new();
    for _ in 0..100 {
        let allocation = loop {
            match world.leaders[0].place(&ask, world.now, &mut world.random).unwrap() {
                Plan::Use(allocation) => break allocation,
                Plan::Propose(command) => world.propose(command),
            }
        };
        *homes.entry(allocation.home).or_default() += 128 << 20;
        world.leaders[0].on_written(allocation.home, 128 << 20);
    }
    assert_eq!(homes.values().filter(|len| **len == 5 * GB).count(), 2, "{homes:?}");
    let open = world.leaders[0].containers().filter(|(_, container)| container.state == blocks::ContainerState::Open);
    assert_eq!(open.count(), 1);
}
