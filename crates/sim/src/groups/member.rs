//! The members of one run: their processes, their disks, and the messages between them.

use super::disk::Platter;
use super::machine::{Names, Store};
use crate::executor::{HostId, Sim};
use crate::net::{CallError, Net};
use crate::run::Options;
use crate::world::Mutation;
use ::raft::{Answer, GroupOptions, Lane, Peer, Raft, RaftError, Standing, Timing, Transport};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{Error, ErrorKind};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use types::Millis;
use types::random::Seeded;

/// A process that ends because its disk failed is started again after so long.
const RESTART: Duration = Duration::from_secs(2);

#[derive(Clone)]
pub(super) struct Member {
    pub(super) id: u64,
    pub(super) raft: Raft<Names>,
    pub(super) names: Arc<Names>,
}

/// What outlives a process.
struct Seat {
    platter: Platter,
    store: Store,
    process: RefCell<Option<Member>>,
    /// It is no member any more, and nobody starts it again.
    gone: Cell<bool>,
    /// It was killed by a fault, which starts it again.
    down: Cell<bool>,
}

pub(super) struct World {
    pub(super) sim: Sim,
    pub(super) net: Net,
    pub(super) mutation: Option<Mutation>,
    /// Members 1 to `founders` begin the group.
    pub(super) founders: u64,
    /// Bytes of the log kept for those who lag.
    retain_len: usize,
    seats: RefCell<BTreeMap<u64, Rc<Seat>>>,
    failures: RefCell<Vec<String>>,
    /// Tags of files whose making was acknowledged.
    pub(super) promised: RefCell<BTreeSet<u16>>,
    pub(super) fault_count: Cell<u64>,
    pub(super) formatted: Cell<bool>,
    pub(super) over: Cell<bool>,
}

thread_local! {
    /// Members are told to be fit for several threads, and find the world, which is not, here.
    static WORLD: RefCell<Option<Rc<World>>> = const { RefCell::new(None) };
}

/// While this lives, the members of this thread are in a world.
pub(super) struct Entered(());

impl Drop for Entered {
    fn drop(&mut self) {
        WORLD.with_borrow_mut(Option::take);
    }
}

fn world() -> Option<Rc<World>> {
    WORLD.with_borrow(Clone::clone)
}

/// One member's end of all wires.
struct End {
    from: u64,
}

impl Transport for End {
    fn send<'a>(&'a self, to: &'a Peer, _lane: Lane, message: Vec<u8>, wait_max: Duration) -> Answer<'a> {
        let (answer, answered) = tokio::sync::oneshot::channel();
        if let Some(world) = world() {
            let (from, to) = (self.from, to.id);
            let at = Rc::clone(&world);
            world.sim.spawn(HostId::NOBODY, async move {
                let there = Rc::clone(&at);
                let serve = move || {
                    let member = there.member(to)?;
                    there.note(from, to, &message);
                    let work = async move { member.raft.handle(&message).await };
                    Some(Box::pin(work) as crate::executor::Boxed<Vec<u8>>)
                };
                let answered = at.net.call(World::host(from), World::host(to), wait_max, serve).await;
                let _the_caller_may_be_dead = answer.send(answered);
            });
        }
        Box::pin(async move {
            let kind = match answered.await {
                Ok(Ok(bytes)) => return Ok(bytes),
                Ok(Err(CallError::Connect)) => ErrorKind::ConnectionRefused,
                Ok(Err(CallError::Broken)) | Err(_) => ErrorKind::ConnectionReset,
                Ok(Err(CallError::TimedOut)) => ErrorKind::TimedOut,
            };
            Err(Error::from(kind))
        })
    }
}

pub(super) fn peer(id: u64) -> Peer {
    Peer { id, addr: format!("member{id}:8020") }
}

impl World {
    pub(super) fn new(sim: Sim, founders: u64, retain_len: usize, options: Options) -> (Rc<Self>, Entered) {
        let world = Rc::new(Self {
            net: Net::new(sim.clone()),
            sim,
            mutation: options.mutation,
            founders,
            retain_len,
            seats: RefCell::default(),
            failures: RefCell::default(),
            promised: RefCell::default(),
            fault_count: Cell::default(),
            formatted: Cell::default(),
            over: Cell::default(),
        });
        WORLD.set(Some(Rc::clone(&world)));
        (world, Entered(()))
    }

    pub(super) fn host(id: u64) -> HostId {
        HostId(id as u32)
    }

    /// The members' clocks differ by a few seconds.
    pub(super) fn wall(&self, id: u64) -> Millis {
        Millis(1_800_000_000_000 + self.sim.now().as_millis() as u64 + 1_700 * id)
    }

    pub(super) fn fail(&self, what: String) {
        self.sim.say(|| format!("FAILURE {what}"));
        self.failures.borrow_mut().push(what);
    }

    pub(super) fn failures(&self) -> Vec<String> {
        self.failures.borrow().clone()
    }

    /// A message is a step of the run too.
    fn note(&self, from: u64, to: u64, message: &[u8]) {
        self.sim.note(from << 32 | to);
        message.chunks(8).for_each(|chunk| {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.sim.note(u64::from_le_bytes(word));
        });
    }

    pub(super) fn member(&self, id: u64) -> Option<Member> {
        self.seats.borrow().get(&id).and_then(|seat| seat.process.borrow().clone())
    }

    /// All that run.
    pub(super) fn members(&self) -> Vec<Member> {
        self.seats.borrow().values().filter_map(|seat| seat.process.borrow().clone()).collect()
    }

    /// All that are members or shall be.
    pub(super) fn ids(&self) -> Vec<u64> {
        self.seats.borrow().iter().filter(|(_, seat)| !seat.gone.get()).map(|(id, _)| *id).collect()
    }

    pub(super) fn next_id(&self) -> u64 {
        self.seats.borrow().last_key_value().map_or(1, |(id, _)| id + 1)
    }

    fn seat(&self, id: u64) -> Rc<Seat> {
        let make = || {
            let platter = Platter::new(id, self.sim.split());
            if self.mutation == Some(Mutation::LogWithoutSync) {
                platter.set_lying();
            }
            Rc::new(Seat {
                platter,
                store: Store::default(),
                process: RefCell::default(),
                gone: Cell::default(),
                down: Cell::default(),
            })
        };
        Rc::clone(self.seats.borrow_mut().entry(id).or_insert_with(make))
    }

    pub(super) fn platter(&self, id: u64) -> Platter {
        self.seat(id).platter.clone()
    }

    /// Starts a member's process, unless it is no member any more.
    pub(super) fn start(self: &Rc<Self>, id: u64) {
        let seat = self.seat(id);
        seat.down.set(false);
        if seat.gone.get() || self.net.is_up(Self::host(id)) {
            return;
        }
        self.net.up(Self::host(id));
        let world = Rc::clone(self);
        self.sim.spawn(Self::host(id), async move {
            let names = Names::open(&seat.store);
            let group = GroupOptions {
                transport: Arc::new(End { from: id }),
                founders: (1..=world.founders).map(peer).collect(),
                timing: Timing::default(),
                retain_len: world.retain_len,
            };
            let started = Raft::start_on(Arc::new(seat.platter.clone()), id, Some(group), Arc::clone(&names)).await;
            let raft = match started {
                Ok(raft) => raft,
                Err(error) => {
                    world.ended(id, &error.to_string());
                    return;
                }
            };
            world.sim.say(|| format!("member {id} is up"));
            *seat.process.borrow_mut() = Some(Member { id, raft: raft.clone(), names });
            let mut standing = raft.standing();
            let (told, of) = (Rc::clone(&world), id);
            world.sim.spawn(Self::host(id), async move {
                while standing.changed().await.is_ok() {
                    let now = *standing.borrow_and_update();
                    told.sim.say(|| format!("member {of}: {now:?}"));
                }
            });
            let why = raft.failed().await;
            world.ended(id, &why);
        });
    }

    /// The process ends because of its disk. What could not be known to be well is looked at by who runs it.
    fn ended(self: &Rc<Self>, id: u64, why: &str) {
        self.sim.say(|| format!("member {id} ends: {why}"));
        if !["the disk does not answer", "no storage space"].iter().any(|known| why.contains(known)) {
            self.fail(format!("member {id} ends: {why}"));
        }
        let world = Rc::clone(self);
        self.sim.spawn(HostId::NOBODY, async move {
            world.kill(id, false);
            world.sim.sleep(RESTART).await;
            if !world.seat(id).down.get() {
                world.start(id);
            }
        });
    }

    /// The process ends where it stands. Never called by a task of it.
    pub(super) fn kill(&self, id: u64, power: bool) {
        let seat = self.seat(id);
        self.net.down(Self::host(id), power);
        let process = seat.process.borrow_mut().take();
        drop(process);
        self.sim.kill(Self::host(id));
        if seat.platter.is_locked() {
            self.fail(format!("something of member {id} outlives its process"));
        } else if power {
            seat.platter.lose_power();
        }
    }

    /// Until it is started.
    pub(super) fn keep_down(&self, id: u64) {
        self.seat(id).down.set(true);
    }

    /// It is no member any more.
    pub(super) fn dismiss(&self, id: u64) {
        self.seat(id).gone.set(true);
        self.kill(id, false);
    }

    /// Who leads and is sure of it, if asked now.
    pub(super) async fn leader(&self) -> Option<Member> {
        for member in self.members() {
            let leads = matches!(*member.raft.standing().borrow(), Standing::Leading { .. });
            if leads && member.raft.confirm().await.is_ok() {
                return Some(member);
            }
        }
        None
    }

    /// Members at one place of the log hold the same, and it is sound.
    pub(super) fn check_rows(&self) {
        let mut at = BTreeMap::new();
        for member in self.members() {
            let Some(applied) = member.names.applied() else { continue };
            let rows = member.names.read(Clone::clone);
            match namespace::check::check(&rows) {
                Ok(violations) => violations.iter().for_each(|why| self.fail(format!("member {}: {why}", member.id))),
                Err(error) => self.fail(format!("member {}: {error}", member.id)),
            }
            match at.get(&applied) {
                Some((other, known)) if *known != rows => {
                    self.fail(format!("members {other} and {} hold different rows at {applied:?}", member.id));
                }
                Some(_) => {}
                None => _ = at.insert(applied, (member.id, rows)),
            }
        }
    }

    /// Ends all, and lets go of what holds each other.
    pub(super) fn take_down(&self) {
        let ids: Vec<u64> = self.seats.borrow().keys().copied().collect();
        ids.into_iter().for_each(|id| self.kill(id, false));
        self.seats.borrow_mut().clear();
    }
}

/// An error of a proposal that may have happened all the same.
pub(super) fn is_in_doubt(error: &RaftError) -> bool {
    !matches!(error, RaftError::TooLong { .. })
}

/// The chance of what is decided before the run begins.
pub(super) fn plan_chance(seed: u64) -> Seeded {
    Seeded(seed ^ 0x6a0f_feed)
}
