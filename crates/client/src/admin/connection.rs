//! Calls of administration: over a connection of their own, as they are another protocol.

use crate::client::{Client, call_within};
use crate::error::Result;
use crate::store::Store;
use std::sync::Arc;

/// A connection of its own for administration; see [`Client::admin`].
#[derive(Clone, Debug)]
pub struct Admin {
    pub(super) store: Store,
    rpc: Arc<rpc::Servers>,
    pub(super) user: String,
}

impl Client {
    /// Administration of this client's store, as its user.
    pub fn admin(&self) -> Admin {
        let (store, user) = (self.store().clone(), self.user().to_owned());
        Admin { rpc: store.servers(&user, wire::admin::ADMIN_PROTOCOL), store, user }
    }
}

impl Admin {
    pub(super) async fn call<Q, A>(&self, method: &str, request: &Q) -> Result<A>
    where
        Q: prost::Message,
        A: prost::Message + Default,
    {
        self.call_in(wire::admin::ADMIN_PROTOCOL, method, request).await
    }

    pub(super) async fn call_in<Q, A>(&self, protocol: &str, method: &str, request: &Q) -> Result<A>
    where
        Q: prost::Message,
        A: prost::Message + Default,
    {
        call_within(self.store.scope(), &self.rpc, protocol, method, request).await
    }
}
