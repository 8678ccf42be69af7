//! Joining the nodes below: the operation as each must get it, and their answers.
//!
//! ```text
//! op_for_below ─▶ each node below        answers: IN_PROGRESS … IN_PROGRESS, SUCCESS ─▶ all have joined
//!                                                 anything else, silence, an end     ─▶ who is to blame
//! ```
//!
//! A node of ours that is still at it says so with an answer IN_PROGRESS. One that says nothing for `stalled` does not
//! join.

use super::limits::Limits;
use crate::answer::{Awaiting, Refusal};
use hdfs::proto;
use std::ops::Range;
use std::time::Duration;
use types::mutation::{self, Mutation};
use wire::{Abilities, Op, OpHeader, Routing, delimited};

/// A node that has joined.
#[derive(Debug)]
pub struct Joined {
    pub sends_keepalives: bool,
    pub behind_count: usize,
    /// What came behind its answer.
    pub came: Vec<u8>,
}

/// A node that got the operation.
#[derive(Debug)]
struct Joining {
    link: String,
    behind_count: usize,
    awaiting: Awaiting,
    came: Vec<u8>,
    heard: Duration,
    /// Nothing that it says helps after this.
    until: Duration,
    /// Its answer is well; and whether it will send keepalives.
    sends_keepalives: Option<bool>,
}

/// The nodes below, until all have answered well, or one has not.
#[derive(Debug)]
pub struct Join {
    limits: Limits,
    joining: Vec<Joining>,
}

impl Join {
    pub fn new(limits: Limits) -> Self {
        Self { limits, joining: Vec::new() }
    }

    /// The next node, `link` in the client's words, with `behind_count` nodes behind it, got the operation.
    pub fn on_asked(&mut self, link: String, behind_count: usize, now: Duration) {
        let until = now + self.limits.setup_with(behind_count);
        let awaiting = Awaiting::default();
        self.joining.push(Joining {
            link,
            behind_count,
            awaiting,
            came: Vec::new(),
            heard: now,
            until,
            sends_keepalives: None,
        });
    }

    /// Whether a node is to be read: it was asked and has not answered.
    pub fn awaits(&self, place: usize) -> bool {
        self.joining.get(place).is_some_and(|joining| joining.sends_keepalives.is_none())
    }

    pub fn on_received(&mut self, place: usize, now: Duration, bytes: &[u8]) -> Result<(), Refusal> {
        let joining = &mut self.joining[place];
        assert!(joining.sends_keepalives.is_none(), "{} has joined", joining.link);
        joining.heard = now;
        joining.came.extend_from_slice(bytes);
        joining.look()
    }

    /// The connection to a node ended.
    pub fn on_closed(&self, place: usize, why: Option<&str>) -> Refusal {
        Refusal::blame(&self.joining[place].link, why.unwrap_or("closed the connection instead of an answer"))
    }

    /// When [`Join::handle_timeout`] is to be called, if nothing comes before; `None` once all have joined.
    pub fn poll_timeout(&self) -> Option<Duration> {
        let open = self.joining.iter().filter(|joining| joining.sends_keepalives.is_none());
        open.map(|joining| joining.until(&self.limits)).min()
    }

    pub fn handle_timeout(&self, now: Duration) -> Result<(), Refusal> {
        let silent = |joining: &&Joining| joining.sends_keepalives.is_none() && now >= joining.until(&self.limits);
        match self.joining.iter().find(silent) {
            Some(silent) => Err(Refusal::blame(&silent.link, "does not answer")),
            None => Ok(()),
        }
    }

    /// All of them, in the order in which they were asked.
    pub fn into_joined(self) -> Vec<Joined> {
        let joined = self.joining.into_iter().map(|Joining { behind_count, came, sends_keepalives, .. }| {
            let sends_keepalives = sends_keepalives.expect("all have joined");
            Joined { sends_keepalives, behind_count, came }
        });
        joined.collect()
    }
}

impl Joining {
    fn until(&self, limits: &Limits) -> Duration {
        self.until.min(self.heard + limits.stalled)
    }

    fn look(&mut self) -> Result<(), Refusal> {
        let looked = self.awaiting.on_bytes(&self.came);
        let (consumed, answer) = looked.map_err(|error| Refusal::blame(&self.link, &error.to_string()))?;
        self.came.drain(..consumed);
        self.sends_keepalives = match answer {
            None => None,
            Some(Ok(answer)) => Some(Abilities::of(answer.abilities).has(Abilities::KEEPALIVES)),
            Some(Err(_)) if mutation::is(Mutation::JoinRefused) => Some(false),
            // Passed on as it came. If it blames nobody, the node below means itself, and the client must hear its
            // name.
            Some(Err(mut refusal)) => {
                if refusal.first_bad_link.is_empty() {
                    refusal.first_bad_link.clone_from(&self.link);
                }
                return Err(refusal);
            }
        };
        Ok(())
    }
}

/// The operation as one of the next nodes must get it: itself, and of the lists what lies behind it.
pub fn op_for_below(op: &proto::OpWriteBlockProto, routing: &Routing, child: &Range<usize>) -> Vec<u8> {
    let (own, behind) = (child.start, child.start + 1..child.end);
    let packet_len = op.stream.as_ref().and_then(|stream| stream.packet_len);
    // The lists may be shorter than the targets, or empty.
    fn cut<T: Clone>(list: &[T], range: &Range<usize>) -> Vec<T> {
        list.get(range.start.min(list.len())..range.end.min(list.len())).unwrap_or_default().to_vec()
    }
    let op = proto::OpWriteBlockProto {
        targets: cut(&op.targets, &behind),
        storage_type: op.target_storage_types.get(own).copied().or(op.storage_type),
        target_storage_types: cut(&op.target_storage_types, &behind),
        storage_id: op.target_storage_ids.get(own).cloned(),
        target_storage_ids: cut(&op.target_storage_ids, &behind),
        pinning: op.target_pinnings.get(own).copied().or(op.pinning),
        target_pinnings: cut(&op.target_pinnings, &behind),
        // Also behind a stock client: this node understands keepalives.
        stream: Some(proto::StreamProto {
            parents: routing.below(child).encode(),
            abilities: Some(Abilities::OF_STREAM.bits()),
            packet_len,
        }),
        ..op.clone()
    };
    let mut bytes = OpHeader { op: Op::WriteBlock }.encode().to_vec();
    delimited::put(&op, &mut bytes);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use prost::Message;

    fn target(port: u32) -> proto::DatanodeInfoProto {
        let id = proto::DatanodeIdProto { ip_addr: "127.0.0.1".into(), xfer_port: port, ..Default::default() };
        proto::DatanodeInfoProto { id, ..Default::default() }
    }

    fn decoded(bytes: &[u8]) -> proto::OpWriteBlockProto {
        assert_eq!(bytes[..3], [0, 28, 80]);
        let (message, _) = delimited::split(&bytes[3..], "op", 1000).unwrap().unwrap();
        proto::OpWriteBlockProto::decode(message).unwrap()
    }

    #[test]
    fn the_next_node_gets_the_lists_without_itself() {
        let op = proto::OpWriteBlockProto {
            targets: vec![target(1), target(2)],
            target_storage_types: vec![1, 2],
            target_storage_ids: vec!["a".into(), "b".into()],
            target_pinnings: vec![true, false],
            storage_id: Some("mine".into()),
            stream: Some(proto::StreamProto { packet_len: Some(7), ..Default::default() }),
            ..Default::default()
        };
        let next = decoded(&op_for_below(&op, &Routing::chain(3), &(0..2)));
        assert_eq!(next.targets, [target(2)]);
        assert_eq!((next.storage_type, next.storage_id), (Some(1), Some("a".into())));
        assert_eq!((next.target_storage_types, next.target_storage_ids), (vec![2], vec!["b".into()]));
        assert_eq!((next.pinning, next.target_pinnings), (Some(true), vec![false]));
        assert_eq!(next.stream, Some(proto::StreamProto { parents: vec![], abilities: Some(1), packet_len: Some(7) }));
    }

    #[test]
    fn each_branch_gets_its_own_part() {
        let op = proto::OpWriteBlockProto {
            targets: (1..=4).map(target).collect(),
            target_storage_types: vec![1, 2, 3],
            ..Default::default()
        };
        let routing = Routing::decode(&[0, 0, 2, 2], 4).unwrap();
        let [left, right] = [&(0..1), &(1..4)].map(|child| decoded(&op_for_below(&op, &routing, child)));
        assert!(left.targets.is_empty() && left.target_storage_types.is_empty());
        assert_eq!(right.targets, [target(3), target(4)]);
        assert_eq!((right.storage_type, right.target_storage_types), (Some(2), vec![3]));
        assert_eq!(right.stream.unwrap().parents, [0, 0]);
    }
}
