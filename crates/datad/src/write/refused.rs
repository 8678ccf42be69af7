//! A chain that does not come about, said twice.
//!
//! ```text
//! client ◀── answer: ERROR, the bad node's name ── ack: SUCCESS, ERROR ── end
//! ```
//!
//! Most clients read the answer, hang up, and never see the ack. hdfs-native does not look at an answer's status: it
//! streams on, and takes whatever happens next for the fault of the first node. The ack tells it who it was, and it
//! goes on with the others.

use crate::block::link_text;
use hdfs::proto::OpWriteBlockProto;
use wire::{PipelineAck, Status};
use xfer::answer::Refusal;

/// The ack behind the answer; `None` where the chain's first node itself refuses, whom such a client blames anyway.
pub(super) fn blame(op: &OpWriteBlockProto, refusal: &Refusal) -> Option<PipelineAck> {
    let place = op.targets.iter().position(|target| link_text(target) == refusal.first_bad_link)?;
    let mut replies = vec![Status::SUCCESS; place + 1];
    replies.push(Status::ERROR);
    // No packet is meant, and whoever reads this looks at the replies first.
    Some(PipelineAck { seqno: PipelineAck::HEARTBEAT, replies })
}
