//! In whose name the store is read.

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
    named: Arc<Mutex<HashMap<String, Client>>>,
}

impl Users {
    /// `own`: in whose name the store is read for those who name nobody.
    pub(crate) fn new(store: Store, own: &str) -> Self {
        Self { own: store.client(own), store, named: Arc::default() }
    }

    pub(crate) fn own(&self) -> &Client {
        &self.own
    }

    /// The store as `user` sees it. `None`: this store asks for proofs and believes no names. The gateway may act for
    /// others there; whoever comes to it may not, so nothing is proven for who is named, also where the store begins to
    /// ask later.
    pub(crate) async fn named(&self, user: &str) -> Result<Option<Client>, Error> {
        if user == self.own.user() {
            return Ok(Some(self.own.clone()));
        }
        Ok((!self.own.asks_for_proof().await?).then(|| self.client(user)))
    }

    fn client(&self, user: &str) -> Client {
        let mut named = self.named.lock().unwrap_or_else(PoisonError::into_inner);
        if named.len() >= CLIENT_COUNT_MAX && !named.contains_key(user) {
            named.clear();
        }
        named.entry(user.to_owned()).or_insert_with_key(|user| self.store.client_without_proof(user)).clone()
    }
}
