//! One connection to the head of a chain, or of a tree: packets go out, acks come in.
//!
//! Promise: a packet leaves the window only when every node of the chain said that it has it. After the first fault the
//! chain sends nothing more; what is in the window then must go down another chain.

use super::packer::Packet;
use crate::datanode::{Fault, Link, addr_of, send_all};
use crate::options::{Options, TIMEOUT_PER_NODE};
use ::io::{Clock, SystemClock};
use hdfs::proto;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::sync::Notify;
use wire::{Op, PipelineAck, Status};

/// Why a chain is of no more use.
#[derive(Debug)]
pub(super) struct Break {
    /// Which nodes are to blame, counted from the nearest, rising.
    pub(super) nodes: Vec<(usize, Fault)>,
}

impl Break {
    pub(super) fn of(node: usize, fault: Fault) -> Self {
        Self { nodes: vec![(node, fault)] }
    }
}

#[derive(Debug)]
pub(super) struct Chain {
    shared: Arc<Shared>,
    _acks: io::task::Owned<()>,
    in_flight_max: usize,
}

struct Shared {
    stream: TcpStream,
    /// Held while a packet is written, so that a heartbeat does not fall into it.
    sending: tokio::sync::Mutex<()>,
    /// A send was given up half-way: the stream has a part of a packet.
    torn: AtomicBool,
    window: Mutex<Window>,
    /// The window shrank, or the chain broke.
    changed: Notify,
    /// The window is not empty any more: from now on the nodes owe an answer.
    begun: Notify,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Shared")
    }
}

#[derive(Debug, Default)]
struct Window {
    unacked: VecDeque<Arc<Packet>>,
    /// Acknowledged, for their buffers.
    spent: Vec<Arc<Packet>>,
    /// The block up to here is on all nodes.
    acked_len: u64,
    broken: Option<Break>,
}

impl Shared {
    fn window(&self) -> std::sync::MutexGuard<'_, Window> {
        self.window.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn fail(&self, broken: Break) {
        let mut window = self.window();
        if window.broken.is_none() {
            window.broken = Some(broken);
        }
        drop(window);
        self.changed.notify_one();
    }
}

impl Chain {
    /// Opens a chain over `nodes`; `request` names all but the first as targets. `spare`: a node that stands still may be given
    /// up for others, so if they are ours they are given up soon.
    pub(super) async fn open(
        options: &Options,
        nodes: &[proto::DatanodeInfoProto],
        request: &proto::OpWriteBlockProto,
        acked_len: u64,
        spare: bool,
    ) -> Result<Self, Break> {
        let blame_head = |fault| Break::of(0, fault);
        let head = nodes.first().ok_or_else(|| blame_head(Fault::Protocol("no nodes".into())))?;
        let patience = options.timeout + TIMEOUT_PER_NODE * nodes.len() as u32;
        let hasty = spare && request.stream.is_some();
        let connect = if hasty { options.connect_timeout.min(options.stalled) } else { options.connect_timeout };
        let mut link = Link::connect_within(head, options, connect).await.map_err(blame_head)?;
        link.allow(if hasty { options.stalled } else { patience });
        link.send_op(Op::WriteBlock, request).await.map_err(blame_head)?;
        let answer = tokio::time::timeout(patience, link.receive_answer()).await.unwrap_or(Err(Fault::Silent));
        let answer = answer.map_err(|fault| {
            let node = match &fault {
                Fault::Refused { first_bad_link, .. } if !first_bad_link.is_empty() => {
                    nodes.iter().position(|node| addr_of(node) == *first_bad_link).unwrap_or(0)
                }
                _ => 0,
            };
            Break::of(node, fault)
        })?;
        let (stream, early) = link.into_parts();
        let shared = Arc::new(Shared {
            stream,
            sending: tokio::sync::Mutex::default(),
            torn: AtomicBool::new(false),
            window: Mutex::new(Window { acked_len, ..Window::default() }),
            changed: Notify::new(),
            begun: Notify::new(),
        });
        let acks = Acks {
            shared: Arc::clone(&shared),
            buffer: early,
            clock: SystemClock::new(),
            beat: options.timeout / 2,
            silence_max: if spare && answer.signs() { options.stalled } else { patience },
            standstill_max: patience,
            branches: request.stream.as_ref().is_some_and(|stream| !stream.parents.is_empty()),
        };
        let acks = io::task::spawn_owned("acks of a write chain", acks.run());
        Ok(Self { shared, _acks: acks, in_flight_max: options.packets_in_flight_max })
    }

    /// Sends a packet, waiting while too many are under way. It is in the window also if this fails. Gives back packets whose
    /// acks have come.
    pub(super) async fn send(&self, packet: Arc<Packet>) -> Result<Vec<Arc<Packet>>, ()> {
        self.until(|window| window.unacked.len() < self.in_flight_max).await.inspect_err(|()| {
            self.shared.window().unacked.push_back(Arc::clone(&packet));
        })?;
        let was_empty = {
            let mut window = self.shared.window();
            window.unacked.push_back(Arc::clone(&packet));
            window.unacked.len() == 1
        };
        if was_empty {
            self.shared.begun.notify_one();
        }
        let writing = async {
            let _sending = self.shared.sending.lock().await;
            if self.shared.torn.swap(true, Ordering::Relaxed) {
                return Err(std::io::Error::other("an earlier write was given up half-way"));
            }
            let sent = send_all(&self.shared.stream, packet.bytes()).await;
            self.shared.torn.store(sent.is_err(), Ordering::Relaxed);
            sent
        };
        tokio::select! {
            biased;
            sent = writing => if let Err(error) = sent {
                // The acks may tell which node it was; they end soon, for the connection is gone.
                let broken = tokio::time::timeout(BLAME_WAIT_MAX, self.until(|_| false)).await;
                if broken.is_err() {
                    self.shared.fail(Break::of(0, Fault::Broken(error)));
                }
                return Err(());
            },
            _ = self.until(|_| false) => return Err(()),
        }
        Ok(std::mem::take(&mut self.shared.window().spent))
    }

    pub(super) fn is_broken(&self) -> bool {
        self.shared.window().broken.is_some()
    }

    /// Returns when every packet is acknowledged.
    pub(super) async fn drain(&self) -> Result<(), ()> {
        self.until(|window| window.unacked.is_empty()).await
    }

    /// `Err` once the chain is broken.
    async fn until(&self, done: impl Fn(&Window) -> bool) -> Result<(), ()> {
        loop {
            {
                let window = self.shared.window();
                if window.broken.is_some() {
                    // Whoever looks next must find out, too.
                    self.shared.changed.notify_one();
                    return Err(());
                }
                if done(&window) {
                    return Ok(());
                }
            }
            self.shared.changed.notified().await;
        }
    }

    /// What became of a broken chain: who is to blame, what must be sent again, and how far the block is safe.
    pub(super) fn into_rest(self) -> (Option<Break>, VecDeque<Arc<Packet>>, u64) {
        let mut window = self.shared.window();
        (window.broken.take(), std::mem::take(&mut window.unacked), window.acked_len)
    }
}

/// After a failed write, how long to wait for an ack that tells which node of the chain broke.
const BLAME_WAIT_MAX: Duration = Duration::from_secs(2);

/// Takes acks, and says that the writer lives when it has nothing to send for half the time a node may be silent.
struct Acks {
    shared: Arc<Shared>,
    buffer: Vec<u8>,
    clock: SystemClock,
    beat: Duration,
    /// How long the nodes may owe an answer without a word, and without an ack.
    silence_max: Duration,
    standstill_max: Duration,
    /// More than a chain: acks tell of each node by itself.
    branches: bool,
}

impl Acks {
    async fn run(mut self) {
        if let Err(broken) = self.take_all().await {
            self.shared.fail(broken);
        }
    }

    async fn take_all(&mut self) -> Result<(), Break> {
        let now = self.clock.monotonic();
        let (mut heard, mut moved, mut beaten) = (now, now, now);
        let mut owed = false;
        loop {
            while let Some((ack, len)) = PipelineAck::split(&self.buffer).map_err(|error| blame_head(error.into()))? {
                self.buffer.drain(..len);
                if ack.is_sign() {
                    continue;
                }
                moved = self.clock.monotonic();
                if self.take(&ack)? {
                    return Ok(()); // the nodes have finalized the block, and close
                }
            }
            let now = self.clock.monotonic();
            let owes = !self.shared.window().unacked.is_empty();
            if owes && !owed {
                (heard, moved) = (now, now);
            }
            owed = owes;
            let lost_at = (heard + self.silence_max).min(moved + self.standstill_max);
            let beat_at = heard.max(beaten) + self.beat;
            let until = if owed { lost_at.min(beat_at) } else { beat_at };
            let ready = tokio::select! {
                biased;
                ready = self.shared.stream.readable() => Some(ready),
                () = tokio::time::sleep(until.saturating_sub(now)) => None,
                () = self.shared.begun.notified(), if !owed => continue,
            };
            let Some(ready) = ready else {
                let now = self.clock.monotonic();
                if owed && now >= lost_at {
                    return Err(blame_head(Fault::Silent));
                }
                if now >= beat_at {
                    self.beat().await?;
                    beaten = now;
                }
                continue;
            };
            ready.map_err(|error| blame_head(Fault::Broken(error)))?;
            let mut bytes = [0; 2048];
            match self.shared.stream.try_read(&mut bytes) {
                Ok(0) => return Err(blame_head(Fault::Broken(std::io::ErrorKind::UnexpectedEof.into()))),
                Ok(len) => {
                    self.buffer.extend_from_slice(&bytes[..len]);
                    heard = self.clock.monotonic();
                }
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(blame_head(Fault::Broken(error))),
            }
        }
    }

    /// True once the packet that ends the block is acknowledged.
    fn take(&self, ack: &PipelineAck) -> Result<bool, Break> {
        if let Some(broken) = self.blamed(&ack.replies) {
            return Err(broken);
        }
        if ack.seqno == PipelineAck::HEARTBEAT {
            return Ok(false);
        }
        let mut window = self.shared.window();
        match window.unacked.front() {
            Some(packet) if packet.header.seqno == ack.seqno => {}
            _ => return Err(blame_head(Fault::Protocol(format!("ack {} out of order", ack.seqno)))),
        }
        let mut ended = false;
        if let Some(packet) = window.unacked.pop_front() {
            ended = packet.header.last;
            window.acked_len = window.acked_len.max(packet.end_offset());
            window.spent.push(packet);
        }
        drop(window);
        self.shared.changed.notify_one();
        Ok(ended)
    }

    /// The nodes that a bad ack is about: in a chain the last that complains, as it is nearest to the trouble.
    fn blamed(&self, replies: &[Status]) -> Option<Break> {
        let is_bad = |status: Status| status != Status::SUCCESS && !(self.branches && status == Status::IN_PROGRESS);
        let mut bad = (0..replies.len()).filter(|node| is_bad(replies[*node]));
        let nodes: Vec<usize> = if self.branches { bad.collect() } else { bad.next_back().into_iter().collect() };
        if nodes.is_empty() {
            return None;
        }
        let fault = |node: usize| {
            let status = replies[node];
            let message = if status == Status::OOB_RESTART { "it restarts" } else { "it did not take a packet" };
            Fault::Refused { status: status.0.into(), first_bad_link: String::new(), message: message.into() }
        };
        Some(Break { nodes: nodes.into_iter().map(|node| (node, fault(node))).collect() })
    }

    /// Says that the writer lives, unless a packet is being written, which says it as well.
    async fn beat(&self) -> Result<(), Break> {
        let Ok(_sending) = self.shared.sending.try_lock() else { return Ok(()) };
        if self.shared.torn.load(Ordering::Relaxed) {
            return Ok(());
        }
        let sent = tokio::time::timeout(self.beat, send_all(&self.shared.stream, &Packet::heartbeat())).await;
        match sent {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => Err(blame_head(Fault::Broken(error))),
            Err(_) => Err(blame_head(Fault::Silent)),
        }
    }
}

fn blame_head(fault: Fault) -> Break {
    Break::of(0, fault)
}
