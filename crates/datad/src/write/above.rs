//! The way back: answers, acks and signs of life, to the node above or to the client.
//!
//! ```text
//! stream's thread ── answer, acks ──┐
//!                                   ├─▶ out ─▶ socket, never waited for
//! beacon ─────────── signs ─────────┘
//! ```
//!
//! Promise: what goes out is whole frames in the order in which they were put; a sign of life stands between two of
//! them, and is left out where bytes before it have not left yet, since then nobody is reading.

use crate::answer::message_bytes;
use hdfs::proto::BlockOpResponseProto;
use std::io::ErrorKind;
use std::net::TcpStream;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use wire::{PipelineAck, Status};

#[derive(Debug)]
pub(crate) struct Above {
    /// Non-blocking. Packets come here; acks leave.
    pub(super) socket: TcpStream,
    /// Whoever is there said that it understands signs of life.
    takes_signs: bool,
    out: Mutex<Out>,
}

#[derive(Debug)]
struct Out {
    bytes: Vec<u8>,
    /// The setup is answered, so that acks follow.
    answered: bool,
    /// When something last left.
    told: Duration,
}

impl Above {
    pub(super) fn new(socket: TcpStream, takes_signs: bool, now: Duration) -> Self {
        Self { socket, takes_signs, out: Mutex::new(Out { bytes: Vec::new(), answered: false, told: now }) }
    }

    pub(crate) fn takes_signs(&self) -> bool {
        self.takes_signs
    }

    /// Appends the answer to the setup; what follows it are acks.
    pub(super) fn put_answer(&self, answer: &[u8]) {
        let mut out = self.lock();
        out.bytes.extend_from_slice(answer);
        out.answered = true;
    }

    pub(super) fn put_ack(&self, ack: &PipelineAck) {
        ack.put(&mut self.lock().bytes);
    }

    /// Bytes that the socket did not take yet.
    pub(super) fn pending_len(&self) -> usize {
        self.lock().bytes.len()
    }

    /// When something last left.
    pub(super) fn last_sent(&self) -> Duration {
        self.lock().told
    }

    /// Sends as much as the socket takes. False if nobody is there any more.
    pub(super) fn flush(&self, now: Duration) -> bool {
        self.flush_locked(&mut self.lock(), now)
    }

    fn flush_locked(&self, out: &mut Out, now: Duration) -> bool {
        while !out.bytes.is_empty() {
            match io::transfer::send(&self.socket, &out.bytes, false) {
                Ok(sent) => {
                    out.bytes.drain(..sent);
                    out.told = now;
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return true,
                Err(_) => {
                    out.bytes.clear();
                    return false;
                }
            }
        }
        true
    }

    /// Says that this node lives, if it has said nothing for as long as `every`. That the peer is gone the stream finds
    /// out.
    pub(crate) fn sign(&self, now: Duration, every: Duration) {
        let mut out = self.lock();
        if !self.takes_signs || !out.bytes.is_empty() || now < out.told + every {
            return;
        }
        if out.answered {
            PipelineAck::SIGN.put(&mut out.bytes);
        } else {
            let status = Status::IN_PROGRESS.0.into();
            out.bytes = message_bytes(&BlockOpResponseProto { status, ..Default::default() });
        }
        self.flush_locked(&mut out, now);
    }

    fn lock(&self) -> MutexGuard<'_, Out> {
        self.out.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
