//! One block being written: its nodes, its generation, and what comes next when its stream breaks.
//!
//! ```text
//!                     Open ──▶ Stream ──▶ (last packet acknowledged: over)
//!                                │ on_broken: nodes to blame are dropped
//!                                ▼
//!     ╭──────────────────▶ AskGeneration ──▶ Open ──▶ UpdatePipeline ──▶ Stream, with what was not acknowledged
//!     │ on_open_failed         ▲  the rest of the nodes   ╰────────────▶ Finished, if the end alone was missing
//!     ╰── a node is dropped    ╰── next_step() before an outcome was told: the attempt was given up
//! ```
//!
//! Recovery, as HDFS has it: drop the node that failed; ask for a new generation; join the rest under it, cut to what
//! all had acknowledged; tell the metadata server; send again what was not acknowledged. No replacement joins the
//! block: one node that is left holds every acknowledged byte, and the store repairs the block when it is finished.
//! [`Shortfall`](super::Shortfall) has that happen soon.
//!
//! Between the outcome of a step and the next question a driver waits for nothing.
//!
//! Ends: each attempt drops a node, or is counted against the packet that was the first not to get through.

use super::fault::Break;
use super::nodes::{Member, Nodes};
use super::opening::{Identity, Joining, Manner, Opening};
use super::packet::Packet;
use super::window::Rest;
use crate::fault::Fault;
use hdfs::proto::{self, op_write_block_proto::BlockConstructionStage as Stage};
use std::collections::VecDeque;
use std::sync::Arc;
use types::Generation;
use types::mutation::{self, Mutation};

/// Times one packet may fail before its writer gives up: `dfs.client.pipeline.recovery.max-retries`.
pub const RECOVERIES_MAX: u32 = 5;

/// Set-ups that may fail by the token alone before its nodes are to blame: where keys have just rolled, one does.
const TOKENS_REFUSED_MAX: u32 = 3;

/// What a driver is to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// The stream stands; packets may be pushed.
    Stream,
    /// Ask the metadata server for a new generation: [`Block::on_generation`].
    AskGeneration,
    /// Set up a stream as [`Block::opening`] has it: [`Block::on_opened`] or [`Block::on_open_failed`].
    Open,
    /// Tell the metadata server, of the nodes that are left: [`Block::on_updated`].
    UpdatePipeline(Update),
    /// All nodes have put the block in a recovery, which leaves no stream.
    Finished,
    /// No node is left, or a packet does not get through: [`Block::faults`].
    Failed,
}

/// What the block was, and under what it goes on. Both have the length that all nodes acknowledged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Update {
    pub old: Identity,
    pub new: Identity,
}

/// Packets for the new stream, oldest first. They must be pushed before any other.
pub type Resend = VecDeque<Arc<Packet>>;

#[derive(Debug)]
enum State {
    /// The first stream does not stand yet.
    New,
    Streaming,
    /// There is no stream now: the rest is to go down another one.
    Broken {
        rest: Rest,
        reached: Reached,
    },
    Finished,
    Failed,
}

/// How far an attempt to recover is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reached {
    /// Nothing is done yet, or the last attempt was given up.
    Start,
    /// The driver was told to ask, to open, to tell; it has not said how that went.
    Asking,
    Opening(Generation),
    Updating(Generation),
    Granted(Generation),
    Opened(Generation),
}

#[derive(Debug)]
pub struct Block {
    manner: Manner,
    identity: Identity,
    token: proto::TokenProto,
    nodes: Nodes,
    state: State,
    next_seqno: i64,
    /// The block up to here was sent at least once.
    sent_len: u64,
    /// How often the packet `stuck.0` was the first that did not get through.
    stuck: (i64, u32),
    /// Set-ups of recoveries that failed by the token alone.
    tokens_refused: u32,
}

impl Block {
    /// A block that no node has yet.
    pub fn new(manner: Manner, identity: Identity, token: proto::TokenProto, members: Vec<Member>) -> Self {
        let state = if members.is_empty() { State::Failed } else { State::New };
        let nodes = Nodes::new(members);
        Self { manner, identity, token, nodes, state, next_seqno: 0, sent_len: 0, stuck: (-1, 0), tokens_refused: 0 }
    }

    /// The one that counts now.
    pub fn token(&self) -> &proto::TokenProto {
        &self.token
    }

    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    /// The nodes that were not dropped, in the order of the stream.
    pub fn members(&self) -> &[Member] {
        self.nodes.members()
    }

    /// Nodes that were dropped, and why, in that order.
    pub fn faults(&self) -> &[(Member, Fault)] {
        self.nodes.faults()
    }

    pub fn manner(&self) -> &Manner {
        &self.manner
    }

    // ── packets ──

    /// The number of a packet that is about to be pushed.
    pub fn next_seqno(&mut self) -> i64 {
        let seqno = self.next_seqno;
        self.next_seqno += 1;
        seqno
    }

    /// This packet is being put into the stream's window.
    pub fn on_pushed(&mut self, packet: &Packet) {
        assert!(matches!(self.state, State::Streaming), "a packet for which nobody saw that there is room");
        self.sent_len = self.sent_len.max(packet.end_offset());
    }

    /// All nodes have put the block in a recovery, which leaves no stream.
    pub fn is_finished(&self) -> bool {
        matches!(self.state, State::Finished)
    }

    // ── steps ──

    /// What comes next. If the outcome of the step before was not told, it was given up half-way: nobody knows what the
    /// nodes and the server have of it, so the recovery begins anew, under a still higher generation.
    pub fn next_step(&mut self) -> Step {
        if matches!(&self.state, State::Broken { reached: Reached::Updating(_), .. })
            && mutation::is(Mutation::ForgetGivenUp)
        {
            self.state = State::Finished;
        }
        match &mut self.state {
            State::New => Step::Open,
            State::Streaming => Step::Stream,
            State::Finished => Step::Finished,
            State::Failed => Step::Failed,
            State::Broken { reached, rest } => match *reached {
                Reached::Start | Reached::Asking | Reached::Opening(_) | Reached::Updating(_) => {
                    *reached = Reached::Asking;
                    Step::AskGeneration
                }
                Reached::Granted(generation) => {
                    *reached = Reached::Opening(generation);
                    Step::Open
                }
                Reached::Opened(generation) => {
                    *reached = Reached::Updating(generation);
                    let old = Identity { len: rest.acked_len, ..self.identity.clone() };
                    let new = Identity { generation, ..old.clone() };
                    Step::UpdatePipeline(Update { old, new })
                }
            },
        }
    }

    /// The server gave this generation, and a token for it.
    pub fn on_generation(&mut self, generation: Generation, token: proto::TokenProto) {
        let reached = self.reached(Reached::Asking);
        *reached = Reached::Granted(generation);
        self.token = token;
    }

    /// How the stream is to be set up. `ours`: the nodes are ours, and know routing tables, longer packets and
    /// keepalives.
    pub fn opening(&mut self, ours: bool) -> Opening {
        let (stage, generation, acked_len) = match &self.state {
            State::New => (Stage::PipelineSetupCreate, Generation(0), 0),
            State::Broken { rest, reached: Reached::Opening(generation) } => {
                (stage_of(rest), *generation, rest.acked_len)
            }
            state => panic!("nothing is to be opened in {state:?}"),
        };
        let is_close = stage == Stage::PipelineCloseRecovery;
        let sent_len = if is_close && mutation::is(Mutation::CloseTooSoon) { acked_len } else { self.sent_len };
        let table = ours.then(|| self.nodes.route(&self.manner.shape));
        let joining = Joining { stage, generation, acked_len, sent_len };
        Opening::new(&self.manner, &self.identity, &self.token, self.nodes.members(), table, joining)
    }

    /// The stream stands.
    pub fn on_opened(&mut self) {
        match &mut self.state {
            State::New => self.state = State::Streaming,
            State::Broken { reached, .. } => match *reached {
                Reached::Opening(generation) => *reached = Reached::Opened(generation),
                other => panic!("opened, but {other:?}"),
            },
            state => panic!("opened, but {state:?}"),
        }
    }

    /// It does not come about.
    pub fn on_open_failed(&mut self, broken: Break) {
        assert!(!broken.nodes.is_empty(), "a set-up fails by a node");
        let lacks_token = broken.nodes.iter().all(|(_, fault)| fault.is_token_refusal());
        if lacks_token && self.tokens_refused < TOKENS_REFUSED_MAX && matches!(self.state, State::Broken { .. }) {
            // The next generation brings another token, which the same nodes may take.
            self.tokens_refused += 1;
        } else {
            self.nodes.blame(broken);
        }
        match &mut self.state {
            // The server gives other nodes, and another block.
            State::New => self.state = State::Failed,
            State::Broken { reached, .. } => *reached = Reached::Start,
            state => panic!("not opened, but {state:?}"),
        }
        self.fail_without_nodes();
    }

    /// The server has taken the update: the block goes on, with these packets first.
    #[must_use]
    pub fn on_updated(&mut self) -> Resend {
        let Reached::Updating(generation) = *self.reached_any() else { panic!("updated, but nobody asked for it") };
        let State::Broken { rest, .. } = std::mem::replace(&mut self.state, State::Streaming) else { unreachable!() };
        self.identity = Identity { generation, len: rest.acked_len, ..self.identity.clone() };
        if stage_of(&rest) == Stage::PipelineCloseRecovery {
            self.state = State::Finished;
            return Resend::new();
        }
        if mutation::is(Mutation::ForgetUnacked) { Resend::new() } else { rest.unacked }
    }

    /// The stream is over before the block is.
    pub fn on_broken(&mut self, mut rest: Rest) {
        assert!(matches!(self.state, State::Streaming), "no stream was there to break");
        let first = rest.unacked.front().map_or(-1, |packet| packet.seqno());
        self.stuck = if self.stuck.0 == first { (first, self.stuck.1 + 1) } else { (first, 1) };
        self.nodes.blame(std::mem::take(&mut rest.broken));
        self.state = State::Broken { rest, reached: Reached::Start };
        if self.stuck.1 > self.manner.recoveries_max {
            self.state = State::Failed;
        }
        self.fail_without_nodes();
    }

    fn fail_without_nodes(&mut self) {
        if self.nodes.members().is_empty() {
            self.state = State::Failed;
        }
    }

    fn reached_any(&mut self) -> &mut Reached {
        let State::Broken { reached, .. } = &mut self.state else { panic!("an outcome, but no recovery is going on") };
        reached
    }

    fn reached(&mut self, expected: Reached) -> &mut Reached {
        let reached = self.reached_any();
        assert!(*reached == expected, "{expected:?} was to be answered, not {reached:?}");
        reached
    }
}

/// How the rest of the nodes are joined again.
fn stage_of(rest: &Rest) -> Stage {
    if lacks_only_the_end(rest) { Stage::PipelineCloseRecovery } else { Stage::PipelineSetupStreamingRecovery }
}

/// Whether all data is acknowledged, and nothing but the end of the block is missing. It may be put then as it is.
fn lacks_only_the_end(rest: &Rest) -> bool {
    if mutation::is(Mutation::CloseTooSoon) {
        return true;
    }
    let Some(end) = rest.unacked.front().filter(|packet| packet.is_last()) else { return false };
    assert!(end.end_offset() == rest.acked_len, "a block of {} bytes ends at {}", rest.acked_len, end.end_offset());
    true
}
