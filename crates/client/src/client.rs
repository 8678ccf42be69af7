//! A connection to one store, as one user.

use crate::error::{Error, Result};
use crate::lease::Leases;
use crate::options::Options;
use crate::pace::Pace;
use crate::small::Small;
use crate::sockets::Sockets;
use crate::status::ServerDefaults;
use crate::url::Url;
use hdfs::proto;
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::sync::Mutex;

/// A store, as one user sees it. Clones share one connection, one set of leases and one cache of idle sockets.
#[derive(Clone, Debug)]
pub struct Client {
    pub(crate) inner: Arc<Inner>,
}

pub(crate) struct Inner {
    pub(crate) url: Url,
    pub(crate) user: String,
    /// Who holds our leases. Different for every client, so that one never ends what another writes.
    pub(crate) holder: String,
    pub(crate) options: Options,
    pub(crate) sockets: Sockets,
    pub(crate) pace: Pace,
    pub(crate) leases: Leases,
    pub(crate) small: Small,
    rpc: rpc::Servers,
    /// By address of the metadata server: after a failover it may be one of another version.
    defaults: Mutex<BTreeMap<String, ServerDefaults>>,
}

impl std::fmt::Debug for Inner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Client").field("url", &self.url).field("user", &self.user).finish_non_exhaustive()
    }
}

impl Client {
    /// Takes the address of a store and the name of the user who acts. The connection is made by the first call.
    pub fn connect(url: &Url, user: &str) -> Self {
        Self::with_options(url, user, Options::default())
    }

    pub fn with_options(url: &Url, user: &str, options: Options) -> Self {
        let mut random = io::OsRandom::new();
        let holder = format!("levada_{:016x}", types::Random::next_u64(&mut random));
        let rpc = rpc::Servers::new(&url.authority, user, hdfs::protocol::CLIENT);
        let connect_timeout = options.connect_timeout;
        let inner = Inner {
            url: url.with_path(""),
            user: user.to_owned(),
            holder,
            options,
            sockets: Sockets::default(),
            pace: Pace::default(),
            leases: Leases::default(),
            small: Small::new(connect_timeout),
            rpc,
            defaults: Mutex::default(),
        };
        Self { inner: Arc::new(inner) }
    }

    /// The store's address, without a path.
    pub fn url(&self) -> &Url {
        &self.inner.url
    }

    pub fn user(&self) -> &str {
        &self.inner.user
    }

    /// Where relative names of this user begin, as HDFS has it.
    pub fn home(&self) -> String {
        format!("/user/{}", self.inner.user)
    }

    pub(crate) fn options(&self) -> &Options {
        &self.inner.options
    }

    /// What the server that leads proposes to writers and can do; asked once of each server.
    pub async fn defaults(&self) -> Result<ServerDefaults> {
        let mut known = self.inner.defaults.lock().await;
        if let Some(defaults) = known.get(self.inner.rpc.addr()) {
            return Ok(*defaults);
        }
        let defaults = self.fetch_defaults().await?;
        // The call may have found another server than the one that led last. There are as many as the URL names.
        known.insert(self.inner.rpc.addr().to_owned(), defaults);
        Ok(defaults)
    }

    async fn fetch_defaults(&self) -> Result<ServerDefaults> {
        let request = proto::GetServerDefaultsRequestProto::default();
        let answer: proto::GetServerDefaultsResponseProto = self.call("getServerDefaults", &request).await?;
        let defaults = answer.server_defaults;
        if defaults.encrypt_data_transfer.unwrap_or(false) {
            return Err(Error::Unsupported("a store that demands encrypted data transfer"));
        }
        let kind = types::ChecksumKind::from_number(defaults.checksum_type.unwrap_or(1));
        let checksum = kind.and_then(|kind| types::ChecksumSpec::new(kind, defaults.bytes_per_checksum));
        Ok(ServerDefaults {
            block_len: defaults.block_size,
            replication: defaults.replication.min(u32::from(types::limits::REPLICATION_MAX)) as u16,
            checksum: checksum.unwrap_or(types::ChecksumSpec::DEFAULT),
            trash: defaults.trash_interval.unwrap_or(0) > 0,
            abilities: wire::Abilities::of(defaults.abilities),
        })
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
        let rpc = &self.inner.rpc;
        let answer = rpc.call_in(protocol, method, request).await;
        answer.map_err(|error| Error::of_call(rpc.addr(), error))
    }
}
