//! One link of a write chain.

use crate::packet::{Packet, Refusal, Reply};
use std::collections::VecDeque;
use types::ChecksumSpec;

/// What happened to a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A whole packet came from above.
    Packet(Packet),
    /// The oldest [`Action::Store`] not yet answered is done.
    Stored,
    /// It failed.
    NotStored(Failure),
    /// The node below answered.
    Ack { seqno: i64, replies: Vec<Reply> },
    /// The node below is gone, takes no bytes, or talks nonsense.
    BelowLost,
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
    /// Send the packet that just came to the node below, as it is.
    Forward,
    /// With the packet that just came: verify it; write it if `write`; bring the replica to disk if `sync`; put it, with
    /// `put` bytes, if that is set. Answer with [`Event::Stored`] or [`Event::NotStored`], in the order of the actions;
    /// once one has failed, all later ones fail.
    Store { write: bool, sync: bool, put: Option<u64> },
    /// Readers may see this many bytes from now on.
    Show(u64),
    /// Tell the node above, or the client.
    Ack { seqno: i64, replies: Vec<Reply> },
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
    /// The node below saw bytes that do not match: as we sent them on, we must look like the bad one, so without a word.
    BelowSawBadSums,
    Fenced,
    AboveLost,
    Refused(Refusal),
}

/// A packet that is not acknowledged yet.
#[derive(Debug)]
struct InFlight {
    seqno: i64,
    /// Length of the block with it; none for a heartbeat.
    end: Option<u64>,
    last: bool,
    own: Own,
    below: Below,
}

#[derive(Debug, PartialEq, Eq)]
enum Own {
    Working,
    Stored,
    Failed(Reply),
}

#[derive(Debug, PartialEq, Eq)]
enum Below {
    /// Nobody is below, or nobody any more: the packet was not sent on.
    Unasked,
    Asked,
    Answered(Vec<Reply>),
}

/// One node of one chain, from the first packet to the end.
#[derive(Debug)]
pub struct Link {
    spec: ChecksumSpec,
    /// How many nodes are below, by what the writer said at the beginning.
    below_count: usize,
    below_lost: bool,
    /// Bytes of the block that came, whether stored yet or not.
    received: u64,
    /// Bytes that readers were shown.
    shown: u64,
    last_came: bool,
    /// A packet failed here; only those before it are still to be acknowledged.
    dying: bool,
    /// Oldest first.
    in_flight: VecDeque<InFlight>,
    ended: bool,
}

impl Link {
    /// Packets not acknowledged at which [`Link::wants_packets`] says no. Stock clients stop at 80 by themselves; a
    /// guess that leaves room for writers of our own.
    pub const IN_FLIGHT_COUNT_MAX: usize = 1024;

    /// A link above `below_count` nodes, whose replica has `received` bytes already.
    pub fn new(spec: ChecksumSpec, below_count: usize, received: u64) -> Self {
        Self {
            spec,
            below_count,
            below_lost: false,
            received,
            shown: 0,
            last_came: false,
            dying: false,
            in_flight: VecDeque::new(),
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

    /// Whether a packet waits for an answer, ours or that of the node below.
    pub fn is_idle(&self) -> bool {
        self.in_flight.is_empty()
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
            Event::NotStored(Failure::Checksum) => self.on_failure(Reply::ERROR_CHECKSUM),
            Event::NotStored(Failure::Disk) => self.on_failure(Reply::ERROR),
            Event::NotStored(Failure::Fenced) => self.close(Ending::Fenced, actions),
            Event::Ack { seqno, replies } => self.on_ack(seqno, replies),
            Event::BelowLost => self.below_lost = true,
            Event::AboveLost => self.close(Ending::AboveLost, actions),
        }
        while !self.ended && self.answer_oldest(actions) {}
    }

    fn on_packet(&mut self, packet: Packet, actions: &mut Vec<Action>) {
        if self.dying {
            return; // what follows a packet that failed here is of no use: the writer will send it again elsewhere
        }
        let seqno = packet.seqno;
        if self.last_came {
            return self.close(Ending::Refused(Refusal::AfterLast { seqno }), actions);
        }
        let ask_below = self.below_count > 0 && !self.below_lost;
        let below = if ask_below { Below::Asked } else { Below::Unasked };
        if packet.is_heartbeat() {
            actions.extend(ask_below.then_some(Action::Forward));
            self.in_flight.push_back(InFlight { seqno, end: None, last: false, own: Own::Stored, below });
            return;
        }
        let end = match packet.end(self.spec, self.received) {
            Ok(end) => end,
            Err(refusal) => return self.close(Ending::Refused(refusal), actions),
        };
        let write = end > self.received;
        self.received = self.received.max(end);
        self.last_came = packet.last;
        // Bytes go on before they are looked at: the nodes below work while this one does.
        actions.extend(ask_below.then_some(Action::Forward));
        // A block is not put over a broken chain: the writer will come back for it under a new generation.
        let put = (packet.last && !self.below_lost).then_some(self.received);
        actions.push(Action::Store { write, sync: packet.sync, put });
        self.in_flight.push_back(InFlight { seqno, end: Some(end), last: packet.last, own: Own::Working, below });
    }

    fn on_failure(&mut self, reply: Reply) {
        self.working().own = Own::Failed(reply);
        self.dying = true;
    }

    fn on_ack(&mut self, seqno: i64, replies: Vec<Reply>) {
        let below_count = self.below_count;
        // An ack that says all is well must say it of everybody.
        let whole = replies.iter().any(|reply| *reply != Reply::SUCCESS) || replies.len() == below_count;
        match self.in_flight.iter_mut().find(|packet| !matches!(packet.below, Below::Answered(_))) {
            Some(packet) if packet.below == Below::Asked && packet.seqno == seqno && whole && !self.below_lost => {
                packet.below = Below::Answered(replies);
            }
            _ => self.below_lost = true,
        }
    }

    /// Acknowledges the oldest packet if all is known of it; says whether it did.
    fn answer_oldest(&mut self, actions: &mut Vec<Action>) -> bool {
        let Some(packet) = self.in_flight.front_mut() else { return false };
        let seqno = packet.seqno;
        match packet.own {
            Own::Working => return false,
            Own::Failed(reply) => {
                actions.push(Action::Ack { seqno, replies: vec![reply] });
                self.close(Ending::Failed { below: false }, actions);
                return true;
            }
            Own::Stored => {}
        }
        let mut replies = vec![Reply::SUCCESS];
        match &mut packet.below {
            Below::Answered(below) if below.first() == Some(&Reply::ERROR_CHECKSUM) => {
                self.close(Ending::BelowSawBadSums, actions);
                return true;
            }
            Below::Answered(below) => replies.append(below),
            // Exactly one: the client blames the last node that a reply calls bad, and those further down may be well.
            _ if self.below_lost => replies.push(Reply::ERROR),
            Below::Asked => return false,
            Below::Unasked => {}
        }
        let well = replies.iter().all(|reply| *reply == Reply::SUCCESS);
        let (end, last) = (packet.end, packet.last);
        self.in_flight.pop_front();
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
