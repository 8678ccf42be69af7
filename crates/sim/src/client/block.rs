//! A block that is being written: the chain to its nodes, what is under way on it, and its recovery when a node is
//! lost.

use super::{CONNECT, Client, Error, Result, TIMEOUT};
use crate::executor::{Boxed, Either, race};
use crate::metad::{Answer, Metad};
use crate::platter::SPEC;
use crate::socket::{Came, Socket};
use crate::world::{World, node_of, rack_of};
use crate::write_op::{Stage, WriteOp};
use hdfs::proto::BlockOpResponseProto;
use namespace::{BlockRef, BlockView};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::time::Duration;
use types::mutation::{self, Mutation};
use types::{FsPath, Generation, NodeId};
use wire::{PacketHeader, PipelineAck, Routing, Status, delimited};
use xfer::write::{ANSWER_LEN_MAX, HEARTBEAT, Packet, Reply};

/// Nodes of ours that owe an answer and say nothing for so long are given up, if there are others.
const STALLED: Duration = Duration::from_secs(2);
const TIMEOUT_PER_NODE: Duration = Duration::from_secs(5);
const RECOVERIES_MAX: u32 = 5;
const IN_FLIGHT_MAX: usize = 6;
/// Of so many changes of a chain one after which the writer says once more what is old by then.
const REPEATS_OLD_EACH: usize = 3;

/// How a stream's nodes send to each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    Chain,
    Tree,
    Star,
    /// As HBase's writer of logs: a star with one block, however long, which ends with the first node that is lost.
    FanOut,
}

/// A connection to the head of a chain, and what is under way on it.
struct Chain {
    socket: Socket,
    /// What the socket did not take yet, and what it gave that is no whole message.
    unsent: Vec<u8>,
    came: Vec<u8>,
    window: VecDeque<Sent>,
    acked: usize,
    /// Places of the nodes to blame, ascending.
    broken: Vec<usize>,
    branches: bool,
    heard: Duration,
    moved: Duration,
    silence_max: Duration,
    standstill_max: Duration,
}

/// What a broken chain leaves. The block stays so until another chain stands, also when the call that was to set it up
/// is given up.
struct Rest {
    window: VecDeque<Sent>,
    acked: usize,
    /// Places of the nodes to blame, ascending.
    broken: Vec<usize>,
}

#[derive(Clone)]
pub(super) struct Sent {
    pub(super) packet: Packet,
    pub(super) data: Rc<Vec<u8>>,
    pub(super) end: usize,
}

/// One block being written.
pub(super) struct Block {
    pub(super) view: BlockView,
    pub(super) nodes: Vec<NodeId>,
    /// The nodes of the present chain, and how often each had lost power when it was set up.
    pub(super) holders: RefCell<Vec<(NodeId, u64)>>,
    /// Without one, and without a rest, a recovery has ended the block.
    chain: Option<Chain>,
    rest: Option<Rest>,
    pub(super) next_seqno: i64,
    pub(super) sent: usize,
    stuck: (i64, u32),
    shape: Shape,
    /// Of a block that was on lease: no server knows yet that it is the file's.
    pub(super) before: Option<Before>,
}

/// What a server is told with the block.
#[derive(Clone)]
pub(super) struct Before {
    pub(super) path: FsPath,
    pub(super) previous: Option<BlockRef>,
}

impl Block {
    /// With its chain; `Err` has the node to blame.
    pub(super) async fn create(
        client: &Rc<Client>,
        view: BlockView,
        nodes: Vec<NodeId>,
        shape: Shape,
        before: Option<Before>,
    ) -> std::result::Result<Self, NodeId> {
        let (holders, stuck) = (RefCell::default(), (-1, 0));
        let mut block =
            Self { view, nodes, holders, chain: None, rest: None, next_seqno: 0, sent: 0, stuck, shape, before };
        match block.set_up(client, Stage::Create, view.generation, 0).await {
            Ok(chain) => {
                block.chain = chain;
                Ok(block)
            }
            Err(bad) => Err(block.nodes[bad]),
        }
    }

    /// Has a server make a block that was on lease the file's.
    pub(super) async fn settle_before(&mut self, client: &Rc<Client>) -> Result<()> {
        let Some(Before { path, previous }) = self.before.clone() else { return Ok(()) };
        let (name, BlockView { file, block, generation, .. }) = (client.name.clone(), self.view);
        let call = move |metad: Rc<Metad>, _| -> Boxed<Answer<()>> {
            Box::pin(metad.add_leased(name.clone(), path.clone(), file, previous, block, generation))
        };
        client.call(call).await?;
        client.sim.say(|| format!("{} has {:?} of {file}, which was on lease", client.name, block));
        self.before = None;
        Ok(())
    }

    /// `Err` names the node to blame.
    async fn set_up(
        &mut self,
        client: &Rc<Client>,
        stage: Stage,
        latest: types::Generation,
        acked: usize,
    ) -> std::result::Result<Option<Chain>, usize> {
        let routing = self.route();
        let branches = !routing.is_chain();
        let Some((head, targets)) = self.nodes.split_first() else { return Err(0) };
        let op = WriteOp {
            block: self.view.block,
            generation: self.view.generation,
            file: self.view.file,
            home: self.view.home,
            targets: targets.to_vec(),
            routing,
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
        let socket = client.world.dial_write(host, number, connect).await.map_err(|_| 0usize)?;
        let standstill_max = TIMEOUT + TIMEOUT_PER_NODE * self.nodes.len() as u32;
        let silence_max = if spare { STALLED } else { standstill_max };
        let (heard, moved) = (client.sim.now(), client.sim.now());
        let unsent = op.encode(&client.world, &client.name);
        let (window, came, broken) = (VecDeque::new(), Vec::new(), Vec::new());
        let mut chain =
            Chain { socket, unsent, came, window, acked, broken, branches, heard, moved, silence_max, standstill_max };
        let answer = loop {
            if let Some(answer) = chain.take_answer() {
                break answer;
            }
            let lost_at = (chain.heard + silence_max).min(chain.moved + standstill_max);
            match race(chain.move_bytes(client), client.sim.sleep_until(lost_at)).await {
                Either::First(Ok(())) => {}
                Either::First(Err(())) | Either::Second(()) => return Err(0),
            }
        };
        if answer.status != i32::from(Status::SUCCESS.0) {
            let link = answer.first_bad_link.unwrap_or_default();
            let bad = |node: &NodeId| link_of(client, *node) == link;
            return Err(self.nodes.iter().position(bad).unwrap_or(0));
        }
        Ok((stage != Stage::CloseRecovery).then_some(chain))
    }

    /// Puts the nodes into the order of the routing table that is wanted.
    fn route(&mut self) -> Routing {
        match self.shape {
            Shape::Chain => Routing::chain(self.nodes.len()),
            Shape::Star | Shape::FanOut => Routing::star(self.nodes.len()),
            Shape::Tree => {
                let racks: Vec<String> = self.nodes.iter().map(|id| rack_of(World::node_number(*id))).collect();
                let (order, table) = Routing::tree(&racks);
                self.nodes = order.into_iter().map(|place| self.nodes[place]).collect();
                table
            }
        }
    }

    /// Returns when another packet may be pushed.
    pub(super) async fn room(&mut self, client: &Rc<Client>) -> Result<()> {
        loop {
            let has_room = match &mut self.chain {
                Some(chain) => chain.until(client, |chain| chain.window.len() < IN_FLIGHT_MAX).await.is_ok(),
                None if self.rest.is_none() => return Err(Error::NoNodeLeft),
                None => false,
            };
            if has_room {
                return Ok(());
            }
            self.recover(client).await?;
        }
    }

    /// Sends a packet for which there is room.
    pub(super) fn push(&mut self, client: &Rc<Client>, sent: Sent) {
        let Some(chain) = &mut self.chain else { return };
        chain.owe(client);
        chain.window.push_back(sent.clone());
        chain.put(client, &sent);
    }

    pub(super) async fn drain(&mut self, client: &Rc<Client>) -> Result<()> {
        let forgets = mutation::is(Mutation::ForgetGivenUp);
        loop {
            let is_drained = match &mut self.chain {
                Some(chain) => chain.until(client, |chain| chain.window.is_empty()).await.is_ok(),
                None => self.rest.is_none() || forgets, // a recovered close: the block is finished
            };
            if is_drained {
                return Ok(());
            }
            self.recover(client).await?;
        }
    }

    async fn recover(&mut self, client: &Rc<Client>) -> Result<()> {
        self.settle_before(client).await?;
        if let Some(Chain { socket, window, acked, broken, .. }) = self.chain.take() {
            drop(socket);
            let first = window.front().map_or(-1, |sent| sent.packet.seqno);
            self.stuck = if self.stuck.0 == first { (first, self.stuck.1 + 1) } else { (first, 1) };
            self.rest = Some(Rest { window, acked, broken: if broken.is_empty() { vec![0] } else { broken } });
        }
        if self.stuck.1 > RECOVERIES_MAX || self.shape == Shape::FanOut {
            return Err(Error::NoNodeLeft);
        }
        while let Some(rest) = &mut self.rest {
            while let Some(bad) = rest.broken.pop().filter(|_| !self.nodes.is_empty()) {
                let bad = self.nodes.remove(bad.min(self.nodes.len() - 1));
                client.sim.say(|| {
                    let number = World::node_number(bad);
                    format!("{} drops node {number} from the chain of {:?}", client.name, self.view.block)
                });
            }
            if self.nodes.is_empty() {
                return Err(Error::NoNodeLeft);
            }
            let (only_end_missing, acked) =
                (rest.window.len() == 1 && rest.window.iter().all(|sent| sent.packet.last), rest.acked);
            let rejoined = self.rejoin(client, only_end_missing, acked).await?;
            let Some(mut rest) = self.rest.take() else { break };
            match rejoined {
                Ok(chain) => {
                    self.chain = chain;
                    rest.window.into_iter().for_each(|sent| self.push(client, sent));
                }
                Err(bad) => {
                    rest.broken.push(bad);
                    self.rest = Some(rest);
                }
            }
        }
        Ok(())
    }

    async fn rejoin(
        &mut self,
        client: &Rc<Client>,
        only_end_missing: bool,
        acked: usize,
    ) -> Result<std::result::Result<Option<Chain>, usize>> {
        let (name, block) = (client.name.clone(), self.view.block);
        let (generation, view) = client.call(move |metad, _| Box::pin(metad.bump(name.clone(), block))).await?;
        self.view.home = view.home;
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
        let before = std::mem::replace(&mut self.view.generation, generation);
        if client.sim.one_in(REPEATS_OLD_EACH) {
            self.repeat_old_calls(client, before, acked as u64).await;
        }
        Ok(Ok(chain))
    }

    /// What came late over the wire, or from a program that is wrong: none of it may be believed.
    async fn repeat_old_calls(&self, client: &Rc<Client>, before: Generation, acked: u64) {
        let BlockView { block, generation, .. } = self.view;
        let now = BlockRef { block, generation, len: acked };
        let stale = BlockRef { block, generation: before, len: acked };
        self.must_be_refused(client, now, stale).await;
        let name = client.name.clone();
        let Ok((next, _)) = client.call(move |metad, _| Box::pin(metad.bump(name.clone(), block))).await else {
            return;
        };
        if let Some(len) = acked.checked_sub(1) {
            self.must_be_refused(client, now, BlockRef { block, generation: next, len }).await;
        }
    }

    async fn must_be_refused(&self, client: &Rc<Client>, old: BlockRef, new: BlockRef) {
        let (name, nodes) = (client.name.clone(), self.nodes.clone());
        let call =
            client.call(move |metad, key| Box::pin(metad.update_pipeline(key, name.clone(), old, new, nodes.clone())));
        if call.await.is_ok() {
            client.world.fail(|| format!("{} was believed that {old:?} goes on as {new:?}", client.name));
        }
    }
}

/// `ip:port` of a node, as the operation names it.
fn link_of(client: &Client, node: NodeId) -> String {
    let node = node_of(client.world.process(World::node_number(node), false));
    format!("{}:{}", node.ip, node.xfer_port)
}

impl Chain {
    /// The answer to the setup, once it is there. That it is under way says that the node lives.
    fn take_answer(&mut self) -> Option<BlockOpResponseProto> {
        loop {
            let split = delimited::split(&self.came, "answer", ANSWER_LEN_MAX).expect("an answer of ours");
            let (message, len) = split?;
            let answer: BlockOpResponseProto = delimited::decode(message, "answer").expect("an answer of ours");
            self.came.drain(..len);
            if answer.status != i32::from(Status::IN_PROGRESS.0) {
                return Some(answer);
            }
        }
    }

    /// Sends what the socket takes.
    fn flush(&mut self) -> std::result::Result<(), ()> {
        while !self.unsent.is_empty() {
            match self.socket.send(&self.unsent).map_err(|_| ())? {
                0 => break,
                len => _ = self.unsent.drain(..len),
            }
        }
        Ok(())
    }

    /// Returns once bytes have come. What was not sent goes out meanwhile.
    async fn move_bytes(&mut self, client: &Client) -> std::result::Result<(), ()> {
        let mut piece = [0; 4096];
        loop {
            // What was said before the end comes first: it tells who failed.
            match self.socket.read(&mut piece) {
                Came::Bytes(len) => {
                    self.heard = client.sim.now();
                    self.came.extend_from_slice(&piece[..len]);
                    return Ok(());
                }
                Came::End => return Err(()),
                Came::Nothing => {
                    self.flush()?;
                    self.socket.ready(true, !self.unsent.is_empty()).await;
                }
            }
        }
    }

    /// From the first packet on the nodes owe an answer.
    fn owe(&mut self, client: &Client) {
        if self.window.is_empty() {
            (self.heard, self.moved) = (client.sim.now(), client.sim.now());
        }
    }

    /// Sends a packet. That nobody takes it is found out by who waits for acks, once what was said before is read.
    fn put(&mut self, client: &Client, sent: &Sent) {
        let Packet { seqno, offset, data_len, sums_len, last, sync } = sent.packet;
        let header = PacketHeader { offset, seqno, last, data_len: data_len as i32, sync };
        let mut bytes = Vec::new();
        header.put(sums_len, &mut bytes);
        SPEC.compute(&sent.data, &mut bytes);
        bytes.extend_from_slice(&sent.data);
        for (at, bit) in client.world.flips(&bytes) {
            bytes[at] ^= bit;
        }
        self.unsent.extend(bytes);
        let _later = self.flush();
    }

    /// `Err` once the chain is broken.
    async fn until(&mut self, client: &Client, done: impl Fn(&Self) -> bool) -> std::result::Result<(), ()> {
        let sim = &client.sim;
        loop {
            if !self.broken.is_empty() {
                return Err(());
            }
            if done(self) {
                return Ok(());
            }
            if let Some((ack, len)) = PipelineAck::split(&self.came).expect("an ack of ours") {
                self.came.drain(..len);
                if !ack.is_keepalive() {
                    self.moved = sim.now();
                    let replies: Vec<Reply> = ack.replies.into_iter().map(|status| Reply(status.0)).collect();
                    self.take(client, ack.seqno, &replies);
                }
                continue;
            }
            let lost_at = (self.heard + self.silence_max).min(self.moved + self.standstill_max);
            let lost_at = if self.window.is_empty() { Duration::MAX } else { lost_at };
            let beat_at = sim.now() + TIMEOUT / 2;
            match race(self.move_bytes(client), sim.sleep_until(lost_at.min(beat_at))).await {
                Either::First(Ok(())) => {}
                Either::First(Err(())) => self.broken = vec![0],
                Either::Second(()) if sim.now() >= lost_at => self.broken = vec![0],
                Either::Second(()) => {
                    let packet = Packet { seqno: HEARTBEAT, ..Packet::default() };
                    self.put(client, &Sent { packet, data: Rc::default(), end: 0 });
                }
            }
        }
    }

    fn take(&mut self, client: &Client, seqno: i64, replies: &[Reply]) {
        // In a chain the last that complains, as it is nearest to the trouble; where there are branches each tells of
        // itself.
        let is_bad = |reply: Reply| reply != Reply::SUCCESS && !(self.branches && reply == Reply::NOT_YET);
        let mut bad = (0..replies.len()).filter(|node| is_bad(replies[*node]));
        let bad: Vec<usize> = if self.branches { bad.collect() } else { bad.next_back().into_iter().collect() };
        if !bad.is_empty() {
            self.broken = bad;
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
