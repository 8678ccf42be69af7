//! Small files in one request: the first node puts the block and has all others put it; as `datad`'s and the client's
//! halves.

use crate::client::{BLOCK_LEN, Client, Error, Result};
use crate::datanode::Datanode;
use crate::executor::{Boxed, HostId};
use crate::metad::{LeaseAsk, LeasedBlocks, Put, Refused};
use crate::platter::Identity;
use crate::world::{World, content};
use lead::Grant;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use std::time::Duration;
use types::{BlockId, FileId, FsPath, Generation, NodeId};

// As in `datad` and `client`.
const LATE_MAX: Duration = Duration::from_millis(300);
const ANSWER_MAX: Duration = Duration::from_secs(30);
const ATTEMPTS: usize = 3;
const LEASE_COUNT: u32 = 4;
const LEASE_LIMIT: Duration = Duration::from_secs(60);
const EXCLUDED_FOR: Duration = Duration::from_secs(30);

/// What comes with a request.
#[derive(Clone, Debug)]
pub(crate) struct SmallWrite {
    block: BlockId,
    generation: Generation,
    file: types::FileId,
    bytes: Rc<Vec<u8>>,
    /// For the first node: the others.
    targets: Vec<NodeId>,
    synced: bool,
}

impl Datanode {
    /// Who has put it, and whether those are enough.
    pub(crate) async fn write_small(self: Rc<Self>, write: SmallWrite) -> (Vec<NodeId>, bool) {
        let host = World::node_host(self.number);
        let count = 1 + write.targets.len();
        let have: Rc<RefCell<Vec<NodeId>>> = Rc::default();
        let missing = Rc::new(Cell::new(count));
        let mut puts: Vec<Boxed<bool>> = vec![Box::pin(Rc::clone(&self).put_small(write.clone()))];
        for target in &write.targets {
            let (world, target, write) = (Rc::clone(&self.world), *target, write.clone());
            puts.push(Box::pin(async move {
                let write = SmallWrite { targets: Vec::new(), ..write };
                let number = World::node_number(target);
                let put = world.call_node(host, number, ANSWER_MAX, |node| Box::pin(node.put_small(write)));
                put.await.unwrap_or(false)
            }));
        }
        let nodes = [self.id].into_iter().chain(write.targets.iter().copied());
        // They go on though nobody waits for them any more.
        for (node, put) in nodes.zip(puts) {
            let (have, missing) = (Rc::clone(&have), Rc::clone(&missing));
            self.sim.spawn(host, async move {
                if put.await {
                    have.borrow_mut().push(node);
                }
                missing.set(missing.get() - 1);
            });
        }
        let mut late = None;
        while missing.get() > 0 && late.is_none_or(|late| self.sim.now() < late) {
            if have.borrow().len() >= wire::small::majority(count) && late.is_none() {
                late = Some(self.sim.now() + LATE_MAX);
            }
            self.sim.sleep(Duration::from_millis(1)).await;
        }
        let have = have.borrow().clone();
        let enough = have.len() >= wire::small::majority(count);
        (have, enough)
    }

    async fn put_small(self: Rc<Self>, write: SmallWrite) -> bool {
        let SmallWrite { block, generation, file, bytes, synced, .. } = write;
        let identity = Identity { block, generation, file: Some(file), home: Some(block.born_in()) };
        let put = self.volume.put_small(identity, &bytes, synced).await;
        if put.is_ok() {
            self.was_put(block);
        }
        put.is_ok()
    }
}

/// Blocks on lease that are not used yet.
#[derive(Default)]
pub(crate) struct Stock {
    shelves: RefCell<BTreeMap<u16, VecDeque<Lease>>>,
    excluded: RefCell<BTreeMap<NodeId, Duration>>,
    returned: RefCell<Vec<BlockId>>,
}

#[derive(Clone, Debug)]
pub(crate) struct Lease {
    pub(crate) grant: Grant,
    pub(crate) generation: Generation,
    pub(crate) nodes: Vec<NodeId>,
    /// It is sure until then.
    pub(crate) until: Duration,
}

impl Stock {
    fn pop(&self, replication: u16, now: Duration) -> Option<Lease> {
        let mut shelves = self.shelves.borrow_mut();
        let shelf = shelves.entry(replication).or_default();
        while let Some(lease) = shelf.pop_front() {
            if lease.until > now {
                return Some(lease);
            }
            self.returned.borrow_mut().push(lease.grant.block);
        }
        None
    }

    pub(crate) fn give_back(&self, lease: &Lease) {
        self.returned.borrow_mut().push(lease.grant.block);
    }

    pub(crate) fn exclude(&self, node: NodeId, now: Duration) {
        self.excluded.borrow_mut().insert(node, now + EXCLUDED_FOR);
        for shelf in self.shelves.borrow_mut().values_mut() {
            shelf.retain(|lease| {
                let well = !lease.nodes.contains(&node);
                if !well {
                    self.returned.borrow_mut().push(lease.grant.block);
                }
                well
            });
        }
    }
}

impl Client {
    async fn lease(self: &Rc<Self>, replication: u16) -> Result<Lease> {
        let now = self.sim.now();
        if let Some(lease) = self.stock.pop(replication, now) {
            return Ok(lease);
        }
        let leases = self.ask_for_leases(replication, LEASE_COUNT, None).await?;
        self.stock.shelves.borrow_mut().entry(replication).or_default().extend(leases);
        self.stock.pop(replication, self.sim.now()).ok_or(Error::NoNodeLeft)
    }

    /// The next block of an open file.
    pub(crate) async fn lease_next(self: &Rc<Self>, file: FileId, replication: u16) -> Result<Lease> {
        self.ask_for_leases(replication, 1, Some(file)).await?.pop().ok_or(Error::NoNodeLeft)
    }

    async fn ask_for_leases(&self, replication: u16, count: u32, open: Option<FileId>) -> Result<Vec<Lease>> {
        let now = self.sim.now();
        self.stock.excluded.borrow_mut().retain(|_, until| *until > now);
        let excluded: Vec<NodeId> = self.stock.excluded.borrow().keys().copied().collect();
        let (holder, returned) = (self.name.clone(), self.stock.returned.take());
        let asked = LeaseAsk { holder, replication, count, excluded, returned, open };
        let answer = self.call(move |metad, _| Box::pin(metad.lease_blocks(asked.clone()))).await?;
        let LeasedBlocks { grants, generation, nodes, .. } = answer;
        let until = now + LEASE_LIMIT / 4 * 3;
        Ok(grants.into_iter().map(|grant| Lease { grant, generation, nodes: nodes.clone(), until }).collect())
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
        for _ in 0..ATTEMPTS {
            let lease = self.lease(replication).await?;
            let Some((have, falls)) = self.write_small(&lease, tag, len, synced).await else {
                self.stock.returned.borrow_mut().push(lease.grant.block);
                continue;
            };
            let Lease { grant, generation, nodes, .. } = lease;
            let put = Put {
                path: path.clone(),
                holder: self.name.clone(),
                replication,
                block_len: BLOCK_LEN as u64,
                grant,
                generation,
                len: len as u64,
                short: have.len() < nodes.len(),
            };
            self.sim.say(|| format!("{} puts {path} with {:?} on {have:?}", self.name, grant));
            let done = self.call(move |metad, key| Box::pin(metad.put_file(key, put.clone()))).await;
            match done {
                Err(Error::Refused(Refused::LeaseExpired)) => {
                    self.stock.shelves.borrow_mut().clear();
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
        let write = SmallWrite {
            block: lease.grant.block,
            generation: lease.generation,
            file: lease.grant.file,
            bytes: Rc::new((0..len).map(|at| content(tag, at)).collect()),
            targets: others.to_vec(),
            synced,
        };
        let (from, number): (HostId, usize) = (self.host, World::node_number(*first));
        let answer = self.world.call_node(from, number, ANSWER_MAX, |node| Box::pin(node.write_small(write))).await;
        let now = self.sim.now();
        let Ok((have, enough)) = answer else {
            self.stock.exclude(*first, now);
            return None;
        };
        let reached = if have.is_empty() { 1 } else { lease.nodes.len() };
        for node in lease.nodes.iter().take(reached).filter(|node| !have.contains(node)) {
            self.stock.exclude(*node, now);
        }
        let falls = have.iter().map(|node| falls[node]).collect();
        enough.then_some((have, falls))
    }
}
