//! Members of a group of the crate `raft`: who they are, and how their messages reach each other.

use crate::executor::{Boxed, HostId, Sim};
use crate::net::{CallError, Net};
use raft::{Answer, Lane, Peer, Transport};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io::{Error, ErrorKind};
use std::rc::Rc;
use std::time::Duration;

/// A process that ends because its disk failed is started again after so long.
pub(crate) const RESTART: Duration = Duration::from_secs(2);

/// Whether a process ended because of its disk. What could not be known to be well is looked at by who runs it.
pub(crate) fn is_disk_fault(why: &str) -> bool {
    ["the disk does not answer", "no storage space"].iter().any(|known| why.contains(known))
}

pub(crate) fn peer(id: u64) -> Peer {
    Peer { id, addr: format!("member{id}:8020") }
}

/// Members 1 to `founders` begin the group, and keep so many bytes of the log for those who lag.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Founders {
    pub(crate) count: u64,
    pub(crate) retain_len: usize,
}

/// Between all members of a run.
pub(crate) struct Wires {
    sim: Sim,
    net: Net,
    host: fn(u64) -> HostId,
    members: RefCell<BTreeMap<u64, Handler>>,
}

/// What answers a member's messages.
type Handler = Rc<dyn Fn(Vec<u8>) -> Boxed<Vec<u8>>>;

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
        Some(member(message))
    }

    /// A member's process begins.
    pub(crate) fn serve_member(&self, id: u64, handler: impl Fn(Vec<u8>) -> Boxed<Vec<u8>> + 'static) {
        self.members.borrow_mut().insert(id, Rc::new(handler));
    }
}

/// One member's end of all wires.
pub(crate) struct End {
    from: u64,
}

impl End {
    pub(crate) fn of(from: u64) -> Self {
        Self { from }
    }
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
