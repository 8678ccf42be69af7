//! One write stream, from the answer to its setup to its end: a thread around poll(2) of two sockets.
//!
//! ```text
//!             ┌──────── buffer ────────┐
//! above ─────▶│ packet │ packet │ pack…│─────▶ below        each packet: forward, verify, write
//!       ◀──── acks                     └◀───── acks
//!                        │ replica (container::Writer)
//! ```
//!
//! What happens is decided by [`chain::Link`]; this file only does it. Everything between receiving a packet and the
//! write of its bytes happens on one thread, from one buffer, while the bytes are in the core's cache.

use super::buffer::{BufferError, PacketBuffer};
use crate::node::Node;
use chain::{Action, Ending, Event, Failure, Link, Packet, Reply};
use container::{ReplicaError, Writer};
use io::poll::{Ready, Watch, poll};
use std::collections::VecDeque;
use std::io::{ErrorKind, Read};
use std::net::{Shutdown, TcpStream};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;
use types::{BlockId, ChecksumSpec};
use wire::{PacketFrame, PipelineAck, Status};

/// How long the bytes already sent by a writer are read and dropped after it was told of a failure. Closing at once
/// would reset the connection, and the news could be lost with it. Hadoop waits three seconds.
const LINGER: Duration = Duration::from_secs(3);
/// Acks a writer may leave untaken; then it is not read until it takes some. They are a few bytes each.
const ACKS_LEN_MAX: usize = 64 << 10;
/// How long the last acks may take to leave.
const FLUSH: Duration = Duration::from_secs(10);

/// One write stream. Both sockets are non-blocking.
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
    pub(super) above: TcpStream,
    /// Acks that the socket above did not take yet.
    pub(super) acks: Vec<u8>,
    pub(super) below: Option<Below>,
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

/// The node below.
#[derive(Debug)]
pub(super) struct Below {
    pub(super) socket: TcpStream,
    /// Acks, as they came.
    pub(super) inbox: Vec<u8>,
    /// When it last answered, or began to owe an answer.
    pub(super) heard: Duration,
    pub(super) silent: Duration,
}

impl Stream {
    /// Serves the stream to its end, and says how that was. `None`: the node stops.
    pub(super) fn run(&mut self, mut buffer: PacketBuffer) -> Option<Ending> {
        let ending = self.serve(&mut buffer);
        self.flush_within(FLUSH);
        if matches!(ending, Some(Ending::Failed { .. })) {
            self.linger();
        }
        ending
    }

    fn serve(&mut self, buffer: &mut PacketBuffer) -> Option<Ending> {
        loop {
            self.packets(buffer);
            self.flush();
            if self.ending.is_some() {
                return self.ending;
            }
            let [above, below, stop] = self.wait()?;
            if stop {
                return None;
            }
            if below {
                self.receive_acks();
            }
            if above {
                self.receive(buffer);
            }
        }
    }

    /// Takes all packets that are here to their end.
    fn packets(&mut self, buffer: &mut PacketBuffer) {
        while self.ending.is_none() && self.wants_packets() {
            match buffer.packet() {
                Ok(None) => return,
                Ok(Some(frame)) => {
                    let packet = Packet {
                        seqno: frame.header.seqno,
                        offset: frame.header.offset,
                        data_len: frame.data.len() as u32,
                        sums_len: frame.sums.len() as u32,
                        last: frame.header.last,
                        sync: frame.header.sync,
                    };
                    self.on_event(Event::Packet(packet), Some((buffer.bytes(&frame), &frame)));
                    buffer.consume(&frame);
                }
                Err(error) => {
                    let wrong = matches!(error, BufferError::Wire(_));
                    tracing::warn!(block = %self.block, %error, wrong, "packet refused");
                    return self.on_event(Event::AboveLost, None);
                }
            }
        }
    }

    fn wants_packets(&self) -> bool {
        self.link.wants_packets() && self.acks.len() < ACKS_LEN_MAX
    }

    /// Tells the link, and does what it says.
    fn on_event(&mut self, event: Event, packet: Option<(&[u8], &PacketFrame)>) {
        let mut events = VecDeque::from([event]);
        let mut actions = Vec::new();
        while let Some(event) = events.pop_front() {
            self.link.on_event(event, &mut actions);
            for action in actions.drain(..) {
                match action {
                    Action::Forward => {
                        let (bytes, _) = packet.expect("a packet to forward came");
                        if !self.forward(bytes) {
                            events.push_back(Event::BelowLost);
                        }
                    }
                    Action::Store { write, sync, put } => {
                        let (bytes, frame) = packet.expect("a packet to store came");
                        events.push_back(match self.store(bytes, frame, write, sync, put) {
                            Ok(()) => Event::Stored,
                            Err(failure) => Event::NotStored(failure),
                        });
                    }
                    Action::Show(len) => {
                        if let Some(writer) = &self.writer {
                            writer.set_visible(len);
                        }
                    }
                    Action::Ack { seqno, replies } if self.mode == Mode::Chain => {
                        let replies = replies.into_iter().map(|reply| Status(reply.0)).collect();
                        PipelineAck { seqno, replies }.put(&mut self.acks);
                    }
                    Action::Ack { .. } => {}
                    Action::Close(ending) => self.ending = Some(ending),
                }
            }
        }
    }

    fn store(
        &mut self,
        bytes: &[u8],
        frame: &PacketFrame,
        write: bool,
        sync: bool,
        put: Option<u64>,
    ) -> Result<(), Failure> {
        let data = &bytes[frame.data.clone()];
        let mut sums = &bytes[frame.sums.clone()];
        if !sums.is_empty()
            && let Err(at) = self.spec.verify(data, sums)
        {
            let offset = frame.header.offset as u64 + at as u64;
            tracing::warn!(block = %self.block, offset, "bytes that came do not match their checksum");
            return Err(Failure::Checksum);
        }
        let Some(writer) = self.writer.as_mut() else { return Err(Failure::Fenced) };
        if self.own_sums {
            sums = &[];
        }
        let mut done = Ok(());
        if write {
            done = writer.write(frame.header.offset as u64, data, sums);
        }
        if done.is_ok() && sync {
            done = writer.sync();
        }
        if let (Ok(()), Some(len), true) = (&done, put, self.mode != Mode::CopyOpen) {
            done = self.put(len);
        }
        done.map_err(|error| self.failure(error))
    }

    /// Makes the replica whole, and tells metad.
    fn put(&mut self, len: u64) -> Result<(), ReplicaError> {
        let Some(writer) = self.writer.take() else { return Ok(()) };
        writer.put(len)?;
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

    /// Sends a whole packet on. False if the node below does not take it.
    fn forward(&mut self, mut bytes: &[u8]) -> bool {
        let now = self.node.now();
        let idle = self.link.is_idle();
        let Some(below) = self.below.as_mut() else { return false };
        if idle {
            below.heard = now; // from now on it owes an answer
        }
        let mut moved = now;
        while !bytes.is_empty() {
            match io::transfer::send(&below.socket, bytes, false) {
                Ok(sent) => {
                    bytes = &bytes[sent..];
                    moved = self.node.now();
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    let left = (moved + below.silent).saturating_sub(self.node.now());
                    let watches = [
                        Watch { fd: below.socket.as_fd(), read: false, write: true },
                        Watch { fd: self.node.stop.as_fd(), read: true, write: false },
                    ];
                    match poll(&watches, Some(left)).as_deref() {
                        Ok([_, stop]) if !left.is_zero() && *stop == Ready::default() => {}
                        _ => return self.lose_below("takes no bytes"),
                    }
                }
                Err(_) => return self.lose_below("has hung up"),
            }
        }
        true
    }

    fn lose_below(&mut self, why: &'static str) -> bool {
        if let Some(below) = self.below.take() {
            let peer = below.socket.peer_addr().ok();
            tracing::info!(block = %self.block, ?peer, "the node below {why}");
        }
        false
    }

    /// Waits for bytes from above (if the link takes any), from below, or the end of the node; in this order.
    fn wait(&mut self) -> Option<[bool; 3]> {
        let wants = self.wants_packets();
        let now = self.node.now();
        let owed = self.below.as_ref().filter(|_| !self.link.is_idle());
        let below_until = owed.map(|below| below.heard + below.silent);
        let until = below_until
            .map_or(self.above_heard + self.writer_silent, |until| until.min(self.above_heard + self.writer_silent));
        let mut watches = vec![
            Watch { fd: self.node.stop.as_fd(), read: true, write: false },
            Watch { fd: self.above.as_fd(), read: wants, write: !self.acks.is_empty() },
        ];
        watches.extend(self.below.as_ref().map(|below| Watch { fd: below.socket.as_fd(), read: true, write: false }));
        let ready = poll(&watches, Some(until.saturating_sub(now)))
            .inspect_err(|error| tracing::error!(%error, "poll failed"))
            .ok()?;
        let now = self.node.now();
        if below_until.is_some_and(|until| now >= until) && !ready.get(2).is_some_and(|ready| ready.readable) {
            self.lose_below("does not answer");
            self.on_event(Event::BelowLost, None);
        }
        let gone = ready[1].closed && !wants;
        if now >= self.above_heard + self.writer_silent || gone {
            tracing::debug!(block = %self.block, gone, "the writer is silent or gone");
            self.on_event(Event::AboveLost, None);
        }
        let is_ready = |ready: &Ready| ready.readable || ready.closed;
        Some([wants && is_ready(&ready[1]), ready.get(2).is_some_and(is_ready), is_ready(&ready[0])])
    }

    fn receive(&mut self, buffer: &mut PacketBuffer) {
        let mut above = &self.above;
        match buffer.fill(|room| above.read(room)) {
            Ok(1..) => self.above_heard = self.node.now(),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
            Ok(0) | Err(_) => self.on_event(Event::AboveLost, None),
        }
    }

    fn receive_acks(&mut self) {
        let Some(below) = self.below.as_mut() else { return };
        let mut came = [0; 4096];
        let lost = match (&below.socket).read(&mut came) {
            Ok(0) => true,
            Ok(len) => {
                below.inbox.extend_from_slice(&came[..len]);
                below.heard = self.node.now();
                false
            }
            Err(error) => !matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted),
        };
        let mut inbox = std::mem::take(&mut below.inbox);
        let mut at = 0;
        let well = loop {
            match PipelineAck::split(&inbox[at..]) {
                Ok(None) => break true,
                Ok(Some((ack, len))) => {
                    at += len;
                    let replies = ack.replies.into_iter().map(|status| Reply(status.0)).collect();
                    self.on_event(Event::Ack { seqno: ack.seqno, replies }, None);
                }
                Err(_) => break false,
            }
        };
        inbox.drain(..at);
        if let Some(below) = self.below.as_mut() {
            below.inbox = inbox;
        }
        if lost || !well {
            self.lose_below(if lost { "has hung up" } else { "talks nonsense" });
            self.on_event(Event::BelowLost, None);
        }
    }

    /// Sends acks as far as the socket takes them.
    fn flush(&mut self) {
        while !self.acks.is_empty() {
            match io::transfer::send(&self.above, &self.acks, false) {
                Ok(sent) => _ = self.acks.drain(..sent),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(_) => {
                    self.acks.clear();
                    return self.on_event(Event::AboveLost, None);
                }
            }
        }
    }

    fn flush_within(&mut self, limit: Duration) {
        let until = self.node.now() + limit;
        self.flush();
        while !self.acks.is_empty() && self.node.now() < until {
            let watches = [
                Watch { fd: self.above.as_fd(), read: false, write: true },
                Watch { fd: self.node.stop.as_fd(), read: true, write: false },
            ];
            match poll(&watches, Some(until.saturating_sub(self.node.now()))).as_deref() {
                Ok([_, stop]) if *stop == Ready::default() => self.flush(),
                _ => return,
            }
        }
    }

    /// Reads what the writer still sends, and drops it, until it has understood.
    fn linger(&mut self) {
        self.below = None;
        let _gone = self.above.shutdown(Shutdown::Write);
        let until = self.node.now() + LINGER;
        let mut dropped = vec![0; 64 << 10];
        loop {
            let left = until.saturating_sub(self.node.now());
            let watches = [
                Watch { fd: self.above.as_fd(), read: true, write: false },
                Watch { fd: self.node.stop.as_fd(), read: true, write: false },
            ];
            match poll(&watches, Some(left)).as_deref() {
                Ok([above, stop]) if !left.is_zero() && *stop == Ready::default() && *above != Ready::default() => {}
                _ => return,
            }
            match (&self.above).read(&mut dropped) {
                Ok(1..) => {}
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
                Ok(0) | Err(_) => return,
            }
        }
    }
}
