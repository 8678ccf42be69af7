//! The datanode's end: packets go out, to a reader or to a node that gets a copy; then the peer has the last word.
//!
//! ```text
//! to a reader   answer  │ head · sums │ data │ … │ head (last, empty)        ◀── verdict, if it cares to
//! to a node     request │ head · sums │ data │ … │ head (last, empty)        ◀── answer: put, or why not
//!               └──── one send ─────┘ └─ sendfile                  each packet in its time, and the word in its
//! ```
//!
//! Promise: the checksums that go out are those that were stored, and no data byte passes the machine. It holds a
//! window of checksums and one packet's head ([`Plan::memory_len`]). A copy is done when the other node says so.

use super::late::Late;
use super::plan::{Plan, Stored};
use super::verdict;
use crate::answer::{self, Awaiting, Refusal, success};
use crate::fault::Fault;
use crate::request::encode;
use crate::write;
use hdfs::proto::{self, BlockConstructionStage as Stage};
use std::ops::Range;
use std::time::Duration;
use types::ReplicaState;
use types::mutation::{self, Mutation};
use wire::{Op, PacketHeader, WireError};

/// How long the peer may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Over one packet.
    pub packet: Duration,
    /// Over its last word, from the last packet on.
    pub word: Duration,
}

impl Limits {
    /// Of a reader. Hadoop: `dfs.datanode.socket.write.timeout`, and a minute to say how it went.
    pub const READER: Self = Self { packet: Duration::from_secs(480), word: Duration::from_secs(60) };
    /// Of a node that gets a copy: as the next one of a chain.
    pub const COPY: Self = Self { packet: write::Limits::DEFAULT.below_silent, word: write::Limits::DEFAULT.setup };
}

/// What is to be done next.
#[derive(Debug, PartialEq, Eq)]
pub enum Next {
    /// Read the stored checksums of these bytes of the replica, and give them to [`Sender::on_sums`].
    Sums(Range<u64>),
    /// Send [`Sender::head`], then these bytes of the replica, which may be none; then say so with [`Sender::on_sent`].
    Packet(Range<u64>),
    /// Give what comes to [`Sender::on_bytes`].
    Receive,
    Done(Outcome),
}

/// How it ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The reader's verdict, as a status. The connection may carry another operation.
    Verdict(i32),
    /// The reader had none in time: the connection carries nothing more.
    NoVerdict,
    /// The other node has put its copy.
    Copied,
    Refused(Refusal),
}

#[derive(Debug)]
pub struct Sender {
    plan: Plan,
    limits: Limits,
    /// What the next packet goes behind, and its head and checksums once it is being sent.
    head: Vec<u8>,
    sums: Vec<u8>,
    sums_at: usize,
    /// Of the next packet.
    at: u64,
    seqno: i64,
    /// Since when the peer takes its time.
    since: Duration,
    peer: Peer,
    state: State,
}

#[derive(Clone, Copy, Debug)]
enum Peer {
    Reader,
    Node(Awaiting),
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum State {
    /// The next packet is to be made.
    Packets,
    /// Its head is made.
    Sending {
        data_len: u64,
    },
    Word,
    Done(Outcome),
}

/// Whom a copy is for, as the client named it.
#[derive(Clone, Debug, Default)]
pub struct CopyTarget {
    pub storage_type: Option<i32>,
    pub storage_id: Option<String>,
}

/// Opens a copy of all of a replica on another node: a write of its own kind, with nobody behind.
pub fn copy_request(
    header: &proto::ClientOperationHeaderProto,
    stored: Stored,
    target: CopyTarget,
) -> Result<Vec<u8>, Fault> {
    let mut header = header.clone();
    header.base_header.block.generation_stamp = stored.generation.0;
    header.base_header.block.num_bytes = Some(stored.len);
    let is_whole = stored.state == ReplicaState::Finalized;
    let stage = if is_whole { Stage::TransferFinalized } else { Stage::TransferRbw };
    let write = proto::OpWriteBlockProto {
        header,
        stage: stage as i32,
        pipeline_size: 1,
        requested_checksum: stored.checksum.into(),
        storage_type: target.storage_type,
        storage_id: target.storage_id,
        ..Default::default()
    };
    encode(Op::WriteBlock, &write)
}

impl Sender {
    /// For a reader. `sums` are the checksums of the plan's first window.
    pub fn to_reader(plan: Plan, sums: Vec<u8>, limits: Limits) -> Self {
        let info = proto::ReadOpChecksumInfoProto { checksum: plan.spec.into(), chunk_offset: plan.start };
        let answer = proto::BlockOpResponseProto { read_op_checksum_info: Some(info), ..success() };
        Self::new(plan, sums, limits, answer::encode(answer), Peer::Reader)
    }

    /// For a node that gets a copy, by the operation `request`.
    pub fn to_node(plan: Plan, sums: Vec<u8>, limits: Limits, request: Vec<u8>) -> Self {
        Self::new(plan, sums, limits, request, Peer::Node(Awaiting::default()))
    }

    fn new(plan: Plan, sums: Vec<u8>, limits: Limits, front: Vec<u8>, peer: Peer) -> Self {
        let (at, since) = (plan.start, Duration::ZERO);
        let mut sender = Self {
            plan,
            limits,
            head: front,
            sums: Vec::new(),
            sums_at: 0,
            at,
            seqno: 0,
            since,
            peer,
            state: State::Packets,
        };
        sender.on_sums(sums);
        sender
    }

    /// What is to be done. `now`: a packet's time begins when it is first asked for.
    pub fn next(&mut self, now: Duration) -> Next {
        if self.state == State::Packets
            && let Some(window) = self.begin_packet(now)
        {
            return Next::Sums(window);
        }
        match &self.state {
            State::Packets => unreachable!("a packet was begun"),
            State::Sending { data_len } => Next::Packet(self.at..self.at + data_len),
            State::Word => Next::Receive,
            State::Done(outcome) => Next::Done(outcome.clone()),
        }
    }

    /// What goes out before the data of the packet that is being sent.
    pub fn head(&self) -> &[u8] {
        &self.head
    }

    /// Makes the head of the next packet, or says whose checksums that needs.
    fn begin_packet(&mut self, now: Duration) -> Option<Range<u64>> {
        let data_len = self.plan.packet_data_len(self.at);
        let sums_len = self.plan.spec.sums_len(data_len) as usize;
        if self.sums_at + sums_len > self.sums.len() {
            return Some(self.plan.sums_window(self.at));
        }
        let (offset, seqno, last) = (self.at as i64, self.seqno, data_len == 0);
        PacketHeader { offset, seqno, last, data_len: data_len as i32, sync: false }
            .put(sums_len as u32, &mut self.head);
        self.head.extend_from_slice(&self.sums[self.sums_at..self.sums_at + sums_len]);
        self.sums_at += sums_len;
        self.since = now;
        self.state = State::Sending { data_len };
        None
    }

    /// The checksums of the window that was asked for.
    pub fn on_sums(&mut self, sums: Vec<u8>) {
        let window = self.plan.sums_window(self.at);
        let len = self.plan.spec.sums_len(window.end - window.start);
        assert!(sums.len() as u64 == len, "{} bytes of checksums for {window:?}, not {len}", sums.len());
        (self.sums, self.sums_at) = (sums, 0);
    }

    /// The packet went out, all of it.
    pub fn on_sent(&mut self, now: Duration) {
        let State::Sending { data_len } = self.state else { panic!("no packet was to be sent") };
        self.head.clear();
        self.at += data_len;
        self.seqno += 1;
        self.state = State::Packets;
        if data_len == 0 {
            self.since = now;
            self.state = State::Word;
            if matches!(self.peer, Peer::Node(_)) && mutation::is(Mutation::CopyUnanswered) {
                self.state = State::Done(Outcome::Copied);
            }
        }
    }

    /// Looks at the bytes that came and were not consumed; returns how many of them it consumes. Bytes that come before
    /// the last packet is out stay where they are.
    pub fn on_bytes(&mut self, bytes: &[u8]) -> Result<usize, WireError> {
        if self.state != State::Word {
            return Ok(0);
        }
        match &mut self.peer {
            Peer::Reader => {
                let Some((status, len)) = verdict::take(bytes)? else { return Ok(0) };
                self.state = State::Done(Outcome::Verdict(status));
                Ok(len)
            }
            Peer::Node(awaiting) => {
                let (consumed, answer) = awaiting.on_bytes(bytes)?;
                if let Some(answer) = answer {
                    self.state = State::Done(answer.map_or_else(Outcome::Refused, |_| Outcome::Copied));
                }
                Ok(consumed)
            }
        }
    }

    pub fn is_done(&self) -> bool {
        matches!(self.state, State::Done(_))
    }

    pub fn poll_timeout(&self) -> Option<Duration> {
        match self.state {
            State::Packets | State::Done(_) => None,
            State::Sending { .. } => Some(self.since.saturating_add(self.limits.packet)),
            State::Word => Some(self.since.saturating_add(self.limits.word)),
        }
    }

    /// A fault ends the connection.
    pub fn handle_timeout(&mut self, now: Duration) -> Result<(), Late> {
        if self.poll_timeout().is_none_or(|limit| now < limit) {
            return Ok(());
        }
        match (&self.state, self.peer) {
            (State::Word, Peer::Reader) => {
                self.state = State::Done(Outcome::NoVerdict);
                Ok(())
            }
            (State::Word, Peer::Node(_)) => Err(Late::Unanswered),
            _ => Err(Late::TakesNothing),
        }
    }
}
