//! Connections to the RPC ports of the other members of the group.

use crate::node_calls::Proofs;
use bytes::Bytes;
use raft::{Answer, Lane, Peer, Transport};
use rpc::{AnswerRoom, CallError, ClientOptions};
use security::node_name::{Expected, NodeName};
use std::collections::HashMap;
use std::io::{Error, ErrorKind};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use wire::raft::{MemberMessage, RAFT_PROTOCOL, TELL};

/// A member that cannot be reached within this time is asked again soon anyway.
const CONNECT_WAIT: Duration = Duration::from_secs(1);
/// A connection over which nothing came for so long is given up, lane by lane. One that was cut must be noticed before
/// the next election is lost for want of it.
const BEAT_WAIT: Duration = Duration::from_secs(1);
const LOG_WAIT: Duration = Duration::from_secs(4);
const SNAPSHOT_WAIT: Duration = Duration::from_secs(10);

/// What stands around a message in its frame.
const AROUND_LEN: usize = 4 << 10;
const _: () = assert!(raft::MESSAGE_LEN_MAX + AROUND_LEN <= rpc::FRAME_LEN_MAX as usize, "no member could take it");

pub(crate) struct Peers {
    proofs: Proofs,
    /// From this server's configuration, which may be newer than the group's rows.
    known: HashMap<u64, String>,
    clients: Mutex<HashMap<(u64, Lane), rpc::Client>>,
    answers: AnswerRoom,
}

impl Peers {
    /// Without proofs members take the address for one.
    pub(crate) fn new(proofs: Proofs, known: HashMap<u64, String>) -> Self {
        Self { proofs, known, clients: Mutex::default(), answers: AnswerRoom::default() }
    }

    /// Where a member is; `written` is what the group has written down.
    pub(crate) fn addr<'a>(&'a self, id: u64, written: &'a str) -> &'a str {
        self.known.get(&id).map_or(written, String::as_str)
    }

    /// Members in this server's configuration.
    pub(crate) fn listed(&self) -> Vec<Peer> {
        self.known.iter().map(|(id, addr)| Peer { id: *id, addr: addr.clone() }).collect()
    }

    fn client(&self, to: &Peer, lane: Lane) -> rpc::Client {
        let addr = self.addr(to.id, &to.addr);
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        let known = clients.get(&(to.id, lane)).filter(|client| client.addr() == addr);
        if let Some(client) = known {
            return client.clone();
        }
        let call_time_max = match lane {
            Lane::Beat => BEAT_WAIT,
            Lane::Log => LOG_WAIT,
            Lane::Snapshot => SNAPSHOT_WAIT,
        };
        let options = self.proofs.options(self.answers.clone(), Expected::Node(NodeName::Member(to.id)));
        let options = ClientOptions { connect_time_max: CONNECT_WAIT, call_time_max, ..options };
        let client = rpc::Client::with_options(addr.to_owned(), self.proofs.user.clone(), RAFT_PROTOCOL, options);
        clients.insert((to.id, lane), client.clone());
        client
    }
}

impl Transport for Peers {
    fn send<'a>(&'a self, to: &'a Peer, lane: Lane, message: Vec<u8>, wait_max: Duration) -> Answer<'a> {
        let client = self.client(to, lane);
        Box::pin(async move {
            let request = MemberMessage { bytes: Bytes::from(message) };
            let asked = io::time::timeout(wait_max, client.call::<_, MemberMessage>(TELL, &request));
            match asked.await {
                Ok(Ok(answer)) => Ok(answer.bytes.into()),
                Ok(Err(CallError::Connect(error))) => Err(Error::new(ErrorKind::ConnectionRefused, error)),
                Ok(Err(error @ CallError::TimedOut)) => Err(Error::new(ErrorKind::TimedOut, error)),
                Ok(Err(error @ CallError::Broken(_))) => Err(Error::new(ErrorKind::ConnectionReset, error)),
                Ok(Err(error)) => Err(Error::other(error)),
                Err(_elapsed) => Err(ErrorKind::TimedOut.into()),
            }
        })
    }
}
