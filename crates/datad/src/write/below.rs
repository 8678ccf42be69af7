//! Joining the node below into a chain: connect, send the operation on, wait for its answer.

use super::stream::Below;
use crate::answer::Refusal;
use crate::block::link_text;
use crate::inbox::ANSWER_LEN_MAX;
use crate::node::Node;
use hdfs::proto;
use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::time::Duration;
use wire::{Op, OpHeader, Status, delimited};

/// Joins the first of `op`'s targets, and through it the others. `Err` names the node that failed.
pub(super) fn join(node: &Node, op: &proto::OpWriteBlockProto) -> Result<Option<Below>, Refusal> {
    let Some((next, behind)) = op.targets.split_first() else { return Ok(None) };
    let limits = &node.config.limits;
    let link = link_text(next);
    let blame = |why: String| {
        tracing::info!(block = op.header.base_header.block.block_id, link, why, "the node below does not join");
        Refusal { first_bad_link: link.clone(), ..Refusal::error(format!("{link}: {why}")) }
    };
    let text = |error: std::io::Error| error.to_string();
    let addr = node_addr(next).ok_or_else(|| blame("is no address".to_owned()))?;
    let connect = Duration::from_millis(limits.connect_ms);
    let socket = TcpStream::connect_timeout(&addr, connect).map_err(text).map_err(blame)?;
    node.set_options(&socket);
    let wait = limits.with_nodes(limits.setup_ms, behind.len());
    let timeouts = socket.set_read_timeout(Some(wait)).and_then(|()| socket.set_write_timeout(Some(wait)));
    timeouts.map_err(text).map_err(blame)?;
    (&socket).write_all(&op_for_below(op)).map_err(text).map_err(blame)?;
    let (answer, inbox) = receive_answer(&socket).map_err(blame)?;
    if answer.status != i32::from(Status::SUCCESS.0) {
        // Passed on as it came. If it blames nobody, the node below means itself, and the client must hear its name.
        let status = u8::try_from(answer.status).map_or(Status::ERROR, Status);
        let first_bad_link = answer.first_bad_link.filter(|link| !link.is_empty()).unwrap_or(link);
        return Err(Refusal { status, message: answer.message.unwrap_or_default(), first_bad_link });
    }
    socket.set_nonblocking(true).map_err(text).map_err(blame)?;
    let silent = limits.with_nodes(limits.below_silent_ms, behind.len());
    Ok(Some(Below { socket, inbox, heard: node.now(), silent }))
}

pub(crate) fn node_addr(node: &proto::DatanodeInfoProto) -> Option<SocketAddr> {
    let ip: IpAddr = node.id.ip_addr.parse().ok()?;
    Some(SocketAddr::new(ip, u16::try_from(node.id.xfer_port).ok()?))
}

/// The operation as the next node must get it: without itself in the lists.
fn op_for_below(op: &proto::OpWriteBlockProto) -> Vec<u8> {
    let mut op = op.clone();
    op.targets.remove(0);
    let first = |list: &mut Vec<i32>| if list.is_empty() { None } else { Some(list.remove(0)) };
    op.storage_type = first(&mut op.target_storage_types).or(op.storage_type);
    op.storage_id = if op.target_storage_ids.is_empty() { None } else { Some(op.target_storage_ids.remove(0)) };
    if !op.target_pinnings.is_empty() {
        op.pinning = Some(op.target_pinnings.remove(0));
    }
    let mut bytes = OpHeader { op: Op::WriteBlock }.encode().to_vec();
    delimited::put(&op, &mut bytes);
    bytes
}

/// The answer, and what came behind it.
fn receive_answer(mut socket: &TcpStream) -> Result<(proto::BlockOpResponseProto, Vec<u8>), String> {
    let mut came = Vec::new();
    let mut piece = [0; 4096];
    loop {
        let found = delimited::split(&came, "answer", ANSWER_LEN_MAX).map_err(|error| error.to_string())?;
        if let Some((message, len)) = found {
            let answer = delimited::decode(message, "answer").map_err(|error| error.to_string())?;
            came.drain(..len);
            return Ok((answer, came));
        }
        match socket.read(&mut piece) {
            Ok(0) => return Err("closed the connection instead of an answer".to_owned()),
            Ok(len) => came.extend_from_slice(&piece[..len]),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Err("does not answer".to_owned()),
            Err(error) => return Err(error.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use prost::Message;

    fn target(port: u32) -> proto::DatanodeInfoProto {
        let id = proto::DatanodeIdProto { ip_addr: "127.0.0.1".into(), xfer_port: port, ..Default::default() };
        proto::DatanodeInfoProto { id, ..Default::default() }
    }

    #[test]
    fn the_next_node_gets_the_lists_without_itself() {
        let op = proto::OpWriteBlockProto {
            targets: vec![target(1), target(2)],
            target_storage_types: vec![1, 2],
            target_storage_ids: vec!["a".into(), "b".into()],
            target_pinnings: vec![true, false],
            storage_id: Some("mine".into()),
            ..Default::default()
        };
        let bytes = op_for_below(&op);
        assert_eq!(bytes[..3], [0, 28, 80]);
        let (message, _) = delimited::split(&bytes[3..], "op", 1000).unwrap().unwrap();
        let next = proto::OpWriteBlockProto::decode(message).unwrap();
        assert_eq!(next.targets, [target(2)]);
        assert_eq!((next.storage_type, next.storage_id), (Some(1), Some("a".into())));
        assert_eq!((next.target_storage_types, next.target_storage_ids), (vec![2], vec!["b".into()]));
        assert_eq!((next.pinning, next.target_pinnings), (Some(true), vec![false]));
    }
}
