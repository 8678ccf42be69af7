//! What a seed decides: how large the cluster is, what its clients do, and which faults come when.

use crate::administrator::{CHORES, Chore};
use crate::client::BLOCK_LEN;
use crate::disk::Full;
use crate::drill::Drill;
use crate::executor::{HostId, Sim};
use crate::machine_copy::MachineCopy;
use crate::peers::SEAT_COUNT;
use crate::restarts;
use crate::users;
use crate::world::World;
use datanode::catalogue::PAGE_COUNT;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::time::Duration;
use types::limits::CONTAINER_LEN_MAX;
use types::random::Seeded;
use types::{BlockId, FileId, Random};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    KillNode,
    PowerNode,
    KillMetad,
    PowerMetad,
    KillClient,
    Cut,
    CutOneWay,
    /// The leader loses sight of the other members, and they of it; clients still see it.
    SplitGroup,
    SlowDisk,
    FullDisk,
    /// The disk dies, and an empty one takes its place.
    LostDisk,
    SyncError,
    LogError,
    FullLog,
    BitFlip,
    WireFlips,
    Rough,
}

const ALL: [Fault; 17] = [
    Fault::KillNode,
    Fault::PowerNode,
    Fault::KillMetad,
    Fault::PowerMetad,
    Fault::KillClient,
    Fault::Cut,
    Fault::CutOneWay,
    Fault::SplitGroup,
    Fault::SlowDisk,
    Fault::FullDisk,
    Fault::LostDisk,
    Fault::SyncError,
    Fault::LogError,
    Fault::FullLog,
    Fault::BitFlip,
    Fault::WireFlips,
    Fault::Rough,
];

/// Twice what a run's clients hold at a time, three times each.
const CAPACITY_MIN: usize = 1 << 20;

#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) metad_count: usize,
    pub(crate) node_count: usize,
    /// Bytes of the log kept for those who lag. Little: who was away gets a copy of the state.
    pub(crate) retain_len: usize,
    pub(crate) client_count: usize,
    /// Of those clients, how many work on names alone.
    pub(crate) namer_count: usize,
    /// Containers take no further blocks from this length on.
    pub(crate) container_len: u64,
    /// Puts are brought to disk before they are acknowledged.
    pub(crate) synced: bool,
    /// How long faults come.
    pub(crate) rough: Duration,
    /// Between two faults, about.
    pub(crate) calm: Duration,
    pub(crate) faults: Vec<Fault>,
    /// Nodes are away for longer than they are waited for.
    pub(crate) long: bool,
    /// What an administrator does meanwhile.
    pub(crate) chores: Vec<Chore>,
    /// Machines of datanodes that are copied, and the copies started beside them.
    pub(crate) copies: Vec<MachineCopy>,
    /// Bytes that each node's disk holds.
    pub(crate) capacities: Vec<usize>,
    /// Before the end disks become nearly full, and a node goes, until what there is room for was repaired.
    pub(crate) squeeze: bool,
    /// Safe mode comes and goes.
    pub(crate) freezes: bool,
    /// Nodes are started anew in order, some of them in maintenance.
    pub(crate) restarts: bool,
    /// Somebody asks for whatever tools ask for.
    pub(crate) is_visited: bool,
    /// People of different rights work on names of their own.
    pub(crate) has_users: bool,
    /// What else is done, step by step.
    pub(crate) drill: Option<Drill>,
    /// Removing a replica takes time where the disk is slow.
    pub(crate) removes_slowly: bool,
    /// Replicas in a page of a catalogue.
    pub(crate) page_count: usize,
    /// Datanodes send catalogues so often, and when a leader asks for them.
    pub(crate) catalogue_each: Duration,
    /// Now and then a datanode has one more session with a metadata server, which ends whatever it is at.
    pub(crate) second_sessions: bool,
    /// Peers of data transfer follow scripts, which may break the protocol.
    pub(crate) scripted: bool,
    /// Operations on blocks need tokens, and the keys of these roll fast.
    pub(crate) has_tokens: bool,
}

/// In a quarter of the seeds so few that what a node has takes several pages.
fn page_count(seed: u64) -> usize {
    let mut random = Seeded(seed ^ 0xcaab_1096);
    if random.below(4) == 0 { 1 + random.below(12) } else { PAGE_COUNT }
}

/// More often than in production, so that a run of some minutes has several; or never, so that what a leader has
/// forgotten does not come back to it.
fn catalogue_each(seed: u64) -> Duration {
    let is_often = Seeded(seed ^ 0xca7a_106e).below(2) == 0;
    Duration::from_secs(if is_often { 120 } else { 24 * 3600 })
}

impl Plan {
    pub(crate) fn new(seed: u64) -> Self {
        let mut random = Seeded(seed ^ 0x5eed_1eada);
        let metad_count = if random.below(2) == 0 { 1 } else { 3 };
        let node_count = 3 + random.below(4);
        let namer_count = 2 + random.below(2);
        let client_count = namer_count + 2 + random.below(2);
        // Some seeds have a few kinds of faults, some all, some none.
        let faults = match random.below(8) {
            0 => Vec::new(),
            1 => ALL.to_vec(),
            _ => {
                let count = 1 + random.below(5);
                (0..count).map(|_| ALL[random.below(ALL.len())]).collect()
            }
        };
        let chores = match random.below(3) {
            0 => Vec::new(),
            1 => vec![CHORES[random.below(CHORES.len())]],
            _ => CHORES.to_vec(),
        };
        // Some seeds fill none, some a few, some one every few blocks.
        let container_len = match random.below(4) {
            0 => CONTAINER_LEN_MAX,
            1 => BLOCK_LEN as u64 + random.below(4 * BLOCK_LEN) as u64,
            _ => BLOCK_LEN as u64 * (4 + random.below(16)) as u64,
        };
        let mut random_room = Seeded(seed ^ 0xd15c_f011);
        let drill = Drill::of(seed, metad_count);
        // Others can take over what a node has, and nothing else is in the way.
        let drains = drill == Some(Drill::LeasedDrain);
        let squeeze = random_room.below(4) == 0 && !drains;
        let node_count = if squeeze || drains { node_count.max(5) } else { node_count };
        // Enough for all that clients write, and uneven.
        let capacities = (0..node_count).map(|_| CAPACITY_MIN + random_room.below(3 * CAPACITY_MIN)).collect();
        // With more than a few blocks in a container there would be few containers to share out.
        let container_len = if squeeze { container_len.min(4 * BLOCK_LEN as u64) } else { container_len };
        let second_sessions = metad_count > 1 && Seeded(seed ^ 0x5f8b_117b).below(3) == 0;
        Self {
            metad_count,
            node_count,
            capacities,
            squeeze,
            retain_len: [4_000, 1 << 20][random.below(2)],
            client_count,
            namer_count,
            container_len,
            synced: random.below(3) > 0,
            rough: Duration::from_secs(40 + random.below(60) as u64),
            calm: Duration::from_millis(500 + random.below(6000) as u64),
            faults,
            long: false,
            chores,
            copies: MachineCopy::of(seed, node_count),
            freezes: Seeded(seed ^ 0xf0e0_5afe).below(4) == 0 && !drains,
            restarts: false,
            is_visited: Seeded(seed ^ 0x0715_1707).below(4) == 0,
            has_users: users::are_in(seed),
            drill,
            removes_slowly: second_sessions || drill == Some(Drill::ChangeOfLeaders),
            page_count: page_count(seed),
            catalogue_each: catalogue_each(seed),
            second_sessions,
            scripted: false,
            has_tokens: Seeded(seed ^ 0x70c_e205).below(2) == 0,
        }
    }

    /// Some datanodes, and room for scripts. No other faults, and nobody else.
    pub(crate) fn of_peers() -> Self {
        Self {
            metad_count: 0,
            node_count: SEAT_COUNT,
            retain_len: 0,
            client_count: 0,
            namer_count: 0,
            container_len: CONTAINER_LEN_MAX,
            synced: false,
            rough: Duration::ZERO,
            calm: Duration::ZERO,
            faults: Vec::new(),
            long: false,
            chores: Vec::new(),
            copies: Vec::new(),
            capacities: vec![CAPACITY_MIN; SEAT_COUNT],
            squeeze: false,
            freezes: false,
            restarts: false,
            is_visited: false,
            has_users: false,
            drill: None,
            removes_slowly: false,
            page_count: PAGE_COUNT,
            catalogue_each: Duration::from_secs(120),
            second_sessions: false,
            scripted: true,
            has_tokens: false,
        }
    }

    /// A store that goes on with a backup of its rows. Nothing else fails.
    pub(crate) fn of_lost_rows(seed: u64) -> Self {
        let mut random = Seeded(seed ^ 0x1057_2035);
        let node_count = 4 + random.below(2);
        let container_len = [CONTAINER_LEN_MAX, (BLOCK_LEN * (2 + random.below(8))) as u64][random.below(2)];
        Self {
            metad_count: 1,
            node_count,
            container_len,
            synced: random.below(2) == 0,
            capacities: vec![CAPACITY_MIN; node_count],
            page_count: page_count(seed),
            catalogue_each: Duration::from_secs(60),
            scripted: false,
            has_tokens: random.below(2) == 0,
            ..Self::of_peers()
        }
    }

    /// Machines are started anew one after the other, each away for longer than it is waited for, and writers die.
    pub(crate) fn rolling(seed: u64) -> Self {
        let plan = Self::new(seed);
        let faults = vec![Fault::KillNode, Fault::KillNode, Fault::KillClient];
        let (node_count, calm) = (plan.node_count.max(5), Duration::from_secs(6));
        let (rough, chores) = (Duration::from_secs(150), vec![Chore::Drain]);
        let restarts = restarts::are_in(seed) && !plan.squeeze && plan.drill != Some(Drill::LeasedDrain);
        let mut capacities = plan.capacities;
        capacities.resize(node_count, CAPACITY_MIN);
        Self { node_count, capacities, faults, calm, rough, long: true, chores, restarts, ..plan }
    }
}

/// What must be put right again.
#[derive(Clone, Debug)]
enum Cure {
    Node(usize),
    Metad(usize),
    Client(usize),
    Heal(HostId, HostId),
    Fast(usize),
    Room(usize),
    LogRoom(usize),
    WireFlips,
    Rough,
}

/// Makes faults until their time is over, and puts all right then.
pub(crate) async fn make_faults(world: Rc<World>, start_client: Rc<dyn Fn(usize)>) {
    let sim = world.sim.clone();
    let end = sim.now() + world.plan.rough;
    let mut cures: Vec<(Duration, Cure)> = Vec::new();
    while sim.now() < end {
        let pause = sim.between(Duration::ZERO, world.plan.calm * 2);
        let next = (sim.now() + pause).min(end);
        while let Some(place) = soonest(&cures, next) {
            let (due, cure) = cures.remove(place);
            sim.sleep_until(due).await;
            apply(&world, cure, &start_client);
        }
        sim.sleep_until(next).await;
        if !world.plan.faults.is_empty() {
            let fault = world.plan.faults[sim.below(world.plan.faults.len())];
            if let Some(cure) = strike(&world, fault) {
                world.fault_count.set(world.fault_count.get() + 1);
                let long = if sim.one_in(3) { 30_000 } else { 5_000 };
                let short = match fault {
                    // Long enough that clients leave the old leader while others still ask it.
                    Fault::SplitGroup => 12_000,
                    // Long enough that a recovery goes on without those who are out of sight.
                    Fault::BitFlip => 8_000,
                    _ => 50,
                };
                let mut time = sim.between(Duration::from_millis(short), Duration::from_millis(short + long));
                if world.plan.long && fault == Fault::KillNode {
                    time = sim.between(Duration::from_secs(20), Duration::from_secs(35));
                }
                cures.extend(cure.into_iter().map(|cure| (sim.now() + time, cure)));
            }
        }
    }
    for (_, cure) in cures {
        apply(&world, cure, &start_client);
    }
    sim.say(|| "the faults are over".to_owned());
}

/// Makes the disks nearly full when most of a run is over, and takes a node away for good: what it had has room on the
/// others, in pieces, or nearly so.
pub(crate) async fn squeeze(world: Rc<World>) {
    let sim = world.sim.clone();
    let rough = world.plan.rough;
    sim.sleep(sim.between(rough / 2, rough)).await;
    let count = world.plan.node_count;
    let gone = sim.below(count);
    let used = |number: usize| world.node_platter(number).borrow().used_len();
    let share = used(gone) / (count - 1) + 1;
    for number in (0..count).filter(|number| *number != gone) {
        // A third of an even share to twice as much.
        let free = share / 3 + sim.below(2 * share);
        sim.say(|| {
            format!("SQUEEZE the disk of node {number} holds {} bytes and no more than {free} others", used(number))
        });
        world.node_disk(number).set_capacity(used(number) + free);
    }
    sim.say(|| format!("SQUEEZE node {gone} goes, with {} bytes", used(gone)));
    if world.net.is_up(World::node_host(gone)) {
        world.stop_node(gone, false);
    }
    world.gone.set(Some(gone));
}

/// The disks have room again, and the node comes back.
pub(crate) fn relieve(world: &Rc<World>) {
    world.sim.say(|| "SQUEEZE is over".to_owned());
    for (number, capacity) in world.plan.capacities.iter().enumerate() {
        world.node_disk(number).set_capacity(*capacity);
    }
    if let Some(gone) = world.gone.take() {
        world.start_node(gone);
    }
}

fn soonest(cures: &[(Duration, Cure)], until: Duration) -> Option<usize> {
    let due = cures.iter().enumerate().filter(|(_, (due, _))| *due <= until);
    due.min_by_key(|(place, (due, _))| (*due, *place)).map(|(place, _)| place)
}

fn any_host(world: &World, sim: &Sim) -> HostId {
    let plan = &world.plan;
    let pick = sim.below(plan.metad_count + plan.node_count + plan.client_count);
    match pick.checked_sub(plan.metad_count) {
        None => World::metad_host(pick),
        Some(pick) if pick < plan.node_count => World::node_host(pick),
        Some(pick) => World::client_host(pick - plan.node_count),
    }
}

/// `None`: it does not fit now.
fn strike(world: &Rc<World>, fault: Fault) -> Option<Vec<Cure>> {
    let (sim, plan) = (&world.sim, &world.plan);
    let (node, metad) = (sim.below(plan.node_count), sim.below(plan.metad_count));
    let (node_up, metad_up) = (world.net.is_up(World::node_host(node)), world.net.is_up(World::metad_host(metad)));
    let say = |what: String| sim.say(|| format!("FAULT {what}"));
    match fault {
        Fault::KillNode | Fault::PowerNode if node_up => {
            let power = fault == Fault::PowerNode;
            say(format!("node {node} {}", if power { "loses power" } else { "is killed" }));
            world.stop_node(node, power);
            Some(vec![Cure::Node(node)])
        }
        Fault::KillMetad | Fault::PowerMetad if metad_up => {
            let power = fault == Fault::PowerMetad;
            say(format!("metad {metad} {}", if power { "loses power" } else { "is killed" }));
            world.stop_metad(metad, power);
            Some(vec![Cure::Metad(metad)])
        }
        Fault::KillClient => {
            let client = sim.below(plan.client_count);
            let host = World::client_host(client);
            if !world.net.is_up(host) {
                return None;
            }
            let silent = sim.one_in(2);
            say(format!("client {client} dies{}", if silent { ", silently" } else { "" }));
            world.net.down(host, silent);
            sim.kill(host);
            Some(vec![Cure::Client(client)])
        }
        Fault::Cut | Fault::CutOneWay => {
            let (one, other) = (any_host(world, sim), any_host(world, sim));
            // Now and then a host is cut off from everybody.
            let others: Vec<HostId> = if sim.one_in(3) { all_hosts(world) } else { vec![other] };
            let mut cures = Vec::new();
            for other in others.into_iter().filter(|other| *other != one) {
                for (from, to) in [(one, other), (other, one)] {
                    if fault == Fault::Cut || from == one {
                        world.net.cut(from, to);
                        cures.push(Cure::Heal(from, to));
                    }
                }
            }
            say(format!("{} ways are cut, the first: {:?}", cures.len(), cures.first()));
            Some(cures)
        }
        Fault::SplitGroup if plan.metad_count > 1 => {
            let leading = (0..plan.metad_count)
                .find(|number| world.metad(*number).is_some_and(|metad| metad.reign().is_some()))?;
            say(format!("metad {leading} is cut off from the other members"));
            let mut cures = Vec::new();
            for other in (0..plan.metad_count).filter(|other| *other != leading) {
                let (one, other) = (World::metad_host(leading), World::metad_host(other));
                for (from, to) in [(one, other), (other, one)] {
                    world.net.cut(from, to);
                    cures.push(Cure::Heal(from, to));
                }
            }
            Some(cures)
        }
        Fault::SlowDisk => {
            let times = [10, 100, 1000][sim.below(3)];
            say(format!("the disk of node {node} is {times} times slower"));
            world.node_disk(node).set_slowness(times);
            Some(vec![Cure::Fast(node)])
        }
        Fault::FullDisk => {
            let full = if sim.one_in(2) { Full::ByWrites } else { Full::BySyncs };
            say(format!("the disk of node {node} is full, found out {full:?}"));
            world.node_disk(node).set_full(Some(full));
            Some(vec![Cure::Room(node)])
        }
        Fault::LostDisk if node_up => {
            say(format!("the disk of node {node} dies"));
            world.lose_disk(node);
            Some(vec![Cure::Node(node)])
        }
        Fault::FullLog if metad_up => {
            say(format!("the disk of metad {metad} is full"));
            world.metad_log(metad).set_full(true);
            Some(vec![Cure::LogRoom(metad)])
        }
        Fault::SyncError if node_up => {
            say(format!("the next sync of node {node} fails"));
            world.node_disk(node).fail_next_sync();
            // Its volume takes no writes any more until somebody starts it again.
            Some(vec![Cure::Node(node)])
        }
        Fault::LogError if metad_up => {
            say(format!("the next sync of metad {metad} fails"));
            world.metad_log(metad).fail_next_sync();
            Some(Vec::new())
        }
        Fault::BitFlip => {
            let mut random = sim.split();
            let others = (0..plan.node_count).filter(|other| *other != node);
            // Nobody promises a block that rots on all its nodes.
            let spare: BTreeSet<BlockId> =
                others.flat_map(|other| world.node_platter(other).borrow().sound_blocks()).collect();
            // Often it is a block that a recovery may meet, and whoever could tell better is out of sight just then.
            let alone = sim.one_in(2);
            let among = if alone { last_of_files(world, &spare) } else { spare };
            let (block, place) = world.node_platter(node).borrow_mut().flip_bit(&among, &mut random)?;
            say(format!("a bit of {block:?} on node {node} turns over"));
            world.spoil(node, block, place);
            Some(if alone { hide_others(world, node, block) } else { Vec::new() })
        }
        Fault::WireFlips => {
            world.wire_flips.set(20);
            Some(vec![Cure::WireFlips])
        }
        Fault::Rough => {
            world.net.set_rough(30, 100);
            Some(vec![Cure::Rough])
        }
        _ => None,
    }
}

/// Those of `blocks` behind which none of them is in the same file.
fn last_of_files(world: &World, blocks: &BTreeSet<BlockId>) -> BTreeSet<BlockId> {
    let Some(leader) = world.leader() else { return BTreeSet::new() };
    let mut last: BTreeMap<FileId, (u64, BlockId)> = BTreeMap::new();
    for view in blocks.iter().filter_map(|block| leader.view_of(*block)) {
        let known = last.entry(view.file).or_insert((view.offset, view.block));
        *known = (*known).max((view.offset, view.block));
    }
    last.into_values().map(|(_, block)| block).collect()
}

/// The metadata servers lose sight of the other nodes that have the block.
fn hide_others(world: &World, node: usize, block: BlockId) -> Vec<Cure> {
    let has = |other: &usize| *other != node && world.node_platter(*other).borrow().blocks().contains(&block);
    let mut cures = Vec::new();
    for other in (0..world.plan.node_count).filter(has) {
        world.sim.say(|| format!("FAULT node {other} is cut off from the metadata servers"));
        for metad in (0..world.plan.metad_count).map(World::metad_host) {
            for (from, to) in [(metad, World::node_host(other)), (World::node_host(other), metad)] {
                world.net.cut(from, to);
                cures.push(Cure::Heal(from, to));
            }
        }
    }
    cures
}

fn all_hosts(world: &World) -> Vec<HostId> {
    let plan = &world.plan;
    let metads = (0..plan.metad_count).map(World::metad_host);
    let nodes = (0..plan.node_count).map(World::node_host);
    metads.chain(nodes).chain((0..plan.client_count).map(World::client_host)).collect()
}

fn apply(world: &Rc<World>, cure: Cure, start_client: &Rc<dyn Fn(usize)>) {
    world.sim.say(|| format!("cured: {cure:?}"));
    match cure {
        Cure::Node(node) => {
            if world.net.is_up(World::node_host(node)) {
                world.stop_node(node, false);
            }
            world.start_node(node);
        }
        Cure::Metad(metad) => {
            if !world.net.is_up(World::metad_host(metad)) {
                world.start_metad(metad);
            }
        }
        Cure::Client(client) => start_client(client),
        Cure::Heal(from, to) => world.net.heal(from, to),
        Cure::Fast(node) => world.node_disk(node).set_slowness(1),
        Cure::Room(node) => {
            world.node_disk(node).set_full(None);
            // Whoever makes room has read what the node said, and starts it again.
            if world.node(node).is_some_and(|node| node.volume.has_failed()) {
                world.stop_node(node, false);
                world.start_node(node);
            }
        }
        Cure::LogRoom(metad) => world.metad_log(metad).set_full(false),
        Cure::WireFlips => world.wire_flips.set(0),
        Cure::Rough => world.net.set_rough(0, 0),
    }
}
