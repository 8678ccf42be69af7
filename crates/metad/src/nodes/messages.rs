//! Conversion of datanodes' messages, and of orders to them. Decides nothing.

use crate::block_tokens;
use crate::core::Core;
use crate::refusal;
use crate::topology_script::DEFAULT_RACK;
use blocks::{Incarnation, Node, Outside};
use hdfs::Exception;
use lead::{CopyFailure, Heartbeat, NodeUsage, ReportedReplica};
use security::block_token::Mode;
use std::net::{IpAddr, SocketAddr};
use types::{BlockId, Generation, NodeId, ReplicaState};
use wire::node::{CopyOrder, Deletion, HeartbeatRequest, RegisterRequest, Replica, Source};

/// Texts of a registration: names and addresses are shorter.
const TEXT_LEN_MAX: usize = 256;
/// Letters of a program's version that are shown.
const VERSION_LEN_MAX: usize = 64;
/// Bytes of a text of strangers that go into the log.
const LOGGED_LEN_MAX: usize = 100;

pub(super) fn node_id(text: &str) -> Result<NodeId, Exception> {
    NodeId::parse(text).ok_or_else(|| refusal::illegal(format!("{text:.80} is no id of a datanode")))
}

/// The beginning of a text that is logged before anything else of it was checked.
pub(super) fn short(text: &str) -> &str {
    &text[..text.floor_char_boundary(LOGGED_LEN_MAX)]
}

pub(super) fn version(request: &RegisterRequest) -> String {
    request.version.chars().take(VERSION_LEN_MAX).collect()
}

pub(super) fn incarnation(message: Option<wire::node::Incarnation>) -> Result<Incarnation, Exception> {
    let message = message.filter(|message| message.nonce != 0).ok_or_else(no_incarnation)?;
    Ok(Incarnation { start_ms: message.start_ms, nonce: message.nonce })
}

pub(super) fn no_incarnation() -> Exception {
    refusal::illegal("a datanode's message names no incarnation: run the same version of levada on it as here")
}

/// The node as its registration describes it. It is checked before any use.
pub(super) fn described(request: RegisterRequest, peer: SocketAddr) -> Result<Node, Exception> {
    let port = |port: u32| u16::try_from(port).map_err(|_| refusal::illegal(format!("invalid port {port}")));
    let texts = [&request.ip, &request.host, &request.storage, &request.rack];
    let outside_host = request.outside.as_ref().map(|outside| &outside.host);
    if texts.into_iter().chain(outside_host).any(|text| text.len() > TEXT_LEN_MAX) {
        return Err(refusal::illegal(format!(
            "a datanode's address, name or rack is longer than {TEXT_LEN_MAX} bytes; shorten it in its configuration"
        )));
    }
    let from = peer.ip().to_canonical();
    let ip = request.ip.parse::<IpAddr>().ok().map(|ip| ip.to_canonical());
    let Some(ip) = ip.filter(|ip| !ip.is_unspecified() && !ip.is_multicast()) else {
        return Err(refusal::illegal(format!("{:.80} is no address of a datanode", request.ip)));
    };
    let is_same = ip == from || (ip.is_loopback() && from.is_loopback());
    if !is_same && !request.advertised {
        return Err(refusal::illegal(format!(
            "the datanode calls from {from} and takes its address for {ip}; if clients reach it there, set ip = \
             \"{ip}\" in its configuration"
        )));
    }
    let or = |text: String, other: &str| if text.is_empty() { other.to_owned() } else { text };
    let outside = request.outside.filter(|outside| !outside.host.is_empty()).map(|outside| {
        let wire::node::Outside { host, xfer_port, ipc_port, info_port } = outside;
        // Clients look it up, or dial it.
        if !host.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'/') {
            return Err(refusal::illegal(format!("{host:.80} is no name of a host, nor an address")));
        }
        let (xfer_port, ipc_port, info_port) = (port(xfer_port)?, port(ipc_port)?, port(info_port)?);
        Ok::<_, Exception>(Outside { host, xfer_port, ipc_port, info_port })
    });
    Ok(Node {
        id: node_id(&request.node)?,
        host: or(request.host, &request.ip),
        ip: ip.to_string(),
        xfer_port: port(request.xfer_port)?,
        ipc_port: port(request.ipc_port)?,
        info_port: port(request.info_port)?,
        storage: or(request.storage, &request.node),
        rack: if request.rack.starts_with('/') { request.rack } else { DEFAULT_RACK.to_owned() },
        incarnation: incarnation(request.incarnation)?,
        from: from.to_string(),
        outside: outside.transpose()?,
    })
}

pub(super) fn usage(message: Option<wire::node::Usage>, transfer_count: u32) -> NodeUsage {
    NodeUsage { storage: message.unwrap_or_default().into(), transfer_count }
}

/// The part of a heartbeat about the node and its copies.
pub(super) fn reported(request: &HeartbeatRequest) -> Heartbeat {
    let failure = |failure: &wire::node::CopyFailure| CopyFailure {
        number: failure.number,
        block: BlockId(failure.block),
        source: NodeId::parse(&failure.source),
        is_corrupt: failure.corrupt,
    };
    Heartbeat {
        usage: usage(request.usage, request.transfer_count),
        is_diskless: has_no_disk(request),
        put: request.put.iter().map(|replica| (replica.block_id(), replica.generation_stamp())).collect(),
        copy_failures: request.copy_failures.iter().map(failure).collect(),
        copying: request.copying.iter().map(|block| BlockId(*block)).collect(),
    }
}

pub(super) fn deletion((block, at_most): (BlockId, Generation)) -> Deletion {
    Deletion { block: block.0, generation_at_most: at_most.0 }
}

/// All disks of the node have failed, and its replicas count as absent: it does not count as live.
fn has_no_disk(request: &HeartbeatRequest) -> bool {
    let disks = &request.disks;
    request.usage.is_none_or(|usage| usage.capacity_len == 0)
        && !disks.is_empty()
        && disks.iter().all(|disk| !disk.failure.is_empty())
}

pub(super) fn copy(core: &Core, order: lead::CopyOrder) -> CopyOrder {
    let lead::CopyOrder { copy, sources } = order;
    let source = |(id, addr): (NodeId, String)| Source { node: id.to_string(), addr };
    CopyOrder {
        block: copy.block.0,
        generation: copy.generation.0,
        len: copy.len,
        file: copy.file.0,
        home: copy.home.0,
        sources: sources.into_iter().map(source).collect(),
        replaces: copy.unfit,
        token: block_tokens::of_order(core, copy.file, copy.home, Mode::Read, copy.block),
    }
}

pub(crate) fn reported_replica(replica: &Replica) -> ReportedReplica {
    let (block, generation) = (replica.block_id(), replica.generation_stamp());
    // One in a state that this program does not know is no source.
    let finalized = ReplicaState::try_from(replica.state) == Ok(ReplicaState::Finalized);
    ReportedReplica { block, generation, len: replica.len, file: replica.file_id(), home: replica.home_id(), finalized }
}
