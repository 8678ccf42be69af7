//! Small files in one request: what a datanode and a client do around the machines of `xfer::small`, which ship.

mod link;

use crate::client::{BLOCK_LEN, Client, Error, Result};
use crate::datanode::Datanode;
use crate::executor::{Either, Notify, OnceSender, oneshot, race};
use crate::metad::{LeaseAsk, LeasedBlocks, Put, Refused};
use crate::platter::{Identity, SPEC};
use crate::socket::Socket;
use crate::world::{World, content};
use bytes::Bytes;
use hdfs::proto::TokenProto;
use lead::Grant;
use link::Driven;
use security::block_token::Mode;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use std::time::Duration;
use types::{BlockId, FileId, FsPath, Generation, NodeId};
use wire::small::{SmallAnswer, SmallWrite};
use xfer::answer::Refusal;
use xfer::memory::Held;
use xfer::read::Limits;
use xfer::small::stock::{Leased, Wish, sure_until};
use xfer::small::{
    ATTEMPT_COUNT_MAX, Checked, Fanout, LATE_MAX, Node, OutgoingRequest, Request, Server, ServerLimits, Verdict, batch,
};
use xfer::writer::{Packer, Plan};

pub(crate) use link::RequestConnections;

/// All that the requests of a datanode may take: more than they ever do.
const MEMORY_LEN: u64 = 16 << 20;

type Outcome<T = ()> = std::result::Result<T, Refusal>;
/// Those that have ended with a block, by their places, and who is told.
type Ended = Rc<(RefCell<VecDeque<(usize, Outcome)>>, Notify)>;

/// What a datanode has for small writes.
pub(crate) struct Small {
    memory: Budget,
    connections: RequestConnections,
    /// Replicas that wait for the disk.
    jobs: RefCell<VecDeque<(Job, OnceSender<bool>)>>,
    committing: Cell<bool>,
}

impl Default for Small {
    fn default() -> Self {
        Self {
            memory: Budget::default(),
            connections: RequestConnections::of_targets(),
            jobs: RefCell::default(),
            committing: Cell::new(false),
        }
    }
}

struct Job {
    identity: Identity,
    data: Bytes,
    synced: bool,
}

#[derive(Clone, Debug, Default)]
struct Budget(Rc<Cell<u64>>);

#[derive(Debug)]
struct Taken {
    budget: Budget,
    len: u64,
}

/// The node, as a connection sees it.
struct Gate(Rc<Datanode>);

impl Node for Gate {
    type Held = Taken;
    type Front = Taken;

    fn admit(&self, header: &SmallWrite) -> Outcome<Checked> {
        let put = (Mode::Put, true);
        let grant = self.0.admit(BlockId(header.block), put, &header.token, &header.password)?;
        Checked::of(header, None, grant.scope())
    }

    fn take(&self, len: u64) -> Option<Taken> {
        let mut taken = Taken { budget: self.0.small.memory.clone(), len: 0 };
        taken.grow_to(len).then_some(taken)
    }

    fn take_for_front(&self, len: u64) -> Option<Taken> {
        self.take(len)
    }
}

impl Held for Taken {
    fn held_len(&self) -> u64 {
        self.len
    }

    fn grow_to(&mut self, len: u64) -> bool {
        let sum = self.budget.0.get() + len.saturating_sub(self.len);
        if sum > MEMORY_LEN {
            return false;
        }
        self.budget.0.set(sum);
        self.len = self.len.max(len);
        true
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        self.budget.0.set(self.budget.0.get() - self.len);
    }
}

impl Datanode {
    /// Serves one connection.
    pub(super) fn serve_small(self: Rc<Self>, socket: Socket) {
        let gate = Gate(Rc::clone(&self));
        let driven = Driven::new(&self.sim, |now| Server::new(now, gate, ServerLimits::new(Limits::READER.word), &[]));
        let (sim, host) = (self.sim.clone(), World::node_host(self.number));
        sim.clone().spawn(host, async move {
            let begin = |request: Request<Taken>| {
                let (node, driven) = (Rc::clone(&self), Rc::clone(&driven));
                sim.spawn(host, async move {
                    let answer = node.write_small(&request).await;
                    driven.with(|server, now| server.answer(now, &answer));
                });
            };
            driven.run(&socket, begin).await;
        });
    }

    async fn write_small(self: Rc<Self>, request: &Request<Taken>) -> SmallAnswer {
        let header = &request.frame.header;
        if let Err(refusal) = request.verify() {
            return Fanout::refused(header.number, refusal);
        }
        let Checked { scope, targets } = request.checked.clone();
        let (block, generation) = (BlockId(header.block), Generation(header.generation));
        let identity = Identity { block, generation, file: Some(scope.file), home: Some(scope.home) };
        let job = Job { identity, data: request.bytes.slice(request.frame.data.clone()), synced: header.synced };
        let ended = Ended::default();
        let host = World::node_host(self.number);
        let end = |place: usize, ended: &Ended, outcome: Outcome| {
            ended.0.borrow_mut().push_back((place, outcome));
            ended.1.notify();
        };
        // They go on though nobody waits for them any more.
        let (node, own) = (Rc::clone(&self), Rc::clone(&ended));
        self.sim.spawn(host, async move { end(0, &own, node.put_small(job).await) });
        for (place, target) in (1..).zip(targets) {
            let number = World::node_number(World::node_of_addr(&target.to_string()));
            let outgoing = OutgoingRequest { header: Fanout::onward(header), body: request.body() };
            let (node, ended) = (Rc::clone(&self), Rc::clone(&ended));
            self.sim.spawn(host, async move {
                let answer = node.small.connections.call(&node.world, (host, number), outgoing).await;
                let outcome = answer.map_err(Refusal::from).and_then(|answer| Fanout::outcome(&answer));
                end(place, &ended, outcome);
            });
        }
        let mut fanout = Fanout::new(header, LATE_MAX);
        loop {
            while let Some((place, outcome)) = { ended.0.borrow_mut().pop_front() } {
                fanout.on_put(self.sim.now(), place, outcome);
            }
            if let Some(answer) = fanout.answer() {
                return answer;
            }
            match fanout.poll_timeout() {
                None => ended.1.notified().await,
                Some(due) => {
                    if let Either::Second(()) = race(ended.1.notified(), self.sim.sleep_until(due)).await {
                        fanout.handle_timeout(self.sim.now());
                    }
                }
            }
        }
    }

    /// Puts a replica beside those that wait for the disk, too.
    async fn put_small(self: &Rc<Self>, job: Job) -> Outcome {
        let (sender, receiver) = oneshot();
        self.small.jobs.borrow_mut().push_back((job, sender));
        if !self.small.committing.replace(true) {
            let node = Rc::clone(self);
            self.sim.spawn(World::node_host(self.number), async move { node.commit_small().await });
        }
        if receiver.await == Some(true) { Ok(()) } else { Err(Refusal::error("the disk does not take it")) }
    }

    async fn commit_small(self: Rc<Self>) {
        loop {
            let jobs: Vec<(Job, OnceSender<bool>)> = {
                let mut jobs = self.small.jobs.borrow_mut();
                let count = batch::count(jobs.iter().map(|(job, _)| job.data.len()));
                jobs.drain(..count).collect()
            };
            if jobs.is_empty() {
                return self.small.committing.set(false);
            }
            let synced = batch::is_synced(jobs.iter().map(|(job, _)| job.synced));
            for (Job { identity, data, .. }, done) in jobs {
                let put = self.volume.put_small(identity, &data, synced).await.is_ok();
                if put {
                    self.was_put(identity.block);
                }
                done.send(put);
            }
        }
    }
}

/// Blocks on lease that are not used yet.
pub(crate) type Stock = RefCell<xfer::small::Stock<Lease>>;

#[derive(Clone, Debug)]
pub(crate) struct Lease {
    pub(crate) grant: Grant,
    pub(crate) token: TokenProto,
    pub(crate) generation: Generation,
    pub(crate) nodes: Vec<NodeId>,
    /// It is sure until then.
    pub(crate) until: Duration,
}

impl Leased for Lease {
    type Node = NodeId;

    fn block(&self) -> u64 {
        self.grant.block.0
    }

    fn until(&self) -> Duration {
        self.until
    }

    fn is_on(&self, node: &NodeId) -> bool {
        self.nodes.contains(node)
    }
}

impl Client {
    pub(crate) fn give_back(&self, lease: &Lease) {
        self.stock.borrow_mut().give_back(lease.grant.block.0);
    }

    /// This node failed: for a while it is to get no more blocks of ours.
    pub(crate) fn exclude(&self, node: NodeId) {
        self.stock.borrow_mut().exclude(self.sim.now(), node);
    }

    async fn lease(self: &Rc<Self>, replication: u16) -> Result<Lease> {
        let (lease, refill) = self.stock.borrow_mut().pop(self.sim.now(), replication);
        if refill {
            let client = Rc::clone(self);
            self.sim.spawn(self.host, async move {
                let _they_go_on_without = client.fill(replication).await;
                client.stock.borrow_mut().refilled(replication);
            });
        }
        if let Some(lease) = lease {
            return Ok(lease);
        }
        self.fill(replication).await?;
        let (lease, _) = self.stock.borrow_mut().pop(self.sim.now(), replication);
        lease.ok_or(Error::NoNodeLeft)
    }

    async fn fill(self: &Rc<Self>, replication: u16) -> Result<()> {
        let asked = self.sim.now();
        let wish = self.stock.borrow_mut().wish(asked, replication);
        let leases = self.ask_for_leases(replication, wish, None).await?;
        self.stock.borrow_mut().fill(replication, asked, leases);
        Ok(())
    }

    /// The next block of an open file.
    pub(crate) async fn lease_next(self: &Rc<Self>, file: FileId, replication: u16) -> Result<Lease> {
        let wish = {
            let mut stock = self.stock.borrow_mut();
            Wish { count: 1, excluded: stock.excluded(self.sim.now()), returned: stock.take_returned() }
        };
        self.ask_for_leases(replication, wish, Some(file)).await?.pop().ok_or(Error::NoNodeLeft)
    }

    async fn ask_for_leases(&self, replication: u16, wish: Wish<NodeId>, open: Option<FileId>) -> Result<Vec<Lease>> {
        let now = self.sim.now();
        let Wish { count, excluded, returned } = wish;
        let returned = returned.into_iter().map(BlockId).collect();
        let asked = LeaseAsk { holder: self.name.clone(), replication, count, excluded, returned, open };
        let answer = self.call(move |metad, _| Box::pin(metad.lease_blocks(asked.clone()))).await?;
        let LeasedBlocks { grants, tokens, generation, nodes, limit } = answer;
        let until = sure_until(now, limit);
        let lease = |(grant, token)| Lease { grant, token, generation, nodes: nodes.clone(), until };
        Ok(grants.into_iter().zip(tokens).map(lease).collect())
    }

    /// Puts a whole small file. Its id.
    pub(crate) async fn put_small(
        self: &Rc<Self>,
        path: &FsPath,
        tag: u64,
        len: usize,
        replication: u16,
        synced: bool,
    ) -> Result<FileId> {
        for _ in 0..ATTEMPT_COUNT_MAX {
            let lease = self.lease(replication).await?;
            let Some((have, falls)) = self.write_small(&lease, tag, len, synced).await else {
                self.give_back(&lease);
                continue;
            };
            let Lease { grant, token, generation, nodes, .. } = lease;
            let put = Put {
                path: path.clone(),
                holder: self.name.clone(),
                replication,
                block_len: BLOCK_LEN as u64,
                grant,
                token,
                generation,
                len: len as u64,
                short: have.len() < nodes.len(),
            };
            self.sim.say(|| format!("{} puts {path} with {:?} on {have:?}", self.name, grant));
            let done = self.call(move |metad, key| Box::pin(metad.put_file(key, put.clone()))).await;
            match done {
                Err(Error::Refused(Refused::LeaseExpired)) => {
                    self.stock.borrow_mut().forget_all();
                    continue;
                }
                Err(error) => return Err(error),
                Ok(file) => {
                    let holders: Vec<(NodeId, u64)> = have.iter().copied().zip(falls).collect();
                    let durable = synced || self.world.plan.synced;
                    self.world.oracle.borrow_mut().created(file, tag);
                    self.world.oracle.borrow_mut().sent(file, len);
                    self.world.promise(file, grant.block, 0..len, &holders, durable);
                    self.world.oracle.borrow_mut().closed(file, len);
                    return Ok(file);
                }
            }
        }
        Err(Error::NoNodeLeft)
    }

    /// Who has put the block, if those are enough, and how often each had lost power before.
    async fn write_small(&self, lease: &Lease, tag: u64, len: usize, synced: bool) -> Option<(Vec<NodeId>, Vec<u64>)> {
        let (first, others) = lease.nodes.split_first()?;
        let falls: BTreeMap<NodeId, u64> =
            lease.nodes.iter().map(|node| (*node, self.world.falls(World::node_number(*node)))).collect();
        let mut packer = Packer::new(Plan::new(SPEC, BLOCK_LEN as u32, BLOCK_LEN as u64));
        packer.space()[..len].iter_mut().zip(0..).for_each(|(byte, at)| *byte = content(tag, at));
        packer.filled(len);
        let whole = packer.take_whole();
        let header = SmallWrite {
            number: 0,
            block: lease.grant.block.0,
            generation: lease.generation.0,
            data_len: whole.data_len,
            checksum_kind: SPEC.kind as u32,
            chunk_len: SPEC.chunk_len,
            pool: String::new(),
            token: lease.token.identifier.clone(),
            password: lease.token.password.clone(),
            targets: others.iter().map(|node| format!("10.0.0.{}:9866", World::node_number(*node))).collect(),
            synced,
        };
        let outgoing = OutgoingRequest { header, body: whole.body };
        let to = (self.host, World::node_number(*first));
        let answer = self.connections.call(&self.world, to, outgoing).await;
        let verdict = Verdict::new(answer.as_ref().ok(), lease.nodes.len());
        if verdict.needs_token {
            self.stock.borrow_mut().forget_all();
        }
        for place in verdict.blamed {
            self.exclude(lease.nodes[place]);
        }
        let have: Vec<NodeId> = verdict.have.iter().map(|place| lease.nodes[*place]).collect();
        let falls = have.iter().map(|node| falls[node]).collect();
        verdict.enough.then_some((have, falls))
    }
}
