//! The members of one run: their processes, and what becomes of them.

use super::names::{Names, Reply};
use super::seat::Seat;
use crate::executor::{HostId, Sim};
use crate::log_platter::LogPlatter;
use crate::member::{Founders, RESTART, Wired, Wires, is_disk_fault};
use crate::net::Net;
use raft::{Raft, RaftError, Standing};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;
use types::Millis;
use types::mutation::{self, Mutation};
use types::random::Seeded;

#[derive(Clone)]
pub(super) struct Member {
    pub(super) id: u64,
    pub(super) raft: Raft<Names>,
    pub(super) names: Arc<Names>,
}

impl Member {
    /// Index of the last entry it has applied.
    pub(super) fn last(&self) -> u64 {
        self.names.applied().map_or(0, |(_, index)| index)
    }
}

/// Where a member's processes run, one after the other.
struct Place {
    seat: Seat,
    process: RefCell<Option<Member>>,
    /// It is no member any more, and nobody starts it again.
    gone: Cell<bool>,
    /// It was killed by a fault, which starts it again.
    down: Cell<bool>,
}

pub(super) struct World {
    pub(super) sim: Sim,
    pub(super) net: Net,
    wires: Rc<Wires>,
    founders: Founders,
    places: RefCell<BTreeMap<u64, Rc<Place>>>,
    failures: RefCell<Vec<String>>,
    /// Came back without its data, and is to be removed.
    pub(super) lost: Cell<Option<u64>>,
    /// A change of members is under way, or was left half done.
    pub(super) is_changing: Cell<bool>,
    /// Tags of files whose making was acknowledged.
    pub(super) promised: RefCell<BTreeSet<u16>>,
    pub(super) fault_count: Cell<u64>,
    /// Index of the last entry of which a client may know.
    acknowledged: Cell<u64>,
    pub(super) formatted: Cell<bool>,
    pub(super) over: Cell<bool>,
}

impl World {
    pub(super) fn new(sim: Sim, founders: Founders) -> (Rc<Self>, Wired) {
        let net = Net::new(sim.clone());
        if mutation::is(Mutation::ClocksSleep) {
            sim.let_clocks_sleep();
        }
        let (wires, wired) = Wires::new(sim.clone(), net.clone(), Self::host);
        let world = Self {
            net,
            sim,
            wires,
            founders,
            places: RefCell::default(),
            failures: RefCell::default(),
            lost: Cell::default(),
            is_changing: Cell::default(),
            promised: RefCell::default(),
            fault_count: Cell::default(),
            acknowledged: Cell::default(),
            formatted: Cell::default(),
            over: Cell::default(),
        };
        (Rc::new(world), wired)
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

    pub(super) fn member(&self, id: u64) -> Option<Member> {
        self.places.borrow().get(&id).and_then(|place| place.process.borrow().clone())
    }

    /// All that run.
    pub(super) fn members(&self) -> Vec<Member> {
        self.places.borrow().values().filter_map(|place| place.process.borrow().clone()).collect()
    }

    /// All that are members or shall be.
    pub(super) fn ids(&self) -> Vec<u64> {
        self.places.borrow().iter().filter(|(_, place)| !place.gone.get()).map(|(id, _)| *id).collect()
    }

    pub(super) fn next_id(&self) -> u64 {
        self.places.borrow().last_key_value().map_or(1, |(id, _)| id + 1)
    }

    fn place(&self, id: u64) -> Rc<Place> {
        let make = || {
            let seat = Seat::new(id, self.sim.split());
            Rc::new(Place { seat, process: RefCell::default(), gone: Cell::default(), down: Cell::default() })
        };
        Rc::clone(self.places.borrow_mut().entry(id).or_insert_with(make))
    }

    pub(super) fn platter(&self, id: u64) -> LogPlatter {
        self.place(id).seat.platter.clone()
    }

    /// Starts a member's process, unless it is no member any more.
    pub(super) fn start(self: &Rc<Self>, id: u64) {
        let place = self.place(id);
        place.down.set(false);
        if place.gone.get() || self.net.is_up(Self::host(id)) {
            return;
        }
        self.net.up(Self::host(id));
        let world = Rc::clone(self);
        self.sim.spawn(Self::host(id), async move {
            let (raft, names) = match place.seat.start(&world.wires, Some(world.founders)).await {
                Ok(started) => started,
                Err(error) => {
                    world.ended(id, &error.to_string());
                    return;
                }
            };
            world.sim.say(|| format!("member {id} is up"));
            *place.process.borrow_mut() = Some(Member { id, raft: raft.clone(), names });
            let mut standing = raft.standing();
            let (told, of) = (Rc::clone(&world), id);
            world.sim.spawn(Self::host(id), async move {
                while standing.changed().await.is_ok() {
                    let now = *standing.borrow_and_update();
                    told.sim.say(|| format!("member {of}: {now:?}"));
                }
            });
            let fault = raft.failed().await;
            world.ended(id, &fault.reason);
        });
    }

    /// The process ends.
    fn ended(self: &Rc<Self>, id: u64, why: &str) {
        self.sim.say(|| format!("member {id} ends: {why}"));
        if !is_disk_fault(why) {
            self.fail(format!("member {id} ends: {why}"));
        }
        let world = Rc::clone(self);
        self.sim.spawn(HostId::NOBODY, async move {
            world.kill(id, false);
            world.sim.sleep(RESTART).await;
            if !world.place(id).down.get() {
                world.start(id);
            }
        });
    }

    /// The process ends where it stands. Never called by a task of it.
    pub(super) fn kill(&self, id: u64, power: bool) {
        let place = self.place(id);
        self.net.down(Self::host(id), power);
        self.wires.hang_up(id);
        let process = place.process.borrow_mut().take();
        drop(process);
        self.sim.kill(Self::host(id));
        if let Err(why) = place.seat.fall(power) {
            self.fail(why);
        }
    }

    /// Its list names itself alone: with an empty disk it can ask nobody, and begins a store of its own.
    pub(super) fn founded_alone(&self, id: u64) -> bool {
        self.founders.count == 1 && id == 1
    }

    /// Its disk is empty from then on. The process must be gone.
    pub(super) fn lose_disk(&self, id: u64) {
        self.place(id).seat.lose_disk();
        self.lost.set(Some(id));
    }

    /// Until it is started.
    pub(super) fn keep_down(&self, id: u64) {
        self.place(id).down.set(true);
    }

    /// It is no member any more.
    pub(super) fn dismiss(&self, id: u64) {
        self.place(id).gone.set(true);
        self.kill(id, false);
    }

    /// As [`Raft::propose`].
    pub(super) async fn propose(&self, member: &Member, request: namespace::Request) -> Result<Reply, RaftError> {
        let reply = member.raft.propose(request).await?;
        self.acknowledged.set(self.acknowledged.get().max(member.last()));
        Ok(reply)
    }

    /// As [`Raft::confirm`]. Who is sure to lead has all that was acknowledged before it was asked.
    pub(super) async fn confirm(&self, member: &Member) -> Result<u64, RaftError> {
        let acknowledged = self.acknowledged.get();
        let term = member.raft.confirm().await?;
        let (id, last) = (member.id, member.last());
        if last < acknowledged {
            self.fail(format!(
                "member {id} is sure to lead and has entry {last}, when {acknowledged} was acknowledged"
            ));
        }
        Ok(term)
    }

    /// Who leads and is sure of it, if asked now.
    pub(super) async fn leader(&self) -> Option<Member> {
        for member in self.members() {
            let leads = matches!(*member.raft.standing().borrow(), Standing::Leading { .. });
            if leads && self.confirm(&member).await.is_ok() {
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
            if self.lost.get() == Some(member.id) {
                self.fail(format!("member {} lost its data and was let in again: it has {applied:?}", member.id));
            }
            let rows = member.names.rows().clone();
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
        let ids: Vec<u64> = self.places.borrow().keys().copied().collect();
        ids.into_iter().for_each(|id| self.kill(id, false));
        self.places.borrow_mut().clear();
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
