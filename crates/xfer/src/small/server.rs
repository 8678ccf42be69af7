//! The side of a connection that is asked: bytes in, requests to be served beside each other, answers out as they are
//! done.

use super::fanout::Fanout;
use super::node::Node;
use super::request::{Checked, Request};
use crate::answer::Refusal;
use crate::memory::Held;
use bytes::{Buf, Bytes, BytesMut};
use std::collections::VecDeque;
use std::time::Duration;
use types::endpoint::Endpoint;
use wire::small::{Parsed, SmallAnswer, SmallFrame};
use wire::{WireError, delimited};

/// Room for reading at a time from a peer with requests under way; a longer request gets what it says it needs.
const READ_LEN: usize = 16 << 10;
/// The same of one of whom nothing is known yet, or no more than that it may not put what it sends. So much of a header
/// is not counted: those of common requests have some hundred bytes.
const FRONT_LEN: usize = 4 << 10;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerLimits {
    /// How long a peer may take for a request that it has begun, for taking answers, and before its next request.
    pub patience: Duration,
    /// Requests under way, and answers not yet taken. At the limit the connection is not read.
    pub in_flight_count_max: usize,
}

impl ServerLimits {
    /// A guess: twice as many as writers of one busy node were seen to have.
    pub const IN_FLIGHT_COUNT_MAX: usize = 128;

    pub fn new(patience: Duration) -> Self {
        Self { patience, in_flight_count_max: Self::IN_FLIGHT_COUNT_MAX }
    }
}

/// Why a connection ended before its peer closed it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ServerError {
    #[error("the peer closed the connection in the middle of a request, or sends no more of it")]
    Torn,
    #[error("the peer takes no answers")]
    Untaken,
    #[error("no memory left for the header of a request")]
    Memory,
    #[error("the connection was lost: {0}")]
    Lost(String),
    #[error(transparent)]
    Wire(#[from] WireError),
}

/// One connection of small writes.
#[derive(Debug)]
pub struct Server<N: Node> {
    limits: ServerLimits,
    node: N,
    buffer: BytesMut,
    /// Whoever reads has the buffer.
    lent: bool,
    /// Something of the next request has come.
    begun: bool,
    state: State<N>,
    requests: VecDeque<Request<N::Held>>,
    /// Requests that were read and are not answered.
    under_way: usize,
    /// Since when the peer may be blamed for the time that passes.
    waits_since: Duration,
    answers: Answers,
}

#[derive(Debug)]
enum State<N: Node> {
    /// The front of the next request is to come, or there is no place for it.
    Front {
        /// Of a long one.
        held: Option<N::Front>,
    },
    Body {
        frame: SmallFrame,
        checked: Checked,
        held: N::Held,
    },
    /// The rest of a request that is refused: its bytes are passed over, and it is answered behind them.
    PassedOver {
        left_len: usize,
        answer: SmallAnswer,
    },
    /// No more is read: the peer has closed its side, or something was refused and what follows belongs to that.
    Closing,
    Ended(Option<ServerError>),
}

/// Answers on their way out.
#[derive(Debug, Default)]
struct Answers {
    bytes: BytesMut,
    count: usize,
    /// Of those that were handed out: bytes that are not sent, and how many they are.
    taken_len: usize,
    taken_count: usize,
    taken_since: Duration,
}

impl<N: Node> Server<N> {
    /// `came` begins with the first request.
    pub fn new(now: Duration, node: N, limits: ServerLimits, came: &[u8]) -> Self {
        assert!(limits.in_flight_count_max > 0, "a connection on which nothing may be under way");
        let mut server = Self {
            limits,
            node,
            buffer: BytesMut::from(came),
            lent: false,
            begun: false,
            state: State::Front { held: None },
            requests: VecDeque::new(),
            under_way: 0,
            waits_since: now,
            answers: Answers::default(),
        };
        server.advance(now);
        server
    }

    /// The answer to a request that was handed out.
    pub fn answer(&mut self, now: Duration, answer: &SmallAnswer) {
        assert!(self.under_way > 0, "an answer to no request");
        self.under_way -= 1;
        if self.is_ended() {
            return;
        }
        self.put_answer(answer);
        self.waits_since = now;
        self.advance(now);
    }

    /// Why it has ended, if the peer did not simply close it.
    pub fn error(&self) -> Option<&ServerError> {
        if let State::Ended(error) = &self.state { error.as_ref() } else { None }
    }

    fn put_answer(&mut self, answer: &SmallAnswer) {
        let mut bytes = Vec::new();
        delimited::put(answer, &mut bytes);
        self.answers.bytes.extend_from_slice(&bytes);
        self.answers.count += 1;
    }

    /// Requests under way, and answers that the peer has not taken.
    fn in_flight_count(&self) -> usize {
        self.under_way + self.answers.count + self.answers.taken_count
    }

    fn is_full(&self) -> bool {
        self.in_flight_count() >= self.limits.in_flight_count_max
    }

    fn fail(&mut self, error: ServerError) {
        self.state = State::Ended(Some(error));
        self.requests.clear();
        (self.buffer, self.answers) = (BytesMut::new(), Answers::default());
    }

    /// Takes requests off the buffer, as many as are whole and may be under way.
    fn advance(&mut self, now: Duration) {
        self.take_all(now);
        if !self.lent {
            self.begun = !self.buffer.is_empty();
        }
    }

    fn take_all(&mut self, now: Duration) {
        loop {
            let is_full = self.is_full();
            match &mut self.state {
                State::Front { .. } if !is_full => match SmallFrame::parse(&self.buffer) {
                    Ok(Parsed::Frame(frame)) => self.begin(now, frame),
                    Ok(Parsed::Partial) => return,
                    Err(error) => return self.fail(error.into()),
                },
                State::Body { frame, .. } if self.buffer.len() >= frame.len() => self.take_whole(now),
                State::PassedOver { left_len: 0, .. } => self.refused(now),
                State::PassedOver { left_len, .. } if !self.buffer.is_empty() => {
                    let len = self.buffer.len().min(*left_len);
                    self.buffer.advance(len);
                    *left_len -= len;
                }
                State::Front { .. } | State::Body { .. } | State::PassedOver { .. } | State::Ended(_) => return,
                State::Closing => {
                    if self.in_flight_count() == 0 {
                        self.state = State::Ended(None);
                    }
                    return;
                }
            }
        }
    }

    fn begin(&mut self, now: Duration, frame: SmallFrame) {
        self.waits_since = now;
        let checked = match self.node.admit(&frame.header) {
            Ok(checked) => checked,
            Err(refusal) => return self.pass_over(&frame, refusal),
        };
        // As it comes: one that only says how long it is holds little.
        match self.node.take(READ_LEN.max(self.buffer.len()).min(frame.len()) as u64) {
            Some(held) => self.state = State::Body { frame, checked, held },
            None => self.refuse(frame.header.number),
        }
    }

    /// It may not be put. Others share the connection, so it goes on behind it.
    fn pass_over(&mut self, frame: &SmallFrame, refusal: Refusal) {
        let answer = Fanout::refused(frame.header.number, refusal);
        let len = self.buffer.len().min(frame.len());
        self.state = State::PassedOver { left_len: frame.len() - len, answer };
        // Without the room of a long header, which is counted no longer.
        self.buffer = BytesMut::from(&self.buffer[len..]);
    }

    /// All of it was passed over.
    fn refused(&mut self, now: Duration) {
        let State::PassedOver { answer, .. } = std::mem::replace(&mut self.state, State::Front { held: None }) else {
            unreachable!("a request was passed over, and none is")
        };
        self.waits_since = now;
        self.put_answer(&answer);
    }

    fn take_whole(&mut self, now: Duration) {
        let State::Body { frame, checked, mut held } = std::mem::replace(&mut self.state, State::Front { held: None })
        else {
            unreachable!("a body is whole, and none is coming")
        };
        self.waits_since = now;
        if !held.grow_to(frame.len() as u64) {
            return self.refuse(frame.header.number);
        }
        let bytes = self.buffer.split_to(frame.len()).freeze();
        self.under_way += 1;
        self.requests.push_back(Request { frame, checked, bytes, held });
    }

    /// There is no memory. What follows belongs to the request that is refused, so nothing more is read.
    fn refuse(&mut self, number: u64) {
        self.state = State::Closing;
        self.buffer = BytesMut::new();
        let refusal = Refusal::error("this node has no room for another write now; try another one");
        self.put_answer(&Fanout::refused(number, refusal));
    }

    /// Room for what comes next, counted; false if there is no memory for it.
    fn reserve(&mut self) -> bool {
        match &mut self.state {
            State::Body { frame, held, .. } => {
                let room = frame.len().min(2 * self.buffer.len().max(READ_LEN));
                if !held.grow_to(room as u64) {
                    let number = frame.header.number;
                    self.refuse(number);
                    return false;
                }
                self.buffer.reserve(room - self.buffer.len());
            }
            State::Front { held } => {
                let more = if self.under_way > 0 { READ_LEN } else { FRONT_LEN };
                // It may grow to twice what it was.
                if self.buffer.len() >= FRONT_LEN && !hold(held, &self.node, 2 * (self.buffer.len() + more)) {
                    self.fail(ServerError::Memory);
                    return false;
                }
                self.buffer.reserve(more);
            }
            State::PassedOver { .. } | State::Closing | State::Ended(_) => self.buffer.reserve(FRONT_LEN),
        }
        true
    }

    /// When the peer has to have sent what it has begun, or its next request.
    fn reading_due(&self) -> Option<Duration> {
        let waits = match self.state {
            // Who waits for an answer need not send anything.
            State::Front { .. } => !self.is_full() && (self.under_way == 0 || self.begun),
            State::Body { .. } | State::PassedOver { .. } => true,
            State::Closing | State::Ended(_) => false,
        };
        waits.then_some(self.waits_since + self.limits.patience)
    }

    fn writing_due(&self) -> Option<Duration> {
        (self.answers.taken_len > 0).then_some(self.answers.taken_since + self.limits.patience)
    }
}

/// Has `held` be for so many bytes of a header.
fn hold<N: Node>(held: &mut Option<N::Front>, node: &N, len: usize) -> bool {
    match held {
        Some(held) => held.grow_to(len as u64),
        None => {
            *held = node.take_for_front(len as u64);
            held.is_some()
        }
    }
}

impl<N: Node> Endpoint for Server<N> {
    type Event = Request<N::Held>;

    fn take_buffer(&mut self) -> Option<BytesMut> {
        let reads = match self.state {
            State::Front { .. } => !self.is_full(),
            State::Body { .. } | State::PassedOver { .. } => true,
            State::Closing | State::Ended(_) => false,
        };
        self.lent = reads && self.reserve();
        self.lent.then(|| std::mem::take(&mut self.buffer))
    }

    fn on_read(&mut self, now: Duration, buffer: BytesMut, len: usize) {
        self.lent = false;
        match self.state {
            State::Closing | State::Ended(_) => return,
            State::Front { .. } if len == 0 && buffer.is_empty() => self.state = State::Closing,
            _ if len == 0 => return self.fail(ServerError::Torn),
            // A header is due as a whole, and so is a body, whatever comes of it.
            State::Front { .. } if !self.begun => self.waits_since = now,
            State::Front { .. } | State::Body { .. } | State::PassedOver { .. } => {}
        }
        self.buffer = buffer;
        self.advance(now);
    }

    fn on_lost(&mut self, _now: Duration, why: &str) {
        if !self.is_ended() {
            self.fail(ServerError::Lost(why.to_owned()));
        }
    }

    fn transmit(&mut self, now: Duration) -> Option<Bytes> {
        // One piece at a time: what is answered while it is sent goes together.
        if self.answers.taken_len > 0 || self.answers.count == 0 {
            return None;
        }
        let bytes = self.answers.bytes.split().freeze();
        self.answers.taken_len = bytes.len();
        self.answers.taken_count = std::mem::take(&mut self.answers.count);
        self.answers.taken_since = now;
        Some(bytes)
    }

    fn on_sent(&mut self, now: Duration, len: usize) {
        if self.is_ended() {
            return;
        }
        let left = self.answers.taken_len.checked_sub(len);
        self.answers.taken_len = left.expect("more was sent than was handed out");
        if self.answers.taken_len == 0 && self.answers.taken_count > 0 {
            self.answers.taken_count = 0;
            self.waits_since = now;
            self.advance(now);
        }
    }

    fn poll_event(&mut self) -> Option<Self::Event> {
        self.requests.pop_front()
    }

    fn poll_timeout(&self) -> Option<Duration> {
        [self.reading_due(), self.writing_due()].into_iter().flatten().min()
    }

    fn handle_timeout(&mut self, now: Duration) {
        if self.writing_due().is_some_and(|due| due <= now) {
            return self.fail(ServerError::Untaken);
        }
        if self.reading_due().is_some_and(|due| due <= now) {
            match self.state {
                // Between requests it may go.
                State::Front { .. } if !self.begun => {
                    self.state = State::Closing;
                    self.advance(now);
                }
                _ => self.fail(ServerError::Torn),
            }
        }
    }

    fn is_ended(&self) -> bool {
        matches!(self.state, State::Ended(_))
    }
}
