//! Setting up a stream: the connection to the first node, the request, and the answer for all nodes.

use super::fault::Break;
use super::opening::Opening;
use super::stream::{Stream, Terms};
use crate::answer::{Answered, Awaiting, Refusal};
use crate::fault::Fault;
use crate::write::TIME_PER_NODE;
use std::time::Duration;
use wire::{Abilities, Op};

/// How long a writer waits for its nodes, and how far it runs ahead of their acks.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    /// For a connection.
    pub connect: Duration,
    /// Silence of a chain, to which each node adds [`TIME_PER_NODE`]. After half of it a writer that has nothing to
    /// send says that it lives.
    pub silence: Duration,
    /// Silence of nodes that say each half second that they live, where others can take their place.
    pub stalled: Duration,
    /// Packets that may be under way without an ack.
    pub in_flight_max: usize,
}

#[derive(Debug)]
enum State {
    Connecting,
    Asking,
    Stands(Abilities),
    Failed(Break),
}

/// From the attempt to connect until the nodes have answered.
#[derive(Debug)]
pub struct SetUp {
    nodes: Vec<String>,
    spare: bool,
    branches: bool,
    acked_len: u64,
    patience: Patience,
    /// How long the first node may be silent, and how long all may take.
    silence_max: Duration,
    answer_max: Duration,
    state: State,
    request: Vec<u8>,
    sent_len: usize,
    awaiting: Awaiting,
    inbox: Vec<u8>,
    /// When the first node counts as silent, and when the answer is late.
    silent_at: Duration,
    late_at: Duration,
}

impl SetUp {
    pub fn new(now: Duration, opening: &Opening, patience: Patience) -> Self {
        let Opening { request, nodes, spare } = opening;
        let answer_max = patience.silence + TIME_PER_NODE * nodes.len() as u32;
        // Nodes of ours say that they are still at it.
        let is_hasty = *spare && request.stream.is_some();
        let connect_max = if is_hasty { patience.connect.min(patience.stalled) } else { patience.connect };
        let (request_bytes, state) = match crate::request::encode(Op::WriteBlock, request) {
            _ if nodes.is_empty() => (Vec::new(), failed(Fault::Protocol("no nodes".into()))),
            Ok(bytes) => (bytes, State::Connecting),
            Err(fault) => (Vec::new(), failed(fault)),
        };
        Self {
            nodes: nodes.clone(),
            spare: *spare,
            branches: request.stream.as_ref().is_some_and(|stream| !stream.parents.is_empty()),
            acked_len: request.min_bytes_rcvd,
            patience,
            silence_max: if is_hasty { patience.stalled } else { answer_max },
            answer_max,
            state,
            request: request_bytes,
            sent_len: 0,
            awaiting: Awaiting::default(),
            inbox: Vec::new(),
            silent_at: now + connect_max,
            late_at: Duration::MAX,
        }
    }

    pub fn on_connected(&mut self, now: Duration) {
        if matches!(self.state, State::Connecting) {
            self.state = State::Asking;
            self.silent_at = now + self.silence_max;
        }
    }

    /// What is still to be sent.
    pub fn unsent(&self) -> &[u8] {
        if matches!(self.state, State::Asking) { &self.request[self.sent_len..] } else { &[] }
    }

    pub fn on_sent(&mut self, now: Duration, len: usize) {
        self.sent_len += len;
        assert!(self.sent_len <= self.request.len(), "more sent than there was");
        self.silent_at = now + self.silence_max;
        if self.sent_len == self.request.len() {
            self.late_at = self.late_at.min(now + self.answer_max);
        }
    }

    /// Bytes that came from the first node. Those behind the answer are acks already.
    pub fn handle_bytes(&mut self, now: Duration, bytes: &[u8]) {
        self.silent_at = now + self.silence_max;
        self.inbox.extend_from_slice(bytes);
        if !matches!(self.state, State::Asking) {
            return;
        }
        match self.awaiting.on_bytes(&self.inbox) {
            Ok((len, answer)) => {
                self.inbox.drain(..len);
                answer.into_iter().for_each(|answer| self.on_answer(answer));
            }
            Err(error) => self.state = failed(error.into()),
        }
    }

    fn on_answer(&mut self, answer: Result<Answered, Refusal>) {
        self.state = match answer {
            Err(Refusal { status, first_bad_link, message }) => {
                let node = self.nodes.iter().position(|node| *node == first_bad_link).unwrap_or(0);
                State::Failed(Break::of(node, Fault::Refused { status, message }))
            }
            Ok(_) if self.sent_len < self.request.len() => {
                failed(Fault::Protocol("an answer before the question".into()))
            }
            Ok(answer) => State::Stands(Abilities::of(answer.abilities)),
        };
    }

    /// There is no connection, or none any more.
    pub fn on_lost(&mut self, fault: Fault) {
        if !self.is_over() {
            self.state = failed(fault);
        }
    }

    /// When [`SetUp::handle_timeout`] is to be called.
    pub fn poll_timeout(&self) -> Option<Duration> {
        (!self.is_over()).then(|| self.silent_at.min(self.late_at))
    }

    pub fn handle_timeout(&mut self, now: Duration) {
        if self.poll_timeout().is_some_and(|until| now >= until) {
            self.state = failed(Fault::Silent);
        }
    }

    /// The nodes have answered, or there is no hope of it.
    pub fn is_over(&self) -> bool {
        matches!(self.state, State::Stands(_) | State::Failed(_))
    }

    /// The stream over the same connection, once the set-up is over.
    pub fn into_stream(self, now: Duration) -> Result<Stream, Break> {
        let abilities = match self.state {
            State::Stands(abilities) => abilities,
            State::Failed(broken) => return Err(broken),
            State::Connecting | State::Asking => panic!("a set-up that is not over"),
        };
        // The last node that has the bytes is not given up before a minute: they are nowhere else.
        let is_hasty = self.spare && abilities.has(Abilities::KEEPALIVES);
        let terms = Terms {
            node_count: self.nodes.len(),
            branches: self.branches,
            acked_len: self.acked_len,
            silence_max: if is_hasty { self.patience.stalled } else { self.answer_max },
            standstill_max: self.answer_max,
            beat: self.patience.silence / 2,
            in_flight_max: self.patience.in_flight_max,
        };
        let mut stream = Stream::new(now, terms);
        stream.handle_bytes(now, &self.inbox);
        Ok(stream)
    }
}

fn failed(fault: Fault) -> State {
    State::Failed(Break::of_first(fault))
}
