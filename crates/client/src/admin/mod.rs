//! What a superuser asks of a store beside its files. One file for each thing that is administered.

pub mod datanodes;
mod meta;
mod safe_mode;

pub use meta::{Group, Member};

use crate::client::Client;
use crate::error::{Error, Result};

/// A connection of its own for administration; see [`Client::admin`].
#[derive(Clone, Debug)]
pub struct Admin {
    rpc: rpc::Servers,
    /// host:port, with commas between them.
    addrs: String,
    user: String,
}

impl Client {
    /// Administration of this client's store, as its user.
    pub fn admin(&self) -> Admin {
        let (addrs, user) = (self.url().authority.clone(), self.user().to_owned());
        Admin { rpc: rpc::Servers::new(&addrs, &user, wire::admin::ADMIN_PROTOCOL), addrs, user }
    }
}

impl Admin {
    async fn call<Q, A>(&self, method: &str, request: &Q) -> Result<A>
    where
        Q: prost::Message,
        A: prost::Message + Default,
    {
        let answer = self.rpc.call_in(wire::admin::ADMIN_PROTOCOL, method, request).await;
        answer.map_err(|error| Error::of_call(self.rpc.addr(), error))
    }
}
