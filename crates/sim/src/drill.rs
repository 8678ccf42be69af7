//! Stories that chance comes to too seldom: one in some runs, step by step, among all the other faults. Where a fault
//! stands in its way, a story ends early.

use crate::client::{BLOCK_LEN, Client, Shape, Writer};
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
}

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
/// A replica that was found damaged is reported with the next heartbeat.
const REPORTED_WITHIN: Duration = Duration::from_millis(1500);

impl Drill {
    pub(crate) fn of(seed: u64) -> Option<Self> {
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
    };
    world.sim.say(|| format!("DRILL {drill:?} is over, {}", if done.is_some() { "as planned" } else { "early" }));
}

fn path() -> FsPath {
    FsPath::parse("/drill/1").expect("a sound path")
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
    world.node_platter(number).borrow_mut().flip_bit(&BTreeSet::from([block]), &mut random)?;
    world.sim.say(|| format!("DRILL a bit of {block:?} on node {number} turns over"));
    world.spoil(number, block);
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

fn has(world: &World, node: NodeId, block: BlockId) -> bool {
    world.node_platter(World::node_number(node)).borrow().shelf.contains_key(&block)
}
