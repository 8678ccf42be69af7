//! Small writes: the frames, and both machines of a connection under any cuts and times.

use crate::transfer::{routing, scope};
use bytes::Bytes;
use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;
use types::endpoint::{Endpoint, RequestEndpoint};
use types::limits::SMALL_WRITE_LEN_MAX;
use wire::small::{self, SmallAnswer, SmallFrame, SmallWrite};
use wire::{BlockScope, delimited};
use xfer::answer::Refusal;
use xfer::memory::Held;
use xfer::small::{
    Caller, CallerLimits, Checked, Fanout, LATE_MAX, Node, OutgoingRequest, Server, ServerLimits, Verdict,
};

/// Small writes behind each other on a connection, and answers to them. The first byte tells how long a routing table
/// to try.
pub(crate) fn small_writes(bytes: &[u8]) {
    let mut answers = bytes;
    while let Ok(Some((message, len))) = delimited::split(answers, "answer", small::ANSWER_LEN_MAX) {
        if let Ok(answer) = delimited::decode::<SmallAnswer>(message, "answer") {
            judged(&answer);
        }
        answers = &answers[len..];
    }
    let mut rest = bytes;
    while let Ok(small::Parsed::Frame(frame)) = SmallFrame::parse(rest) {
        assert!(frame.sums.end == frame.data.start && frame.data.end == frame.len());
        assert!(frame.sums.len() as u64 == frame.spec.sums_len(frame.data.len() as u64));
        let front = frame.header.front();
        let again = SmallFrame::parse(&front);
        assert!(matches!(again, Ok(small::Parsed::Frame(again)) if again.header == frame.header));
        scope(&frame.header.token);
        let Some(behind) = rest.get(frame.len()..) else { break };
        rest = behind;
    }
    if let Some((count, parents)) = bytes.split_first() {
        let parents: Vec<u32> = parents.iter().map(|byte| u32::from(*byte)).collect();
        routing(&parents, usize::from(*count));
        routing(&parents, parents.len());
    }
    asked(bytes);
    requests(bytes);
}

/// Whatever an answer says, a writer gives a block to a file only if a majority of its nodes is named.
fn judged(answer: &SmallAnswer) {
    for node_count in 1..4 {
        let verdict = Verdict::new(Some(answer), node_count);
        assert!(!verdict.enough || verdict.have.len() > node_count / 2);
        let mut places = verdict.have.iter().chain(&verdict.blamed);
        assert!(places.all(|place| *place < node_count));
        assert!(verdict.have.iter().all(|place| !verdict.blamed.contains(place)));
    }
}

const MEMORY_LEN: u64 = 1 << 20;

#[derive(Clone, Debug)]
struct Budget(Rc<Cell<u64>>);

#[derive(Debug)]
struct Taken(Budget, u64);

impl Node for Budget {
    type Held = Taken;
    type Front = Taken;

    fn admit(&self, header: &SmallWrite) -> Result<Checked, Refusal> {
        // The request before the fuzzed bytes has none.
        let own = BlockScope { file: types::InodeId(1), home: types::ContainerId(1) };
        let scope = if header.token.is_empty() { Some(own) } else { BlockScope::decode(&header.token).ok().flatten() };
        Checked::of(header, Some(""), scope)
    }

    fn take_for_front(&self, len: u64) -> Option<Taken> {
        self.take(len)
    }

    fn take(&self, len: u64) -> Option<Taken> {
        let mut taken = Taken(self.clone(), 0);
        taken.grow_to(len).then_some(taken)
    }
}

impl Held for Taken {
    fn held_len(&self) -> u64 {
        self.1
    }

    fn grow_to(&mut self, len: u64) -> bool {
        let left = self.0.0.get().checked_sub(len.saturating_sub(self.1));
        if let Some(left) = left {
            self.0.0.set(left);
            self.1 = self.1.max(len);
        }
        left.is_some()
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        self.0.0.set(self.0.0.get() + self.1);
    }
}

/// How the bytes are cut and how much time passes: by themselves.
fn cut_len(bytes: &[u8], at: usize) -> usize {
    1 + usize::from(bytes[at]) % 97
}

/// A server, once as the bytes are and once behind a request that is right.
fn asked(bytes: &[u8]) {
    let header = SmallWrite { number: 1, data_len: 3, checksum_kind: 0, chunk_len: 4, ..SmallWrite::default() };
    for front in [Vec::new(), [&header.front()[..], b"abc"].concat()] {
        let memory = Budget(Rc::new(Cell::new(MEMORY_LEN)));
        let limits = ServerLimits { patience: Duration::from_secs(1), in_flight_count_max: 2 };
        let mut server = Server::new(Duration::ZERO, memory.clone(), limits, &front);
        let (mut now, mut at, mut idle_count) = (Duration::ZERO, 0, 0);
        while !server.is_ended() && idle_count < 3 {
            idle_count += 1;
            if let Some(mut buffer) = server.take_buffer() {
                assert!(buffer.capacity() - buffer.len() > 0, "no room to read into");
                assert!(buffer.capacity() <= 4 * (SMALL_WRITE_LEN_MAX as usize), "more room than a request may be");
                let end = if at < bytes.len() { bytes.len().min(at + cut_len(bytes, at)) } else { at };
                buffer.extend_from_slice(&bytes[at..end]);
                server.on_read(now, buffer, end - at);
                (at, idle_count) = (end, 0);
            }
            while let Some(request) = server.poll_event() {
                let _ = request.verify();
                let mut fanout = Fanout::new(&request.frame.header, LATE_MAX);
                for place in 0..=request.frame.header.targets.len() {
                    let outcome = if place % 3 == 0 { Err(xfer::answer::Refusal::error("down")) } else { Ok(()) };
                    fanout.on_put(now, place, outcome);
                }
                server.answer(now, &fanout.answer().expect("all have ended"));
            }
            while let Some(piece) = server.transmit(now) {
                server.on_sent(now, piece.len());
                idle_count = 0;
            }
            now += Duration::from_millis(at as u64 % 50);
            server.handle_timeout(now);
        }
        assert!(server.is_ended(), "it neither reads nor ends");
        drop(server);
        assert_eq!(memory.0.get(), MEMORY_LEN, "memory that nobody gives back");
    }
}

/// A caller with three requests, of which one is not sent, and one that was answered already.
fn requests(bytes: &[u8]) {
    let mut caller = Caller::new(Duration::ZERO, &CallerLimits::default());
    let (mut now, mut at, mut outcome_count) = (Duration::ZERO, 0, 0);
    for name in 0..4 {
        let outgoing = OutgoingRequest { header: SmallWrite::default(), body: Bytes::from_static(b"body") };
        assert!(caller.send_request(now, outgoing, name).is_ok());
        while name < 3 && caller.transmit(now).is_some() {}
    }
    while at < bytes.len()
        && let Some(mut buffer) = caller.take_buffer()
    {
        let end = bytes.len().min(at + cut_len(bytes, at));
        buffer.extend_from_slice(&bytes[at..end]);
        caller.on_read(now, buffer, end - at);
        now += Duration::from_millis(u64::from(bytes[at]) * 20);
        caller.handle_timeout(now);
        at = end;
        outcome_count += std::iter::from_fn(|| caller.poll_event()).count();
    }
    caller.on_lost(now, "the end");
    outcome_count += std::iter::from_fn(|| caller.poll_event()).count();
    assert_eq!(outcome_count, 4, "each is told once");
}
