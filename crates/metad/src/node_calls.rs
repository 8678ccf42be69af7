//! Calls to the RPC ports of datanodes and of other members, over kept connections or over the route that the
//! environment supplies.

use crate::route::{Route, RouteCall};
use prost::Message;
use rpc::{AnswerRoom, CallError, Client, ClientOptions, Login};
use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
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
    user: String,
    /// What is proven to members.
    login: Option<Arc<Login>>,
    clients: Mutex<HashMap<String, Client>>,
    /// For datanodes' answers: anyone may claim to be a datanode.
    answers: AnswerRoom,
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
    /// Datanodes are called as `user`.
    pub(crate) fn over_tcp(user: String, login: Option<Arc<Login>>) -> Self {
        Self::Connections(NodeConnections { user, login, clients: Mutex::default(), answers: AnswerRoom::default() })
    }

    /// Of a datanode; `addr` is host:port.
    pub(crate) async fn call<Q, A>(&self, addr: &str, method: &'static str, request: &Q) -> Result<A, CallError>
    where
        Q: Message,
        A: Message + Default,
    {
        match self {
            Self::Connections(connections) => connections.client(addr).call(method, request).await,
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
                let login = connections.login.clone().filter(|_| is_own);
                let options = ClientOptions::of_nodes(AnswerRoom::default()).with_login(login);
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
    fn client(&self, addr: &str) -> Client {
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        if clients.len() >= CONNECTED_COUNT_MAX {
            clients.clear();
        }
        let client = clients.entry(addr.to_owned()).or_insert_with(|| {
            let options = ClientOptions::of_nodes(self.answers.clone());
            Client::with_options(addr.to_owned(), self.user.clone(), REPLICA_PROTOCOL, options)
        });
        let client = client.clone();
        assert!(clients.len() <= CONNECTED_COUNT_MAX, "connections are kept to {} datanodes", clients.len());
        client
    }
}
