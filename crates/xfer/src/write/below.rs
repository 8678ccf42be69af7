//! A node just below: what came from it, how much it took, and how long it may still be silent.
//!
//! Bytes that its kernel takes say nothing of the node itself, which may have been stopped with its buffers empty. So a
//! node that sends keepalives is judged by its words alone, within `stalled`; one that sends none is granted the
//! minute of HDFS.

use super::limits::Limits;
use super::lost::Lost;
use crate::acks::AckReader;
use std::time::Duration;
use types::mutation::{self, Mutation};
use wire::PipelineAck;

#[derive(Debug)]
pub(super) struct Below {
    acks: AckReader,
    sends_keepalives: bool,
    /// Bytes of the packets in hand that it has taken.
    pub(super) taken: usize,
    /// Set while it owes an answer.
    owes: Option<Owes>,
    /// Limits for a word of any kind, and for one that tells of progress.
    stalled: Duration,
    silent: Duration,
}

#[derive(Clone, Copy, Debug)]
struct Owes {
    heard: Duration,
    moved: Duration,
}

impl Below {
    /// A node that has `behind_count` nodes behind it.
    pub(super) fn new(sends_keepalives: bool, behind_count: usize, limits: &Limits) -> Self {
        let silent = limits.below_silent_with(behind_count);
        Self { acks: AckReader::default(), sends_keepalives, taken: 0, owes: None, stalled: limits.stalled, silent }
    }

    /// It is to get packets, and with them something to answer, unless it had before.
    pub(super) fn begin(&mut self, now: Duration) {
        self.taken = 0;
        self.owes.get_or_insert(Owes { heard: now, moved: now });
    }

    /// It has answered everything.
    pub(super) fn settle(&mut self) {
        self.owes = None;
    }

    /// It took so many bytes.
    pub(super) fn on_sent(&mut self, now: Duration, len: usize) {
        self.taken += len;
        self.moved(now);
    }

    fn moved(&mut self, now: Duration) {
        if let Some(owes) = &mut self.owes {
            owes.moved = now;
        }
    }

    /// When it counts as lost, if nothing more comes.
    pub(super) fn until(&self) -> Option<Duration> {
        let Owes { heard, moved } = self.owes?;
        let moved = moved + self.silent;
        let heeds_keepalives = self.sends_keepalives && !mutation::is(Mutation::NeverStalled);
        Some(if heeds_keepalives { moved.min(heard + self.stalled) } else { moved })
    }

    /// Takes its words: hands over each ack, but for keepalives.
    pub(super) fn receive(
        &mut self,
        now: Duration,
        bytes: &[u8],
        mut on_ack: impl FnMut(PipelineAck),
    ) -> Result<(), Lost> {
        if let Some(owes) = &mut self.owes {
            owes.heard = now;
        }
        let owes = &mut self.owes;
        let read = self.acks.read(bytes, |ack| {
            if let Some(owes) = owes {
                owes.moved = now;
            }
            on_ack(ack);
            true
        });
        read.map_err(|_| Lost::ProtocolError)
    }
}
