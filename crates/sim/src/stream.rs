//! A write stream through one node: `chain::Link` decides, this does it, as `datad`'s thread around two sockets.

use crate::datanode::Datanode;
use crate::executor::{Either, race};
use crate::net::{Rx, Tx};
use crate::platter::{Identity, SPEC};
use crate::volume::{ReopenAsk, VolumeError, Writer};
use crate::world::{Mutation, World};
use chain::{Action, Ending, Event, Failure, Link, Reply};
use std::collections::VecDeque;
use std::rc::Rc;
use std::time::Duration;
use types::{BlockId, ContainerId, FileId, Generation, NodeId};

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
    pub(crate) stage: Stage,
    /// The new generation, in recovery.
    pub(crate) latest: Generation,
    pub(crate) min: usize,
    pub(crate) max: usize,
}

#[derive(Clone, Debug)]
pub(crate) struct PacketMessage {
    pub(crate) packet: chain::Packet,
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
    below: Option<Below>,
    /// The node below owed nothing before the packet in hand.
    idle_below: bool,
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
        let below_count = [op.targets.len()];
        let link = Link::new(SPEC, &below_count[..op.targets.len().min(1)], writer.received() as u64);
        let stream = Stream {
            node: Rc::clone(&self),
            block,
            link,
            writer: Some(writer),
            acks: Rc::new(acks),
            told: self.sim.now(),
            below,
            idle_below: true,
            ending: None,
        };
        self.sim.spawn(host, stream.run(taken));
        Ok(Some(Ends { packets, acks: ends_acks }))
    }

    async fn join_below(&self, op: &WriteOp) -> Result<Option<Below>, Refusal> {
        let Some((next, behind)) = op.targets.split_first() else { return Ok(None) };
        let next = *next;
        let blame = Refusal { bad: Some(next) };
        let (host, number) = (World::node_host(self.number), World::node_number(next));
        let allowance = PER_NODE * behind.len() as u32;
        self.world.connect(host, number, CONNECT).await.map_err(|_| blame)?;
        let op = WriteOp { targets: behind.to_vec(), ..op.clone() };
        let joined = self.world.call_node(host, number, SETUP + allowance, move |node| Box::pin(node.set_up(host, op)));
        match joined.await {
            Err(_) => Err(blame),
            Ok(Err(refusal)) => Err(Refusal { bad: refusal.bad.or(Some(next)) }),
            Ok(Ok(ends)) => Ok(ends.map(|ends| {
                let (heard, moved) = (self.sim.now(), self.sim.now());
                Below { ends, heard, moved, silent: BELOW_SILENT + allowance }
            })),
        }
    }
}

enum Came {
    Packet(Option<PacketMessage>),
    Ack(Option<Ack>),
    Time,
}

impl Stream {
    async fn run(mut self, mut packets: Rx<PacketMessage>) {
        let _writing = self.node.writing(self.block);
        let sim = self.node.sim.clone();
        let mut above_heard = sim.now();
        while self.ending.is_none() {
            let owed = self.below.as_ref().filter(|_| self.link.awaits(0));
            let below_until = owed.map(|below| (below.heard + STALLED).min(below.moved + below.silent));
            let sign_due = if self.link.is_idle() { Duration::MAX } else { self.told + SIGN_EACH };
            let until = (above_heard + WRITER_SILENT).min(sign_due).min(below_until.unwrap_or(Duration::MAX));
            let wants = self.link.wants_packets();
            let came = {
                let packet =
                    async { if wants { Came::Packet(packets.recv().await) } else { std::future::pending().await } };
                let below = &mut self.below;
                let ack = async {
                    match below {
                        Some(below) => Came::Ack(below.ends.acks.recv().await),
                        None => std::future::pending().await,
                    }
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
                Came::Ack(Some(Ack::Sign)) => {
                    if let Some(below) = &mut self.below {
                        below.heard = now;
                    }
                }
                Came::Ack(Some(Ack::Packet { seqno, replies })) => {
                    if let Some(below) = &mut self.below {
                        (below.heard, below.moved) = (now, now);
                    }
                    self.on_event(Event::Ack { below: 0, seqno, replies }, None).await;
                }
                Came::Ack(None) => {
                    self.below = None;
                    self.on_event(Event::BelowLost { below: 0 }, None).await;
                }
                Came::Time => {
                    if below_until.is_some_and(|until| now >= until) {
                        self.below = None;
                        self.on_event(Event::BelowLost { below: 0 }, None).await;
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
            self.below = None;
            let drop_all = async { while packets.recv().await.is_some() {} };
            let _over = sim.timeout(LINGER, drop_all).await;
        }
        if self.writer.take().is_some() {
            self.node.was_left(self.block);
        }
    }

    async fn on_event(&mut self, event: Event, message: Option<&PacketMessage>) {
        let mut events = VecDeque::from([event]);
        let mut actions = Vec::new();
        while let Some(event) = events.pop_front() {
            self.idle_below = !self.link.awaits(0);
            self.link.on_event(event, &mut actions);
            for action in actions.drain(..) {
                match action {
                    Action::Forward => {
                        let message = message.expect("a packet to forward came");
                        if !self.forward(message.clone()) {
                            self.below = None;
                            events.push_back(Event::BelowLost { below: 0 });
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

    fn forward(&mut self, message: PacketMessage) -> bool {
        let now = self.node.sim.now();
        let Some(below) = &mut self.below else { return false };
        if self.idle_below {
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
        if world.mutation == Some(Mutation::AckBeforeStore) && world.sim.one_in(4) {
            return Ok(());
        }
        let mut done = Ok(());
        if write {
            done = writer.write(message.packet.offset as usize, &message.data).await;
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
