//! Joining the nodes below: connect to each, send the operation on, wait for all their answers.
//!
//! A node of ours that is still at it says so with an answer IN_PROGRESS. One that says nothing for `stalled_ms` does
//! not join.

use super::below::Below;
use crate::answer::Refusal;
use crate::block::link_text;
use crate::inbox::ANSWER_LEN_MAX;
use crate::node::Node;
use hdfs::proto;
use io::poll::{Ready, Watch, poll};
use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::ops::Range;
use std::os::fd::AsFd;
use std::time::Duration;
use wire::{Abilities, Op, OpHeader, Routing, Status, delimited};

/// A node that got the operation and did not answer yet.
struct Joining {
    link: String,
    behind_count: usize,
    socket: TcpStream,
    came: Vec<u8>,
    heard: Duration,
    /// Nothing that it says helps after this.
    until: Duration,
}

/// Joins those of `op`'s targets that this node sends to, and through them the others. `Err` names a node that failed.
pub(super) fn join(node: &Node, op: &proto::OpWriteBlockProto, routing: &Routing) -> Result<Vec<Below>, Refusal> {
    let children = routing.children();
    let joining = children.iter().map(|child| ask(node, op, routing, child)).collect::<Result<Vec<_>, _>>()?;
    wait(node, joining).inspect_err(|refusal| {
        let (block, link) = (op.header.base_header.block.block_id, &refusal.first_bad_link);
        tracing::info!(block, link, why = refusal.message, "a node below does not join");
    })
}

fn blame(link: &str, why: &str) -> Refusal {
    Refusal { first_bad_link: link.to_owned(), ..Refusal::error(format!("{link}: {why}")) }
}

fn ask(
    node: &Node,
    op: &proto::OpWriteBlockProto,
    routing: &Routing,
    child: &Range<usize>,
) -> Result<Joining, Refusal> {
    let limits = &node.config.limits;
    let link = link_text(&op.targets[child.start]);
    let fail = |error: std::io::Error| blame(&link, &error.to_string());
    let addr = node_addr(&op.targets[child.start]).ok_or_else(|| blame(&link, "is no address"))?;
    let connect = || TcpStream::connect_timeout(&addr, Duration::from_millis(limits.connect_ms));
    let socket = node.patiently(connect, io::limit::is_reached).map_err(fail)?;
    node.set_options(&socket);
    let behind_count = child.len() - 1;
    let wait = limits.with_nodes(limits.setup_ms, behind_count);
    socket.set_write_timeout(Some(wait)).map_err(fail)?;
    (&socket).write_all(&op_for_below(op, routing, child)).map_err(fail)?;
    socket.set_nonblocking(true).map_err(fail)?;
    let now = node.now();
    Ok(Joining { link, behind_count, socket, came: Vec::new(), heard: now, until: now + wait })
}

/// Waits until all have answered well, or one did not.
fn wait(node: &Node, joining: Vec<Joining>) -> Result<Vec<Below>, Refusal> {
    let stalled = Duration::from_millis(node.config.limits.stalled_ms);
    let mut joining: Vec<Result<Joining, Below>> = joining.into_iter().map(Ok).collect();
    loop {
        for place in &mut joining {
            if let Ok(waiting) = place
                && let Some(gives_signs) = waiting.receive(node.now())?
            {
                let (socket, came) = (waiting.socket.try_clone(), std::mem::take(&mut waiting.came));
                let socket = socket.map_err(|error| Refusal::error(error.to_string()))?;
                *place = Err(Below::new(socket, came, gives_signs, waiting.behind_count, &node.config.limits));
            }
        }
        let open: Vec<&Joining> = joining.iter().filter_map(|place| place.as_ref().ok()).collect();
        let Some(until) = open.iter().map(|waiting| waiting.until.min(waiting.heard + stalled)).min() else {
            return Ok(joining.into_iter().filter_map(Result::err).collect());
        };
        let now = node.now();
        if let Some(silent) = open.iter().find(|waiting| now >= waiting.until.min(waiting.heard + stalled)) {
            return Err(blame(&silent.link, "does not answer"));
        }
        let stop = Watch { fd: node.stop.as_fd(), read: true, write: false };
        let sockets = open.iter().map(|waiting| Watch { fd: waiting.socket.as_fd(), read: true, write: false });
        let watches: Vec<_> = [stop].into_iter().chain(sockets).collect();
        let ready = poll(&watches, Some(until - now)).map_err(|error| Refusal::error(error.to_string()))?;
        if ready[0] != Ready::default() {
            return Err(Refusal::error("this node is stopping"));
        }
    }
}

impl Joining {
    /// Takes what is there. Some once the answer is well: whether the node will give signs of life.
    fn receive(&mut self, now: Duration) -> Result<Option<bool>, Refusal> {
        let mut piece = [0; 4096];
        match (&self.socket).read(&mut piece) {
            Ok(0) => return Err(blame(&self.link, "closed the connection instead of an answer")),
            Ok(len) => {
                self.came.extend_from_slice(&piece[..len]);
                self.heard = now;
            }
            Err(error) if matches!(error.kind(), ErrorKind::Interrupted | ErrorKind::WouldBlock) => {}
            Err(error) => return Err(blame(&self.link, &error.to_string())),
        }
        loop {
            let wrong = |error: wire::WireError| blame(&self.link, &error.to_string());
            let found = delimited::split(&self.came, "answer", ANSWER_LEN_MAX).map_err(wrong)?;
            let Some((message, len)) = found else { return Ok(None) };
            let answer: proto::BlockOpResponseProto = delimited::decode(message, "answer").map_err(wrong)?;
            self.came.drain(..len);
            if answer.status == i32::from(Status::IN_PROGRESS.0) {
                continue;
            }
            if answer.status == i32::from(Status::SUCCESS.0) {
                return Ok(Some(Abilities::of(answer.abilities).has(Abilities::SIGNS)));
            }
            // Passed on as it came. If it blames nobody, the node below means itself, and the client must hear its
            // name.
            let status = u8::try_from(answer.status).map_or(Status::ERROR, Status);
            let first_bad_link = answer.first_bad_link.filter(|link| !link.is_empty());
            let first_bad_link = first_bad_link.unwrap_or_else(|| self.link.clone());
            return Err(Refusal { status, message: answer.message.unwrap_or_default(), first_bad_link });
        }
    }
}

pub(crate) fn node_addr(node: &proto::DatanodeInfoProto) -> Option<SocketAddr> {
    let ip: IpAddr = node.id.ip_addr.parse().ok()?;
    Some(SocketAddr::new(ip, u16::try_from(node.id.xfer_port).ok()?))
}

/// The operation as one of the next nodes must get it: itself, and of the lists what lies behind it.
fn op_for_below(op: &proto::OpWriteBlockProto, routing: &Routing, child: &Range<usize>) -> Vec<u8> {
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
        // Also behind a stock client: this node understands signs of life.
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
