//! The way back: answers, acks and keepalives, to the node above or to the client.
//!
//! ```text
//! stream ──────────── answer, acks ──┐
//!                                    ├─▶ out ─▶ socket, never waited for
//! timer of busy streams ─ keepalives ┘
//! ```
//!
//! Promise: what goes out is whole frames in the order in which they were put; a keepalive stands between two of
//! them, and is left out where bytes before it have not left yet, since then nobody is reading. A disk may keep the
//! stream's thread busy, so a driver keeps this where another thread can send keepalives meanwhile.

use super::limits::Limits;
use crate::answer::cut;
use hdfs::proto::BlockOpResponseProto;
use std::time::Duration;
use types::mutation::{self, Mutation};
use wire::{Abilities, PipelineAck, Status, delimited};

#[derive(Debug)]
pub struct Above {
    /// Whoever is there said that it understands keepalives.
    takes_keepalives: bool,
    out: Vec<u8>,
    /// The setup is answered, so that acks follow.
    answered: bool,
    /// When something last left.
    last_sent: Duration,
    is_closed: bool,
}

impl Above {
    /// Acks a writer may leave untaken; then it is not read until it takes some. They are a few bytes each.
    pub const ACKS_LEN_MAX: usize = 64 << 10;

    pub fn new(takes_keepalives: bool, now: Duration) -> Self {
        Self { takes_keepalives, out: Vec::new(), answered: false, last_sent: now, is_closed: false }
    }

    pub fn takes_keepalives(&self) -> bool {
        self.takes_keepalives
    }

    /// Appends the answer to the setup, its texts cut; what follows it are acks.
    pub fn put_answer(&mut self, answer: &BlockOpResponseProto) {
        assert!(!self.answered, "a setup is answered once");
        delimited::put(&cut(answer.clone()), &mut self.out);
        self.answered = true;
    }

    /// The answer that all is well. HDFS's own clients get no field that they do not know.
    pub fn put_ready(&mut self) {
        let abilities = self.takes_keepalives.then_some(Abilities::OF_STREAM.bits());
        let first_bad_link = Some(String::new());
        self.put_answer(&BlockOpResponseProto { abilities, first_bad_link, ..Default::default() });
    }

    pub fn put_ack(&mut self, ack: &PipelineAck) {
        ack.put(&mut self.out);
    }

    /// What is to be sent.
    pub fn out(&self) -> &[u8] {
        &self.out
    }

    /// The socket took so many bytes of [`Above::out`].
    pub fn on_sent(&mut self, now: Duration, len: usize) {
        self.out.drain(..len);
        self.last_sent = now;
    }

    /// Nobody is there any more.
    pub fn on_closed(&mut self) {
        self.out.clear();
        self.is_closed = true;
    }

    /// When a keepalive is due for those who wait for this node.
    pub(super) fn keepalive_due(&self, limits: &Limits) -> Option<Duration> {
        let is_read = self.takes_keepalives && !self.is_closed && !mutation::is(Mutation::NoKeepalives);
        let may = is_read && self.out.is_empty();
        may.then(|| self.last_sent + limits.keepalive_interval)
    }

    /// When something last left.
    pub(super) fn last_sent(&self) -> Duration {
        self.last_sent
    }

    /// Puts a keepalive, if one is due.
    pub(super) fn put_keepalive(&mut self, now: Duration, limits: &Limits) {
        if self.keepalive_due(limits).is_none_or(|due| now < due) {
            return;
        }
        if self.answered {
            PipelineAck::KEEPALIVE.put(&mut self.out);
        } else {
            let status = Status::IN_PROGRESS.0.into();
            delimited::put(&BlockOpResponseProto { status, ..Default::default() }, &mut self.out);
        }
    }

    /// The stream has been at a disk, or at its setup, since `since`, and cannot say itself that it lives: puts a
    /// keepalive, if one is due. Not for longer than a node below may be silent: a disk that never comes back is a
    /// lost one.
    pub fn keepalive_while_busy(&mut self, since: Duration, now: Duration, limits: &Limits) {
        if now < since + limits.below_silent {
            self.put_keepalive(now, limits);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answer::{LEN_MAX, TEXT_LEN_MAX};

    /// A stream goes on for a while without those above. A keepalive that nobody takes would be due at once again.
    #[test]
    fn nobody_who_has_gone_is_to_hear_that_this_node_lives() {
        let limits = Limits { keepalive_interval: Duration::from_millis(500), ..Limits::default() };
        let mut above = Above::new(true, Duration::ZERO);
        assert_eq!(above.keepalive_due(&limits), Some(limits.keepalive_interval));
        above.on_closed();
        assert_eq!(above.keepalive_due(&limits), None);
        above.put_keepalive(Duration::from_secs(9), &limits);
        assert!(above.out().is_empty());
    }

    /// A client may name a node with a megabyte, and take no byte of the answer that repeats it.
    #[test]
    fn an_answer_repeats_no_more_than_is_read() {
        let text = Some("ü".repeat(1 << 20));
        let mut above = Above::new(false, Duration::ZERO);
        above.put_answer(&BlockOpResponseProto { first_bad_link: text.clone(), message: text, ..Default::default() });
        let answer = delimited::split(above.out(), "answer", LEN_MAX).unwrap().expect("it is whole").0;
        let answer: BlockOpResponseProto = delimited::decode(answer, "answer").unwrap();
        assert_eq!(answer.message.map(|text| text.len()), Some(TEXT_LEN_MAX));
    }
}
