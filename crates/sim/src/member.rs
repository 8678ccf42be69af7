//! A member of a group of the crate `raft`: what outlives its process, how one starts there, and how its messages reach
//! others.

use crate::executor::{Boxed, HostId, Sim};
use crate::log_platter::LogPlatter;
use crate::machine::{Kept, Machine, Store};
use crate::net::{CallError, Net};
use crate::world::Mutation;
use raft::{Answer, GroupOptions, Lane, Peer, Raft, RaftError, Timing, Transport, Undone};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io::{Error, ErrorKind};
use std::rc::Rc;
use std::sync::{Arc, PoisonError};
use std::time::Duration;
use types::random::Seeded;

/// A process that ends because its disk failed is started again after so long.
pub(crate) const RESTART: Duration = Duration::from_secs(2);

/// Whether a process ended because of its disk. What could not be known to be well is looked at by who runs it.
pub(crate) fn is_disk_fault(why: &str) -> bool {
    ["the disk does not answer", "no storage space"].iter().any(|known| why.contains(known))
}

pub(crate) fn peer(id: u64) -> Peer {
    Peer { id, addr: format!("member{id}:8020") }
}

/// What outlives a process.
pub(crate) struct Seat {
    id: u64,
    pub(crate) platter: LogPlatter,
    store: Store,
    mutation: Option<Mutation>,
}

/// Members 1 to `founders` begin the group, and keep so many bytes of the log for those who lag.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Founders {
    pub(crate) count: u64,
    pub(crate) retain_len: usize,
}

impl Seat {
    pub(crate) fn new(id: u64, chance: Seeded, mutation: Option<Mutation>) -> Self {
        let platter = LogPlatter::new(id, chance);
        if mutation == Some(Mutation::LogWithoutSync) {
            platter.set_lying();
        }
        Self { id, platter, store: Store::default(), mutation }
    }

    /// The process must be gone.
    pub(crate) fn lose_disk(&self) {
        self.platter.lose_all();
        *self.store.lock().unwrap_or_else(PoisonError::into_inner) = Kept::default();
    }

    /// A new process, of the task that asks. `None`: it is alone.
    pub(crate) async fn start(
        &self,
        wires: &Wires,
        founders: Option<Founders>,
        undone: Option<Undone>,
    ) -> Result<(Raft<Machine>, Arc<Machine>), RaftError> {
        let (id, machine) = (self.id, Machine::open(&self.store, self.mutation));
        let group = founders.map(|Founders { count, retain_len }| GroupOptions {
            transport: Arc::new(End { from: id }),
            founders: (1..=count).map(peer).collect(),
            timing: Timing::default(),
            retain_len,
            undone,
        });
        let raft = Raft::start_on(Arc::new(self.platter.clone()), id, group, Arc::clone(&machine)).await?;
        wires.members.borrow_mut().insert(id, raft.clone());
        Ok((raft, machine))
    }

    /// The process is gone, with its tasks. `Err`: it is not.
    pub(crate) fn fall(&self, power: bool) -> Result<(), String> {
        if self.platter.is_locked() {
            return Err(format!("something of member {} outlives its process", self.id));
        }
        if power {
            self.platter.lose_power();
        }
        Ok(())
    }
}

/// Between all members of a run.
pub(crate) struct Wires {
    sim: Sim,
    net: Net,
    host: fn(u64) -> HostId,
    members: RefCell<BTreeMap<u64, Raft<Machine>>>,
}

thread_local! {
    /// Members are told to be fit for several threads, and find the wires, which are not, here.
    static WIRES: RefCell<Option<Rc<Wires>>> = const { RefCell::new(None) };
}

/// While this lives, the members of this thread are wired.
pub(crate) struct Wired(());

impl Drop for Wired {
    fn drop(&mut self) {
        WIRES.with_borrow_mut(Option::take);
    }
}

impl Wires {
    pub(crate) fn new(sim: Sim, net: Net, host: fn(u64) -> HostId) -> (Rc<Self>, Wired) {
        let wires = Rc::new(Self { sim, net, host, members: RefCell::default() });
        WIRES.set(Some(Rc::clone(&wires)));
        (wires, Wired(()))
    }

    /// A member's process ends.
    pub(crate) fn hang_up(&self, id: u64) {
        let member = self.members.borrow_mut().remove(&id);
        drop(member);
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

    fn serve(&self, from: u64, to: u64, message: Vec<u8>) -> Option<Boxed<Vec<u8>>> {
        let member = self.members.borrow().get(&to).cloned()?;
        self.note(from, to, &message);
        Some(Box::pin(async move { member.handle(&message).await }))
    }
}

/// One member's end of all wires.
struct End {
    from: u64,
}

impl Transport for End {
    fn send<'a>(&'a self, to: &'a Peer, _lane: Lane, message: Vec<u8>, wait_max: Duration) -> Answer<'a> {
        let (answer, answered) = tokio::sync::oneshot::channel();
        if let Some(wires) = WIRES.with_borrow(Clone::clone) {
            let (from, to) = (self.from, to.id);
            wires.sim.clone().spawn(HostId::NOBODY, async move {
                let there = Rc::clone(&wires);
                let serve = move || there.serve(from, to, message);
                let answered = wires.net.call((wires.host)(from), (wires.host)(to), wait_max, serve).await;
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
