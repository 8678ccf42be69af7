//! One link of a write chain.

use super::packet::{BadPacket, Packet};
use std::collections::VecDeque;
use types::ChecksumSpec;
use types::mutation::{self, Mutation};
use wire::{PacketHeader, Status};

/// What happened to a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A whole packet came from above.
    Packet(Packet),
    /// The oldest [`Action::Store`] not yet answered is done.
    Stored,
    /// It failed.
    NotStored(Failure),
    /// One of the nodes just below answered; they are counted as [`Link::new`] got them.
    Ack { below: usize, seqno: i64, replies: Vec<Status> },
    /// It is gone, takes no bytes, or talks nonsense.
    BelowLost { below: usize },
    /// The writer, or the node that stands between, is gone.
    AboveLost,
}

/// Why a packet was not stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The bytes do not match their checksums.
    Checksum,
    Disk,
    /// A recovery took the replica: this writer may not touch it any more.
    Fenced,
}

/// What must follow, in this order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Send the packet that just came to all nodes just below that are not lost, as it is.
    Forward,
    /// With the packet that just came: verify it; write it if `write`; bring the replica to disk if `sync`; put it,
    /// with `put` bytes, if that is set. Answer with [`Event::Stored`] or [`Event::NotStored`], in the order of the
    /// actions; once one has failed, all later ones fail.
    Store { write: bool, sync: bool, put: Option<u64> },
    /// Readers may see this many bytes from now on.
    Show(u64),
    /// Tell the node above, or the client.
    Ack { seqno: i64, replies: Vec<Status> },
    /// The end: close both connections, once what was acked has been sent. No action follows.
    Close(Ending),
}

/// How a link ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// The block is put here and everywhere below, and the node above was told.
    Complete,
    /// The node above was told which node failed; it is this one if `below` is false.
    Failed {
        below: bool,
    },
    /// The node below saw bytes that do not match: as we sent them on, we must look like the bad one, so without a
    /// word.
    BelowSawBadSums,
    Fenced,
    AboveLost,
    Refused(BadPacket),
}

/// A packet that is not acknowledged yet.
#[derive(Debug)]
struct InFlight {
    seqno: i64,
    /// Length of the block with it; none for a heartbeat.
    end: Option<u64>,
    last: bool,
    own: Own,
}

#[derive(Debug, PartialEq, Eq)]
enum Own {
    Working,
    Stored,
    Failed(Status),
}

/// One of the nodes just below, and all behind it.
#[derive(Debug)]
struct Below {
    node_count: usize,
    lost: bool,
    /// Packets that all of them have, counted from the first of the stream.
    answered: u64,
    /// What they said of the packet after those, if that was bad. Nothing they say later counts.
    bad: Option<Vec<Status>>,
}

/// What a node below says of one packet.
enum Answer<'a> {
    Awaited,
    Well,
    Bad(&'a [Status]),
    Lost,
}

impl Ending {
    /// Whether the writer is told of a failure while it may still send: what comes is read and dropped for
    /// [`LINGER`](super::limits::LINGER), so that the news are not lost with the connection.
    pub fn lingers(self) -> bool {
        matches!(self, Self::Failed { .. })
    }
}

impl Below {
    fn answer(&self, number: u64) -> Answer<'_> {
        match &self.bad {
            _ if number < self.answered => Answer::Well,
            Some(replies) => Answer::Bad(replies),
            None if self.lost && mutation::is(Mutation::LostIsWell) => Answer::Well,
            None if self.lost => Answer::Lost,
            None => Answer::Awaited,
        }
    }

    /// False if this can be no answer to the packet `seqno`.
    fn take(&mut self, replies: Vec<Status>) -> bool {
        let well = replies.iter().all(|reply| *reply == Status::SUCCESS);
        match well {
            // An ack that says all is well must say it of everybody.
            true if replies.len() != self.node_count => return false,
            true => self.answered += 1,
            false if replies.len() > self.node_count => return false,
            false => self.bad = Some(replies),
        }
        true
    }
}

/// One node of one stream, from the first packet to the end.
#[derive(Debug)]
pub struct Link {
    spec: ChecksumSpec,
    below: Vec<Below>,
    /// Bytes of the block that came, whether stored yet or not.
    received: u64,
    /// Bytes that readers were shown.
    shown: u64,
    last_came: bool,
    /// A packet failed here; only those before it are still to be acknowledged.
    dying: bool,
    /// Oldest first.
    in_flight: VecDeque<InFlight>,
    /// Packets that were acknowledged, so the number of the oldest in flight.
    acked_count: u64,
    ended: bool,
}

impl Link {
    /// Packets not acknowledged at which [`Link::wants_packets`] says no. Stock clients stop at 80 by themselves; a
    /// guess that leaves room for writers of our own.
    pub const IN_FLIGHT_COUNT_MAX: usize = 1024;

    /// A link whose replica has `received` bytes already. It sends to several nodes; `below` tells for each how many
    /// there are from it on downwards, itself included. In a chain that is one, or none.
    pub fn new(spec: ChecksumSpec, below: &[usize], received: u64) -> Self {
        let below = below.iter().map(|count| Below { node_count: *count, lost: false, answered: 0, bad: None });
        Self {
            spec,
            below: below.collect(),
            received,
            shown: 0,
            last_came: false,
            dying: false,
            in_flight: VecDeque::new(),
            acked_count: 0,
            ended: false,
        }
    }

    /// Bytes of the block that came so far.
    pub fn received(&self) -> u64 {
        self.received
    }

    /// Whether a packet may be handed over now. If not, leave it in the socket until acks have gone out.
    pub fn wants_packets(&self) -> bool {
        !self.ended && !self.last_came && !self.dying && self.in_flight.len() < Self::IN_FLIGHT_COUNT_MAX
    }

    /// Whether no packet waits for an answer, ours or that of a node below.
    pub fn is_idle(&self) -> bool {
        self.in_flight.is_empty()
    }

    /// Whether one of the nodes below will not have all packets that came, as it is lost or has said that something is
    /// bad: then the block is not to be put. One that has acknowledged them all may go.
    pub fn is_broken(&self) -> bool {
        let sent_count = self.sent_count();
        let broken = self.below.iter().any(|below| below.bad.is_some() || (below.lost && below.answered < sent_count));
        broken && !mutation::is(Mutation::PutBroken)
    }

    /// Packets that came so far, for which those below owe an answer each.
    fn sent_count(&self) -> u64 {
        self.acked_count + self.in_flight.len() as u64
    }

    /// Whether one of the nodes just below owes an answer.
    pub fn awaits(&self, below: usize) -> bool {
        let sent_count = self.sent_count();
        let below = self.below.get(below);
        below.is_some_and(|below| !below.lost && below.bad.is_none() && below.answered < sent_count)
    }

    /// Carries one event to its end without waiting; whatever must follow goes into `actions`.
    /// After [`Action::Close`] nothing follows any more, whatever happens.
    pub fn on_event(&mut self, event: Event, actions: &mut Vec<Action>) {
        if self.ended {
            return;
        }
        match event {
            Event::Packet(packet) => self.on_packet(packet, actions),
            Event::Stored => self.working().own = Own::Stored,
            Event::NotStored(Failure::Checksum) => self.on_failure(Status::ERROR_CHECKSUM),
            Event::NotStored(Failure::Disk) => self.on_failure(Status::ERROR),
            Event::NotStored(Failure::Fenced) => self.close(Ending::Fenced, actions),
            Event::Ack { below, seqno, replies } => self.on_ack(below, seqno, replies),
            Event::BelowLost { below } => self.below[below].lost = true,
            Event::AboveLost => self.close(Ending::AboveLost, actions),
        }
        while !self.ended && self.answer_oldest(actions) {}
    }

    fn on_packet(&mut self, packet: Packet, actions: &mut Vec<Action>) {
        if self.dying {
            return; // what follows a packet that failed here is of no use: the writer will send it again elsewhere
        }
        let PacketHeader { seqno, last, sync, .. } = packet.header;
        if self.last_came {
            return self.close(Ending::Refused(BadPacket::AfterLast { seqno }), actions);
        }
        let forward = self.below.iter().any(|below| !below.lost).then_some(Action::Forward);
        if packet.header.is_heartbeat() {
            actions.extend(forward);
            self.in_flight.push_back(InFlight { seqno, end: None, last: false, own: Own::Stored });
            return;
        }
        let end = match packet.end(self.spec, self.received) {
            Ok(end) => end,
            Err(refusal) => return self.close(Ending::Refused(refusal), actions),
        };
        let write = end > self.received;
        self.received = self.received.max(end);
        self.last_came = last;
        // Bytes go on before they are looked at: the nodes below work while this one does.
        actions.extend(forward);
        self.in_flight.push_back(InFlight { seqno, end: Some(end), last, own: Own::Working });
        // A block is not put over a broken chain: the writer will come back for it under a new generation.
        let put = (last && !self.is_broken()).then_some(self.received);
        actions.push(Action::Store { write, sync, put });
        if mutation::is(Mutation::ShowUnacked) {
            actions.push(Action::Show(end));
        }
    }

    fn on_failure(&mut self, reply: Status) {
        self.working().own = Own::Failed(reply);
        self.dying = true;
    }

    fn on_ack(&mut self, below: usize, seqno: i64, replies: Vec<Status>) {
        let below = &mut self.below[below];
        if below.lost || below.bad.is_some() {
            return;
        }
        let is_behind = below.answered < self.acked_count;
        assert!(!is_behind || mutation::is(Mutation::AckBeforeBelow), "acknowledged what a node below has not");
        if is_behind {
            below.answered += 1;
            return;
        }
        let asked = self.in_flight.get((below.answered - self.acked_count) as usize);
        if asked.is_none_or(|packet| packet.seqno != seqno) || !below.take(replies) {
            below.lost = true;
        }
    }

    /// Acknowledges the oldest packet if all is known of it; says whether it did.
    fn answer_oldest(&mut self, actions: &mut Vec<Action>) -> bool {
        let Some(packet) = self.in_flight.front() else { return false };
        let (seqno, end, last) = (packet.seqno, packet.end, packet.last);
        match packet.own {
            Own::Working => return false,
            Own::Failed(reply) => {
                actions.push(Action::Ack { seqno, replies: vec![reply] });
                self.close(Ending::Failed { below: false }, actions);
                return true;
            }
            Own::Stored => {}
        }
        let number = self.acked_count;
        let answers = || self.below.iter().map(|below| below.answer(number));
        let saw_bad_sums = answers().any(|answer| matches!(answer, Answer::Bad([Status::ERROR_CHECKSUM, ..])));
        if saw_bad_sums && !mutation::is(Mutation::BlameFinder) {
            self.close(Ending::BelowSawBadSums, actions);
            return true;
        }
        let well = !answers().any(|answer| matches!(answer, Answer::Bad(_) | Answer::Lost));
        let awaited = answers().any(|answer| matches!(answer, Answer::Awaited));
        if well && awaited && !mutation::is(Mutation::AckBeforeBelow) {
            return false;
        }
        let lost = answers().any(|answer| matches!(answer, Answer::Lost));
        let hides = lost && mutation::is(Mutation::BlameSelf);
        let replies = if hides { vec![Status::ERROR] } else { self.replies(number) };
        self.in_flight.pop_front();
        self.acked_count += 1;
        if let Some(end) = end.filter(|end| well && *end > self.shown) {
            // Before the ack: a reader may see a little more than the writer was told, never less.
            self.shown = end;
            actions.push(Action::Show(end));
        }
        actions.push(Action::Ack { seqno, replies });
        match (well, last) {
            (false, _) => self.close(Ending::Failed { below: true }, actions),
            (true, true) => self.close(Ending::Complete, actions),
            (true, false) => {}
        }
        true
    }

    /// Ours and those of all below, in the order of the nodes. Who is not known of is in progress; at the end that is
    /// left out, so a lost node of a chain is told with exactly one bad reply behind the good ones: the client blames
    /// the last node that a reply calls bad, and those further down may be well.
    fn replies(&self, number: u64) -> Vec<Status> {
        let node_count: usize = self.below.iter().map(|below| below.node_count).sum();
        let mut replies = Vec::with_capacity(1 + node_count);
        replies.push(Status::SUCCESS);
        for below in &self.below {
            let end = replies.len() + below.node_count;
            match below.answer(number) {
                Answer::Well => replies.resize(end, Status::SUCCESS),
                Answer::Bad(bad) => replies.extend_from_slice(bad),
                Answer::Lost => replies.push(Status::ERROR),
                Answer::Awaited => {}
            }
            replies.resize(end, Status::IN_PROGRESS);
        }
        while replies.last() == Some(&Status::IN_PROGRESS) {
            replies.pop();
        }
        replies
    }

    /// The oldest packet that is being stored. Answers come in the order of the actions.
    fn working(&mut self) -> &mut InFlight {
        let mut in_flight = self.in_flight.iter_mut();
        in_flight.find(|packet| packet.own == Own::Working).expect("an answer to a Store action, when none was open")
    }

    fn close(&mut self, ending: Ending, actions: &mut Vec<Action>) {
        self.ended = true;
        actions.push(Action::Close(ending));
    }
}
