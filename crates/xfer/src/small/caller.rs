//! The side of a connection that sends requests and gets answers, each by its number.

use super::fanout::LATE_MAX;
use crate::write::Limits;
use bytes::{Buf, Bytes, BytesMut};
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;
use types::endpoint::{Endpoint, Loss, RequestEndpoint};
use types::mutation::{Mutation, is};
use wire::delimited;
use wire::small::{ANSWER_LEN_MAX, SmallAnswer, SmallWrite};

/// Room for reading at a time: some hundred answers.
const READ_LEN: usize = 4 << 10;

/// A block and what is to be known of it.
#[derive(Clone, Debug)]
pub struct OutgoingRequest {
    /// The connection sets its number.
    pub header: SmallWrite,
    /// Checksums, and data behind them. They are not copied.
    pub body: Bytes,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallerLimits {
    /// From the request to its answer. A peer that says nothing at all for so long is dead.
    pub answer_time_max: Duration,
    /// A connection without requests is closed after this: sooner than the datanode does, so that none is sent into a
    /// connection that is just being closed.
    pub idle_time_max: Duration,
}

/// How long a writer waits for the node that it asked, and that one for each of the others. Guesses.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(10);
const TARGET_TIME_MAX: Duration = Duration::from_secs(5);
// A node that waits for a silent one, behind a new connection, still answers in time. Else the writer would take the
// wrong one for silent.
const _: () = assert!(
    Limits::DEFAULT.connect.as_millis() + TARGET_TIME_MAX.as_millis() + LATE_MAX.as_millis()
        < ANSWER_TIME_MAX.as_millis()
);

impl Default for CallerLimits {
    fn default() -> Self {
        Self { answer_time_max: ANSWER_TIME_MAX, idle_time_max: Duration::from_secs(20) }
    }
}

impl CallerLimits {
    /// Of a node that was asked and asks others: it is waited for itself.
    pub fn of_targets() -> Self {
        Self { answer_time_max: TARGET_TIME_MAX, ..Self::default() }
    }
}

/// One connection to a datanode. `W` is whoever waits for an answer, and comes back with it.
#[derive(Debug)]
pub struct Caller<W> {
    limits: CallerLimits,
    next: u64,
    /// Requests without an answer, by number, so the oldest first.
    waiting: BTreeMap<u64, Waiting<W>>,
    unsent: VecDeque<Unsent>,
    /// Behind the front that was handed out last.
    body: Option<Bytes>,
    /// What came and is no whole answer yet.
    inbox: BytesMut,
    /// Answers that came, to tell a silent peer from a slow one.
    heard_count: u64,
    /// When the last request had ended.
    idle_since: Duration,
    outcomes: VecDeque<(W, Result<SmallAnswer, Loss>)>,
    ended: bool,
}

#[derive(Debug)]
struct Waiting<W> {
    waiter: W,
    asked: Duration,
    /// Of [`Caller::heard_count`], when it was asked.
    heard_count: u64,
    sent: bool,
}

#[derive(Debug)]
struct Unsent {
    number: u64,
    front: Bytes,
    body: Bytes,
}

impl<W> Caller<W> {
    pub fn new(now: Duration, limits: &CallerLimits) -> Self {
        Self {
            limits: limits.clone(),
            next: 0,
            waiting: BTreeMap::new(),
            unsent: VecDeque::new(),
            body: None,
            inbox: BytesMut::new(),
            heard_count: 0,
            idle_since: now,
            outcomes: VecDeque::new(),
            ended: false,
        }
    }

    /// Requests that wait for their answers.
    pub fn in_flight_count(&self) -> usize {
        self.waiting.len()
    }

    fn settle(&mut self, now: Duration, number: u64, outcome: Result<SmallAnswer, Loss>) {
        let Some(waiting) = self.waiting.remove(&number) else { return };
        self.outcomes.push_back((waiting.waiter, outcome));
        self.idle_since = now;
    }

    /// All that wait are told; nothing is sent or read any more.
    fn end(&mut self, why: &str) {
        self.ended = true;
        self.unsent.clear();
        self.body = None;
        self.inbox = BytesMut::new();
        for waiting in std::mem::take(&mut self.waiting).into_values() {
            let loss = if waiting.sent { Loss::Broken(why.to_owned()) } else { Loss::Unsent(why.to_owned()) };
            self.outcomes.push_back((waiting.waiter, Err(loss)));
        }
    }

    fn take_answers(&mut self, now: Duration) {
        while !self.ended {
            let answer = match delimited::split(&self.inbox, "answer", ANSWER_LEN_MAX) {
                Ok(None) => return,
                Ok(Some((message, len))) => {
                    delimited::decode::<SmallAnswer>(message, "answer").map(|answer| (answer, len))
                }
                Err(error) => Err(error),
            };
            match answer {
                Ok((answer, len)) => {
                    self.inbox.advance(len);
                    self.on_answer(now, answer);
                }
                Err(error) => self.end(&error.to_string()),
            }
        }
    }

    fn on_answer(&mut self, now: Duration, answer: SmallAnswer) {
        let mut number = answer.number;
        let unsent = self.waiting.get(&number).is_some_and(|waiting| !waiting.sent);
        if number >= self.next || unsent {
            return self.end("an answer to a request that was not sent");
        }
        self.heard_count += 1;
        if is(Mutation::AnswerToAnother)
            && let Some((oldest, _)) = self.waiting.first_key_value()
        {
            number = *oldest;
        }
        // If it is not there, nobody waits for it any more.
        self.settle(now, number, Ok(answer));
    }
}

impl<W> Endpoint for Caller<W> {
    type Event = (W, Result<SmallAnswer, Loss>);

    fn take_buffer(&mut self) -> Option<BytesMut> {
        if self.ended {
            return None;
        }
        self.inbox.reserve(READ_LEN);
        Some(std::mem::take(&mut self.inbox))
    }

    fn on_read(&mut self, now: Duration, buffer: BytesMut, len: usize) {
        if self.ended {
            return;
        }
        self.inbox = buffer;
        self.take_answers(now);
        if len == 0 && !self.ended {
            self.end("the peer closed it");
        }
    }

    fn on_lost(&mut self, _now: Duration, why: &str) {
        if !self.ended {
            self.end(why);
        }
    }

    fn transmit(&mut self, _now: Duration) -> Option<Bytes> {
        if let Some(body) = self.body.take() {
            return Some(body);
        }
        let Unsent { number, front, body } = self.unsent.pop_front()?;
        let waiting = self.waiting.get_mut(&number).expect("a request that is forgotten is not sent");
        waiting.sent = true;
        self.body = Some(body);
        Some(front)
    }

    fn on_sent(&mut self, _now: Duration, _len: usize) {}

    fn poll_event(&mut self) -> Option<Self::Event> {
        self.outcomes.pop_front()
    }

    fn poll_timeout(&self) -> Option<Duration> {
        if self.ended {
            return None;
        }
        let answer = self.waiting.first_key_value().map(|(_, oldest)| oldest.asked + self.limits.answer_time_max);
        answer.or(Some(self.idle_since + self.limits.idle_time_max))
    }

    fn handle_timeout(&mut self, now: Duration) {
        while !self.ended && self.poll_timeout().is_some_and(|at| at <= now) {
            let Some((number, oldest)) = self.waiting.first_key_value() else { return self.end("nobody uses it") };
            let (number, said_nothing) = (*number, oldest.heard_count == self.heard_count);
            self.unsent.retain(|unsent| unsent.number != number);
            self.settle(now, number, Err(Loss::TimedOut));
            if said_nothing {
                self.end("the peer says nothing");
            }
        }
    }

    fn is_ended(&self) -> bool {
        self.ended
    }
}

impl<W> RequestEndpoint for Caller<W> {
    type Limits = CallerLimits;
    type Request = OutgoingRequest;
    type Response = SmallAnswer;
    type Waiter = W;

    /// As many as a datanode serves of one connection, and as many again on their way. A guess.
    const IN_FLIGHT_COUNT_MAX: usize = 256;

    fn begin(now: Duration, limits: &CallerLimits) -> Self {
        Self::new(now, limits)
    }

    fn send_request(&mut self, now: Duration, request: OutgoingRequest, waiter: W) -> Result<u64, W> {
        if self.ended {
            return Err(waiter);
        }
        assert!(self.waiting.len() < Self::IN_FLIGHT_COUNT_MAX, "more requests than may be under way");
        let number = self.next;
        self.next += 1;
        let OutgoingRequest { header, body } = request;
        let front = SmallWrite { number, ..header }.front().into();
        self.unsent.push_back(Unsent { number, front, body });
        let heard_count = self.heard_count;
        self.waiting.insert(number, Waiting { waiter, asked: now, heard_count, sent: false });
        Ok(number)
    }

    fn cancel_request(&mut self, now: Duration, number: u64) {
        if self.waiting.remove(&number).is_some() {
            self.unsent.retain(|unsent| unsent.number != number);
            self.idle_since = now;
        }
    }
}
