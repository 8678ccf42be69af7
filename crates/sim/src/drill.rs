//! Stories that chance comes to too seldom: one in some runs, step by step, among all the other faults. Where a fault
//! stands in its way, a story ends early.

use crate::administrator::{begin_drain, is_drained, replace_drained, serve_again};
use crate::client::{BLOCK_LEN, Client, Shape, Writer};
use crate::executor::HostId;
use crate::world::World;
use std::collections::BTreeSet;
use std::rc::Rc;
use std::time::Duration;
use types::random::Seeded;
use types::{BlockId, FsPath, NodeId, Random};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Drill {
    /// A node left a block's chain and is back; those who went on without it are out of sight when the writer has died.
    StaleSurvivor,
    /// A replica has rotted, the writer has died, and those who have sound ones are out of sight.
    RottenSurvivor,
    /// A block has got another home, whose replica rots when the former ones are about to go.
    RottenHome,
    /// Another server comes to lead while the orders of the one before are under way and wait for slow disks.
    ChangeOfLeaders,
    /// A node is emptied, and a client puts a small file there that it has had on lease since before.
    LeasedDrain,
}

/// Those of chance to equal parts; the others have seeds of their own.
const ALL: [Drill; 3] = [Drill::StaleSurvivor, Drill::RottenSurvivor, Drill::RottenHome];
/// Of so many seeds one has a drill.
const EACH: usize = 3;
/// Tags of files that no client writes.
const TAG: u64 = 1 << 32;
/// In the numbers of its calls.
const LIFE: u64 = 2;
const BEGIN_MAX: Duration = Duration::from_secs(20);
/// Longer than a recovery waits for nodes that do not answer, even in doubt.
const OUT_OF_SIGHT: Duration = Duration::from_secs(90);
/// Until a node that was started has reported.
const BACK_WITHIN: Duration = Duration::from_secs(4);
const LOOK_EACH: Duration = Duration::from_millis(100);
const MOVED_WITHIN: Duration = Duration::from_secs(40);
/// Less than what members said of a block counts.
const LATE: Duration = Duration::from_secs(4);
/// Small files that are deleted before the leader changes.
const DOOMED_COUNT: u64 = 16;
/// Disks are so many times slower meanwhile.
const SLOWNESS: u32 = 300;
/// Until nodes are ordered to delete.
const ORDERED_WITHIN: Duration = Duration::from_millis(1500);
/// Less than a datanode waits for an answer.
const ELECTED_WITHIN: Duration = Duration::from_secs(12);
/// A message that was held back is sent again within that.
const ANSWERED_WITHIN: Duration = Duration::from_secs(6);
const PUT_EACH: Duration = Duration::from_millis(100);
/// Others have copied what a node has.
const LEFT_WITHIN: Duration = Duration::from_secs(25);
/// Longer than clients hold blocks on lease.
const EMPTIED_WITHIN: Duration = Duration::from_secs(90);
/// A replica that was found damaged is reported with the next heartbeat.
const REPORTED_WITHIN: Duration = Duration::from_millis(1500);

impl Drill {
    pub(crate) fn of(seed: u64, metad_count: usize) -> Option<Self> {
        match Seeded(seed ^ 0xdc8f_232b).below(8) {
            0 => return Some(Self::LeasedDrain),
            1 | 2 if metad_count > 1 => return Some(Self::ChangeOfLeaders),
            _ => {}
        }
        let mut random = Seeded(seed ^ 0xd811_1d81);
        (random.below(EACH) == 0).then(|| ALL[random.below(ALL.len())])
    }
}

pub(crate) async fn run(world: Rc<World>) {
    let Some(drill) = world.plan.drill else { return };
    let number = world.plan.client_count + 1;
    world.net.up(World::client_host(number));
    let client = Client::new(Rc::clone(&world), number, LIFE);
    world.sim.sleep(world.sim.between(Duration::ZERO, BEGIN_MAX)).await;
    world.sim.say(|| format!("DRILL {drill:?}"));
    let done = match drill {
        Drill::StaleSurvivor => stale_survivor(&client).await,
        Drill::RottenSurvivor => rotten_survivor(&client).await,
        Drill::RottenHome => rotten_home(&client).await,
        Drill::ChangeOfLeaders => change_of_leaders(&client).await,
        Drill::LeasedDrain => leased_drain(&client).await,
    };
    world.sim.say(|| format!("DRILL {drill:?} is over, {}", if done.is_some() { "as planned" } else { "early" }));
}

fn path() -> FsPath {
    path_of(1)
}

fn path_of(number: u64) -> FsPath {
    FsPath::parse(&format!("/drill/{number}")).expect("a sound path")
}

async fn create(client: &Rc<Client>) -> Option<Writer> {
    client.create(&path(), TAG, 3, Shape::Chain, false).await.ok()
}

/// The metadata servers lose sight of these nodes, or see them again.
fn hide(world: &World, nodes: &[NodeId], hidden: bool) {
    for (node, metad) in nodes.iter().flat_map(|node| (0..world.plan.metad_count).map(move |metad| (node, metad))) {
        let (node, metad) = (World::node_host(World::node_number(*node)), World::metad_host(metad));
        for (from, to) in [(node, metad), (metad, node)] {
            if hidden { world.net.cut(from, to) } else { world.net.heal(from, to) }
        }
    }
    world.sim.say(|| format!("DRILL {nodes:?} are {}", if hidden { "out of sight" } else { "seen again" }));
}

/// Whoever goes on has the file's lease taken from its dead writer, and nobody sees `away` for long.
async fn recover_without(client: &Rc<Client>, away: &[NodeId]) {
    let world = &client.world;
    hide(world, away, true);
    let _closed = client.call(|metad, _| Box::pin(metad.recover_lease(path()))).await;
    world.sim.sleep(OUT_OF_SIGHT).await;
    hide(world, away, false);
}

async fn stale_survivor(client: &Rc<Client>) -> Option<()> {
    let world = &client.world;
    let mut writer = create(client).await?;
    writer.write(40).await.ok()?;
    writer.flush(false).await.ok()?;
    let out = World::node_number(*writer.nodes().last()?);
    if world.net.is_up(World::node_host(out)) {
        world.stop_node(out, false);
    }
    let went_on = async {
        writer.write(40).await.ok()?;
        writer.flush(true).await.ok()
    };
    let went_on = went_on.await;
    if !world.net.is_up(World::node_host(out)) {
        world.start_node(out);
    }
    went_on?;
    world.sim.sleep(BACK_WITHIN).await;
    let ahead = writer.nodes();
    drop(writer);
    if ahead.is_empty() || ahead.contains(&World::node_id(out)) {
        return None;
    }
    recover_without(client, &ahead).await;
    Some(())
}

async fn rotten_survivor(client: &Rc<Client>) -> Option<()> {
    let world = &client.world;
    let mut writer = create(client).await?;
    writer.write(BLOCK_LEN - 1).await.ok()?;
    writer.flush(true).await.ok()?;
    let nodes = writer.nodes();
    // The nodes have put the block, and the metadata servers have not heard of it from the writer.
    writer.write(1).await.ok()?;
    drop(writer);
    let (first, others) = nodes.split_first().filter(|(_, others)| !others.is_empty())?;
    let (_, located) = client.call(|metad, _| Box::pin(metad.located(path()))).await.ok()?;
    rot(world, *first, located.first()?.view.block)?;
    recover_without(client, others).await;
    Some(())
}

/// A bit of a finalized replica turns over.
fn rot(world: &World, node: NodeId, block: BlockId) -> Option<()> {
    let number = World::node_number(node);
    let mut random = world.sim.split();
    let (_, place) = world.node_platter(number).borrow_mut().flip_bit(&BTreeSet::from([block]), &mut random)?;
    world.sim.say(|| format!("DRILL a bit of {block:?} on node {number} turns over"));
    world.spoil(number, block, place);
    Some(())
}

async fn rotten_home(client: &Rc<Client>) -> Option<()> {
    let (world, sim) = (&client.world, &client.sim);
    client.put_small(&path(), TAG, 50, 3, true).await.ok()?;
    let (_, located) = client.call(|metad, _| Box::pin(metad.located(path()))).await.ok()?;
    let (block, before) = (located.first()?.view.block, located.first()?.nodes.clone());
    client.call(|metad, key| Box::pin(metad.set_replication(key, path(), 1))).await.ok()?;
    let until = sim.now() + MOVED_WITHIN;
    let (view, member) = loop {
        let found = world.leader().and_then(|leader| {
            let view = leader.view_of(block)?;
            let members = leader.see_cluster(|cluster| cluster.member_ids(view.home).to_vec())?;
            (members.len() == 1).then(|| (view, members[0]))
        });
        match found {
            Some(found) => break found,
            None if sim.now() >= until => return None,
            None => sim.sleep(LOOK_EACH).await,
        }
    };
    let former: Vec<NodeId> = before.into_iter().filter(|node| *node != member).collect();
    let had = former.iter().any(|node| has(world, *node, block));
    sim.sleep(sim.between(Duration::ZERO, LATE / 4)).await;
    hide(world, &former, true);
    let done = async {
        sim.sleep(sim.between(Duration::ZERO, LATE / 2)).await;
        rot(world, member, block).filter(|()| had)?;
        let number = World::node_number(member);
        let node = world.node(number)?;
        node.verify(block, view.generation).await;
        sim.sleep(REPORTED_WITHIN).await;
        Some(())
    };
    let done = done.await;
    hide(world, &former, false);
    done
}

async fn change_of_leaders(client: &Rc<Client>) -> Option<()> {
    let done = orders_of_two_leaders(client).await;
    slow(&client.world, 1);
    done
}

fn slow(world: &World, times: u32) {
    (0..world.plan.node_count).for_each(|node| world.node_disk(node).set_slowness(times));
}

async fn orders_of_two_leaders(client: &Rc<Client>) -> Option<()> {
    let (world, sim) = (&client.world, &client.sim);
    let mut files = Vec::new();
    for number in 1..=DOOMED_COUNT {
        files.push(client.put_small(&path_of(number), TAG + number, 50, 3, true).await.ok()?);
    }
    slow(world, SLOWNESS);
    // Some are in hand, the others wait for those.
    for (number, file) in (1..).zip(files) {
        world.oracle.borrow_mut().doom(file);
        client.call(move |metad, key| Box::pin(metad.delete(key, path_of(number)))).await.ok()?;
        if number == DOOMED_COUNT / 2 {
            sim.sleep(sim.between(ORDERED_WITHIN / 2, ORDERED_WITHIN)).await;
        }
    }
    sim.sleep(sim.between(Duration::ZERO, ORDERED_WITHIN)).await;
    let leads = |number: usize| Some((world.metad(number)?.reign()?, number));
    let (_, leading) = (0..world.plan.metad_count).filter_map(leads).max()?;
    // The others elect a leader; what the one before has answered comes after that one's orders.
    let before = World::metad_host(leading);
    let others = || (0..world.plan.metad_count).filter(|other| *other != leading).map(World::metad_host);
    let nodes = || (0..world.plan.node_count).map(World::node_host);
    let ways = |held: bool| others().for_each(|other| cut(world, &[(before, other), (other, before)], held));
    sim.say(|| format!("DRILL metad {leading} is cut off, and its answers are held back"));
    ways(true);
    nodes().for_each(|node| cut(world, &[(before, node)], true));
    let until = sim.now() + sim.between(ELECTED_WITHIN / 2, ELECTED_WITHIN);
    let (mut number, mut let_go) = (DOOMED_COUNT, false);
    // Nodes have something to tell all the while.
    while sim.now() < until + ANSWERED_WITHIN {
        if sim.now() >= until && !let_go {
            let_go = true;
            sim.say(|| format!("DRILL the answers of metad {leading} go on"));
            nodes().for_each(|node| cut(world, &[(before, node)], false));
            slow(world, 1);
        }
        number += 1;
        let (path, tag) = (path_of(number), TAG + number);
        let _put = sim.timeout(ELECTED_WITHIN / 4, client.put_small(&path, tag, 50, 3, false)).await;
        sim.sleep(PUT_EACH).await;
    }
    ways(false);
    Some(())
}

/// Cuts ways, or heals them.
fn cut(world: &World, ways: &[(HostId, HostId)], held: bool) {
    for (from, to) in ways {
        if held { world.net.cut(*from, *to) } else { world.net.heal(*from, *to) }
    }
}

async fn leased_drain(client: &Rc<Client>) -> Option<()> {
    let (world, sim) = (&client.world, &client.sim);
    client.put_small(&path(), TAG, 50, 1, true).await.ok()?;
    let (_, located) = client.call(|metad, _| Box::pin(metad.located(path()))).await.ok()?;
    let node = *located.first()?.nodes.first()?;
    begin_drain(world, node).await?;
    // The next blocks on lease are for the same node.
    let is_empty_by = async |until: Duration| {
        while sim.now() < until && !is_drained(world, node).await {
            sim.sleep(LOOK_EACH).await;
        }
    };
    is_empty_by(sim.now() + LEFT_WITHIN).await;
    let put = client.put_small(&path_of(2), TAG + 1, 50, 1, true).await;
    is_empty_by(sim.now() + EMPTIED_WITHIN).await;
    let number = World::node_number(node);
    let is_done = put.is_ok() && is_drained(world, node).await && replace_drained(world, number).await;
    serve_again(world, number).await;
    is_done.then_some(())
}

fn has(world: &World, node: NodeId, block: BlockId) -> bool {
    world.node_platter(World::node_number(node)).borrow().shelf.contains_key(&block)
}
