//! A node just below: what came from it, and how long it may still be silent.
//!
//! Bytes that its kernel takes say nothing of the node itself, which may have been stopped with its buffers empty. So a
//! node that gives signs of life is judged by its words alone, within `stalled_ms`; one that gives none is granted the
//! minute of HDFS.

use super::lost::Lost;
use crate::config::Limits;
use std::io::{ErrorKind, Read};
use std::net::TcpStream;
use std::time::Duration;

/// Acks that lie here while this node is busy forwarding: bounded by the packets in flight, a few bytes each.
const INBOX_LEN_MAX: usize = 64 << 10;

#[derive(Debug)]
pub(super) struct Below {
    pub(super) socket: TcpStream,
    /// Acks, as they came.
    pub(super) inbox: Vec<u8>,
    gives_signs: bool,
    /// Bytes of the packet in hand that it has taken.
    pub(super) taken: usize,
    /// Why it counts as lost. What came before is still to be looked at.
    pub(super) gone: Option<Lost>,
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
    /// A node that has `behind_count` nodes behind it. `socket` is non-blocking; `inbox` is what came behind its
    /// answer.
    pub(super) fn new(
        socket: TcpStream,
        inbox: Vec<u8>,
        gives_signs: bool,
        behind_count: usize,
        limits: &Limits,
    ) -> Self {
        let stalled = Duration::from_millis(limits.stalled_ms);
        let silent = limits.with_nodes(limits.below_silent_ms, behind_count);
        Self { socket, inbox, gives_signs, taken: 0, gone: None, owes: None, stalled, silent }
    }

    /// It got something to answer, unless it had before.
    pub(super) fn owe(&mut self, now: Duration) {
        self.owes.get_or_insert(Owes { heard: now, moved: now });
    }

    /// It has answered everything.
    pub(super) fn settle(&mut self) {
        self.owes = None;
    }

    /// It acknowledged a packet, or took bytes.
    pub(super) fn moved(&mut self, now: Duration) {
        if let Some(owes) = &mut self.owes {
            owes.moved = now;
        }
    }

    /// When it counts as lost, if nothing more comes.
    pub(super) fn until(&self) -> Option<Duration> {
        let Owes { heard, moved } = self.owes?;
        let moved = moved + self.silent;
        Some(if self.gives_signs { moved.min(heard + self.stalled) } else { moved })
    }

    /// Gives it what it takes now of a packet. True if that was all, or if it is gone.
    pub(super) fn send(&mut self, packet: &[u8], now: Duration) -> bool {
        while self.gone.is_none() && self.taken < packet.len() {
            match io::transfer::send(&self.socket, &packet[self.taken..], false) {
                Ok(len) => {
                    self.taken += len;
                    self.moved(now);
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(_) => self.gone = Some(Lost::Disconnected),
            }
        }
        self.gone.is_some() || self.taken == packet.len()
    }

    /// Takes the words that are there.
    pub(super) fn receive(&mut self, now: Duration) {
        let mut came = [0; 4096];
        match (&self.socket).read(&mut came) {
            Ok(len @ 1..) => self.inbox.extend_from_slice(&came[..len]),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => return,
            Ok(0) | Err(_) => self.gone = Some(Lost::Disconnected),
        }
        if let Some(owes) = &mut self.owes {
            owes.heard = now;
        }
        if self.inbox.len() > INBOX_LEN_MAX {
            self.gone = Some(Lost::TooManyBytes);
        }
    }

    /// Gives it up if it was silent for too long.
    pub(super) fn check_timeout(&mut self, now: Duration) {
        if self.until().is_some_and(|until| now >= until) {
            self.gone = self.gone.or(Some(Lost::TimedOut));
        }
    }
}
