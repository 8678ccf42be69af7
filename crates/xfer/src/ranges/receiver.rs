//! The reader's end: parts come in whatever order, each goes to its place in what the caller has for its range.
//!
//! ```text
//! poll(dests) … ──▶ Whole, Refused, … ──▶ End         Nothing: bytes must come first
//!                                                       room(dests) ─▶ one readv ─▶ on_received
//! ```
//!
//! Promise: [`Event::Whole`] is said of a range once all its bytes are there and each part of it has been held against
//! its checksum. Long parts are copied once, by the kernel; the machine holds [`AHEAD_LEN`] bytes that came ahead.

use crate::answer::Awaiting;
use crate::fault::Fault;
use crate::front::Front;
use crate::read::Room;
use crate::read::patience::Patience;
use std::time::Duration;
use types::ChecksumKind;
use wire::Status;
use wire::ranges::PartHead;

/// Bytes asked of the kernel at a time, where parts are short: many of them.
const AHEAD_LEN: usize = 64 << 10;
/// Of a part from which so many bytes are missing, they go to their place without a copy.
const DIRECT_LEN_MIN: usize = 16 << 10;

/// Where the bytes of ranges go.
pub trait Dests {
    /// All bytes of a range. The same ones each time, as long as asked for.
    fn dest(&mut self, range: u32) -> &mut [u8];
}

/// What came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// Nothing yet: bytes must come first.
    Nothing,
    /// All bytes of this range are in their place.
    Whole(u32),
    /// Bytes of this range, from there on, do not match their checksum. The others go on.
    Corrupt { range: u32, offset: u64 },
    /// Neither this one nor what has not come of its block's others will come.
    Refused { range: u32, status: Status, message: String },
    /// The answer has ended. Its connection can carry another operation.
    End,
}

#[derive(Debug)]
pub struct Receiver {
    front: Front,
    ranges: Vec<Progress>,
    patience: Patience,
    /// Until the node has said that it serves the request.
    awaiting: Option<Awaiting>,
    state: State,
}

#[derive(Clone, Copy, Debug)]
struct Progress {
    len: u32,
    came_len: u32,
    /// Something that came of it did not match.
    is_corrupt: bool,
    is_refused: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Head,
    Bytes(Part),
    Text { range: u32, len: usize, status: Status },
    Ended,
}

/// A part of which `came_len` bytes are in their place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Part {
    range: u32,
    len: usize,
    came_len: usize,
    kind: ChecksumKind,
    sum: u32,
}

impl Receiver {
    /// The request was sent, for ranges of such lengths, in the order of their numbers. Empty ones are there already.
    /// `front`: what came on the connection behind the operation before.
    pub fn new(lens: impl IntoIterator<Item = u32>, stall: Duration, front: Front) -> Self {
        let ranges =
            lens.into_iter().map(|len| Progress { len, came_len: 0, is_corrupt: false, is_refused: false }).collect();
        Self { front, ranges, patience: Patience::new(stall), awaiting: Some(Awaiting::default()), state: State::Head }
    }

    /// Goes on with what is here.
    pub fn poll(&mut self, dests: &mut impl Dests) -> Result<Event, Fault> {
        if !self.is_answered()? {
            return Ok(Event::Nothing);
        }
        loop {
            match self.state {
                State::Head => {
                    let Some(head) = self.front.bytes().first_chunk::<{ PartHead::LEN }>() else {
                        return Ok(Event::Nothing);
                    };
                    self.state = self.begin(PartHead::decode(*head)?)?;
                    self.front.consume(PartHead::LEN);
                }
                State::Bytes(part) => {
                    if let Some(event) = self.go_on(part, dests) {
                        return Ok(event);
                    }
                }
                State::Text { range, len, status } => {
                    let Some(text) = self.front.bytes().get(..len) else { return Ok(Event::Nothing) };
                    let message = String::from_utf8_lossy(text).into_owned();
                    self.front.consume(len);
                    self.state = State::Head;
                    return Ok(Event::Refused { range, status, message });
                }
                State::Ended => return Ok(Event::End),
            }
        }
    }

    /// Whether the node has said that it serves the request. No part is looked at before that.
    pub fn is_answered(&mut self) -> Result<bool, Fault> {
        let Some(awaiting) = &mut self.awaiting else { return Ok(true) };
        let (consumed, answer) = awaiting.on_bytes(self.front.bytes())?;
        self.front.consume(consumed);
        if awaiting.heard_count() > 0 {
            // Else a node could have a reader wait for ever.
            return Err(Fault::Protocol("a keepalive, which no read is answered with".to_owned()));
        }
        let Some(answer) = answer else { return Ok(false) };
        answer?;
        self.awaiting = None;
        Ok(true)
    }

    fn begin(&mut self, head: PartHead) -> Result<State, Fault> {
        let unasked = |what: &str| Fault::Protocol(format!("{what}, which was not asked for"));
        match head {
            PartHead::Bytes { range, len, kind, sum } => {
                let Some(progress) = self.ranges.get(range as usize) else { return Err(unasked("a part of a range")) };
                if len == 0 || len > progress.len - progress.came_len || progress.is_refused {
                    return Err(unasked("a part of another length"));
                }
                Ok(State::Bytes(Part { range, len: len as usize, came_len: 0, kind, sum }))
            }
            PartHead::Refused { range, text_len, status } => match self.ranges.get_mut(range as usize) {
                // Else a node could have a reader listen for ever.
                Some(progress) if !progress.is_refused && progress.came_len < progress.len => {
                    progress.is_refused = true;
                    Ok(State::Text { range, len: text_len as usize, status })
                }
                _ => Err(unasked("the refusal of a range")),
            },
            PartHead::End => Ok(State::Ended),
        }
    }

    /// Takes what is here of a part. `None`: it is in its place, and more of its range is to come.
    fn go_on(&mut self, mut part: Part, dests: &mut impl Dests) -> Option<Event> {
        let progress = &mut self.ranges[part.range as usize];
        let dest = &mut dests.dest(part.range)[progress.came_len as usize..][..part.len];
        let here = self.front.bytes().len().min(part.len - part.came_len);
        dest[part.came_len..part.came_len + here].copy_from_slice(&self.front.bytes()[..here]);
        self.front.consume(here);
        part.came_len += here;
        self.state = State::Bytes(part);
        if part.came_len < part.len {
            return Some(Event::Nothing);
        }
        let is_first_fault = !progress.is_corrupt && part.kind.of(dest) != part.sum;
        let offset = progress.came_len.into();
        progress.is_corrupt |= is_first_fault;
        progress.came_len += part.len as u32;
        self.state = State::Head;
        match progress {
            _ if is_first_fault => Some(Event::Corrupt { range: part.range, offset }),
            Progress { len, came_len, is_corrupt: false, .. } if len == came_len => Some(Event::Whole(part.range)),
            _ => None,
        }
    }

    /// Where the bytes go that must come first.
    pub fn room<'a>(&'a mut self, dests: &'a mut impl Dests) -> Room<'a> {
        let State::Bytes(part) = self.state else {
            return Room { dest: &mut [], ahead: self.front.room(AHEAD_LEN) };
        };
        if !part.is_direct() {
            return Room { dest: &mut [], ahead: self.front.room(AHEAD_LEN) };
        }
        let start = self.ranges[part.range as usize].came_len as usize;
        let dest = &mut dests.dest(part.range)[start + part.came_len..start + part.len];
        Room { dest, ahead: self.front.room(PartHead::LEN) }
    }

    /// So many bytes came into the room; none: the node closed the connection.
    pub fn on_received(&mut self, now: Duration, len: usize) -> Result<(), Fault> {
        if len == 0 {
            return Err(Fault::closed());
        }
        self.patience.on_received(now, len);
        let direct_len = match &mut self.state {
            State::Bytes(part) if part.is_direct() => {
                let direct_len = len.min(part.len - part.came_len);
                part.came_len += direct_len;
                direct_len
            }
            _ => 0,
        };
        self.front.received(len - direct_len);
        Ok(())
    }

    /// The connection has nothing now. From then on the node is waited for, until something comes.
    pub fn on_blocked(&mut self, now: Duration) {
        self.patience.on_blocked(now);
    }

    pub fn poll_timeout(&self) -> Option<Duration> {
        self.patience.poll_timeout()
    }

    pub fn handle_timeout(&self, now: Duration) -> Result<(), Fault> {
        self.patience.handle_timeout(now)
    }

    /// The node was silent for too long here, and is not elsewhere: the link is what is waited for. It is given as long
    /// once more; false: in all that would be longer than `limit`.
    pub fn excuse(&mut self, now: Duration, limit: Duration) -> bool {
        self.patience.excuse(now, limit)
    }

    /// The ranges that are not whole.
    pub fn missing(&self) -> impl Iterator<Item = u32> + '_ {
        (0..)
            .zip(&self.ranges)
            .filter(|(_, range)| range.came_len < range.len || range.is_corrupt)
            .map(|(number, _)| number)
    }

    /// What came behind the end, for the next operation.
    pub fn into_front(mut self) -> Front {
        self.front.give_back();
        self.front
    }
}

impl Part {
    fn is_direct(&self) -> bool {
        self.len - self.came_len >= DIRECT_LEN_MIN
    }
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
