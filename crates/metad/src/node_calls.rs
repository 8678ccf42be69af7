//! Calls to the RPC ports of datanodes and of other members, over kept connections or over the route that the
//! environment supplies.

use crate::route::{Route, RouteCall};
use prost::Message;
use rpc::{AnswerRoom, CallError, Client, ClientOptions, Login};
use security::node_name::{Expected, NodeName};
use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tls::Credentials;
use types::NodeId;
use wire::node::REPLICA_PROTOCOL;

/// Addresses of datanodes that connections are kept to.
const CONNECTED_COUNT_MAX: usize = 4096;

pub(crate) enum NodeCalls {
    Connections(NodeConnections),
    /// As `user`.
    Route {
        user: String,
        route: Arc<dyn Route>,
    },
}

pub(crate) struct NodeConnections {
    proofs: Proofs,
    clients: Mutex<HashMap<(NodeId, String), Client>>,
    /// For datanodes' answers: anyone may claim to be a datanode.
    answers: AnswerRoom,
}

/// What this server proves to the others of the store: by its certificate, or else by its ticket, or nothing.
#[derive(Clone)]
pub(crate) struct Proofs {
    /// As whom it calls.
    pub(crate) user: String,
    pub(crate) login: Option<Arc<Login>>,
    pub(crate) credentials: Option<Arc<Credentials>>,
}

impl Proofs {
    /// For calls of a member. One that shows another certificate than is expected hears nothing.
    pub(crate) fn options(&self, answers: AnswerRoom, expected: Expected) -> ClientOptions {
        let options = ClientOptions::of_nodes(answers).with_login(self.login.clone());
        options.with_node(self.credentials.as_ref(), expected)
    }
}

/// What is asked of another member, and how long it is waited for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MemberCall<'a> {
    pub(crate) addr: &'a str,
    pub(crate) user: &'a str,
    /// It is this server's own call, which may prove who it is; not one that is passed on for a caller.
    pub(crate) is_own: bool,
    pub(crate) protocol: &'static str,
    pub(crate) method: &'static str,
    pub(crate) wait_max: Duration,
}

impl fmt::Debug for NodeCalls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("NodeCalls")
    }
}

impl NodeCalls {
    pub(crate) fn over_tcp(proofs: Proofs) -> Self {
        Self::Connections(NodeConnections { proofs, clients: Mutex::default(), answers: AnswerRoom::default() })
    }

    /// Of a datanode; `addr` is host:port.
    pub(crate) async fn call<Q, A>(
        &self,
        (node, addr): (NodeId, &str),
        method: &'static str,
        request: &Q,
    ) -> Result<A, CallError>
    where
        Q: Message,
        A: Message + Default,
    {
        match self {
            Self::Connections(connections) => connections.client(node, addr).call(method, request).await,
            Self::Route { user, route } => {
                pass(&**route, RouteCall { addr, user, protocol: REPLICA_PROTOCOL, method }, request).await
            }
        }
    }

    /// Of another member, by a connection that is made for it.
    pub(crate) async fn call_member<Q, A>(&self, call: MemberCall<'_>, request: &Q) -> Result<A, CallError>
    where
        Q: Message,
        A: Message + Default,
    {
        let MemberCall { addr, user, is_own, protocol, method, wait_max } = call;
        match self {
            Self::Connections(connections) => {
                let answers = AnswerRoom::default();
                let options = match is_own {
                    true => connections.proofs.options(answers, Expected::AnyMember),
                    false => ClientOptions::of_nodes(answers),
                };
                let options = ClientOptions { connect_time_max: wait_max, call_time_max: wait_max, ..options };
                let client = Client::with_options(addr.to_owned(), user.to_owned(), protocol, options);
                client.call(method, request).await
            }
            Self::Route { route, .. } => {
                let answer = pass(&**route, RouteCall { addr, user, protocol, method }, request);
                io::time::timeout(wait_max, answer).await.unwrap_or(Err(CallError::TimedOut))
            }
        }
    }
}

async fn pass<Q, A>(route: &dyn Route, call: RouteCall<'_>, request: &Q) -> Result<A, CallError>
where
    Q: Message,
    A: Message + Default,
{
    let answer = route.call(call, request.encode_to_vec().into()).await?;
    A::decode(answer).map_err(|error| CallError::Decode(error.to_string()))
}

impl NodeConnections {
    fn client(&self, node: NodeId, addr: &str) -> Client {
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        if clients.len() >= CONNECTED_COUNT_MAX {
            clients.clear();
        }
        let client = clients.entry((node, addr.to_owned())).or_insert_with(|| {
            // Datanodes ask for no ticket.
            let expected = Expected::Node(NodeName::Datanode(node));
            let options = ClientOptions::of_nodes(self.answers.clone());
            let options = options.with_node(self.proofs.credentials.as_ref(), expected);
            Client::with_options(addr.to_owned(), self.proofs.user.clone(), REPLICA_PROTOCOL, options)
        });
        let client = client.clone();
        assert!(clients.len() <= CONNECTED_COUNT_MAX, "connections are kept to {} datanodes", clients.len());
        client
    }
}
