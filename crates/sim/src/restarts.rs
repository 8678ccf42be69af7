//! Datanodes that are started anew in order: some after a goodbye, some within a maintenance, and some of those for
//! longer than that lasts.

use crate::administrator::ask;
use crate::metad::Metad;
use crate::world::World;
use std::rc::Rc;
use std::time::Duration;
use types::{NodeId, Random};

const EACH: Duration = Duration::from_secs(30);
const AWAY_MAX: Duration = Duration::from_secs(40);
const PAUSE: Duration = Duration::from_millis(300);
/// A node's own word; and how long the metadata server has to write it down.
const LEAVING_MS: u64 = 20_000;
const GOODBYE_WAIT: Duration = Duration::from_secs(1);

/// In a quarter of the seeds of `--rolling`.
pub(crate) fn are_in(seed: u64) -> bool {
    types::random::Seeded(seed ^ 0x1ea5_e5ea).below(4) == 0
}

/// Until the faults are over. Then nobody is in maintenance any more.
pub(crate) async fn restart(world: Rc<World>) {
    let sim = world.sim.clone();
    let end = sim.now() + world.plan.rough;
    loop {
        sim.sleep(sim.between(Duration::ZERO, EACH)).await;
        if sim.now() >= end {
            break;
        }
        let number = sim.below(world.plan.node_count);
        let id = World::node_id(number);
        let in_maintenance = sim.one_in(2);
        if in_maintenance {
            let span = sim.between(Duration::from_secs(5), AWAY_MAX);
            sim.say(|| format!("node {number} is in maintenance for {span:?}"));
            _ = ask(&world, |leader: Rc<Metad>| leader.maintain(id, span.as_millis() as u64)).await;
            sim.sleep(sim.between(Duration::ZERO, Duration::from_secs(5))).await;
        }
        go_and_come(&world, number).await;
        if in_maintenance && sim.one_in(2) {
            end_maintenance(&world, id).await;
        }
    }
    for number in 0..world.plan.node_count {
        end_maintenance(&world, World::node_id(number)).await;
    }
    sim.say(|| "nobody is in maintenance any more".to_owned());
}

/// A node that is up says goodbye, ends, and begins anew.
async fn go_and_come(world: &Rc<World>, number: usize) {
    let sim = &world.sim;
    let Some(node) = world.node(number) else { return };
    sim.say(|| format!("node {number} says goodbye"));
    let _nobody_leads = sim.timeout(GOODBYE_WAIT, node.goodbye(LEAVING_MS)).await;
    drop(node);
    if !world.net.is_up(World::node_host(number)) {
        return;
    }
    world.stop_node(number, false);
    sim.sleep(sim.between(Duration::from_millis(100), AWAY_MAX)).await;
    if !world.net.is_up(World::node_host(number)) {
        world.start_node(number);
    }
}

async fn end_maintenance(world: &Rc<World>, id: NodeId) {
    while ask(world, |leader: Rc<Metad>| leader.maintain(id, 0)).await.is_none() {
        world.sim.sleep(PAUSE).await;
    }
}
