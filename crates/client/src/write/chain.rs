//! One connection to the head of a chain, or of a tree: packets go out, acks come in.
//!
//! Promise: a packet leaves the window only when every node of the chain said that it has it. After the first fault the
//! chain sends nothing more; what is in the window then must go down another chain.
//!
//! Every future here may be dropped: a packet is in the window before a byte of it is written, the window knows how
//! many of its bytes the socket has taken, and whoever writes next goes on behind them.

use super::packer::Packet;
use crate::datanode::{Fault, Link, addr_of, send_all};
use crate::options::{Options, TIMEOUT_PER_NODE};
use ::io::{Clock, SystemClock};
use hdfs::proto;
use std::collections::VecDeque;
use std::io::ErrorKind;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::sync::Notify;
use wire::{Abilities, Op, PipelineAck, Status};

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

/// What a broken chain leaves.
#[derive(Debug, Default)]
pub(super) struct Rest {
    /// Who is to blame.
    pub(super) broken: Option<Break>,
    /// What must be sent again.
    pub(super) unacked: VecDeque<Arc<Packet>>,
    /// How far the block is safe.
    pub(super) acked_len: u64,
}

impl Rest {
    /// Whether all data is acknowledged, and nothing but the end of the block is missing. It may be put then as it is.
    pub(super) fn lacks_only_the_end(&self) -> bool {
        let Some(end) = self.unacked.front().filter(|packet| packet.header.last) else { return false };
        assert!(end.end_offset() == self.acked_len, "a block of {} bytes ends at {}", self.acked_len, end.end_offset());
        true
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
    /// Held while packets are written, so that a heartbeat does not fall between.
    sending: tokio::sync::Mutex<()>,
    window: Mutex<Window>,
    /// The window shrank, or the chain broke.
    changed: Notify,
    /// Something is being written: from now on the nodes owe an answer.
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
    /// How many of those are written, and how many bytes of the one behind them.
    written_count: usize,
    part_len: usize,
    /// Somebody is writing just now.
    writing: bool,
    /// Acknowledged, for their buffers.
    spent: Vec<Arc<Packet>>,
    /// The block up to here is on all nodes.
    acked_len: u64,
    broken: Option<Break>,
}

impl Window {
    /// The block up to here is acknowledged, or in the window.
    fn end(&self) -> u64 {
        self.unacked.back().map_or(self.acked_len, |packet| packet.end_offset())
    }

    /// What is to be written next, and from where on.
    fn unwritten(&self) -> Option<(Arc<Packet>, usize)> {
        self.unacked.get(self.written_count).map(|packet| (Arc::clone(packet), self.part_len))
    }

    fn on_written(&mut self, packet: &Packet, len: usize) {
        let next = self.unacked.get(self.written_count);
        if next.is_none_or(|next| next.header.seqno != packet.header.seqno) {
            return; // its ack was faster than this note
        }
        self.part_len += len;
        if packet.bytes().len() == self.part_len {
            (self.written_count, self.part_len) = (self.written_count + 1, 0);
        }
    }

    /// Takes the oldest packet out, if it is this one and the nodes can have it.
    fn on_acked(&mut self, seqno: i64) -> Option<Arc<Packet>> {
        let is_sent = self.written_count > 0 || self.writing;
        self.unacked.front().filter(|packet| is_sent && packet.header.seqno == seqno)?;
        let packet = self.unacked.pop_front()?;
        match self.written_count.checked_sub(1) {
            Some(count) => self.written_count = count,
            None => self.part_len = 0, // whoever writes it does not know yet that it is written
        }
        self.acked_len = self.acked_len.max(packet.end_offset());
        Some(packet)
    }

    /// The nodes have all of a packet, and it is not acknowledged; or they are being sent one, which they may not take.
    fn is_owed(&self) -> bool {
        self.written_count > 0 || self.writing
    }
}

/// Until this is dropped somebody writes.
struct Writing<'a>(&'a Shared);

impl Drop for Writing<'_> {
    fn drop(&mut self) {
        self.0.window().writing = false;
    }
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

    /// Writes all that is in the window and not written yet. Dropped, it leaves the rest to whoever writes next.
    async fn write(&self) -> std::io::Result<()> {
        let _sending = self.sending.lock().await;
        let _writing = {
            let mut window = self.window();
            if window.unwritten().is_none() {
                return Ok(());
            }
            if !std::mem::replace(&mut window.writing, true) && window.written_count == 0 {
                self.begun.notify_one();
            }
            Writing(self)
        };
        self.write_rest().await
    }

    /// As `write`; the caller holds `sending`.
    async fn write_rest(&self) -> std::io::Result<()> {
        loop {
            let Some((packet, from)) = self.window().unwritten() else { return Ok(()) };
            // Between a write and the note of it nothing is waited for.
            match self.stream.try_write(&packet.bytes()[from..]) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(len) => self.window().on_written(&packet, len),
                Err(error) if error.kind() == ErrorKind::WouldBlock => self.stream.writable().await?,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}

impl Chain {
    /// Opens a chain over `nodes`; `request` names all but the first as targets. `spare`: a node that stands still may
    /// be given up for others, so if they are ours they are given up soon.
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
            window: Mutex::new(Window { acked_len, ..Window::default() }),
            changed: Notify::new(),
            begun: Notify::new(),
        });
        let acks = Acks {
            shared: Arc::clone(&shared),
            buffer: early,
            clock: SystemClock::new(),
            beat: options.timeout / 2,
            silence_max: if spare && Abilities::of(answer.abilities).has(Abilities::SIGNS) {
                options.stalled
            } else {
                patience
            },
            standstill_max: patience,
            branches: request.stream.as_ref().is_some_and(|stream| !stream.parents.is_empty()),
        };
        let acks = io::task::spawn_owned("acks of a write chain", acks.run());
        Ok(Self { shared, _acks: acks, in_flight_max: options.packets_in_flight_max })
    }

    /// Returns when another packet may be pushed.
    pub(super) async fn room(&self) -> Result<(), ()> {
        self.send_rest().await?; // of a send that was dropped
        self.until(|window| window.unacked.len() < self.in_flight_max).await
    }

    /// Takes a packet into the window. [`Chain::write`] sends it.
    pub(super) fn push(&self, packet: Arc<Packet>) {
        let mut window = self.shared.window();
        let (end, offset) = (window.end(), packet.header.offset as u64);
        assert!(offset == end, "a packet at {offset} behind {end} bytes: those between were lost");
        window.unacked.push_back(packet);
    }

    /// Sends what was pushed. Gives back packets whose acks have come.
    pub(super) async fn write(&self) -> Result<Vec<Arc<Packet>>, ()> {
        self.send_rest().await?;
        Ok(std::mem::take(&mut self.shared.window().spent))
    }

    async fn send_rest(&self) -> Result<(), ()> {
        tokio::select! {
            biased;
            sent = self.shared.write() => if let Err(error) = sent {
                // The acks may tell which node it was; they end soon, for the connection is gone.
                let broken = tokio::time::timeout(BLAME_WAIT_MAX, self.until(|_| false)).await;
                if broken.is_err() {
                    self.shared.fail(Break::of(0, Fault::Broken(error)));
                }
                return Err(());
            },
            _ = self.until(|_| false) => return Err(()),
        }
        Ok(())
    }

    pub(super) fn is_broken(&self) -> bool {
        self.shared.window().broken.is_some()
    }

    /// Returns when every packet is sent and acknowledged.
    pub(super) async fn drain(&self) -> Result<(), ()> {
        self.send_rest().await?;
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

    /// What became of a broken chain.
    pub(super) fn into_rest(self) -> Rest {
        let mut window = self.shared.window();
        let (broken, unacked) = (window.broken.take(), std::mem::take(&mut window.unacked));
        Rest { broken, unacked, acked_len: window.acked_len }
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
            let owes = self.shared.window().is_owed();
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
        let Some(packet) = window.on_acked(ack.seqno) else {
            return Err(blame_head(Fault::Protocol(format!("ack {} out of order", ack.seqno))));
        };
        let ended = packet.header.last;
        window.spent.push(packet);
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

    /// Says that the writer lives, unless packets are being written, which says it as well. A packet that somebody
    /// began to write and gave up is brought to its end instead.
    async fn beat(&self) -> Result<(), Break> {
        let Ok(_sending) = self.shared.sending.try_lock() else { return Ok(()) };
        let is_idle = self.shared.window().unwritten().is_none();
        let heartbeat = Packet::heartbeat();
        let sending = async {
            if is_idle { send_all(&self.shared.stream, &heartbeat).await } else { self.shared.write_rest().await }
        };
        match tokio::time::timeout(self.beat, sending).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => Err(blame_head(Fault::Broken(error))),
            Err(_) => Err(blame_head(Fault::Silent)),
        }
    }
}

fn blame_head(fault: Fault) -> Break {
    Break::of(0, fault)
}
