//! What an administrator does while the cluster works: empties nodes and takes them away, has everything read, spreads
//! containers, enters safe mode and leaves it.

use crate::client::BLOCK_LEN;
use crate::metad::{Answer, Metad};
use crate::world::World;
use blocks::Service;
use std::rc::Rc;
use std::time::Duration;
use types::mutation::{self, Mutation};
use types::{FsPath, NodeId};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Chore {
    Drain,
    Scrub,
    Balance,
    /// Limits on directories, some of them small.
    Quota,
}

pub(crate) const CHORES: [Chore; 4] = [Chore::Drain, Chore::Scrub, Chore::Balance, Chore::Quota];

/// Where clients make files, and where they move them; what they do with names is compared with a model that has no
/// limits.
const LIMITED: [&str; 3] = ["/files", "/small", "/moved"];

const LOOK_EACH: Duration = Duration::from_secs(1);
const BELIEVED_AFTER: Duration = Duration::from_millis(50);
/// Clients hold blocks on lease for longer.
const PUT_WAIT: Duration = Duration::from_secs(10);
/// An administrator's patience.
const DRAIN_MAX: Duration = Duration::from_secs(90);
/// From leaving safe mode to entering it again, at most.
const FREEZE_EACH: Duration = Duration::from_secs(40);
const FROZEN_MAX: Duration = Duration::from_secs(40);
const LEADER_WAIT: Duration = Duration::from_millis(300);
const ANSWER_MAX: Duration = Duration::from_secs(10);

/// Asks whoever leads. `None`: it did not do it, or died over it.
pub(crate) async fn ask<T>(world: &Rc<World>, call: impl AsyncFnOnce(Rc<Metad>) -> Answer<T>) -> Option<T> {
    let Some(leader) = world.leader() else {
        world.sim.sleep(LEADER_WAIT).await;
        return None;
    };
    world.sim.timeout(ANSWER_MAX, call(leader)).await?.ok()
}

/// Has everything read, and returns when that is done. Nodes that the leader has not heard of for long would be left
/// out.
pub(crate) async fn scrub(world: &Rc<World>) {
    while !world.leader().is_some_and(|leader| leader.hears_all()) {
        world.sim.sleep(LOOK_EACH).await;
    }
    world.sim.say(|| "all nodes are heard".to_owned());
    // One that is under way may have passed over what rots since.
    while ask(world, Metad::begin_scrub).await != Some(true) {
        world.sim.sleep(LOOK_EACH).await;
    }
    world.sim.say(|| "the last scrub has begun".to_owned());
    while ask(world, Metad::has_scrubbed).await != Some(true) {
        world.sim.sleep(LOOK_EACH).await;
    }
}

/// Does one thing after the other, until faults are over; then every node serves again.
pub(crate) async fn administer(world: Rc<World>) {
    let sim = world.sim.clone();
    let end = sim.now() + world.plan.rough;
    while sim.now() < end && !world.plan.chores.is_empty() {
        sim.sleep(sim.between(Duration::ZERO, Duration::from_secs(15))).await;
        let chore = world.plan.chores[sim.below(world.plan.chores.len())];
        sim.say(|| format!("CHORE {chore:?}"));
        match chore {
            Chore::Drain => drain(&world, end).await,
            Chore::Scrub => _ = ask(&world, Metad::begin_scrub).await,
            Chore::Balance => _ = ask(&world, Metad::begin_balance).await,
            Chore::Quota => limit_any(&world).await,
        }
    }
    for number in 0..world.plan.node_count {
        serve_again(&world, number).await;
    }
    for directory in LIMITED {
        while ask(&world, |leader: Rc<Metad>| leader.set_quota(path(directory), None, None)).await.is_none() {
            world.sim.sleep(LEADER_WAIT).await;
        }
    }
    world.sim.say(|| "the administrator has gone".to_owned());
}

fn path(text: &str) -> FsPath {
    FsPath::parse(text).expect("a sound path")
}

/// Sets limits that are soon reached, or lifts them.
async fn limit_any(world: &Rc<World>) {
    let sim = &world.sim;
    let directory = LIMITED[sim.below(LIMITED.len())];
    let names = (!sim.one_in(3)).then(|| 1 + sim.below(40) as u64);
    let space = sim.one_in(3).then(|| (1 + sim.below(60) * BLOCK_LEN) as u64);
    sim.say(|| format!("{directory} may have {names:?} names and {space:?} bytes"));
    let _refused = ask(world, |leader: Rc<Metad>| leader.set_quota(path(directory), names, space)).await;
}

pub(crate) async fn serve_again(world: &Rc<World>, number: usize) {
    let id = World::node_id(number);
    while ask(world, |leader: Rc<Metad>| leader.set_service(id, Service::Serving)).await.is_none() {
        world.sim.sleep(LEADER_WAIT).await;
    }
}

/// Enters safe mode at times and leaves it again, until the faults are over.
pub(crate) async fn freeze(world: Rc<World>) {
    let sim = world.sim.clone();
    let end = sim.now() + world.plan.rough;
    if !world.plan.freezes {
        return;
    }
    loop {
        sim.sleep(sim.between(FREEZE_EACH / 4, FREEZE_EACH)).await;
        if sim.now() >= end {
            return;
        }
        let entered = until_done(&world, Metad::enter_safe_mode).await;
        let since = sim.now();
        world.frozen_since.set(Some(since));
        sim.say(|| "SAFE MODE is on".to_owned());
        sim.sleep(sim.between(Duration::ZERO, FROZEN_MAX)).await;
        let left = until_done(&world, Metad::see_frozen).await;
        if let Some((at, was)) = entered.iter().find(|(key, value)| left.get(*key) != Some(value)) {
            let is = left.get(at);
            world.fail(|| format!("row {at:?} was changed in safe mode, from {was:?} to {is:?}"));
        }
        if let Some((at, is)) = left.iter().find(|(key, _)| !entered.contains_key(*key)) {
            world.fail(|| format!("row {at:?} was made in safe mode: {is:?}"));
        }
        world.frozen_since.set(None);
        until_done(&world, Metad::leave_safe_mode).await;
        sim.say(|| "SAFE MODE is off".to_owned());
    }
}

/// Asks again until it is answered.
async fn until_done<T>(world: &Rc<World>, call: impl AsyncFn(Rc<Metad>) -> Answer<T>) -> T {
    loop {
        if let Some(done) = ask(world, &call).await {
            return done;
        }
        world.sim.sleep(LEADER_WAIT).await;
    }
}

/// Until the node has put something more, or for a while: who is wrong about a node loses what comes last.
async fn until_put(world: &Rc<World>, number: usize) {
    let count = || world.node(number).map_or(0, |node| node.volume.replicas().len());
    let (end, mut before) = (world.sim.now() + PUT_WAIT, count());
    while world.sim.now() < end {
        world.sim.sleep(BELIEVED_AFTER).await;
        if count() > before {
            return;
        }
        before = count();
    }
}

async fn drain(world: &Rc<World>, end: Duration) {
    let sim = &world.sim;
    let number = sim.below(world.plan.node_count);
    let id = World::node_id(number);
    if begin_drain(world, id).await.is_none() {
        return;
    }
    sim.say(|| format!("node {number} is to be emptied"));
    let until = (sim.now() + DRAIN_MAX).min(end);
    // What is called empty too early is found out by who believes it at once.
    let believes = mutation::is(Mutation::HastyDrain);
    while sim.now() < until {
        sim.sleep(if believes { BELIEVED_AFTER } else { LOOK_EACH }).await;
        if !is_drained(world, id).await {
            continue;
        }
        sim.say(|| format!("node {number} is empty, it is said"));
        if believes {
            until_put(world, number).await;
        }
        if believes || sim.one_in(2) {
            replace_drained(world, number).await;
        }
        break;
    }
    serve_again(world, number).await;
}

/// Has a node emptied.
pub(crate) async fn begin_drain(world: &Rc<World>, id: NodeId) -> Option<()> {
    ask(world, |leader: Rc<Metad>| leader.set_service(id, Service::Draining)).await
}

pub(crate) async fn is_drained(world: &Rc<World>, id: NodeId) -> bool {
    ask(world, |leader: Rc<Metad>| leader.is_drained(id)).await == Some(true)
}

/// An empty node comes in the place of one that is drained: unless it is said to have what no other node has, as one
/// that was taken for lost may. False: it stays.
pub(crate) async fn replace_drained(world: &Rc<World>, number: usize) -> bool {
    let (sim, id) = (&world.sim, World::node_id(number));
    let Some(Some(note)) = ask(world, |leader: Rc<Metad>| leader.drained_note(id)).await else { return false };
    sim.say(|| format!("of node {number} it is said: {note}"));
    if note.contains("no datanode") || !world.net.is_up(World::node_host(number)) {
        return false;
    }
    sim.say(|| format!("node {number} is taken away; an empty one will come in its place"));
    world.take_away(number);
    sim.sleep(sim.between(Duration::from_secs(1), Duration::from_secs(30))).await;
    if !world.net.is_up(World::node_host(number)) {
        world.start_node(number);
    }
    true
}
