//! One user of a store.

use crate::error::{Error, Result};
use crate::leases::{Lease, Leases};
use crate::options::Options;
use crate::scope::{Scope, Task};
use crate::stock::Stock;
use crate::store::Store;
use crate::url::Url;
use std::sync::{Arc, Weak};

/// A store, as one user sees it: a session. Clones are the same session. Each has a connection to the metadata server,
/// a name under which it holds leases, and blocks on lease for small files; all else it shares with the other clients
/// of its [`Store`].
#[derive(Clone, Debug)]
pub struct Client {
    pub(crate) session: Arc<Session>,
}

pub(crate) struct Session {
    pub(crate) store: Store,
    pub(crate) user: Arc<str>,
    /// Nothing is ever proven for this user.
    is_without_proof: bool,
    /// Who holds our leases. Different for every session, so that one never ends what another writes.
    pub(crate) holder: String,
    pub(crate) stock: Stock,
    pub(crate) rpc: Arc<rpc::Servers>,
    leases: Arc<Leases>,
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session").field("store", &self.store).field("user", &self.user).finish_non_exhaustive()
    }
}

impl Store {
    /// The store as this user sees it. The connection is made by the first call.
    pub fn client(&self, user: &str) -> Client {
        self.session(user, false, self.servers(user, hdfs::protocol::CLIENT))
    }

    /// As [`Store::client`], for a name that somebody gave who has proven nothing: this client proves nothing either,
    /// so a server that asks for a proof refuses it. With a proof of this process's, whoever gave the name would be
    /// that user.
    pub fn client_without_proof(&self, user: &str) -> Client {
        self.session(user, true, self.servers_without_proof(user, hdfs::protocol::CLIENT))
    }

    fn session(&self, user: &str, is_without_proof: bool, rpc: Arc<rpc::Servers>) -> Client {
        let mut random = io::OsRandom::new();
        let session = Session {
            store: self.clone(),
            user: user.into(),
            is_without_proof,
            holder: format!("levada_{:016x}", types::Random::next_u64(&mut random)),
            stock: Stock::new(Arc::clone(&self.options().clock)),
            rpc,
            leases: Arc::default(),
        };
        Client { session: Arc::new(session) }
    }
}

impl Client {
    /// Takes the address of a store and the name of the user who acts. The connection is made by the first call.
    pub fn connect(url: &Url, user: &str) -> Self {
        Self::with_options(url, user, Options::default())
    }

    /// The only client of a store of its own. A process with several users has one [`Store`] for them all.
    pub fn with_options(url: &Url, user: &str, options: Options) -> Self {
        Store::new(url, options).client(user)
    }

    /// What it shares with other clients. [`Store::close`] ends them all.
    pub fn store(&self) -> &Store {
        &self.session.store
    }

    /// The store's address, without a path.
    pub fn url(&self) -> &Url {
        self.session.store.url()
    }

    pub fn user(&self) -> &str {
        &self.session.user
    }

    /// Whether it is of [`Store::client_without_proof`].
    pub fn is_without_proof(&self) -> bool {
        self.session.is_without_proof
    }

    /// Where relative names of this user begin, as HDFS has it.
    pub fn home(&self) -> String {
        format!("/user/{}", self.session.user)
    }

    pub(crate) fn options(&self) -> &Options {
        self.session.store.options()
    }

    /// Does this on the store's runtime, until the store is closed.
    pub(crate) fn run<T>(&self, work: impl Future<Output = Result<T>>) -> impl Future<Output = Result<T>> {
        self.session.store.scope().run(work)
    }

    /// A task that ends with the store, or with what is returned.
    pub(crate) fn spawn<T: Send + 'static>(
        &self,
        name: &'static str,
        work: impl Future<Output = T> + Send + 'static,
    ) -> Task<T> {
        self.session.store.scope().spawn(name, work)
    }

    pub(crate) async fn call<Q, A>(&self, method: &str, request: &Q) -> Result<A>
    where
        Q: prost::Message,
        A: prost::Message + Default,
    {
        self.call_in(hdfs::protocol::CLIENT, method, request).await
    }

    /// As [`Client::call`], of another protocol of the same server.
    pub(crate) async fn call_in<Q, A>(&self, protocol: &str, method: &str, request: &Q) -> Result<A>
    where
        Q: prost::Message,
        A: prost::Message + Default,
    {
        call_within(self.store().scope(), &self.session.rpc, protocol, method, request).await
    }

    /// The metadata server says what it should not.
    pub(crate) fn not_understood(&self, reason: impl Into<String>) -> Error {
        Error::Protocol { addr: self.url().authority.clone(), reason: reason.into() }
    }

    /// One more file is open for writing, until this is dropped.
    pub(crate) fn hold_lease(&self) -> Lease {
        // Weak: a client that nobody uses any more need not renew.
        let renew = || self.spawn("lease renewal", renew(Arc::downgrade(&self.session)));
        self.session.leases.hold(renew)
    }
}

/// A call that ends with the scope.
pub(crate) async fn call_within<A: prost::Message + Default>(
    scope: &Scope,
    servers: &rpc::Servers,
    protocol: &str,
    method: &str,
    request: rpc::Request<'_>,
) -> Result<A> {
    let of_call = |error| Error::of_call(servers.addr(), error);
    // What waits is the same for all kinds of answers, so that the program has it once.
    let answer = scope.run(async { servers.exchange(protocol, method, request).await.map_err(of_call) }).await?;
    answer.decode().map_err(of_call)
}

async fn renew(session: Weak<Session>) {
    loop {
        let Some(every) = session.upgrade().map(|session| session.store.options().renew_every) else { return };
        tokio::time::sleep(every).await;
        let Some(session) = session.upgrade() else { return };
        if let Err(error) = (Client { session }).renew_leases().await {
            // The lease outlives one lost renewal; the writer finds out at its next call if it does not.
            tracing::warn!(%error, "the leases of open files could not be renewed; trying again");
        }
    }
}
