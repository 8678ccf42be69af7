//! In whose name the store is read.

use crate::edge::Edge;
use crate::reading::Reading;
use client::{Client, Error, Store};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// Clients that are kept, one of each user who is named: each has a connection to the metadata server.
const CLIENT_COUNT_MAX: usize = 64;

/// Clones share the clients of users.
#[derive(Clone, Debug)]
pub(crate) struct Users {
    store: Store,
    own: Client,
    edge: Option<Arc<Edge>>,
    named: Arc<Mutex<HashMap<String, Client>>>,
}

impl Users {
    /// `own`: in whose name the store is read for those who name nobody.
    pub(crate) fn new(store: Store, own: &str, edge: Option<Arc<Edge>>) -> Self {
        Self { own: store.client(own), store, edge, named: Arc::default() }
    }

    pub(crate) fn own(&self) -> Reading {
        self.reading(self.own.clone())
    }

    fn reading(&self, client: Client) -> Reading {
        Reading::new(client, self.edge.clone())
    }

    /// The store as `user` sees it. `None`: this store asks for proofs and believes no names. The gateway may act for
    /// others there; whoever comes to it may not, so nothing is proven for who is named, also where the store begins to
    /// ask later.
    pub(crate) async fn named(&self, user: &str) -> Result<Option<Reading>, Error> {
        if user == self.own.user() {
            return Ok(Some(self.own()));
        }
        self.believed(user).await
    }

    /// As [`Self::named`], where nobody is read for by the gateway's own proof.
    pub(crate) async fn believed(&self, user: &str) -> Result<Option<Reading>, Error> {
        Ok((!self.asks_for_proof().await?).then(|| self.reading(self.client(user))))
    }

    /// As [`Self::believed`], of the gateway's own name.
    pub(crate) async fn own_believed(&self) -> Result<Option<Reading>, Error> {
        self.believed(self.own.user()).await
    }

    async fn asks_for_proof(&self) -> Result<bool, Error> {
        let Some(edge) = &self.edge else { return self.own.asks_for_proof().await };
        // While the link is down, whom the store let read before is remembered by his name; nobody else reads anything.
        if edge.is_up() && matches!(edge.ask(self.own.asks_for_proof()).await, Ok(true)) {
            edge.believe_no_names();
        }
        Ok(!edge.believes_names().await?)
    }

    fn client(&self, user: &str) -> Client {
        let mut named = self.named.lock().unwrap_or_else(PoisonError::into_inner);
        if named.len() >= CLIENT_COUNT_MAX && !named.contains_key(user) {
            named.clear();
        }
        named.entry(user.to_owned()).or_insert_with_key(|user| self.store.client_without_proof(user)).clone()
    }
}
