//! Asking a datanode on this machine for the descriptors of a replica.
//!
//! ```text
//! is the address one of this machine's? ──▶ over TCP: where is the socket? ──▶ over the socket: data, checksums
//! └───────────── once a node ──────────────────────────────────────────┘     └─ once a block and reader ─┘
//! ```
//!
//! Promise: a node that has no socket, or one that this process cannot reach (it may be in a container), is not asked
//! again for [`PAUSE`], and nobody is told but who debugs: its replicas are read over TCP.

use crate::client::Client;
use crate::datanode::Connection;
use crate::local_nodes::{LocalNode, State};
use crate::local_replica::LocalReplica;
use crate::located::{Located, Node};
use crate::socket::Socket;
use hdfs::proto::{BaseHeaderProto, LocalReplicaProto, OpRequestShortCircuitAccessProto};
use std::fs::File;
use std::os::fd::OwnedFd;
use std::time::Duration;
use wire::Op;
use xfer::answer::{Answered, Awaiting};
use xfer::fault::Fault;

/// As HDFS's clients leave a socket alone that did not work.
const PAUSE: Duration = Duration::from_secs(600);
/// A node on this machine that does not answer in this time is busy: TCP is no worse. A guess.
const ANSWER_MAX: Duration = Duration::from_secs(2);
/// Of one answer, beside its descriptors. Texts of refusals are up to some kilobytes.
const READ_LEN: usize = 4 << 10;

/// Why there are no descriptors.
enum NoDescriptors {
    /// Of this replica, in the node's words.
    Refused(Fault),
    /// Of this node.
    Unreachable(Fault),
}

impl Client {
    /// The replica of a block on this machine, if one is there and can be had. The caller knows that the store's
    /// datanodes pass descriptors.
    pub(crate) async fn local_replica(&self, block: &Located) -> Option<(Node, LocalReplica)> {
        let nodes = self.store().local_nodes();
        for node in block.nodes.iter() {
            let local = nodes.node(node);
            if local.is_own
                && let Some(replica) = self.ask_local(block, node, &local).await
            {
                return Some((node.clone(), replica));
            }
        }
        None
    }

    async fn ask_local(&self, block: &Located, node: &Node, local: &LocalNode) -> Option<LocalReplica> {
        let mut state = local.state.lock().await;
        let now = self.store().now();
        if let State::Without(until) = &*state
            && now < *until
        {
            return None;
        }
        let asking = async {
            if !matches!(*state, State::At { .. }) {
                let path = self.ask_path(block, node).await.map_err(NoDescriptors::Unreachable)?;
                *state = State::At { path, idle: None };
            }
            let State::At { path, idle } = &mut *state else { unreachable!("it was set just now") };
            self.ask_descriptors(block, path, idle).await
        };
        let asked = tokio::time::timeout(ANSWER_MAX, asking).await;
        match asked.unwrap_or(Err(NoDescriptors::Unreachable(Fault::Silent))) {
            Ok(replica) => Some(replica),
            Err(NoDescriptors::Refused(fault)) => {
                tracing::debug!(node = %node.addr, %fault, "a replica on this machine is read over TCP");
                None
            }
            Err(NoDescriptors::Unreachable(fault)) => {
                tracing::debug!(node = %node.addr, %fault, "this datanode on this machine passes no descriptors");
                *state = State::Without(now + PAUSE);
                None
            }
        }
    }

    /// Where the node's socket lies.
    async fn ask_path(&self, block: &Located, node: &Node) -> Result<String, Fault> {
        let request = request(block)?;
        let request = &request;
        let ask = |mut connection: Connection| async move {
            connection.send(request).await?;
            let answer = connection.receive_answer().await?;
            Ok((connection, answer))
        };
        let (connection, answer) = self.on_connection(block, node, self.options().timeout, ask).await?;
        self.store().put_idle(connection);
        let path = answer.local_replica.and_then(|said| said.socket_path);
        path.ok_or_else(|| Fault::Protocol("it has no Unix socket".to_owned()))
    }

    async fn ask_descriptors(
        &self,
        block: &Located,
        path: &str,
        idle: &mut Option<Socket>,
    ) -> Result<LocalReplica, NoDescriptors> {
        let request = request(block).map_err(NoDescriptors::Unreachable)?;
        // One that was idle may have been closed by the other side just now.
        if let Some(mut socket) = idle.take() {
            match exchange(&mut socket, &request).await {
                Err(NoDescriptors::Unreachable(Fault::Broken(_))) => {}
                done => return self.received(socket, idle, done),
            }
        }
        let broken = |error: std::io::Error| NoDescriptors::Unreachable(Fault::Broken(error.to_string()));
        let mut socket = Socket::connect_local(path).await.map_err(broken)?;
        let done = exchange(&mut socket, &request).await;
        self.received(socket, idle, done)
    }

    fn received(
        &self,
        socket: Socket,
        idle: &mut Option<Socket>,
        done: Result<(LocalReplicaProto, [OwnedFd; 2]), NoDescriptors>,
    ) -> Result<LocalReplica, NoDescriptors> {
        if !matches!(done, Err(NoDescriptors::Unreachable(_))) {
            *idle = Some(socket);
        }
        let (said, [data, sums]) = done?;
        LocalReplica::new(&said, File::from(data), File::from(sums))
            .ok_or_else(|| NoDescriptors::Refused(Fault::Protocol("it describes a replica that cannot be".to_owned())))
    }
}

fn request(block: &Located) -> Result<Vec<u8>, Fault> {
    let request = OpRequestShortCircuitAccessProto {
        header: BaseHeaderProto {
            block: block.identity.message(),
            token: Some(block.token.clone().into()),
            trace_info: None,
        },
        max_version: 1,
        slot_id: None,
        supports_receipt_verification: None,
        as_stored: Some(true),
    };
    xfer::request::encode(Op::RequestShortCircuitFds, &request)
}

/// One request, its answer, and what that brings.
async fn exchange(socket: &mut Socket, request: &[u8]) -> Result<(LocalReplicaProto, [OwnedFd; 2]), NoDescriptors> {
    let broken = |error: std::io::Error| NoDescriptors::Unreachable(Fault::Broken(error.to_string()));
    socket.write_all(request).await.map_err(broken)?;
    let (mut came, mut descriptors, mut awaiting) = (Vec::new(), Vec::new(), Awaiting::default());
    let mut answer: Option<Answered> = None;
    loop {
        if answer.is_none() {
            let (consumed, whole) =
                awaiting.on_bytes(&came).map_err(|error| NoDescriptors::Unreachable(error.into()))?;
            came.drain(..consumed);
            answer = whole.transpose().map_err(|refusal| NoDescriptors::Refused(refusal.into()))?;
        }
        // The byte that carries the descriptors is all that follows.
        if let Some(answer) = &answer
            && !came.is_empty()
        {
            let pair = <[OwnedFd; 2]>::try_from(descriptors).ok();
            let brought = answer.local_replica.clone().zip(pair);
            let protocol = || NoDescriptors::Unreachable(Fault::Protocol("an answer without descriptors".to_owned()));
            return brought.ok_or_else(protocol);
        }
        let mut bytes = [0; READ_LEN];
        let len = socket.receive(&mut bytes, &mut descriptors).await.map_err(broken)?;
        if len == 0 {
            return Err(NoDescriptors::Unreachable(Fault::closed()));
        }
        came.extend_from_slice(&bytes[..len]);
    }
}
