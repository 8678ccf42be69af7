//! A client: calls to whichever metadata server leads, writing over chains with recovery, reading with one replica
//! after another.
//!
//! As the crate `client` does it; what was promised to its program is told to the oracle.

mod block;
mod chain;
mod short_chain;
mod writer;

use crate::executor::{Boxed, HostId, Sim};
use crate::metad::{Answer, Located, Metad, Refused, Wish};
use crate::net::CallError;
use crate::platter::SPEC;
use crate::reads::Ask;
use crate::small::{RequestConnections, Stock};
use crate::world::World;
use namespace::{BlockRef, RetryKey};
use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;
use types::{FsPath, NodeId};
use xfer::fault::Fault;
use xfer::read::Extent;

pub(crate) use block::{Shape, manner, member};
pub(crate) use chain::Chain;
pub(crate) use writer::{PACKET_LEN, Writer};

const CALL_MAX: Duration = Duration::from_secs(60);
/// Until a call to the group is given up, if no member leads.
const FAILOVER_MAX: Duration = Duration::from_secs(20);
const FAILOVER_PAUSE: Duration = Duration::from_millis(300);
const REPEATS_MAX: u32 = 2;
const CONNECT: Duration = Duration::from_secs(10);
pub(crate) const TIMEOUT: Duration = Duration::from_secs(60);
const RENEW_EACH: Duration = Duration::from_secs(30);
const READ_ROUNDS: u32 = 3;
/// Of so many calls one whose answer is lost.
const LOST_ANSWER_EACH: usize = 8;
pub(crate) const BLOCK_LEN: usize = 16 * SPEC.chunk_len as usize;

/// Why something was not done.
#[derive(Clone, Debug)]
pub(crate) enum Error {
    Refused(Refused),
    /// Nobody answered: it may have happened.
    Unknown,
    NoNodeLeft,
    NotComplete,
    NoReplica,
}

impl Error {
    /// Nothing was changed, and it may be asked for again later.
    pub(crate) fn is_safe_mode(&self) -> bool {
        matches!(self, Self::Refused(Refused::SafeMode))
    }
}

pub(crate) type Result<T> = std::result::Result<T, Error>;

pub(crate) struct Client {
    pub(crate) world: Rc<World>,
    pub(crate) sim: Sim,
    pub(crate) host: HostId,
    pub(crate) name: String,
    number: usize,
    /// The member that answered last.
    leader: Cell<usize>,
    calls: Cell<i32>,
    /// Answers get lost on their way now and then, and the calls are repeated under their numbers.
    pub(crate) loses_answers: Cell<bool>,
    /// It never names another length than a block has.
    pub(crate) is_honest: Cell<bool>,
    pub(crate) stock: Stock,
    pub(crate) connections: RequestConnections,
}

impl Client {
    /// `life` tells one process on a host from the next.
    pub(crate) fn new(world: Rc<World>, number: usize, life: u64) -> Rc<Self> {
        let (sim, host) = (world.sim.clone(), World::client_host(number));
        let name = format!("client{number}_{life}");
        let calls = Cell::new((life << 16) as i32);
        let (leader, loses_answers, is_honest, stock) = Default::default();
        let connections = RequestConnections::of_client();
        Rc::new(Self { world, sim, host, name, number, leader, calls, loses_answers, is_honest, stock, connections })
    }

    pub(crate) async fn renew_always(self: Rc<Self>) {
        loop {
            self.sim.sleep(RENEW_EACH).await;
            let name = self.name.clone();
            let _again = self.call(move |metad, _| Box::pin(metad.renew(name.clone()))).await;
        }
    }

    /// One call, repeated under its number where that is safe.
    pub(crate) async fn call<T: 'static>(
        &self,
        call: impl Fn(Rc<Metad>, RetryKey) -> Boxed<Answer<T>> + Clone + 'static,
    ) -> Result<T> {
        self.calls.set(self.calls.get() + 1);
        let mut client = [0; 16];
        client[..8].copy_from_slice(&(self.number as u64).to_be_bytes());
        let key = RetryKey { client, call: self.calls.get() };
        let count = self.world.plan.metad_count;
        let deadline = self.sim.now() + FAILOVER_MAX;
        let (mut repeats, mut doubt) = (0, false);
        let mut loses = self.loses_answers.get() && self.sim.one_in(LOST_ANSWER_EACH);
        loop {
            let attempt = call.clone();
            let leader = self.leader.get();
            let limit = if count > 1 { CALL_MAX / 6 } else { CALL_MAX };
            let answer = self.world.call_metad(self.host, leader, limit, move |metad| attempt(metad, key)).await;
            match answer {
                Ok(_) if loses => {
                    (loses, doubt) = (false, true);
                    continue;
                }
                Ok(Ok(done)) => return Ok(done),
                Ok(Err(Refused::Standby)) => {
                    // What was proposed to a leader that fell may still come about.
                    doubt = true;
                }
                Ok(Err(refused)) => {
                    self.sim.say(|| format!("{} is refused: {refused:?}", self.name));
                    return Err(Error::Refused(refused));
                }
                Err(CallError::Connect) => {}
                Err(CallError::Broken) if count == 1 && repeats < REPEATS_MAX => (repeats, doubt) = (repeats + 1, true),
                Err(CallError::Broken | CallError::TimedOut) if count == 1 => return Err(Error::Unknown),
                Err(CallError::Broken | CallError::TimedOut) => doubt = true,
            }
            if self.sim.now() >= deadline {
                let nothing = if doubt { Error::Unknown } else { Error::Refused(Refused::Standby) };
                return Err(nothing);
            }
            self.leader.set((leader + 1) % count);
            self.sim.sleep(FAILOVER_PAUSE).await;
        }
    }

    pub(crate) async fn create(
        self: &Rc<Self>,
        path: &FsPath,
        tag: u64,
        replication: u16,
        shape: Shape,
        looks_ahead: bool,
    ) -> Result<Writer> {
        let (name, at) = (self.name.clone(), path.clone());
        let wish = Wish { overwrite: false, mode: 0o644, replication, block_len: BLOCK_LEN as u64 };
        let create = self.call(move |metad, key| Box::pin(metad.create(key, name.clone(), at.clone(), wish)));
        let status = create.await?;
        self.world.oracle.borrow_mut().created(status.id, tag);
        let mut writer = Writer::new(Rc::clone(self), path.clone(), &status, tag, None, shape);
        writer.ahead_of = looks_ahead.then_some(replication);
        Ok(writer)
    }

    pub(crate) async fn append(self: &Rc<Self>, path: &FsPath) -> Result<Option<Writer>> {
        self.world.note_recoveries(); // those of the last block, before it is open again
        let (name, at) = (self.name.clone(), path.clone());
        let (last, status) = self.call(move |metad, key| Box::pin(metad.append(key, name.clone(), at.clone()))).await?;
        let Some(tag) = self.world.oracle.borrow().tag(status.id) else { return Ok(None) };
        let previous = last.map(|view| BlockRef { block: view.block, generation: view.generation, len: view.len });
        Ok(Some(Writer::new(Rc::clone(self), path.clone(), &status, tag, previous, Shape::Chain)))
    }

    // ── reading ──

    /// All bytes of the file at `path` that can be seen. Held against the oracle.
    pub(crate) async fn read(self: &Rc<Self>, path: &FsPath) -> Result<usize> {
        let at = path.clone();
        let (id, _) = self.call(move |metad, _| Box::pin(metad.located(at.clone()))).await?;
        self.world.note_recoveries();
        // What was promised before the locations were asked for must be there; they were asked for after this line.
        let (cuts, promised) = self.world.oracle.borrow().promised(id, &self.world);
        let at = path.clone();
        let (file, located) = self.call(move |metad, _| Box::pin(metad.located(at.clone()))).await?;
        if file != id {
            return Ok(0);
        }
        let mut bytes = Vec::new();
        for located in located {
            if located.view.offset != bytes.len() as u64 {
                break; // the file was cut meanwhile, and the block before this one ends earlier now
            }
            let mut block = self.read_block(path, located).await?;
            bytes.append(&mut block);
        }
        self.world.check_read(&self.name, id, &bytes, &promised, cuts);
        Ok(bytes.len())
    }

    async fn read_block(self: &Rc<Self>, path: &FsPath, mut located: Located) -> Result<Vec<u8>> {
        for round in 0..READ_ROUNDS {
            if round > 0 {
                self.sim.sleep(Duration::from_millis(500) * round).await;
                let at = path.clone();
                let (_, all) = self.call(move |metad, _| Box::pin(metad.located(at.clone()))).await?;
                let block = located.view.block;
                // A block that was dropped was never promised; the oracle looks at what comes out.
                match all.into_iter().find(|other| other.view.block == block) {
                    Some(fresh) => located = fresh,
                    None => return Ok(Vec::new()),
                }
            }
            for node in located.nodes.clone() {
                if let Some(bytes) = self.read_replica(node, &located).await {
                    return Ok(bytes);
                }
            }
        }
        Err(Error::NoReplica)
    }

    async fn read_replica(&self, node: NodeId, Located { view, token, .. }: &Located) -> Option<Vec<u8>> {
        let number = World::node_number(node);
        let (block, generation) = (view.block, view.generation);
        let mut len = view.len;
        if !view.complete {
            let asked = self
                .world
                .call_node(self.host, number, TIMEOUT, move |node| Box::pin(node.visible_len(block, generation)));
            len = asked.await.ok()?.ok()? as u64;
        }
        let ask = Ask { block, generation, from: 0, end: len, extent: Extent::Exact };
        match self.world.read_replica(self.host, number, ask, token.clone(), (CONNECT, TIMEOUT)).await {
            Ok(bytes) => Some(bytes),
            Err(fault) => {
                self.sim.say(|| format!("{}: {block:?} on node {number}: {fault}", self.name));
                if let Fault::Corrupt { .. } = fault {
                    let _told = self.call(move |metad, _| Box::pin(metad.report_bad(block, node))).await;
                }
                None
            }
        }
    }
}
