//! A write stream through one node: `xfer::write::Link` decides, this does it, as `datad`'s thread around two sockets.

use crate::datanode::Datanode;
use crate::executor::{Boxed, Either, all, race};
use crate::net::{Rx, Tx};
use crate::platter::{Identity, SPEC};
use crate::volume::{ReopenAsk, VolumeError, Writer};
use crate::world::World;
use std::collections::VecDeque;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;
use types::mutation::{self, Mutation};
use types::{BlockId, ContainerId, FileId, Generation, NodeId};
use wire::Routing;
use xfer::write::{Action, Ending, Event, Failure, Link, Reply};

// As in `datad`.
const CONNECT: Duration = Duration::from_secs(2);
/// A node that owes an answer and says nothing for so long is lost; one that works says so each half second.
const STALLED: Duration = Duration::from_secs(2);
const SIGN_EACH: Duration = Duration::from_millis(500);
const SETUP: Duration = Duration::from_secs(30);
const PER_NODE: Duration = Duration::from_secs(5);
const WRITER_SILENT: Duration = Duration::from_secs(120);
const BELOW_SILENT: Duration = Duration::from_secs(60);
const LINGER: Duration = Duration::from_secs(3);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    Create,
    StreamingRecovery,
    CloseRecovery,
}

/// The operation a chain begins with.
#[derive(Clone, Debug)]
pub(crate) struct WriteOp {
    pub(crate) block: BlockId,
    pub(crate) generation: Generation,
    pub(crate) file: FileId,
    pub(crate) home: ContainerId,
    pub(crate) targets: Vec<NodeId>,
    /// Who of them sends to whom.
    pub(crate) routing: Routing,
    pub(crate) stage: Stage,
    /// The new generation, in recovery.
    pub(crate) latest: Generation,
    pub(crate) min: usize,
    pub(crate) max: usize,
}

#[derive(Clone, Debug)]
pub(crate) struct PacketMessage {
    pub(crate) packet: xfer::write::Packet,
    pub(crate) data: Rc<Vec<u8>>,
    /// Stands for the packet's checksums.
    pub(crate) sum: u32,
}

#[derive(Clone, Debug)]
pub(crate) enum Ack {
    Packet {
        seqno: i64,
        replies: Vec<Reply>,
    },
    /// The node lives and is at work.
    Sign,
}

/// The chain does not come about, because of this node.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Refusal {
    pub(crate) bad: Option<NodeId>,
}

/// What the one above holds of a chain.
pub(crate) struct Ends {
    pub(crate) packets: Tx<PacketMessage>,
    pub(crate) acks: Rx<Ack>,
}

struct Below {
    ends: Ends,
    /// When it said something last, and when that was an ack, or when it began to owe one.
    heard: Duration,
    moved: Duration,
    silent: Duration,
}

struct Stream {
    node: Rc<Datanode>,
    block: BlockId,
    link: Link,
    writer: Option<Writer>,
    acks: Rc<Tx<Ack>>,
    /// When those above heard from this node last.
    told: Duration,
    /// Those this node sends to; `None`: lost.
    below: Vec<Option<Below>>,
    /// Of each, whether it owed nothing before the packet in hand.
    idle: Vec<bool>,
    ending: Option<Ending>,
}

impl Datanode {
    /// Opens the replica, joins the node below. `None`: nothing is to be streamed.
    pub(crate) async fn set_up(
        self: Rc<Self>,
        from: crate::executor::HostId,
        op: WriteOp,
    ) -> Result<Option<Ends>, Refusal> {
        let mine = Refusal { bad: None };
        let WriteOp { block, generation, file, home, .. } = op;
        let identity = Identity { block, generation, file: Some(file), home: Some(home) };
        let close = op.stage == Stage::CloseRecovery;
        let new = op.latest.max(generation);
        let opened = match op.stage {
            Stage::Create => self.volume.create(identity).await,
            Stage::StreamingRecovery | Stage::CloseRecovery => {
                let ask = ReopenAsk { close, old: generation, new, min: op.min, max: op.max };
                self.volume.reopen(block, ask).await
            }
        };
        let writer = opened.map_err(|error| {
            self.sim
                .say(|| format!("node {} refuses {:?} of {block:?} {generation}: {error:?}", self.number, op.stage));
            mine
        })?;
        let below = match self.join_below(&op).await {
            Ok(below) => below,
            Err(refusal) => {
                drop(writer);
                if op.stage == Stage::Create {
                    let _gone = self.volume.delete(block, generation).await;
                }
                return Err(refusal);
            }
        };
        if close {
            writer.put(writer.received()).await.map_err(|_| mine)?;
            self.was_put(block);
            return Ok(None);
        }
        let host = World::node_host(self.number);
        let (packets, taken) = self.world.net.pipe(from, host);
        let (acks, ends_acks) = self.world.net.pipe(host, from);
        let below_count: Vec<usize> = op.routing.children().iter().map(|child| child.len()).collect();
        let link = Link::new(SPEC, &below_count, writer.received() as u64);
        let stream = Stream {
            node: Rc::clone(&self),
            block,
            link,
            writer: Some(writer),
            acks: Rc::new(acks),
            told: self.sim.now(),
            idle: vec![true; below.len()],
            below,
            ending: None,
        };
        self.sim.spawn(host, stream.run(taken));
        Ok(Some(Ends { packets, acks: ends_acks }))
    }

    /// Joins those that this node sends to, and through them the others.
    async fn join_below(&self, op: &WriteOp) -> Result<Vec<Option<Below>>, Refusal> {
        let joins = op.routing.children().into_iter().map(|child| {
            let next = op.targets[child.start];
            let behind = op.targets[child.start + 1..child.end].to_vec();
            let op = WriteOp { targets: behind, routing: op.routing.below(&child), ..op.clone() };
            let (world, sim, host) = (Rc::clone(&self.world), self.sim.clone(), World::node_host(self.number));
            let join: Boxed<Result<Option<Below>, Refusal>> = Box::pin(async move {
                let blame = Refusal { bad: Some(next) };
                let number = World::node_number(next);
                let allowance = PER_NODE * op.targets.len() as u32;
                world.connect(host, number, CONNECT).await.map_err(|_| blame)?;
                let set_up =
                    world.call_node(host, number, SETUP + allowance, move |node| Box::pin(node.set_up(host, op)));
                match set_up.await {
                    Err(_) => Err(blame),
                    Ok(Err(refusal)) => Err(Refusal { bad: refusal.bad.or(Some(next)) }),
                    Ok(Ok(ends)) => Ok(ends.map(|ends| {
                        let (heard, moved) = (sim.now(), sim.now());
                        Below { ends, heard, moved, silent: BELOW_SILENT + allowance }
                    })),
                }
            });
            join
        });
        all(joins.collect()).await.into_iter().collect()
    }
}

enum Came {
    Packet(Option<PacketMessage>),
    Ack(usize, Option<Ack>),
    Time,
}

/// What the first of several nodes below says.
async fn any_ack(below: &mut [Option<Below>]) -> (usize, Option<Ack>) {
    std::future::poll_fn(|context| {
        for (place, below) in below.iter_mut().enumerate() {
            let Some(below) = below else { continue };
            let mut ack = std::pin::pin!(below.ends.acks.recv());
            if let Poll::Ready(ack) = ack.as_mut().poll(context) {
                return Poll::Ready((place, ack));
            }
        }
        Poll::Pending
    })
    .await
}

impl Stream {
    async fn run(mut self, mut packets: Rx<PacketMessage>) {
        let _writing = self.node.writing(self.block);
        let sim = self.node.sim.clone();
        let mut above_heard = sim.now();
        while self.ending.is_none() {
            let below_until = |place: usize| {
                let owed = self.below[place].as_ref().filter(|_| self.link.awaits(place));
                owed.map_or(Duration::MAX, |below| (below.heard + STALLED).min(below.moved + below.silent))
            };
            let first_until = (0..self.below.len()).map(below_until).min().unwrap_or(Duration::MAX);
            let sign_due = if self.link.is_idle() { Duration::MAX } else { self.told + SIGN_EACH };
            let until = (above_heard + WRITER_SILENT).min(sign_due).min(first_until);
            let wants = self.link.wants_packets();
            let came = {
                let packet =
                    async { if wants { Came::Packet(packets.recv().await) } else { std::future::pending().await } };
                let below = &mut self.below;
                let ack = async {
                    let (place, ack) = any_ack(below).await;
                    Came::Ack(place, ack)
                };
                match race(race(ack, packet), sim.sleep_until(until)).await {
                    Either::First(Either::First(came) | Either::Second(came)) => came,
                    Either::Second(()) => Came::Time,
                }
            };
            let now = sim.now();
            match came {
                Came::Packet(Some(message)) => {
                    above_heard = now;
                    self.on_event(Event::Packet(message.packet), Some(&message)).await;
                }
                Came::Packet(None) => self.on_event(Event::AboveLost, None).await,
                Came::Ack(place, Some(Ack::Sign)) => {
                    if let Some(below) = &mut self.below[place] {
                        below.heard = now;
                    }
                }
                Came::Ack(place, Some(Ack::Packet { seqno, replies })) => {
                    if let Some(below) = &mut self.below[place] {
                        (below.heard, below.moved) = (now, now);
                    }
                    self.on_event(Event::Ack { below: place, seqno, replies }, None).await;
                }
                Came::Ack(place, None) => self.lose(place).await,
                Came::Time => {
                    for place in 0..self.below.len() {
                        let owed = self.below[place].as_ref().filter(|_| self.link.awaits(place));
                        let until = owed.map(|below| (below.heard + STALLED).min(below.moved + below.silent));
                        if until.is_some_and(|until| now >= until) {
                            self.lose(place).await;
                        }
                    }
                    if now >= sign_due {
                        self.told = now;
                        self.acks.send(Ack::Sign);
                    }
                    if now >= above_heard + WRITER_SILENT {
                        self.on_event(Event::AboveLost, None).await;
                    }
                }
            }
        }
        self.node.sim.say(|| format!("node {}: stream of {:?} ended: {:?}", self.node.number, self.block, self.ending));
        if matches!(self.ending, Some(Ending::Failed { .. })) {
            self.below.clear();
            let drop_all = async { while packets.recv().await.is_some() {} };
            let _over = sim.timeout(LINGER, drop_all).await;
        }
        if self.writer.take().is_some() {
            self.node.was_left(self.block);
        }
    }

    async fn lose(&mut self, place: usize) {
        self.below[place] = None;
        self.on_event(Event::BelowLost { below: place }, None).await;
    }

    async fn on_event(&mut self, event: Event, message: Option<&PacketMessage>) {
        let mut events = VecDeque::from([event]);
        let mut actions = Vec::new();
        while let Some(event) = events.pop_front() {
            self.idle = (0..self.below.len()).map(|place| !self.link.awaits(place)).collect();
            self.link.on_event(event, &mut actions);
            for action in actions.drain(..) {
                match action {
                    Action::Forward => {
                        let message = message.expect("a packet to forward came");
                        for place in 0..self.below.len() {
                            if self.below[place].is_some() && !self.forward(place, message.clone()) {
                                self.below[place] = None;
                                events.push_back(Event::BelowLost { below: place });
                            }
                        }
                    }
                    Action::Store { write, sync, put } => {
                        let message = message.expect("a packet to store came");
                        let stored = self.store_with_signs(message, write, sync, put).await;
                        events.push_back(stored.map_or_else(Event::NotStored, |()| Event::Stored));
                    }
                    Action::Show(len) => {
                        if let Some(writer) = &self.writer {
                            writer.show(len as usize);
                        }
                    }
                    Action::Ack { seqno, replies } => {
                        self.told = self.node.sim.now();
                        self.acks.send(Ack::Packet { seqno, replies });
                    }
                    Action::Close(ending) => self.ending = Some(ending),
                }
            }
        }
    }

    fn forward(&mut self, place: usize, message: PacketMessage) -> bool {
        let now = self.node.sim.now();
        let idle = self.idle[place];
        let Some(below) = &mut self.below[place] else { return false };
        if idle {
            (below.heard, below.moved) = (now, now);
        }
        below.ends.packets.send(self.node.world.carry(message))
    }

    /// The disk may take long: those above hear meanwhile that this node lives.
    async fn store_with_signs(
        &mut self,
        message: &PacketMessage,
        write: bool,
        sync: bool,
        put: Option<u64>,
    ) -> Result<(), Failure> {
        let (sim, acks) = (self.node.sim.clone(), Rc::clone(&self.acks));
        let signs = async {
            loop {
                sim.sleep(SIGN_EACH).await;
                acks.send(Ack::Sign);
            }
        };
        match race(self.store(message, write, sync, put), signs).await {
            Either::First(stored) => stored,
            Either::Second(never) => never,
        }
    }

    async fn store(
        &mut self,
        message: &PacketMessage,
        write: bool,
        sync: bool,
        put: Option<u64>,
    ) -> Result<(), Failure> {
        if SPEC.kind.of(&message.data) != message.sum {
            return Err(Failure::Checksum);
        }
        let Some(writer) = &self.writer else { return Err(Failure::Fenced) };
        let world = &self.node.world;
        if mutation::is(Mutation::AckBeforeStore) && world.sim.one_in(4) {
            return Ok(());
        }
        let mut done = Ok(());
        if write {
            done = writer.write(message.packet.offset as usize, &message.data).await;
            if done.is_ok() && self.node.volume.is_recovering(self.block) {
                world.fail(|| format!("node {} takes bytes of {:?} in its recovery", self.node.number, self.block));
            }
        }
        if done.is_ok() && sync {
            done = writer.sync().await;
        }
        if let (Ok(()), Some(len)) = (&done, put) {
            done = writer.put(len as usize).await;
            if done.is_ok() {
                self.writer = None;
                self.node.was_put(self.block);
            }
        }
        done.map_err(|error| if error == VolumeError::Fenced { Failure::Fenced } else { Failure::Disk })
    }
}
