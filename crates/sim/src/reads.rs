//! Reads, both ends: the shipped machines over the simulation's network. Who reads is a client, or a node that copies.

use crate::datanode::Datanode;
use crate::executor::{HostId, Sim};
use crate::platter::{Image, SPEC};
use crate::socket::{Came, Socket};
use crate::volume::{Info, VolumeError};
use crate::world::World;
use hdfs::proto::{BaseHeaderProto, ClientOperationHeaderProto, ExtendedBlockProto, OpReadBlockProto, TokenProto};
use security::block_token::Mode;
use std::ops::Range as Bytes;
use std::rc::Rc;
use std::time::Duration;
use types::limits::OP_MESSAGE_LEN_MAX;
use types::{BlockId, Generation};
use wire::{OpHeader, delimited};
use xfer::answer::Refusal;
use xfer::fault::Fault;
use xfer::front::Front;
use xfer::read::{
    self, CopyTarget, Extent, Given, Limits, Next, Outcome, Plan, Range, Receiver, Sender, Stored, Wanted,
};

/// What is read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ask {
    pub(crate) block: BlockId,
    pub(crate) generation: Generation,
    pub(crate) from: u64,
    pub(crate) end: u64,
    pub(crate) extent: Extent,
}

// ── the datanode ──

impl Datanode {
    /// Takes a connection for one read.
    pub(crate) fn accept_read(self: Rc<Self>, socket: Socket) {
        let (sim, host) = (self.sim.clone(), World::node_host(self.number));
        sim.spawn(host, async move {
            let _closed = self.serve_read(&socket).await;
        });
    }

    /// `None`: the connection ended before its time.
    async fn serve_read(&self, socket: &Socket) -> Option<()> {
        let mut came = Vec::new();
        let op = loop {
            match request(&mut came) {
                Some(op) => break op,
                None => socket.receive(&mut came).await?,
            }
        };
        let block = op.header.base_header.block;
        let (offset, len, with_sums) = (op.offset, op.len, op.send_checksums.unwrap_or(true));
        let wanted = Wanted { generation: block.generation(), offset, len, with_sums };
        let token = op.header.base_header.token.unwrap_or_else(TokenProto::none);
        let (image, plan) = match self.open_read(block.block(), wanted, &token).await {
            Ok(opened) => opened,
            Err(refusal) => {
                self.sim
                    .say(|| format!("node {} refuses to read {:?}: {}", self.number, block.block(), refusal.message));
                let mut bytes = Vec::new();
                delimited::put(&refusal.into_answer(), &mut bytes);
                let _gone = socket.send_all(&bytes).await;
                return None;
            }
        };
        let plan = plan.in_packets_of(self.sim.below(20 * SPEC.chunk_len as usize) as u64);
        let sender = Sender::to_reader(plan, sums(&image, plan.sums_window(plan.start)), Limits::READER);
        self.send(socket, sender, &image, came).await.map(|_| ())
    }

    /// Copies a finalized replica to another node, as a stock client may order it.
    pub(crate) async fn copy_to(&self, block: BlockId, target: usize) -> Option<Outcome> {
        let host = World::node_host(self.number);
        let socket = self.world.dial_write(host, target, xfer::write::Limits::DEFAULT.connect).await.ok()?;
        let (info, image) = self.volume.read(block, Generation(0)).await.ok()?;
        let Info { identity, len, state, .. } = info;
        let stored = Stored { generation: identity.generation, len: len as u64, checksum: SPEC, state };
        let plan = Plan::whole(stored).in_packets_of(self.sim.below(20 * SPEC.chunk_len as usize) as u64);
        let header = ClientOperationHeaderProto {
            base_header: BaseHeaderProto {
                block: ExtendedBlockProto::of("", block, identity.generation, len as u64),
                token: Some(TokenProto::none()),
                trace_info: None,
            },
            client_name: String::new(),
        };
        let request = read::copy_request(&header, stored, CopyTarget::default()).ok()?;
        let sender = Sender::to_node(plan, sums(&image, plan.sums_window(plan.start)), Limits::COPY, request);
        self.send(&socket, sender, &image, Vec::new()).await
    }

    /// Sends to the end. `None`: the connection ended before its time.
    async fn send(&self, socket: &Socket, mut sender: Sender, image: &Image, mut came: Vec<u8>) -> Option<Outcome> {
        loop {
            let now = self.sim.now();
            match sender.next(now) {
                Next::Sums(window) => sender.on_sums(sums(image, window)),
                Next::Packet(data) => {
                    // The file may be shorter than was thought: then the connection closes in mid-packet.
                    let data = image.data.get(data.start as usize..data.end as usize);
                    let bytes = [sender.head(), data?].concat();
                    let sending = socket.send_all(&bytes);
                    match sender.poll_timeout() {
                        Some(limit) => self.sim.timeout(limit.saturating_sub(now), sending).await?.ok()?,
                        None => sending.await.ok()?,
                    }
                    sender.on_sent(self.sim.now());
                }
                Next::Receive => {
                    let limit = sender.poll_timeout()?;
                    match self.sim.timeout(limit.saturating_sub(now), socket.receive(&mut came)).await {
                        Some(received) => received?,
                        None => sender.handle_timeout(limit).ok()?,
                    }
                    let consumed = sender.on_bytes(&came).ok()?;
                    came.drain(..consumed);
                }
                Next::Done(outcome) => return Some(outcome),
            }
        }
    }

    async fn open_read(&self, block: BlockId, wanted: Wanted, token: &TokenProto) -> Result<(Image, Plan), Refusal> {
        let grant = self.admit(block, (Mode::Read, false), &token.identifier, &token.password)?;
        let began = self.sim.now();
        loop {
            // Whether it is too old, the plan says.
            let read = self.volume.read(block, Generation(0)).await;
            let (info, image) = read.map_err(|error: VolumeError| Refusal::error(format!("{error:?}")))?;
            self.must_cover(&grant, info.identity.file)?;
            let generation = info.identity.generation;
            let stored = Stored { generation, len: info.len as u64, checksum: SPEC, state: info.state };
            let unserved = match Plan::new(stored, wanted) {
                Ok(plan) => return Ok((image, plan)),
                Err(unserved) => unserved,
            };
            let now = self.sim.now();
            match unserved.look_again(began, now) {
                Some(at) => self.sim.sleep_until(at).await,
                None => return Err(Refusal::error(unserved.to_string())),
            }
        }
    }
}

/// Takes a whole request off what came.
fn request(came: &mut Vec<u8>) -> Option<OpReadBlockProto> {
    let message = came.get(OpHeader::LEN..)?;
    let (message, len) = delimited::split(message, "operation", OP_MESSAGE_LEN_MAX as usize).expect("ours")?;
    let op = delimited::decode(message, "operation").expect("ours");
    came.drain(..OpHeader::LEN + len);
    Some(op)
}

/// The stored checksums of some bytes, of exactly those that are shown, as `container::Reader` has them.
fn sums(image: &Image, window: Bytes<u64>) -> Vec<u8> {
    let chunk_len = SPEC.chunk_len as usize;
    let (start, end) = (window.start as usize, window.end as usize);
    let sum = |at: usize| {
        let stored = image.sums.get(at / chunk_len).copied().unwrap_or(0);
        let whole = image.data.get(at..image.data.len().min(at + chunk_len)).unwrap_or(&[]);
        // The one in the file may already cover more.
        let shown = whole.get(..end.min(at + chunk_len) - at).unwrap_or(whole);
        let covers_more = shown.len() < whole.len() && stored == SPEC.kind.of(whole);
        if covers_more { SPEC.kind.of(shown) } else { stored }
    };
    (start..end).step_by(chunk_len).flat_map(|at| sum(at).to_be_bytes()).collect()
}

// ── whoever reads ──

/// A read on its connection.
struct Reading {
    sim: Sim,
    socket: Socket,
    receiver: Receiver,
}

impl World {
    /// The bytes of a replica, verified.
    pub(crate) async fn read_replica(
        self: &Rc<Self>,
        from: HostId,
        number: usize,
        ask: Ask,
        token: TokenProto,
        (connect, silent): (Duration, Duration),
    ) -> Result<Vec<u8>, Fault> {
        let socket = self.dial(from, number, connect, Datanode::accept_read).await.map_err(|_| Fault::closed())?;
        let range = Range { from: ask.from, end: ask.end };
        let block = ExtendedBlockProto::of("", ask.block, ask.generation, ask.end);
        let request = read::request(block, token, String::new(), range)?;
        socket.send_all(&request).await.map_err(|_| Fault::closed())?;
        let receiver = Receiver::new(range, ask.extent, silent, Front::default());
        let mut reading = Reading { sim: self.sim.clone(), socket, receiver };
        while reading.receiver.poll_answer()?.is_none() {
            reading.bring(&mut []).await?;
        }
        let mut bytes = Vec::new();
        let mut dest = vec![0; 1 + self.sim.below(2 * (ask.end - ask.from) as usize + 1)];
        if ask.extent == Extent::WholeChunks {
            dest.resize(dest.len().max(SPEC.chunk_len as usize), 0);
        }
        loop {
            match reading.receiver.poll(&mut dest)? {
                Given::Nothing => reading.bring(&mut dest).await?,
                Given::Bytes(len) => bytes.extend_from_slice(&dest[..len]),
                Given::All => break,
            }
        }
        // Whatever comes of the end, the bytes are good.
        if let Ok(verdict) = reading.end().await {
            let _gone = reading.socket.send_all(&verdict).await;
        }
        Ok(bytes)
    }
}

impl Reading {
    async fn end(&mut self) -> Result<Vec<u8>, Fault> {
        loop {
            match self.receiver.poll_end()? {
                Some(verdict) => return Ok(verdict),
                None => self.bring(&mut []).await?,
            }
        }
    }

    async fn bring(&mut self, dest: &mut [u8]) -> Result<(), Fault> {
        loop {
            let came = {
                let room = self.receiver.room(dest);
                self.socket.read_both(room.dest, room.ahead)
            };
            match came {
                Came::Bytes(len) => return self.receiver.on_received(self.sim.now(), len),
                Came::End => return self.receiver.on_received(self.sim.now(), 0),
                Came::Nothing => {}
            }
            let now = self.sim.now();
            self.receiver.on_blocked(now);
            let limit = self.receiver.poll_timeout().unwrap_or(now);
            if self.sim.timeout(limit.saturating_sub(now), self.socket.ready(true, false)).await.is_none() {
                self.receiver.handle_timeout(limit)?;
            }
        }
    }
}
