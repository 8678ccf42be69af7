//! One run of a group, from its seed to its end.

use super::client::{Client, Work, own_path};
use super::faults::{Plan, administer, make_faults};
use super::hand_over;
use super::member::World;
use crate::executor::HostId;
use crate::history;
use crate::run::{Options, Outcome};
use namespace::{Caller, read};
use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

/// How long clients and the administrator may need to end what they are at, and the members to agree, when the faults
/// are over.
const SETTLE: Duration = Duration::from_secs(60);
const LOOK_EACH: Duration = Duration::from_secs(2);

/// Runs the group of a seed to its end. The outcome is a function of the arguments.
pub fn run_group(seed: u64, options: Options) -> Outcome {
    let sim = options.begin(seed);
    let _installed = sim.install();
    let plan = Plan::new(seed, options.rolling);
    sim.say(|| format!("seed {seed}: {plan:?}"));
    let (world, _entered) = World::new(sim.clone(), plan.founders());
    (1..=plan.founder_count).for_each(|id| world.start(id));
    let work = Rc::new(Work::default());
    (0..plan.clients).for_each(|number| Client::new(&world, number).start(&work));

    let busy = Rc::new(Cell::new(true));
    let (at, ends, of) = (Rc::clone(&world), Rc::clone(&busy), plan.clone());
    sim.spawn(HostId::NOBODY, async move {
        make_faults(at, of).await;
        ends.set(false);
    });
    let administering = Rc::new(Cell::new(true));
    let (at, ends) = (Rc::clone(&world), Rc::clone(&administering));
    sim.spawn(HostId::NOBODY, async move {
        administer(at, plan.members_change).await;
        ends.set(false);
    });
    while busy.get() && world.failures().is_empty() {
        sim.run_until(sim.now() + LOOK_EACH);
        world.check_rows();
    }
    world.over.set(true);
    let end = sim.now() + SETTLE;
    let unrest = || {
        let mut unrest = Vec::new();
        if work.busy.get() > 0 || administering.get() {
            unrest.push("somebody waits for an answer".to_owned());
        }
        unrest.extend(disagreement(&world));
        unrest
    };
    while sim.now() < end && world.failures().is_empty() && !unrest().is_empty() {
        sim.run_until(sim.now() + LOOK_EACH);
    }
    if world.failures().is_empty() {
        unrest().into_iter().for_each(|why| world.fail(format!("it does not come to rest: {why}")));
    }
    world.check_rows();
    check_promises(&world);
    if world.failures().is_empty() {
        hand_over::check(&world);
    }
    if world.failures().is_empty()
        && let Err(why) = history::check(&work.history.borrow())
    {
        work.history.borrow().iter().for_each(|event| sim.say(|| format!("{event:?}")));
        world.fail(format!("no order explains what clients saw: {why}"));
    }
    let outcome = Outcome::new(seed, &sim, world.failures(), world.fault_count.get(), work.done.get());
    world.take_down();
    sim.clear();
    outcome
}

/// Why the members do not hold the same yet.
fn disagreement(world: &Rc<World>) -> Option<String> {
    let found = Rc::new(Cell::new(None));
    let (at, tells) = (Rc::clone(world), Rc::clone(&found));
    world.sim.spawn(HostId::NOBODY, async move { tells.set(Some(at.leader().await)) });
    world.sim.run_until(world.sim.now() + LOOK_EACH);
    let Some(Some(leader)) = found.take() else { return Some("nobody leads".to_owned()) };
    let applied = leader.names.applied();
    for member in leader.raft.group().members {
        let Some(other) = world.member(member.id) else { return Some(format!("member {} is down", member.id)) };
        if other.names.applied() != applied {
            let (at, leads) = (other.names.applied(), leader.id);
            return Some(format!("member {} stands at {at:?}, the leader {leads} at {applied:?}", member.id));
        }
    }
    None
}

/// What was acknowledged is with every member of the group.
fn check_promises(world: &World) {
    let members = world.members();
    let Some(group) = members.iter().find(|member| member.raft.is_leader()).map(|leader| leader.raft.group()) else {
        return;
    };
    for member in members.iter().filter(|member| group.members.iter().any(|known| known.id == member.id)) {
        for tag in world.promised.borrow().iter() {
            let found = read::status(&*member.names.rows(), &Caller::system(), &own_path(*tag));
            if !matches!(found, Ok(Ok(Some(_)))) {
                world.fail(format!("member {} has not {}, which was acknowledged", member.id, own_path(*tag)));
            }
        }
    }
}
