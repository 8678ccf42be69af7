//! One connection to the first node of a chain or tree: packets go out, acks come in.
//!
//! ```text
//!   push ─▶ window ─▶ next ─▶ (socket) ─▶ on_sent          handle_bytes ─▶ acks ─▶ out of the window, oldest first
//!                        ╰─ pause: the sender gave up          handle_timeout ─▶ silence, heartbeats
//! ```
//!
//! After the first fault the stream sends nothing more and takes no ack: what is in the window then must go down
//! another one. A sender may give up wherever it waits: a packet is in the window before a byte of it is written, and
//! the window knows how many of its bytes the socket has taken.

use super::fault::{Break, of_reply};
use super::packet::Packet;
use super::window::{Outgoing, Rest, Window};
use crate::acks::AckReader;
use crate::fault::Fault;
use std::sync::Arc;
use std::time::Duration;
use types::mutation::{self, Mutation};
use wire::{PipelineAck, Status};

/// After a failed write, how long to wait for an ack that tells which node of the chain broke. A guess: nodes of ours
/// know it within two seconds.
pub const BLAME_WAIT_MAX: Duration = Duration::from_secs(2);

/// What a set-up agreed on for the stream that follows.
#[derive(Clone, Copy, Debug)]
pub(super) struct Terms {
    pub(super) node_count: usize,
    /// More than a chain: acks tell of each node by itself.
    pub(super) branches: bool,
    pub(super) acked_len: u64,
    /// How long the nodes may owe an answer without a word, and without an ack of a packet.
    pub(super) silence_max: Duration,
    pub(super) standstill_max: Duration,
    /// With nothing to hear and nothing to send for so long, the writer says that it lives.
    pub(super) beat: Duration,
    pub(super) in_flight_max: usize,
}

#[derive(Debug)]
enum State {
    Open,
    /// The socket takes no more bytes. An ack may still tell which node it was, until then.
    Torn {
        fault: Fault,
        until: Duration,
    },
    Broken(Break),
    /// All nodes have put the block.
    Ended,
}

/// A heartbeat that is due.
#[derive(Debug)]
struct Heartbeat {
    packet: Arc<Packet>,
    written_len: usize,
}

/// One connection, from the answer of the set-up to the end of the block or the first fault.
#[derive(Debug)]
pub struct Stream {
    terms: Terms,
    state: State,
    window: Window,
    acks: AckReader,
    heartbeat: Option<Heartbeat>,
    /// Somebody is sending: bytes are offered to the socket, or it is waited for.
    sending: bool,
    /// When the nodes said anything, when they took a packet, and when a heartbeat was due.
    heard: Duration,
    moved: Duration,
    beaten: Duration,
    /// The nodes owe an answer, or are to take bytes.
    owed: bool,
}

impl Stream {
    pub(super) fn new(now: Duration, terms: Terms) -> Self {
        assert!(terms.in_flight_max > 0, "a stream with room for no packet");
        Self {
            terms,
            state: State::Open,
            window: Window::new(terms.acked_len),
            acks: AckReader::default(),
            heartbeat: None,
            sending: false,
            heard: now,
            moved: now,
            beaten: now,
            owed: false,
        }
    }

    // ── packets ──

    /// Another packet may be pushed.
    pub fn has_room(&self) -> bool {
        self.window.len() < self.terms.in_flight_max
    }

    /// Every packet is sent and acknowledged.
    pub fn is_drained(&self) -> bool {
        self.window.len() == 0
    }

    /// Takes a packet into the window.
    pub fn push(&mut self, packet: Arc<Packet>) {
        self.window.push(packet);
    }

    /// Packets that were acknowledged since this was asked last.
    pub fn take_spent(&mut self) -> Vec<Arc<Packet>> {
        self.window.take_spent()
    }

    // ── bytes out ──

    /// What the socket is to take next. Each answer must be followed by [`Stream::on_sent`] or
    /// [`Stream::on_send_failed`] before the next question. With `None` the sender's turn is over.
    pub fn next(&mut self, now: Duration) -> Option<Outgoing> {
        let next = self.choose();
        self.sending = next.is_some();
        self.watch(now);
        next
    }

    fn choose(&mut self) -> Option<Outgoing> {
        if !matches!(self.state, State::Open) {
            return None;
        }
        let is_inside = self.heartbeat.as_ref().is_some_and(|heartbeat| heartbeat.written_len > 0);
        if !is_inside && let Some(next) = self.window.take_in_hand() {
            self.heartbeat = None; // a packet says it as well
            return Some(next);
        }
        let heartbeat = self.heartbeat.as_ref()?;
        Some(Outgoing { packet: Arc::clone(&heartbeat.packet), from: heartbeat.written_len })
    }

    /// The socket took so many of these bytes; none if it is full.
    pub fn on_sent(&mut self, now: Duration, outgoing: &Outgoing, len: usize) {
        match &mut self.heartbeat {
            Some(heartbeat) if Arc::ptr_eq(&heartbeat.packet, &outgoing.packet) => {
                heartbeat.written_len += len;
                if heartbeat.written_len == outgoing.packet.bytes().len() {
                    self.heartbeat = None;
                }
            }
            _ => self.window.on_written(outgoing, len),
        }
        self.watch(now);
    }

    /// Whoever was sending does not go on. What it began is brought to its end by whoever sends next.
    pub fn pause(&mut self, now: Duration) {
        self.sending = false;
        self.window.on_given_up();
        self.watch(now);
    }

    /// The socket takes no more bytes. The stream breaks as soon as an ack tells why, or a little later.
    pub fn on_send_failed(&mut self, now: Duration, reason: impl ToString) {
        if matches!(self.state, State::Open) {
            let fault = Fault::Broken(reason.to_string());
            self.state = State::Torn { fault, until: now + BLAME_WAIT_MAX };
        }
    }

    /// A write has failed: nothing more is sent, and the stream breaks before long.
    pub fn is_torn(&self) -> bool {
        matches!(self.state, State::Torn { .. })
    }

    /// Bytes are to be sent, and nobody is at it: a heartbeat, or the rest of what somebody began and gave up.
    pub fn needs_sender(&self) -> bool {
        matches!(self.state, State::Open) && self.heartbeat.is_some() && !self.sending
    }

    // ── bytes in ──

    /// Bytes that came from the first node.
    pub fn handle_bytes(&mut self, now: Duration, bytes: &[u8]) {
        self.heard = now;
        if !self.is_over() {
            self.read_acks(now, bytes);
        }
        self.watch(now);
    }

    fn read_acks(&mut self, now: Duration, bytes: &[u8]) {
        let mut acks = std::mem::take(&mut self.acks);
        let read = acks.read(bytes, |ack| {
            self.on_ack(now, &ack);
            !self.is_over()
        });
        self.acks = acks;
        if let Err(error) = read {
            self.fail(Break::of_first(error.into()));
        }
    }

    /// Nothing more will come.
    pub fn on_receive_failed(&mut self, reason: impl ToString) {
        self.fail(Break::of_first(Fault::Broken(reason.to_string())));
    }

    fn on_ack(&mut self, now: Duration, ack: &PipelineAck) {
        let node_count = self.terms.node_count;
        let nonsense = |reason: String| Break::of_first(Fault::Protocol(reason));
        if ack.replies.len() > node_count {
            return self.fail(nonsense(format!("{} replies of {node_count} nodes", ack.replies.len())));
        }
        let broken = blamed(&ack.replies, self.terms.branches);
        if !broken.nodes.is_empty() && !mutation::is(Mutation::TakeBadReplies) {
            return self.fail(broken);
        }
        if ack.seqno == PipelineAck::HEARTBEAT {
            return; // says that the nodes live, and nothing of a packet
        }
        // A node that is left out, or in progress, was not heard of: it may not have the packet.
        let well_count = ack.replies.iter().filter(|reply| **reply == Status::SUCCESS).count();
        if well_count < node_count && !mutation::is(Mutation::TakeBadReplies) {
            return self.fail(nonsense(format!("{well_count} replies of {node_count} nodes, and none bad")));
        }
        match self.window.on_acked(ack.seqno) {
            None => self.fail(nonsense(format!("ack {} out of order", ack.seqno))),
            Some(true) => self.state = State::Ended,
            Some(false) => self.moved = now,
        }
    }

    // ── time ──

    /// When [`Stream::handle_timeout`] is to be called.
    pub fn poll_timeout(&self) -> Option<Duration> {
        match &self.state {
            State::Open => Some(self.beat_at().min(self.lost_at())),
            State::Torn { until, .. } => Some(*until),
            State::Broken(_) | State::Ended => None,
        }
    }

    pub fn handle_timeout(&mut self, now: Duration) {
        match &self.state {
            State::Torn { fault, until } if now >= *until => {
                let fault = fault.clone();
                self.fail(Break::of_first(fault));
            }
            State::Open if now >= self.lost_at() => self.fail(Break::of_first(Fault::Silent)),
            State::Open if now >= self.beat_at() => {
                self.beaten = now;
                // Packets that are being sent say as well that the writer lives.
                if !self.sending && self.heartbeat.is_none() {
                    self.heartbeat = Some(Heartbeat { packet: Arc::new(Packet::heartbeat()), written_len: 0 });
                }
            }
            _ => {}
        }
    }

    /// When nodes that owe an answer count as lost.
    fn lost_at(&self) -> Duration {
        if !self.owed || mutation::is(Mutation::WaitForever) {
            return Duration::MAX;
        }
        (self.heard + self.terms.silence_max).min(self.moved + self.terms.standstill_max)
    }

    fn beat_at(&self) -> Duration {
        self.heard.max(self.beaten) + self.terms.beat
    }

    /// From when on the nodes owe an answer: they have all of a packet that is not acknowledged, or are being sent one,
    /// which they may not take.
    fn watch(&mut self, now: Duration) {
        let owes = self.sending || self.window.written_count() > 0;
        if owes && !self.owed {
            (self.heard, self.moved) = (now, now);
        }
        self.owed = owes;
    }

    // ── the end ──

    fn fail(&mut self, broken: Break) {
        if matches!(self.state, State::Open | State::Torn { .. }) {
            self.state = State::Broken(broken);
        }
    }

    /// It lost a node, or the connection to the first.
    pub fn is_broken(&self) -> bool {
        matches!(self.state, State::Broken(_))
    }

    /// Nothing more is to be sent or received.
    pub fn is_over(&self) -> bool {
        matches!(self.state, State::Broken(_) | State::Ended)
    }

    /// What is left when the stream is given up. It is over then, if it was not before.
    pub fn take_rest(&mut self) -> Rest {
        let broken = match std::mem::replace(&mut self.state, State::Broken(Break::default())) {
            State::Broken(broken) => broken,
            State::Torn { fault, .. } => Break::of_first(fault),
            State::Open | State::Ended => Break::default(),
        };
        self.window.take_rest(broken)
    }

    /// Every relation between the parts.
    pub fn check(&self) {
        assert!(self.window.written_count() <= self.window.len(), "more packets written than there are");
        assert!(!self.window.is_inside() || self.window.written_count() < self.window.len(), "a part of no packet");
        let is_beating = self.heartbeat.as_ref().is_some_and(|heartbeat| heartbeat.written_len > 0);
        assert!(!is_beating || !self.window.is_inside(), "a heartbeat inside of a packet");
        self.acks.check();
    }
}

/// The nodes that a bad ack is about: in a chain the last that complains, as it is nearest to the trouble. With
/// branches each tells of itself, and IN_PROGRESS says that nothing is known of that node.
fn blamed(replies: &[Status], branches: bool) -> Break {
    let is_bad = |status: Status| status != Status::SUCCESS && !(branches && status == Status::IN_PROGRESS);
    let mut bad = (0..replies.len()).filter(|node| is_bad(replies[*node]));
    let nodes: Vec<usize> = if branches { bad.collect() } else { bad.next_back().into_iter().collect() };
    let wrong = usize::from(mutation::is(Mutation::BlameNodeAbove));
    let nodes = nodes.into_iter().map(|node| (node.saturating_sub(wrong), of_reply(replies[node])));
    Break { nodes: nodes.collect() }
}
