//! A client: calls to whichever metadata server leads, writing over chains with recovery, reading with one replica after another.
//!
//! As the crate `client` does it; what was promised to its program is told to the oracle.

use crate::executor::{Boxed, Either, HostId, Sim, race};
use crate::metad::{Answer, Located, Metad, Refused};
use crate::net::CallError;
use crate::platter::SPEC;
use crate::stream::{Ack, Ends, PacketMessage, Stage, WriteOp};
use crate::world::{World, content};
use chain::{HEARTBEAT, Packet, Reply};
use namespace::{BlockRef, BlockView, RetryKey};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::ops::Range;
use std::rc::Rc;
use std::time::Duration;
use types::{BlockId, FileId, FsPath, NodeId};

const CALL_MAX: Duration = Duration::from_secs(60);
/// Until a call to the group is given up, if no member leads.
const FAILOVER_MAX: Duration = Duration::from_secs(20);
const FAILOVER_PAUSE: Duration = Duration::from_millis(300);
const REPEATS_MAX: u32 = 2;
const CONNECT: Duration = Duration::from_secs(10);
const TIMEOUT: Duration = Duration::from_secs(60);
/// Nodes of ours that owe an answer and say nothing for so long are given up, if there are others.
const STALLED: Duration = Duration::from_secs(2);
const TIMEOUT_PER_NODE: Duration = Duration::from_secs(5);
const RENEW_EACH: Duration = Duration::from_secs(30);
const PAUSE_FIRST: Duration = Duration::from_millis(25);
const PAUSE_COUNT: u32 = 10;
const BLOCK_RETRIES: u32 = 3;
const RECOVERIES_MAX: u32 = 5;
const READ_ROUNDS: u32 = 3;
const IN_FLIGHT_MAX: usize = 6;
const PACKET_LEN: usize = 4 * SPEC.chunk_len as usize;
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
}

impl Client {
    /// `life` tells one process on a host from the next.
    pub(crate) fn new(world: Rc<World>, number: usize, life: u64) -> Rc<Self> {
        let (sim, host) = (world.sim.clone(), World::client_host(number));
        let name = format!("client{number}_{life}");
        let calls = Cell::new((life << 16) as i32);
        Rc::new(Self { world, sim, host, name, number, leader: Cell::default(), calls })
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
        loop {
            let attempt = call.clone();
            let leader = self.leader.get();
            let limit = if count > 1 { CALL_MAX / 6 } else { CALL_MAX };
            let answer = self.world.call_metad(self.host, leader, limit, move |metad| attempt(metad, key)).await;
            match answer {
                Ok(Ok(done)) => return Ok(done),
                Ok(Err(Refused::Standby)) => {
                    // What was proposed to a leader that fell may still come about.
                    doubt = true;
                }
                Ok(Err(refused)) => {
                    self.sim.say(|| match &refused {
                        Refused::Namespace(why) => format!("{} is refused: {why}", self.name),
                        refused => format!("{} is refused: {refused:?}", self.name),
                    });
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

    pub(crate) async fn create(self: &Rc<Self>, path: &FsPath, tag: u64) -> Result<Writer> {
        let (name, at) = (self.name.clone(), path.clone());
        let status = self
            .call(move |metad, key| {
                Box::pin(metad.create(key, name.clone(), at.clone(), false, 0o644, BLOCK_LEN as u64))
            })
            .await?;
        self.world.oracle.borrow_mut().created(status.id, tag);
        Ok(Writer::new(Rc::clone(self), path.clone(), status.id, tag, 0, None))
    }

    pub(crate) async fn append(self: &Rc<Self>, path: &FsPath) -> Result<Option<Writer>> {
        let (name, at) = (self.name.clone(), path.clone());
        let (last, status) = self.call(move |metad, key| Box::pin(metad.append(key, name.clone(), at.clone()))).await?;
        let Some(tag) = self.world.oracle.borrow().tag(status.id) else { return Ok(None) };
        let previous = last.map(|view| BlockRef { block: view.block, generation: view.generation, len: view.len });
        Ok(Some(Writer::new(Rc::clone(self), path.clone(), status.id, tag, status.len as usize, previous)))
    }

    // ── reading ──

    /// All bytes of the file at `path` that can be seen. Held against the oracle.
    pub(crate) async fn read(self: &Rc<Self>, path: &FsPath) -> Result<usize> {
        let at = path.clone();
        let (file, _) = self.call(move |metad, _| Box::pin(metad.located(at.clone()))).await?;
        let id = file.status.id;
        // What was promised before the locations were asked for must be there; they were asked for after this line.
        let promised = self.world.oracle.borrow().promised(id, &self.world);
        let at = path.clone();
        let (file, located) = self.call(move |metad, _| Box::pin(metad.located(at.clone()))).await?;
        if file.status.id != id {
            return Ok(0);
        }
        let mut bytes = Vec::new();
        for located in located {
            let mut block = self.read_block(path, located).await?;
            bytes.append(&mut block);
        }
        self.world.check_read(&self.name, id, &bytes, &promised);
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
                if let Some(bytes) = self.read_replica(node, &located.view).await {
                    return Ok(bytes);
                }
            }
        }
        Err(Error::NoReplica)
    }

    async fn read_replica(&self, node: NodeId, view: &BlockView) -> Option<Vec<u8>> {
        let number = World::node_number(node);
        self.world.connect(self.host, number, CONNECT).await.ok()?;
        let (block, generation) = (view.block, view.generation);
        let mut end = view.len as usize;
        if !view.complete {
            let asked = self
                .world
                .call_node(self.host, number, TIMEOUT, move |node| Box::pin(node.visible_len(block, generation)));
            end = asked.await.ok()?.ok()?;
        }
        let read =
            self.world.call_node(self.host, number, TIMEOUT, move |node| Box::pin(node.read(block, generation, end)));
        let (bytes, sound) = read.await.ok()?.ok()?;
        if !sound {
            self.sim.say(|| format!("{}: replica of {block:?} on node {number} does not verify", self.name));
        }
        sound.then_some(bytes)
    }
}

/// A connection to the head of a chain, and what is under way on it.
struct Chain {
    ends: Ends,
    window: VecDeque<Sent>,
    acked: usize,
    broken: Option<usize>,
    heard: Duration,
    moved: Duration,
    silence_max: Duration,
    standstill_max: Duration,
}

#[derive(Clone)]
struct Sent {
    packet: Packet,
    data: Rc<Vec<u8>>,
    end: usize,
}

/// One block being written.
struct Block {
    view: BlockView,
    nodes: Vec<NodeId>,
    /// The nodes of the present chain, and how often each had lost power when it was set up.
    holders: RefCell<Vec<(NodeId, u64)>>,
    chain: Option<Chain>,
    next_seqno: i64,
    sent: usize,
    stuck: (i64, u32),
}

/// A file open for writing.
pub(crate) struct Writer {
    client: Rc<Client>,
    path: FsPath,
    pub(crate) file: FileId,
    tag: u64,
    block_offset: usize,
    position: usize,
    block: Option<Block>,
    previous: Option<BlockRef>,
    excluded: Vec<NodeId>,
    /// All nodes have put the block before; nobody said yet that it is still this writer's.
    unconfirmed: Option<Unconfirmed>,
}

/// What is promised once a metadata server has taken the block's length.
struct Unconfirmed {
    block: BlockId,
    range: Range<usize>,
    holders: Vec<(NodeId, u64)>,
}

impl Writer {
    fn new(client: Rc<Client>, path: FsPath, file: FileId, tag: u64, len: usize, previous: Option<BlockRef>) -> Self {
        let (block, excluded) = (None, Vec::new());
        Self { client, path, file, tag, block_offset: len, position: 0, block, previous, excluded, unconfirmed: None }
    }

    pub(crate) fn len(&self) -> usize {
        self.block_offset + self.position
    }

    pub(crate) async fn write(&mut self, mut len: usize) -> Result<()> {
        while len > 0 {
            // A packet that begins inside of a chunk ends with it.
            let chunk = SPEC.chunk_len as usize;
            let into = self.position % chunk;
            let room = if into > 0 { chunk - into } else { PACKET_LEN.min(BLOCK_LEN - self.position) };
            let take = room.min(len);
            self.send(take, false).await?;
            len -= take;
            if self.position == BLOCK_LEN {
                self.finish_block().await?;
            }
        }
        Ok(())
    }

    async fn send(&mut self, len: usize, sync: bool) -> Result<()> {
        if self.block.is_none() {
            let block = self.add_block().await?;
            self.block = Some(block);
        }
        let start = self.block_offset + self.position;
        let data: Vec<u8> = (start..start + len).map(|at| content(self.tag, at)).collect();
        let Some(block) = &mut self.block else { return Err(Error::NoNodeLeft) };
        let packet = Packet {
            seqno: block.next_seqno,
            offset: self.position as i64,
            data_len: len as u32,
            sums_len: SPEC.sums_len(len as u64) as u32,
            last: false,
            sync,
        };
        block.next_seqno += 1;
        self.position += len;
        let sent = Sent { packet, data: Rc::new(data), end: self.position };
        self.client.world.oracle.borrow_mut().sent(self.file, start + len);
        block.sent = block.sent.max(self.position);
        block.send(&self.client, sent).await
    }

    /// When this returns, new readers see all bytes so far.
    pub(crate) async fn flush(&mut self, sync: bool) -> Result<()> {
        if sync && self.block.is_some() {
            self.send(0, true).await?;
        }
        let Some(block) = &mut self.block else { return Ok(()) };
        block.drain(&self.client).await?;
        let (client, path, file) = (self.client.name.clone(), self.path.clone(), self.file);
        self.client.call(move |metad, _| Box::pin(metad.fsync(client.clone(), path.clone(), file))).await?;
        let Some(block) = &self.block else { return Ok(()) };
        let range = self.block_offset..self.len();
        self.client.world.promise(self.file, block.view.block, range, &block.holders.borrow(), sync);
        Ok(())
    }

    async fn finish_block(&mut self) -> Result<()> {
        let Some(mut block) = self.block.take() else { return Ok(()) };
        block.drain(&self.client).await?;
        let packet = Packet { seqno: block.next_seqno, offset: self.position as i64, last: true, ..Packet::default() };
        block.next_seqno += 1;
        block.send(&self.client, Sent { packet, data: Rc::default(), end: self.position }).await?;
        block.drain(&self.client).await?;
        let len = self.position;
        let range = self.block_offset..self.block_offset + len;
        let (view, holders) = (block.view, block.holders.take());
        // If its lease was taken meanwhile, the nodes may have made the replicas after the recovery had asked for them.
        self.unconfirmed = Some(Unconfirmed { block: view.block, range, holders });
        self.previous = Some(BlockRef { block: view.block, generation: view.generation, len: len as u64 });
        self.block_offset += len;
        self.position = 0;
        Ok(())
    }

    fn confirm(&mut self) {
        let synced = self.client.world.plan.synced;
        if let Some(Unconfirmed { block, range, holders }) = self.unconfirmed.take() {
            self.client.world.promise(self.file, block, range, &holders, synced);
        }
    }

    pub(crate) async fn close(mut self) -> Result<usize> {
        if self.block.is_some() {
            self.finish_block().await?;
        }
        let mut pause = PAUSE_FIRST;
        for _ in 0..PAUSE_COUNT {
            let (client, path, file, last) = (self.client.name.clone(), self.path.clone(), self.file, self.previous);
            let call =
                self.client.call(move |metad, _| Box::pin(metad.complete(client.clone(), path.clone(), file, last)));
            if call.await? {
                self.confirm();
                self.client.world.oracle.borrow_mut().closed(self.file, self.block_offset);
                return Ok(self.block_offset);
            }
            self.client.sim.sleep(pause).await;
            pause *= 2;
        }
        Err(Error::NotComplete)
    }

    async fn add_block(&mut self) -> Result<Block> {
        for _ in 0..=BLOCK_RETRIES {
            let (client, path, file) = (self.client.name.clone(), self.path.clone(), self.file);
            let (previous, excluded) = (self.previous, self.excluded.clone());
            let located = self
                .client
                .call(move |metad, _| {
                    Box::pin(metad.add_block(client.clone(), path.clone(), file, previous, excluded.clone()))
                })
                .await?;
            self.confirm();
            let mut block = Block {
                view: located.view,
                nodes: located.nodes,
                holders: RefCell::default(),
                chain: None,
                next_seqno: 0,
                sent: 0,
                stuck: (-1, 0),
            };
            match block.set_up(&self.client, Stage::Create, located.view.generation, 0).await {
                Ok(chain) => {
                    block.chain = chain;
                    return Ok(block);
                }
                Err(bad) => self.excluded.push(block.nodes[bad]),
            }
            let (client, path, id) = (self.client.name.clone(), self.path.clone(), located.view.block);
            self.client.call(move |metad, _| Box::pin(metad.abandon(client.clone(), path.clone(), file, id))).await?;
        }
        Err(Error::NoNodeLeft)
    }
}

impl Block {
    /// `Err` names the node to blame.
    async fn set_up(
        &self,
        client: &Rc<Client>,
        stage: Stage,
        latest: types::Generation,
        acked: usize,
    ) -> std::result::Result<Option<Chain>, usize> {
        let Some((head, targets)) = self.nodes.split_first() else { return Err(0) };
        let op = WriteOp {
            block: self.view.block,
            generation: self.view.generation,
            file: self.view.file,
            home: self.view.home,
            targets: targets.to_vec(),
            stage,
            latest,
            min: acked,
            max: self.sent,
        };
        let falls = |node: &NodeId| (*node, client.world.falls(World::node_number(*node)));
        *self.holders.borrow_mut() = self.nodes.iter().map(falls).collect();
        let (host, number) = (client.host, World::node_number(*head));
        let spare = stage == Stage::Create || self.nodes.len() > 1;
        let connect = if spare { STALLED } else { CONNECT };
        client.world.connect(host, number, connect).await.map_err(|_| 0usize)?;
        let standstill_max = TIMEOUT + TIMEOUT_PER_NODE * self.nodes.len() as u32;
        let silence_max = if spare { STALLED } else { standstill_max };
        let opened =
            client.world.call_node(host, number, standstill_max, move |node| Box::pin(node.set_up(host, op))).await;
        match opened {
            Err(_) => Err(0),
            Ok(Err(refusal)) => {
                Err(refusal.bad.and_then(|bad| self.nodes.iter().position(|node| *node == bad)).unwrap_or(0))
            }
            Ok(Ok(ends)) => Ok(ends.map(|ends| Chain {
                ends,
                window: VecDeque::new(),
                acked,
                broken: None,
                heard: client.sim.now(),
                moved: client.sim.now(),
                silence_max,
                standstill_max,
            })),
        }
    }

    async fn send(&mut self, client: &Rc<Client>, sent: Sent) -> Result<()> {
        let Some(chain) = &mut self.chain else { return Err(Error::NoNodeLeft) };
        let free = chain.until(client, |chain| chain.window.len() < IN_FLIGHT_MAX).await;
        chain.owe(client);
        chain.window.push_back(sent.clone());
        if free.is_err() || !chain.put(client, &sent) {
            self.recover(client).await?;
        }
        Ok(())
    }

    async fn drain(&mut self, client: &Rc<Client>) -> Result<()> {
        while let Some(chain) = &mut self.chain {
            match chain.until(client, |chain| chain.window.is_empty()).await {
                Ok(()) => return Ok(()),
                Err(()) => self.recover(client).await?,
            }
        }
        Ok(()) // a recovered close: the block is finished
    }

    async fn recover(&mut self, client: &Rc<Client>) -> Result<()> {
        let Some(chain) = self.chain.take() else { return Err(Error::NoNodeLeft) };
        let Chain { ends, window, acked, broken, .. } = chain;
        drop(ends);
        let first = window.front().map_or(-1, |sent| sent.packet.seqno);
        self.stuck = if self.stuck.0 == first { (first, self.stuck.1 + 1) } else { (first, 1) };
        if self.stuck.1 > RECOVERIES_MAX {
            return Err(Error::NoNodeLeft);
        }
        let mut broken = Some(broken.unwrap_or(0));
        loop {
            if let Some(bad) = broken.take() {
                let bad = self.nodes.remove(bad.min(self.nodes.len() - 1));
                client.sim.say(|| {
                    let number = World::node_number(bad);
                    format!("{} drops node {number} from the chain of {:?}", client.name, self.view.block)
                });
            }
            if self.nodes.is_empty() {
                return Err(Error::NoNodeLeft);
            }
            match self.rejoin(client, &window, acked).await? {
                Ok(chain) => {
                    self.chain = chain;
                    break;
                }
                Err(bad) => broken = Some(bad),
            }
        }
        if let Some(chain) = &mut self.chain {
            for sent in window {
                chain.window.push_back(sent.clone());
                chain.put(client, &sent);
            }
        }
        Ok(())
    }

    async fn rejoin(
        &mut self,
        client: &Rc<Client>,
        window: &VecDeque<Sent>,
        acked: usize,
    ) -> Result<std::result::Result<Option<Chain>, usize>> {
        let (name, block) = (client.name.clone(), self.view.block);
        let (generation, view) = client.call(move |metad, _| Box::pin(metad.bump(name.clone(), block))).await?;
        self.view.home = view.home;
        let only_end_missing = window.len() == 1 && window.iter().all(|sent| sent.packet.last);
        let stage = if only_end_missing { Stage::CloseRecovery } else { Stage::StreamingRecovery };
        let chain = match self.set_up(client, stage, generation, acked).await {
            Ok(chain) => chain,
            Err(bad) => return Ok(Err(bad)),
        };
        let old = BlockRef { block, generation: self.view.generation, len: acked as u64 };
        let new = BlockRef { block, generation, len: acked as u64 };
        client.world.oracle.borrow_mut().go_on_with(self.view.file, block, &self.nodes);
        let (name, nodes) = (client.name.clone(), self.nodes.clone());
        client
            .call(move |metad, key| Box::pin(metad.update_pipeline(key, name.clone(), old, new, nodes.clone())))
            .await?;
        self.view.generation = generation;
        Ok(Ok(chain))
    }
}

impl Chain {
    /// From the first packet on the nodes owe an answer.
    fn owe(&mut self, client: &Client) {
        if self.window.is_empty() {
            (self.heard, self.moved) = (client.sim.now(), client.sim.now());
        }
    }

    fn put(&self, client: &Client, sent: &Sent) -> bool {
        let message = PacketMessage { packet: sent.packet, data: Rc::clone(&sent.data), sum: SPEC.kind.of(&sent.data) };
        self.ends.packets.send(client.world.carry(message))
    }

    /// `Err` once the chain is broken.
    async fn until(&mut self, client: &Client, done: impl Fn(&Self) -> bool) -> std::result::Result<(), ()> {
        let sim = &client.sim;
        loop {
            if self.broken.is_some() {
                return Err(());
            }
            if done(self) {
                return Ok(());
            }
            let lost_at = (self.heard + self.silence_max).min(self.moved + self.standstill_max);
            let lost_at = if self.window.is_empty() { Duration::MAX } else { lost_at };
            let beat_at = sim.now() + TIMEOUT / 2;
            match race(self.ends.acks.recv(), sim.sleep_until(lost_at.min(beat_at))).await {
                Either::First(None) => self.broken = Some(0),
                Either::First(Some(Ack::Sign)) => self.heard = sim.now(),
                Either::First(Some(Ack::Packet { seqno, replies })) => {
                    (self.heard, self.moved) = (sim.now(), sim.now());
                    self.take(client, seqno, &replies);
                }
                Either::Second(()) if sim.now() >= lost_at => self.broken = Some(0),
                Either::Second(()) => {
                    let packet = Packet { seqno: HEARTBEAT, ..Packet::default() };
                    let data = Rc::default();
                    let sum = SPEC.kind.of(&[]);
                    if !self.ends.packets.send(PacketMessage { packet, data, sum }) {
                        self.broken = Some(0);
                    }
                }
            }
        }
    }

    fn take(&mut self, client: &Client, seqno: i64, replies: &[Reply]) {
        if let Some(bad) = replies.iter().rposition(|reply| *reply != Reply::SUCCESS) {
            self.broken = Some(bad);
            return;
        }
        if seqno == HEARTBEAT {
            return;
        }
        match self.window.pop_front() {
            Some(sent) if sent.packet.seqno == seqno => self.acked = self.acked.max(sent.end),
            _ => client.world.fail(|| format!("{}: ack {} out of order", client.name, seqno)),
        }
    }
}
