//! The packets of one stream that are not acknowledged yet, and how far they are written.

use super::fault::Break;
use super::packet::Packet;
use std::collections::VecDeque;
use std::sync::Arc;
use types::mutation::{self, Mutation};

/// Bytes that are to be sent next: those of the packet from `from` on.
#[derive(Clone, Debug)]
pub struct Outgoing {
    pub(super) packet: Arc<Packet>,
    pub(super) from: usize,
}

impl Outgoing {
    /// The socket took a first part of the packet already.
    pub fn is_begun(&self) -> bool {
        self.from > 0
    }

    /// Never empty.
    pub fn bytes(&self) -> &[u8] {
        &self.packet.bytes()[self.from..]
    }
}

/// What a stream leaves when it is over.
#[derive(Debug, Default)]
pub struct Rest {
    /// Who is to blame.
    pub broken: Break,
    /// What must be sent again, oldest first.
    pub unacked: VecDeque<Arc<Packet>>,
    /// The block up to here is on all nodes.
    pub acked_len: u64,
}

#[derive(Debug, Default)]
pub(super) struct Window {
    unacked: VecDeque<Arc<Packet>>,
    /// How many of those are written, and how many bytes of the one behind them.
    written_count: usize,
    part_len: usize,
    /// A driver offers bytes of that one to its socket just now, so all of it may be written.
    in_hand: bool,
    /// Acknowledged; kept for their buffers.
    spent: Vec<Arc<Packet>>,
    /// The block up to here is on all nodes.
    acked_len: u64,
}

impl Window {
    pub(super) fn new(acked_len: u64) -> Self {
        Self { acked_len, ..Self::default() }
    }

    pub(super) fn len(&self) -> usize {
        self.unacked.len()
    }

    /// Packets that are written as a whole, and not acknowledged.
    pub(super) fn written_count(&self) -> usize {
        self.written_count
    }

    /// A packet is written in part, so nothing else may be sent before the rest of it.
    pub(super) fn is_inside(&self) -> bool {
        self.part_len > 0
    }

    /// The block up to here is acknowledged, or in the window.
    fn end(&self) -> u64 {
        self.unacked.back().map_or(self.acked_len, |packet| packet.end_offset())
    }

    pub(super) fn push(&mut self, packet: Arc<Packet>) {
        let (end, offset) = (self.end(), packet.header().offset as u64);
        assert!(offset == end, "a packet at {offset} behind {end} bytes: those between were lost");
        self.unacked.push_back(packet);
    }

    /// What is to be written next.
    pub(super) fn take_in_hand(&mut self) -> Option<Outgoing> {
        let packet = Arc::clone(self.unacked.get(self.written_count)?);
        self.in_hand = true;
        Some(Outgoing { packet, from: self.part_len })
    }

    /// The socket took `len` bytes of what was in hand.
    pub(super) fn on_written(&mut self, outgoing: &Outgoing, len: usize) {
        self.in_hand = false;
        let next = self.unacked.get(self.written_count);
        if next.is_none_or(|next| next.seqno() != outgoing.packet.seqno()) {
            return; // its ack was faster than this note
        }
        self.part_len = outgoing.from + len;
        assert!(self.part_len <= outgoing.packet.bytes().len(), "more written than the packet has");
        if self.part_len == outgoing.packet.bytes().len() {
            (self.written_count, self.part_len) = (self.written_count + 1, 0);
        }
    }

    /// Whoever was writing a packet has given up, maybe inside of it.
    pub(super) fn on_given_up(&mut self) {
        self.in_hand = false;
        if mutation::is(Mutation::ForgetPartWrites) {
            self.part_len = 0;
        }
    }

    /// Takes the oldest packet out, if it is this one and the nodes can have it. Says whether it ends the block.
    pub(super) fn on_acked(&mut self, seqno: i64) -> Option<bool> {
        let is_sent = self.written_count > 0 || self.in_hand;
        self.unacked.front().filter(|packet| is_sent && packet.seqno() == seqno)?;
        let packet = self.unacked.pop_front()?;
        match self.written_count.checked_sub(1) {
            Some(count) => self.written_count = count,
            // Whoever writes it has not reported yet that it is written.
            None => (self.part_len, self.in_hand) = (0, false),
        }
        self.acked_len = self.acked_len.max(packet.end_offset());
        let is_last = packet.is_last();
        self.spent.push(packet);
        Some(is_last)
    }

    pub(super) fn take_spent(&mut self) -> Vec<Arc<Packet>> {
        std::mem::take(&mut self.spent)
    }

    pub(super) fn take_rest(&mut self, broken: Break) -> Rest {
        if mutation::is(Mutation::TrustWritten) {
            while self.written_count > 0 && self.on_acked(self.unacked[0].seqno()).is_some() {}
        }
        let Self { unacked, acked_len, .. } = std::mem::take(self);
        Rest { broken, unacked, acked_len }
    }
}
