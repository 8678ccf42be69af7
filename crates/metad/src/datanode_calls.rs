//! Calls to the RPC ports of datanodes: over connections that are kept, or by a way that whoever runs this server gave.

use crate::environment::Route;
use prost::Message;
use rpc::{AnswerRoom, CallError, Client, ClientOptions};
use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

/// Addresses of datanodes that connections are kept to.
const CONNECTED_COUNT_MAX: usize = 4096;

pub(crate) enum DatanodeCalls {
    Connections(Connections),
    Route(Arc<dyn Route>),
}

pub(crate) struct Connections {
    user: String,
    clients: Mutex<HashMap<String, Client>>,
    /// For what datanodes answer: anybody may say that he is one.
    answers: AnswerRoom,
}

impl fmt::Debug for DatanodeCalls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("DatanodeCalls")
    }
}

impl DatanodeCalls {
    /// Calls are made as `user`.
    pub(crate) fn over_tcp(user: String) -> Self {
        Self::Connections(Connections { user, clients: Mutex::default(), answers: AnswerRoom::default() })
    }

    /// `addr` is host:port.
    pub(crate) async fn call<Q, A>(&self, addr: &str, method: &'static str, request: &Q) -> Result<A, CallError>
    where
        Q: Message,
        A: Message + Default,
    {
        match self {
            Self::Connections(connections) => connections.client(addr).call(method, request).await,
            Self::Route(route) => {
                let answer = route.call(addr, method, request.encode_to_vec().into()).await?;
                A::decode(answer).map_err(|error| CallError::Decode(error.to_string()))
            }
        }
    }
}

impl Connections {
    fn client(&self, addr: &str) -> Client {
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        if clients.len() >= CONNECTED_COUNT_MAX {
            clients.clear();
        }
        let client = clients.entry(addr.to_owned()).or_insert_with(|| {
            let options = ClientOptions::of_nodes(self.answers.clone());
            Client::with_options(addr.to_owned(), self.user.clone(), wire::node::REPLICA_PROTOCOL, options)
        });
        client.clone()
    }
}
