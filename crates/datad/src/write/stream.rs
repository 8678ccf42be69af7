//! One write stream, from the answer to its setup to its end: a thread around poll(2) of its sockets.
//!
//! ```text
//!             ┌──────── buffer ────────┐─────▶ below        all that came: forward to all, verify, write
//! above ─────▶│ packet │ packet │ pack…│─────▶ below
//!       ◀──── acks                     └◀───── acks of each
//!                        │ replica (container::Writer)
//! ```
//!
//! A node below that is slow holds the packet in the one buffer until it has taken it, so that nothing piles up here;
//! the others meanwhile work on what they got.
//!
//! What happens is decided by [`xfer::write::Link`]; this file only does it. Everything between receiving a packet and the
//! write of its bytes happens on one thread, from one buffer, while the bytes are in the core's cache.

use super::above::Above;
use super::below::Below;
use super::buffer::{BufferError, PacketBuffer};
use super::lost::Lost;
use crate::disks::Writer;
use crate::node::Node;
use crate::telemetry::Operation;
use container::ReplicaError;
use io::poll::{Ready, Watch, poll};
use std::io::{ErrorKind, Read};
use std::net::Shutdown;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;
use types::{BlockId, ChecksumSpec};
use wire::{PacketFrame, PipelineAck, Status};
use xfer::write::{Action, Ending, Event, Failure, Link, Packet, Reply};

/// How long the bytes already sent by a writer are read and dropped after it was told of a failure. Closing at once
/// would reset the connection, and the news could be lost with it. Hadoop waits three seconds.
const LINGER: Duration = Duration::from_secs(3);
/// Acks a writer may leave untaken; then it is not read until it takes some. They are a few bytes each.
const ACKS_LEN_MAX: usize = 64 << 10;
/// How long the last acks may take to leave.
const FLUSH: Duration = Duration::from_secs(10);

/// One write stream. All sockets are non-blocking.
#[derive(Debug)]
pub(super) struct Stream {
    pub(super) node: Arc<Node>,
    pub(super) block: BlockId,
    /// What covers the packets. An append may come with other checksums than the replica has.
    pub(super) spec: ChecksumSpec,
    /// The replica makes its own checksums, as those of the packets are of another kind.
    pub(super) own_sums: bool,
    pub(super) link: Link,
    /// Gone once the block is put.
    pub(super) writer: Option<Writer>,
    pub(super) above: Arc<Above>,
    /// As the link counts them; gone once lost.
    pub(super) below: Vec<Option<Below>>,
    pub(super) mode: Mode,
    /// When something last came from above.
    pub(super) above_heard: Duration,
    pub(super) writer_silent: Duration,
    pub(super) ending: Option<Ending>,
}

/// Who writes, and what becomes of the replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    /// A client, through a chain: acks go back, and the last packet puts the block.
    Chain,
    /// Another node copies its open replica, so that this node can join a chain: no acks, and the replica stays open.
    CopyOpen,
    /// Another node copies a whole replica: no acks, the last packet puts it.
    CopyWhole,
}

/// A packet that is to be stored, and what must follow.
#[derive(Debug)]
struct Store<'a> {
    packet: container::Packet<'a>,
    write: bool,
    sync: bool,
    put: Option<u64>,
}

impl Store<'_> {
    /// More is to be done for it than to write: whatever comes later waits until that is done.
    fn ends_run(&self) -> bool {
        self.sync || self.put.is_some()
    }
}

impl Stream {
    /// Serves the stream to its end, and says how that was. `None`: the node stops.
    pub(super) fn run(&mut self, mut buffer: PacketBuffer) -> Option<Ending> {
        let ending = self.serve(&mut buffer);
        flush_within(&self.node, &self.above, FLUSH);
        if matches!(ending, Some(Ending::Failed { .. })) {
            self.linger();
        }
        ending
    }

    fn serve(&mut self, buffer: &mut PacketBuffer) -> Option<Ending> {
        loop {
            self.packets(buffer);
            self.acks();
            self.flush();
            if self.ending.is_some() {
                return self.ending;
            }
            match self.wait() {
                Woken::Stopped => return None,
                Woken::Above => self.receive(buffer),
                Woken::Otherwise => {}
            }
        }
    }

    /// Takes all packets that are here to their end, as many at once as came.
    fn packets(&mut self, buffer: &mut PacketBuffer) {
        while self.ending.is_none() && self.wants_packets() {
            match buffer.run() {
                Ok(run) => {
                    let Some((at, frame)) = run.last() else { return };
                    let end = at + frame.packet_len();
                    self.take(&run, buffer.bytes());
                    buffer.consume(end);
                }
                Err(error) => {
                    let wrong = matches!(error, BufferError::Wire(_));
                    tracing::warn!(block = %self.block, %error, wrong, "packet refused");
                    return self.on_event(Event::AboveLost);
                }
            }
        }
    }

    fn wants_packets(&self) -> bool {
        self.link.wants_packets() && self.above.pending_len() < ACKS_LEN_MAX
    }

    /// Takes packets that lie one behind the other in `bytes`: they go on with one call to each node below, and to the
    /// disk with few.
    fn take(&mut self, run: &[(usize, PacketFrame)], bytes: &[u8]) {
        let mut actions = Vec::new();
        let mut stores = Vec::new();
        let mut forwarded = 0..0;
        for (at, frame) in run {
            let packet = Packet {
                seqno: frame.header.seqno,
                offset: frame.header.offset,
                data_len: frame.data.len() as u32,
                sums_len: frame.sums.len() as u32,
                last: frame.header.last,
                sync: frame.header.sync,
            };
            self.link.on_event(Event::Packet(packet), &mut actions);
            for action in actions.drain(..) {
                match action {
                    Action::Forward if forwarded.is_empty() => forwarded = *at..at + frame.packet_len(),
                    Action::Forward => forwarded.end = at + frame.packet_len(),
                    Action::Store { write, sync, put } => {
                        let bytes = &bytes[*at..at + frame.packet_len()];
                        let offset = frame.header.offset as u64;
                        let packet = container::Packet {
                            offset,
                            data: &bytes[frame.data.clone()],
                            sums: &bytes[frame.sums.clone()],
                        };
                        stores.push(Store { packet, write, sync, put });
                    }
                    other => self.act(other),
                }
            }
        }
        if !forwarded.is_empty() {
            self.forward(&bytes[forwarded]);
        }
        let mut failed = None;
        for run in stores.chunk_by(|store, _| !store.ends_run()) {
            let (stored_count, failure) = if failed.is_some() { (0, failed) } else { self.store(run) };
            failed = failure;
            for number in 0..run.len() {
                self.on_event(match failed {
                    Some(failure) if number >= stored_count => Event::NotStored(failure),
                    _ => Event::Stored,
                });
            }
        }
    }

    /// Tells the link, and does what it says.
    fn on_event(&mut self, event: Event) {
        let mut actions = Vec::new();
        self.link.on_event(event, &mut actions);
        actions.into_iter().for_each(|action| self.act(action));
    }

    fn act(&mut self, action: Action) {
        match action {
            Action::Show(len) => {
                if let Some(writer) = &self.writer {
                    writer.set_visible(len);
                }
            }
            Action::Ack { seqno, replies } if self.mode == Mode::Chain => {
                let replies = replies.into_iter().map(|reply| Status(reply.0)).collect();
                self.above.put_ack(&PipelineAck { seqno, replies });
            }
            Action::Ack { .. } => {}
            Action::Close(ending) => self.ending = Some(ending),
            Action::Forward | Action::Store { .. } => unreachable!("only a packet is forwarded and stored"),
        }
    }

    /// Verifies and writes packets up to the first that is bad, and does what the last of them asks for. Gives how many
    /// are stored, and what became of the others.
    fn store(&mut self, run: &[Store]) -> (usize, Option<Failure>) {
        let sound_count = run.iter().take_while(|store| self.is_sound(&store.packet)).count();
        match self.write(&run[..sound_count]) {
            Err(failure) => (0, Some(failure)),
            Ok(()) if sound_count == run.len() => (sound_count, None),
            Ok(()) => (sound_count, Some(Failure::Checksum)),
        }
    }

    fn is_sound(&self, packet: &container::Packet) -> bool {
        let verified = if packet.sums.is_empty() { Ok(()) } else { self.spec.verify(packet.data, packet.sums) };
        if let Err(at) = verified {
            let offset = packet.offset + at as u64;
            tracing::warn!(block = %self.block, offset, "bytes that came do not match their checksum");
        }
        verified.is_ok()
    }

    fn write(&mut self, run: &[Store]) -> Result<(), Failure> {
        let Some(last) = run.last() else { return Ok(()) };
        let (sync, put) = (last.sync, last.put.filter(|_| self.mode != Mode::CopyOpen));
        let Some(writer) = self.writer.as_mut() else { return Err(Failure::Fenced) };
        let node = Arc::clone(&self.node);
        // The disk may take long now, and this thread cannot say meanwhile that it lives.
        let _busy = if last.ends_run() { node.beacon.busy(&self.above, node.now()) } else { None };
        let written = run.iter().filter(|store| store.write).map(|store| store.packet);
        let written: Vec<container::Packet> = if self.own_sums {
            written.map(|packet| container::Packet { sums: &[], ..packet }).collect()
        } else {
            written.collect()
        };
        let operation = if self.mode == Mode::Chain { Operation::Write } else { Operation::CopyIn };
        let len = written.iter().map(|packet| packet.data.len() as u64).sum();
        node.telemetry.operations.bytes(operation).inc_by(len);
        let done = writer.write_run(&written).and_then(|()| match put {
            Some(len) => self.put(len, sync),
            None if sync => self.writer.as_mut().map_or(Ok(()), |writer| writer.sync()),
            None => Ok(()),
        });
        done.map_err(|error| self.failure(error))
    }

    /// Makes the replica whole, and tells metad.
    fn put(&mut self, len: u64, synced: bool) -> Result<(), ReplicaError> {
        let Some(writer) = self.writer.take() else { return Ok(()) };
        if synced { writer.put_synced(len) } else { writer.put(len) }?;
        self.node.was_put(self.block);
        Ok(())
    }

    fn failure(&self, error: ReplicaError) -> Failure {
        if matches!(error.advice(), container::Advice::StopWriting) {
            tracing::debug!(block = %self.block, %error, "a writer was shut out");
            Failure::Fenced
        } else {
            tracing::error!(block = %self.block, %error, "a packet could not be stored");
            Failure::Disk
        }
    }

    /// Sends whole packets on to all nodes below. Those that are lost by it are told of by [`Stream::acks`].
    fn forward(&mut self, packets: &[u8]) {
        let mut now = self.node.now();
        for below in self.below.iter_mut().flatten() {
            below.taken = 0;
            below.owe(now);
        }
        loop {
            let mut all = true;
            for below in self.below.iter_mut().flatten() {
                all &= below.send(packets, now);
            }
            if all {
                return;
            }
            // While some of them do not take bytes, all of them may say something, and those above wait for a word of
            // ours.
            let present = || self.below.iter().flatten().filter(|below| below.gone.is_none());
            let until = present().filter_map(Below::until).chain(self.sign_due()).min().unwrap_or(now);
            let mut watches = vec![Watch { fd: self.node.stop.as_fd(), read: true, write: false }];
            for below in present() {
                watches.push(Watch { fd: below.socket.as_fd(), read: true, write: below.taken < packets.len() });
            }
            let ready = poll(&watches, Some(until.saturating_sub(now)));
            now = self.node.now();
            let present = self.below.iter_mut().flatten().filter(|below| below.gone.is_none());
            match ready.as_deref() {
                Ok([stop, ready @ ..]) if *stop == Ready::default() => {
                    for (below, ready) in present.zip(ready) {
                        if ready.readable || ready.closed {
                            below.receive(now);
                        }
                        below.check_timeout(now);
                    }
                }
                _ => return present.for_each(|below| below.gone = Some(Lost::Stopping)),
            }
            self.sign(now);
        }
    }

    /// When those above must hear from this node, if they wait for it: it owes an answer, or bytes came since its last
    /// word.
    fn sign_due(&self) -> Option<Duration> {
        if !self.above.takes_signs() {
            return None;
        }
        let told = self.above.last_sent();
        let waited_for = !self.link.is_idle() || self.above_heard > told;
        waited_for.then(|| told + Duration::from_millis(self.node.config.limits.sign_ms))
    }

    fn sign(&self, now: Duration) {
        if self.sign_due().is_some_and(|due| now >= due) {
            self.above.sign(now, Duration::ZERO);
        }
    }

    /// Waits for bytes from above (if the link takes any) or below, or the end of the node. What comes from below is
    /// taken.
    fn wait(&mut self) -> Woken {
        let wants = self.wants_packets();
        let now = self.node.now();
        for (place, below) in self.below.iter_mut().enumerate() {
            if let Some(below) = below.as_mut().filter(|_| !self.link.awaits(place)) {
                below.settle();
            }
        }
        let above_until = self.above_heard + self.writer_silent;
        let below_until = self.below.iter().flatten().filter_map(Below::until).min();
        let until =
            [Some(above_until), below_until, self.sign_due()].into_iter().flatten().min().unwrap_or(above_until);
        let mut watches = vec![
            Watch { fd: self.node.stop.as_fd(), read: true, write: false },
            Watch { fd: self.above.socket.as_fd(), read: wants, write: self.above.pending_len() > 0 },
        ];
        for below in self.below.iter().flatten() {
            watches.push(Watch { fd: below.socket.as_fd(), read: true, write: false });
        }
        let ready = match poll(&watches, Some(until.saturating_sub(now))) {
            Ok(ready) => ready,
            Err(error) => {
                tracing::error!(%error, "poll failed");
                return Woken::Stopped;
            }
        };
        let is_ready = |ready: &Ready| ready.readable || ready.closed;
        if is_ready(&ready[0]) {
            return Woken::Stopped;
        }
        let now = self.node.now();
        for (below, ready) in self.below.iter_mut().flatten().zip(&ready[2..]) {
            if is_ready(ready) {
                below.receive(now);
            }
            below.check_timeout(now);
        }
        let gone = ready[1].closed && !wants;
        if now >= above_until || gone {
            tracing::debug!(block = %self.block, disconnected = gone, "upstream lost");
            self.on_event(Event::AboveLost);
        }
        self.sign(now);
        if wants && is_ready(&ready[1]) { Woken::Above } else { Woken::Otherwise }
    }

    fn receive(&mut self, buffer: &mut PacketBuffer) {
        let mut above = &self.above.socket;
        match buffer.fill(|room| above.read(room)) {
            Ok(1..) => self.above_heard = self.node.now(),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
            Ok(0) | Err(_) => self.on_event(Event::AboveLost),
        }
    }

    /// Tells the link of what came from below, and of who is lost.
    fn acks(&mut self) {
        for place in 0..self.below.len() {
            let Some(below) = &mut self.below[place] else { continue };
            let mut inbox = std::mem::take(&mut below.inbox);
            let mut gone = below.gone;
            let mut at = 0;
            loop {
                match PipelineAck::split(&inbox[at..]) {
                    Ok(None) => break,
                    Ok(Some((ack, len))) => {
                        at += len;
                        if ack.is_sign() {
                            continue;
                        }
                        if let Some(below) = &mut self.below[place] {
                            below.moved(self.node.now());
                        }
                        let replies = ack.replies.into_iter().map(|status| Reply(status.0)).collect();
                        self.on_event(Event::Ack { below: place, seqno: ack.seqno, replies });
                    }
                    Err(_) => {
                        gone = Some(Lost::ProtocolError);
                        break;
                    }
                }
            }
            inbox.drain(..at);
            let Some(below) = &mut self.below[place] else { continue };
            below.inbox = inbox;
            if let Some(why) = gone {
                tracing::info!(block = %self.block, peer = ?below.socket.peer_addr().ok(), reason = %why, "downstream node lost");
                self.below[place] = None;
                self.on_event(Event::BelowLost { below: place });
            }
        }
    }

    /// Sends acks as far as the socket takes them.
    fn flush(&mut self) {
        if !self.above.flush(self.node.now()) {
            self.on_event(Event::AboveLost);
        }
    }

    /// Reads what the writer still sends, and drops it, until it has understood.
    fn linger(&mut self) {
        self.below.clear();
        let _gone = self.above.socket.shutdown(Shutdown::Write);
        let until = self.node.now() + LINGER;
        let mut dropped = vec![0; 64 << 10];
        loop {
            let left = until.saturating_sub(self.node.now());
            let watches = [
                Watch { fd: self.above.socket.as_fd(), read: true, write: false },
                Watch { fd: self.node.stop.as_fd(), read: true, write: false },
            ];
            match poll(&watches, Some(left)).as_deref() {
                Ok([above, stop]) if !left.is_zero() && *stop == Ready::default() && *above != Ready::default() => {}
                _ => return,
            }
            match (&self.above.socket).read(&mut dropped) {
                Ok(1..) => {}
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
                Ok(0) | Err(_) => return,
            }
        }
    }
}

/// Why a wait ended.
enum Woken {
    Above,
    Otherwise,
    Stopped,
}

/// Sends what is left for above, as long as somebody takes it.
pub(super) fn flush_within(node: &Node, above: &Above, limit: Duration) {
    let until = node.now() + limit;
    above.flush(node.now());
    while above.pending_len() > 0 && node.now() < until {
        let watches = [
            Watch { fd: above.socket.as_fd(), read: false, write: true },
            Watch { fd: node.stop.as_fd(), read: true, write: false },
        ];
        match poll(&watches, Some(until.saturating_sub(node.now()))).as_deref() {
            Ok([_, stop]) if *stop == Ready::default() => _ = above.flush(node.now()),
            _ => return,
        }
    }
}
