//! Scripted peers of data transfer: each speaks frames by a script, which keeps to the protocol or breaks it in one
//! place, and says what the shipped machine at the other end must do.
//!
//! ```text
//!   stock writer ──▶ relay (node 0) ──▶ relay (node 1)       writes.rs
//!   stock writer ──▶ relay (node 0) ──▶ scripted node        below.rs
//!   writer::Stream ──▶ scripted node                         first.rs
//!   scripted reader ──▶ Sender        Receiver ──▶ scripted source        Sender ──▶ scripted node     reads.rs
//!   scripted caller ──▶ Server, Fanout ──▶ scripted node     Caller, Verdict ──▶ scripted node          small.rs
//! ```
//!
//! They have a small cluster of their own without metadata servers, in which nothing fails but what a script makes
//! fail: so a script knows exactly what must come, and when. Chance decides how bytes are cut, how long peers take, and
//! which of a story's ways is taken.

mod below;
mod first;
mod line;
mod reads;
mod small;
mod writes;

use crate::Options;
use crate::datanode::Datanode;
use crate::executor::{Boxed, HostId, Sim};
use crate::scenario::Plan;
use crate::socket::Socket;
use crate::volume::Info;
use crate::world::{World, content};
use line::Line;
use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;
use types::{BlockId, ContainerId, FileId, Generation, ReplicaState};
use wire::BlockScope;

/// Datanodes as they are simulated: nodes 0 to 2.
const NODE_COUNT: usize = 3;
/// Those in whose place scripts stand: nodes 3 to 5.
const SCRIPTED: usize = NODE_COUNT;
const SCRIPT_COUNT: usize = 3;
pub(crate) const SEAT_COUNT: usize = NODE_COUNT + SCRIPT_COUNT;

/// Longer than the longest that a story waits for.
const STORY_MAX: Duration = Duration::from_secs(400);
const LOOK_EACH: Duration = Duration::from_millis(200);
/// So that the stories of a seed have nothing to do with its cluster.
const SEED: u64 = 0x5c21_97ed;

const GENERATION: Generation = Generation(7);
const FILE: FileId = types::InodeId(16400);
const HOME: ContainerId = ContainerId(3);

type Told = Result<(), String>;
type Story = fn(Rc<Stage>) -> Boxed<Told>;

const STORIES: &[(&str, Story)] = &[
    ("a stock writer writes a block", |stage| Box::pin(writes::whole(stage))),
    ("a writer breaks the protocol", |stage| Box::pin(writes::broken(stage))),
    ("a node below behaves as it likes", |stage| Box::pin(below::any(stage))),
    ("a first node behaves as it likes", |stage| Box::pin(first::any(stage))),
    ("a reader asks for what it likes", |stage| Box::pin(reads::asked(stage))),
    ("a source sends what it likes", |stage| Box::pin(reads::sent(stage))),
    ("a node that gets a copy says what it likes", |stage| Box::pin(reads::copied(stage))),
    ("small writes at a node", |stage| Box::pin(small::served(stage))),
    ("small writes of a client", |stage| Box::pin(small::called(stage))),
    ("small writes that wait for one disk", |stage| Box::pin(small::batched(stage))),
];

/// Runs each story once. What failed.
pub(crate) fn run(seed: u64, options: Options) -> Vec<String> {
    let sim = options.begin(seed ^ SEED);
    let _installed = sim.install();
    let (world, _wired) = World::new(sim.clone(), Plan::of_peers());
    let hosts = (NODE_COUNT..SEAT_COUNT).map(World::node_host).chain([host()]);
    hosts.for_each(|host| world.net.up(host));
    (0..NODE_COUNT).for_each(|number| world.start_node(number));
    let stage = Rc::new(Stage { sim: sim.clone(), world: Rc::clone(&world), block_count: Cell::default() });
    for (name, story) in STORIES {
        sim.say(|| format!("story: {name}"));
        let over = Rc::new(Cell::new(false));
        let (at, told, ended) = (Rc::clone(&stage), story(Rc::clone(&stage)), Rc::clone(&over));
        sim.spawn(host(), async move {
            if let Err(why) = told.await {
                at.world.fail(|| format!("peers: {name}: {why}"));
            }
            ended.set(true);
        });
        let end = sim.now() + STORY_MAX;
        while !over.get() && sim.now() < end && world.failures().is_empty() {
            sim.run_until(sim.now() + LOOK_EACH);
        }
        if !over.get() && world.failures().is_empty() {
            world.fail(|| format!("peers: {name}: it does not end"));
        }
        if !world.failures().is_empty() {
            break;
        }
        world.scripts.borrow_mut().clear();
    }
    let failures = world.failures();
    world.take_down();
    sim.clear();
    failures
}

/// Where scripts of writers and readers run.
fn host() -> HostId {
    World::client_host(0)
}

/// What a story is played with.
struct Stage {
    sim: Sim,
    world: Rc<World>,
    block_count: Cell<u64>,
}

impl Stage {
    /// A block that nobody has, and what its bytes are made of.
    fn next_block(&self) -> (BlockId, u64) {
        self.block_count.set(self.block_count.get() + 1);
        let block = BlockId((HOME.0 << 20) + self.block_count.get());
        (block, tag_of(block))
    }

    fn node(&self, number: usize) -> Rc<Datanode> {
        self.world.node(number).expect("nothing ends these nodes")
    }

    fn chance<T: Copy>(&self, ways: &[T]) -> T {
        ways[self.sim.below(ways.len())]
    }

    /// From here on `script` is what answers at this node's address. What it says is wrong fails the story.
    fn stand_in<F: Future<Output = Told> + 'static>(&self, number: usize, script: impl Fn(Line) -> F + 'static) {
        let (sim, world) = (self.sim.clone(), Rc::downgrade(&self.world));
        let accept = move |socket: Socket| {
            let (played, world) = (script(Line::new(sim.clone(), socket)), world.clone());
            sim.spawn(World::node_host(number), async move {
                if let (Err(why), Some(world)) = (played.await, world.upgrade()) {
                    world.fail(|| format!("peers: node {number}: {why}"));
                }
            });
        };
        self.world.scripts.borrow_mut().insert(number, Rc::new(accept));
    }

    /// A replica as its node has it.
    fn replica(&self, number: usize, block: BlockId) -> Option<Info> {
        self.node(number).volume.find(block)
    }

    /// The replica is finalized, and has exactly the first `len` bytes of the block.
    async fn is_whole(&self, number: usize, block: BlockId, tag: u64, len: usize) -> Told {
        let read = self.node(number).volume.read(block, GENERATION).await;
        let (info, image) = read.map_err(|error| format!("node {number} has no {block:?}: {error:?}"))?;
        let wanted: Vec<u8> = (0..len).map(|at| content(tag, at)).collect();
        if info.state != ReplicaState::Finalized || info.len != len || image.data != wanted || !image.verifies(len) {
            return Err(format!("node {number} has {info:?}, and not {len} sound bytes"));
        }
        Ok(())
    }

    /// Nobody put the replica, and what readers may see of it was sent.
    fn is_open_or_gone(&self, number: usize, block: BlockId, sent: usize) -> Told {
        match self.replica(number, block) {
            Some(info) if info.state == ReplicaState::Finalized || info.visible > sent => Err(format!(
                "node {number} has {info:?} of a block that was not ended, of which {sent} bytes were sent"
            )),
            _ => Ok(()),
        }
    }
}

/// What a block's bytes are made of.
fn tag_of(block: BlockId) -> u64 {
    block.0.wrapping_mul(0x9e37_79b9)
}

/// As a block token of ours carries it.
fn token() -> bytes::Bytes {
    BlockScope { file: FILE, home: HOME }.encode().into()
}

/// `Err` with this text unless it holds.
fn must(holds: bool, what: impl FnOnce() -> String) -> Told {
    if holds { Ok(()) } else { Err(what()) }
}
