//! One run, from its seed to its end.

use crate::administrator::{administer, freeze, scrub};
use crate::check;
use crate::drill;
use crate::executor::{HostId, Listener, Sim};
use crate::groups::run_group;
use crate::lost_rows;
use crate::peers;
use crate::restarts::restart;
use crate::scenario::{Plan, make_faults, relieve, squeeze};
use crate::work::{self, Work};
use crate::world::World;
use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;
use types::Mutation;

/// How long clients may need to end what they are at, when the faults are over.
const WIND_DOWN: Duration = Duration::from_secs(200);
/// How long the rest may take to come to rest: leases run out, catalogues are told.
const SETTLE: Duration = Duration::from_secs(600);
const LOOK_EACH: Duration = Duration::from_secs(5);
/// In the numbers of its calls.
const VISITOR_LIFE: u64 = 1;
const USERS_LIFE: u64 = 3;
const INTRUDER_LIFE: u64 = 4;

#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    pub mutation: Option<Mutation>,
    /// Print the story.
    pub trace: bool,
    /// Nodes are away for longer than they are waited for, one after the other, instead of the seed's faults. In
    /// groups: members join and leave.
    pub rolling: bool,
    /// Groups of members of the crate `raft`, instead of whole clusters: see [`run_group`].
    pub groups: bool,
}

impl Options {
    pub(crate) fn begin(&self, seed: u64) -> Sim {
        types::mutation::set(self.mutation);
        Sim::new(seed, self.trace.then(|| -> Listener { Box::new(|line| println!("{line}")) }))
    }
}

/// What became of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    pub seed: u64,
    pub failures: Vec<String>,
    pub simulated: Duration,
    /// From the last fault and the last client until all had come to rest.
    pub settled_in: Duration,
    pub fault_count: u64,
    /// Operations that clients began.
    pub done_count: u64,
    /// Steps taken, and a number that is the same only if they were the same steps at the same times.
    pub fingerprint: (u64, u64),
}

impl Outcome {
    pub(crate) fn new(seed: u64, sim: &Sim, failures: Vec<String>, fault_count: u64, done_count: u64) -> Self {
        let (simulated, settled_in) = (sim.now(), Duration::ZERO);
        Self { seed, failures, simulated, settled_in, fault_count, done_count, fingerprint: sim.fingerprint() }
    }

    /// Of a run that came to nothing else.
    fn told(seed: u64, failures: Vec<String>) -> Self {
        let (simulated, settled_in) = Default::default();
        Self { seed, failures, simulated, settled_in, fault_count: 0, done_count: 0, fingerprint: (0, 0) }
    }
}

/// As [`run`], or [`run_group`]; a wrong thought of the program (a panic) is one more failure.
pub fn run_caught(seed: u64, options: Options) -> Outcome {
    let caught =
        std::panic::catch_unwind(|| if options.groups { run_group(seed, options) } else { run(seed, options) });
    caught.unwrap_or_else(|_| Outcome::told(seed, vec!["a panic, see above".to_owned()]))
}

/// Runs the cluster of a seed to its end. The outcome is a function of the arguments.
pub fn run(seed: u64, options: Options) -> Outcome {
    let mut told = peers::run(seed, options);
    if told.is_empty() {
        told = lost_rows::run(seed, options);
    }
    if !told.is_empty() {
        return Outcome::told(seed, told);
    }
    let sim = options.begin(seed);
    let _installed = sim.install();
    let mut plan = if options.rolling { Plan::rolling(seed) } else { Plan::new(seed) };
    // Each mutation has a seed by which it is found, whose history stays as it is.
    plan.restarts &= options.mutation.is_none();
    sim.say(|| format!("seed {seed}: {plan:?}"));
    let (world, _wired) = World::new(sim.clone(), plan);
    let work = Rc::new(Work::default());
    begin(&world);
    sim.run_until(Duration::from_secs(3));

    let lives = Rc::new(Cell::new(0));
    let (at, shared) = (Rc::clone(&world), Rc::clone(&work));
    let start_client: Rc<dyn Fn(usize)> = Rc::new(move |number| {
        lives.set(lives.get() + 1);
        work::start(&at, &shared, number, lives.get());
    });
    for number in 0..world.plan.client_count {
        start_client(number);
    }
    work::start_visitor(&world, &work, VISITOR_LIFE);
    work::start_users(&world, &work, seed, USERS_LIFE);
    work::start_intruder(&world, &work, INTRUDER_LIFE);
    sim.spawn(HostId::NOBODY, make_faults(Rc::clone(&world), Rc::clone(&start_client)));
    for copy in &world.plan.copies {
        sim.spawn(HostId::NOBODY, copy.run(Rc::clone(&world)));
    }
    if world.plan.squeeze {
        sim.spawn(HostId::NOBODY, squeeze(Rc::clone(&world)));
    }
    let administering = Rc::new(Cell::new(3 + u32::from(world.plan.restarts)));
    let (at, left) = (Rc::clone(&world), Rc::clone(&administering));
    sim.spawn(HostId::NOBODY, async move {
        drill::run(at).await;
        left.set(left.get() - 1);
    });
    let (at, left) = (Rc::clone(&world), Rc::clone(&administering));
    sim.spawn(HostId::NOBODY, async move {
        administer(at).await;
        left.set(left.get() - 1);
    });
    let (at, left) = (Rc::clone(&world), Rc::clone(&administering));
    sim.spawn(HostId::NOBODY, async move {
        freeze(at).await;
        left.set(left.get() - 1);
    });
    if world.plan.restarts {
        let (at, left) = (Rc::clone(&world), Rc::clone(&administering));
        sim.spawn(HostId::NOBODY, async move {
            restart(at).await;
            left.set(left.get() - 1);
        });
    }
    let end = sim.now() + world.plan.rough + Duration::from_millis(1);
    while sim.now() < end && world.failures().is_empty() {
        sim.run_until(end.min(sim.now() + LOOK_EACH));
        check::contradictions(&world);
        check::rows(&world);
        check::picture(&world);
    }

    work.stopping.set(true);
    let end = sim.now() + WIND_DOWN;
    while sim.now() < end && (work.busy.get() > 0 || administering.get() > 0) && world.failures().is_empty() {
        sim.run_until(sim.now() + LOOK_EACH);
    }
    // The visitor, the drill, the users and the intruder too, if any is left.
    for number in 0..world.plan.client_count + 4 {
        sim.kill(World::client_host(number));
    }
    if world.plan.squeeze {
        settle(&world, check::room);
        relieve(&world);
    }
    let settled_in = settle(&world, check::unrest);
    if world.failures().is_empty() {
        sim.say(|| "all is to be read".to_owned());
        let scrubbed = Rc::new(Cell::new(false));
        let (at, over) = (Rc::clone(&world), Rc::clone(&scrubbed));
        sim.spawn(HostId::NOBODY, async move {
            scrub(&at).await;
            over.set(true);
        });
        settle(&world, |world| {
            let reads = !scrubbed.get();
            let mut unrest = check::damage(world);
            unrest.extend(reads.then(|| "not all has been read".to_owned()));
            unrest.extend(check::unrest(world));
            unrest
        });
    }
    check::contradictions(&world);
    check::rows(&world);
    if world.failures().is_empty() {
        check::history(&world, &work);
    }
    check::promises(&world);

    let (fault_count, done_count) = (world.fault_count.get(), work.done.get());
    let outcome = Outcome { settled_in, ..Outcome::new(seed, &sim, world.failures(), fault_count, done_count) };
    world.take_down();
    sim.clear();
    outcome
}

/// Runs until nothing is left that moves, or for so long that something is wrong. How long that took.
fn settle(world: &World, look: impl Fn(&World) -> Vec<String>) -> Duration {
    let sim = &world.sim;
    let begun = sim.now();
    let end = begun + SETTLE;
    let mut unrest = look(world);
    while sim.now() < end && world.failures().is_empty() && !unrest.is_empty() {
        sim.say(|| format!("{} things have not come to rest, the first: {}", unrest.len(), unrest[0]));
        sim.run_until(sim.now() + LOOK_EACH);
        check::picture(world);
        unrest = look(world);
    }
    if let Some(first) = unrest.first().filter(|_| world.failures().is_empty()) {
        unrest.iter().for_each(|thing| sim.say(|| thing.clone()));
        world.leader().iter().for_each(|leader| leader.tell_worries());
        world.fail(|| format!("it does not come to rest: {} things, the first: {first}", unrest.len()));
    }
    sim.now() - begun
}

fn begin(world: &Rc<World>) {
    for number in 0..world.plan.metad_count {
        world.start_metad(number);
    }
    for number in 0..world.plan.node_count {
        world.start_node(number);
    }
}
