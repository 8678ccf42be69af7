//! A write stream through one node: the driver of `xfer::write::Relay` that has the simulation's sockets and disks, as
//! `datad`'s thread has real ones.

use crate::datanode::Datanode;
use crate::executor::{Either, Sim, race};
use crate::platter::{Identity, SPEC};
use crate::socket::{Came, Gone, Ready, Socket};
use crate::volume::{ReopenAsk, VolumeError, Writer};
use crate::world::World;
use crate::write_op::{Stage, WriteOp, link_text};
use hdfs::proto;
use security::block_token::Mode as TokenMode;
use std::cell::RefCell;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;
use types::BlockId;
use types::limits::OP_MESSAGE_LEN_MAX;
use types::mutation::{self, Mutation};
use wire::{Abilities, OpHeader, delimited};
use xfer::answer::Refusal;
use xfer::memory::Held;
use xfer::write::{
    ANSWER_WAIT, Above, Begin, Ending, FLUSH, Failure, Join, Joined, LINGER, Limits, Mode, Relay, Step, Store,
    buffer_len, op_for_below,
};

const LIMITS: Limits = Limits::DEFAULT;

/// A node has all the memory that its streams want.
#[derive(Debug)]
struct Plenty(u64);

impl Held for Plenty {
    fn held_len(&self) -> u64 {
        self.0
    }

    fn grow_to(&mut self, len: u64) -> bool {
        self.0 = self.0.max(len);
        true
    }
}

/// The way back, and packets' way here.
struct Upward {
    sim: Sim,
    socket: Socket,
    state: RefCell<Above>,
}

impl Upward {
    /// Sends as much as the socket takes. False if nobody is there any more.
    fn flush(&self) -> bool {
        let mut state = self.state.borrow_mut();
        while !state.out().is_empty() {
            match self.socket.send(state.out()) {
                Ok(0) => return true,
                Ok(len) => state.on_sent(self.sim.now(), len),
                Err(Gone) => {
                    state.on_closed();
                    return false;
                }
            }
        }
        true
    }

    /// Sends what is left, as long as somebody takes it.
    async fn flush_within(&self, limit: Duration) {
        let flush = async {
            while self.flush() && !self.state.borrow().out().is_empty() {
                self.socket.ready(false, true).await;
            }
        };
        let _late = self.sim.timeout(limit, flush).await;
    }

    /// Does `work`, which those above wait for; meanwhile the beacon says that this node lives.
    async fn busy<T>(&self, work: impl Future<Output = T>) -> T {
        let since = self.sim.now();
        let beacon = async {
            loop {
                self.sim.sleep(LIMITS.keepalive_interval).await;
                let mut state = self.state.borrow_mut();
                if state.out().is_empty() {
                    state.keepalive_while_busy(since, self.sim.now(), &LIMITS);
                    drop(state);
                    self.flush();
                }
            }
        };
        match race(work, beacon).await {
            Either::First(done) => done,
            Either::Second(never) => never,
        }
    }
}

/// The replica that a stream writes.
struct Replica {
    node: Rc<Datanode>,
    block: BlockId,
    /// Gone once the block is put.
    writer: Option<Writer>,
}

/// A node below.
struct Lower {
    socket: Socket,
    /// Of the run that it gets: how long that is, and which bits the wire turns over.
    run_len: usize,
    flips: Vec<(usize, u8)>,
}

struct Stream {
    node: Rc<Datanode>,
    relay: Relay<Plenty>,
    above: Rc<Upward>,
    /// Gone once lost.
    below: Vec<Option<Lower>>,
    replica: Replica,
}

/// What a stream begins with.
struct Begun {
    block: BlockId,
    writer: Writer,
    below: Vec<Socket>,
    joined: Vec<Joined>,
}

impl Datanode {
    /// Serves one connection of a write, from the operation to its end.
    pub(crate) async fn serve_write(self: Rc<Self>, socket: Socket) {
        let Some((op, came)) = receive_op(&socket).await else { return };
        let takes_keepalives = Abilities::of(op.stream.as_ref().and_then(|it| it.abilities)).has(Abilities::KEEPALIVES);
        let state = RefCell::new(Above::new(takes_keepalives, self.sim.now()));
        let above = Rc::new(Upward { sim: self.sim.clone(), socket, state });
        let begun = match above.busy(self.set_up(&op)).await {
            Ok(begun) => {
                above.state.borrow_mut().put_ready();
                begun
            }
            Err(refusal) => {
                above.state.borrow_mut().put_answer(&refusal.into_answer());
                None
            }
        };
        let Some(Begun { block, writer, below, joined }) = begun else {
            return above.flush_within(ANSWER_WAIT).await;
        };
        let _writing = self.writing(block);
        let begin = Begin {
            mode: Mode::Chain,
            spec: SPEC,
            limits: LIMITS,
            received: writer.received() as u64,
            below: joined,
            came: &came,
            memory: Plenty(buffer_len(&came, None)),
        };
        let below = below.into_iter().map(|socket| Some(Lower { socket, run_len: 0, flips: Vec::new() }));
        let relay = Relay::new(begin, self.sim.now());
        let replica = Replica { node: Rc::clone(&self), block, writer: Some(writer) };
        Stream { node: self, relay, above, below: below.collect(), replica }.run().await;
    }

    /// Opens the replica, joins the nodes below. `None`: nothing is to be streamed.
    async fn set_up(self: &Rc<Self>, message: &proto::OpWriteBlockProto) -> Result<Option<Begun>, Refusal> {
        let op = WriteOp::decode(message);
        let WriteOp { block, generation, file, home, .. } = op;
        let token = message.header.base_header.token.clone().unwrap_or_else(proto::TokenProto::none);
        let grant = self.admit(block, (TokenMode::Write, true), &token.identifier, &token.password)?;
        if op.stage != Stage::Create
            && let Some(info) = self.volume.find(block)
        {
            self.must_cover(&grant, info.identity.file)?;
        }
        let mine = |error: VolumeError| {
            self.sim
                .say(|| format!("node {} refuses {:?} of {block:?} {generation}: {error:?}", self.number, op.stage));
            Refusal::error(format!("{error:?}"))
        };
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
        let writer = opened.map_err(mine)?;
        let (below, joined) = match self.join(message, &op).await {
            Ok(joined) => joined,
            Err(refusal) => {
                drop(writer);
                if op.stage == Stage::Create {
                    let _gone = self.volume.delete(block, generation).await;
                }
                return Err(refusal);
            }
        };
        if close {
            writer.put(writer.received()).await.map_err(mine)?;
            self.was_put(block);
            return Ok(None);
        }
        Ok(Some(Begun { block, writer, below, joined }))
    }

    /// Joins those that this node sends to, and through them the others.
    async fn join(
        &self,
        message: &proto::OpWriteBlockProto,
        op: &WriteOp,
    ) -> Result<(Vec<Socket>, Vec<Joined>), Refusal> {
        let (sim, host) = (&self.sim, World::node_host(self.number));
        let mut join = Join::new(LIMITS);
        let mut sockets = Vec::new();
        for child in op.routing.children() {
            let (link, behind_count) = (link_text(&message.targets[child.start]), child.len() - 1);
            let number = World::node_number(op.targets[child.start]);
            let dialed = self.world.dial_write(host, number, LIMITS.connect).await;
            let socket = dialed.map_err(|error| Refusal::blame(&link, &format!("{error:?}")))?;
            let bytes = op_for_below(message, &op.routing, &child);
            let sent = sim.timeout(LIMITS.setup_with(behind_count), socket.send_all(&bytes)).await;
            sent.and_then(Result::ok).ok_or_else(|| Refusal::blame(&link, "does not take the operation"))?;
            join.on_asked(link, behind_count, sim.now());
            sockets.push(socket);
        }
        let mut piece = [0; 4096];
        while let Some(until) = join.poll_timeout() {
            let open: Vec<usize> = (0..sockets.len()).filter(|place| join.awaits(*place)).collect();
            let ready = any_ready(open.iter().map(|place| (*place, &sockets[*place], false)).collect());
            if let Either::First(ready) = race(ready, sim.sleep_until(until)).await {
                for (place, _) in ready {
                    match sockets[place].read(&mut piece) {
                        Came::Bytes(len) => join.on_received(place, sim.now(), &piece[..len])?,
                        Came::Nothing => {}
                        Came::End => return Err(join.on_closed(place, None)),
                    }
                }
            }
            join.handle_timeout(sim.now())?;
        }
        Ok((sockets, join.into_joined()))
    }
}

/// The operation, and what followed it already.
async fn receive_op(socket: &Socket) -> Option<(proto::OpWriteBlockProto, Vec<u8>)> {
    let (mut came, mut piece) = (Vec::new(), [0; 4096]);
    loop {
        if let Some((head, rest)) = came.split_first_chunk::<{ OpHeader::LEN }>() {
            OpHeader::decode(*head).expect("an operation of ours");
            let split = delimited::split(rest, "op", OP_MESSAGE_LEN_MAX as usize).expect("an operation of ours");
            if let Some((message, len)) = split {
                let op = delimited::decode(message, "op").expect("an operation of ours");
                return Some((op, rest[len..].to_vec()));
            }
        }
        socket.ready(true, false).await;
        match socket.read(&mut piece) {
            Came::Bytes(len) => came.extend_from_slice(&piece[..len]),
            Came::Nothing => {}
            Came::End => return None,
        }
    }
}

/// Which of them are ready; each says whether it would send.
async fn any_ready(sockets: Vec<(usize, &Socket, bool)>) -> Vec<(usize, Ready)> {
    std::future::poll_fn(|context| {
        let ready = sockets.iter().map(|(place, socket, write)| (*place, socket.poll_ready(context, true, *write)));
        let ready: Vec<(usize, Ready)> = ready.filter(|(_, ready)| ready.is_any()).collect();
        if ready.is_empty() { Poll::Pending } else { Poll::Ready(ready) }
    })
    .await
}

impl Stream {
    async fn run(mut self) {
        let ending = self.serve().await;
        self.node
            .sim
            .say(|| format!("node {}: stream of {:?} ended: {ending:?}", self.node.number, self.replica.block));
        self.above.flush_within(FLUSH).await;
        if ending.lingers() {
            self.below.clear();
            self.above.socket.shutdown();
            let _over = self.node.sim.timeout(LINGER, drop_all(&self.above.socket)).await;
        }
        if self.replica.writer.take().is_some() {
            self.node.was_left(self.replica.block);
        }
    }

    async fn serve(&mut self) -> Ending {
        loop {
            self.act().await;
            if !self.above.flush() {
                self.relay.on_above_closed();
                self.act().await;
            }
            if let Some(ending) = self.relay.ending() {
                return ending;
            }
            self.wait().await;
        }
    }

    async fn act(&mut self) {
        loop {
            let step = self.relay.step(self.node.sim.now(), &mut self.above.state.borrow_mut());
            let Some(step) = step else { return };
            match step {
                Step::Forward => self.forward(),
                Step::Store(store) => {
                    let is_long = store.is_long();
                    let work = self.replica.store(&store);
                    let stored = if is_long { self.above.busy(work).await } else { work.await };
                    self.relay.on_stored(stored);
                }
                Step::Show(len) => {
                    if let Some(writer) = &self.replica.writer {
                        writer.show(len as usize);
                    }
                }
                Step::BelowLost { place, why } => {
                    self.below[place] = None;
                    self.node.sim.say(|| {
                        let block = self.replica.block;
                        format!("node {}: {place} below in the chain of {block:?} is lost: {why}", self.node.number)
                    });
                }
                Step::Unsound { .. } => {}
                Step::Refused(why) if self.node.world.plan.scripted => {
                    self.node.sim.say(|| format!("node {} refuses what it was sent: {why}", self.node.number));
                }
                Step::Refused(why) => {
                    let node = self.node.number;
                    self.node.world.fail(|| format!("node {node} refuses what a node of ours sent: {why}"));
                }
            }
        }
    }

    fn forward(&mut self) {
        for place in 0..self.below.len() {
            let out = self.relay.below_out(place);
            if let Some(lower) = &mut self.below[place] {
                (lower.run_len, lower.flips) = (out.len(), self.node.world.flips(out));
            }
            self.send_below(place);
        }
    }

    fn send_below(&mut self, place: usize) {
        let Some(lower) = &self.below[place] else { return };
        loop {
            let mut out = self.relay.below_out(place).to_vec();
            if out.is_empty() {
                return;
            }
            let taken = lower.run_len - out.len();
            for (at, bit) in lower.flips.iter().filter(|(at, _)| *at >= taken) {
                out[at - taken] ^= bit;
            }
            match lower.socket.send(&out) {
                Ok(0) => return,
                Ok(len) => self.relay.on_below_sent(place, self.node.sim.now(), len),
                Err(Gone) => return self.relay.on_below_closed(place),
            }
        }
    }

    fn receive_below(&mut self, place: usize) {
        let Some(lower) = &self.below[place] else { return };
        let mut came = [0; 4096];
        match lower.socket.read(&mut came) {
            Came::Bytes(len) => self.relay.on_below_received(place, self.node.sim.now(), &came[..len]),
            Came::Nothing => {}
            Came::End => self.relay.on_below_closed(place),
        }
    }

    async fn wait(&mut self) {
        let (wants, pending, until) = {
            let above = self.above.state.borrow();
            (self.relay.wants_packets(&above), !above.out().is_empty(), self.relay.poll_timeout(&above))
        };
        let heeds_above = pending || self.relay.heeds_above();
        let ready = std::future::poll_fn(|context| {
            let mut above = Ready::default();
            if heeds_above {
                above = self.above.socket.poll_ready(context, wants, pending);
            }
            let below = self.below.iter().enumerate().map(|(place, lower)| {
                let write = !self.relay.below_out(place).is_empty();
                lower.as_ref().map_or(Ready::default(), |lower| lower.socket.poll_ready(context, true, write))
            });
            let below: Vec<Ready> = below.collect();
            let any = above.is_any() || below.iter().any(|ready| ready.is_any());
            if any { Poll::Ready((above, below)) } else { Poll::Pending }
        });
        let until = until.unwrap_or(Duration::MAX);
        let (above, below) = match race(ready, self.node.sim.sleep_until(until)).await {
            Either::First(ready) => ready,
            Either::Second(()) => (Ready::default(), vec![Ready::default(); self.below.len()]),
        };
        for (place, ready) in below.into_iter().enumerate() {
            if ready.readable || ready.closed {
                self.receive_below(place);
            }
            if ready.writable {
                self.send_below(place);
            }
        }
        self.relay.handle_timeout(self.node.sim.now(), &mut self.above.state.borrow_mut());
        if above.closed && !wants && self.relay.heeds_above() {
            self.relay.on_above_closed();
        }
        if wants && (above.readable || above.closed) {
            match self.above.socket.read(self.relay.room()) {
                Came::Bytes(len) => self.relay.on_received(self.node.sim.now(), len),
                Came::Nothing => {}
                Came::End => self.relay.on_above_closed(),
            }
        }
    }
}

/// Reads what the writer still sends, and drops it.
async fn drop_all(socket: &Socket) {
    let mut dropped = [0; 4096];
    while socket.read(&mut dropped) != Came::End {
        socket.ready(true, false).await;
    }
}

impl Replica {
    async fn store(&mut self, store: &Store<'_>) -> Result<(), Failure> {
        let done = self.write(store).await;
        if done.is_ok() && store.put.is_some() {
            self.writer = None;
            self.node.was_put(self.block);
        }
        done.map_err(|error| if error == VolumeError::Fenced { Failure::Fenced } else { Failure::Disk })
    }

    async fn write(&self, store: &Store<'_>) -> Result<(), VolumeError> {
        let Some(writer) = &self.writer else { return Err(VolumeError::Fenced) };
        let world = &self.node.world;
        for piece in store.pieces() {
            if mutation::is(Mutation::AckBeforeStore) && world.sim.one_in(4) {
                return Ok(());
            }
            writer.write(piece.offset as usize, piece.data).await?;
            if self.node.volume.is_recovering(self.block) {
                world.fail(|| format!("node {} takes bytes of {:?} in its recovery", self.node.number, self.block));
            }
        }
        if store.sync {
            writer.sync().await?;
        }
        match store.put {
            Some(len) => writer.put(len as usize).await,
            None => Ok(()),
        }
    }
}
