//! One address for a whole store, near it, for clients that reach no other: from behind a firewall, or from far away.
//!
//! ```text
//! client ── preface: which server ──▶ Gateway ── is it the store's? [`servers`] ──▶ that server
//!        ◀─────────────────────── bytes, by the kernel [`tunnel`] ────────────▶
//! any program ── GET /files/PATH ──▶ [`files`] ── as a client of the store ──▶ its servers
//! ROOT, xrdcp, uproot ── root:// ──▶ [`root`] ─── as a client of the store ──▶ its servers
//! ```
//!
//! Promise: nobody gets through to anything but the store's own metadata servers, and what they name as datanodes: that
//! is as true as it is hard to register as one. The tunnel looks into nothing and proves nothing for anybody: who
//! calls, and what protects the connection, is between client and server, as if they were one cable apart. A connection
//! takes no memory here but pipes of the kernel's.

mod counts;
mod files;
#[doc(hidden)]
pub mod fuzz;
mod opened;
mod root;
mod servers;
mod tunnel;
mod users;

use client::{Options, Store, Url};
use counts::Counts;
use http::Limits;
use io::task::Owned;
use io::{ConnectionLimit, TaskGroup};
pub use root::CONNECTION_COUNT_MAX as ROOT_CONNECTION_COUNT_MAX;
use root::Root;
pub use root::RootLimits;
use servers::Servers;
use std::io::Error;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::net::TcpListener;

#[derive(Clone, Debug)]
pub struct Config {
    pub addr: SocketAddr,
    /// The store.
    pub url: Url,
    /// In whose name the store is asked for its servers.
    pub user: String,
    /// Files over HTTP; `None`: not here.
    pub files: Option<FilesConfig>,
    /// Files over XRootD; `None`: not here.
    pub root: Option<FilesConfig>,
    pub root_limits: RootLimits,
    /// `/metrics` and `/health`; `None`: nowhere.
    pub metrics_addr: Option<SocketAddr>,
    /// Connections through it. With more, one over which no server has said anything is closed, and of those the one
    /// that was silent for longest. Each takes up to six descriptors.
    pub connection_count_max: usize,
    /// It may run on the machine of a metadata server, to which its clients then look as if they were on that machine,
    /// too; and of datanodes.
    pub beside_servers: bool,
}

/// Files over HTTP, or XRootD.
#[derive(Clone, Debug)]
pub struct FilesConfig {
    pub addr: SocketAddr,
    /// In whose name they are read, where a request or a login names nobody; over XRootD also where the store believes
    /// no names.
    pub user: String,
}

/// The head of a request may name thousands of ranges.
const HEAD_LEN_MAX: usize = 256 << 10;

/// A gateway that serves until [`Self::stop`].
#[derive(Debug)]
pub struct Gateway {
    addr: SocketAddr,
    files: Option<http::Server>,
    root: Option<Root>,
    metrics: Option<http::Server>,
    limit: Arc<ConnectionLimit>,
    store: Store,
    tunnels: TaskGroup,
    accept: Owned<()>,
}

impl Gateway {
    /// Begins to listen. The store need not be up yet.
    pub async fn start(config: Config) -> Result<Self, Error> {
        Self::start_with(config, Options::default()).await
    }

    /// As [`Self::start`], with these options of its client.
    pub async fn start_with(config: Config, options: Options) -> Result<Self, Error> {
        let listener = TcpListener::bind(config.addr).await?;
        let addr = listener.local_addr()?;
        let store = Store::new(&config.url, options);
        let servers = Arc::new(Servers::new(store.client(&config.user), config.beside_servers));
        if !config.beside_servers
            && let Some(addr) = servers.beside().await
        {
            return Err(Error::other(format!(
                "metadata server {addr} is on this machine, and would take all who come through for callers on it: run \
                 the gateway elsewhere, or say that it may be here (--beside-servers)"
            )));
        }
        let limit = ConnectionLimit::new(config.connection_count_max);
        let root_limit = ConnectionLimit::new(ROOT_CONNECTION_COUNT_MAX);
        let (counts, registry) = Counts::new(&limit, &root_limit);
        let metrics = match config.metrics_addr {
            Some(addr) => Some(counts::serve(addr, registry, Arc::clone(&limit)).await?),
            None => None,
        };
        let files = match &config.files {
            Some(FilesConfig { addr, user }) => {
                let limits = Limits { head_len_max: HEAD_LEN_MAX, ..Limits::default() };
                let routes = files::routes(store.clone(), user, counts.clone());
                Some(http::Server::serve(*addr, limits, routes, None).await?)
            }
            None => None,
        };
        let tunnels = TaskGroup::default();
        let root = match &config.root {
            Some(FilesConfig { addr, user }) => {
                let (counts, tasks) = (counts.root.clone(), tunnels.clone());
                Some(Root::serve(*addr, store.clone(), user, root_limit, config.root_limits, counts, tasks).await?)
            }
            None => None,
        };
        let accept = accept(listener, servers, counts, Arc::clone(&limit), tunnels.clone());
        let accept = io::task::spawn_owned("gateway", accept);
        Ok(Self { addr, files, root, metrics, limit, store, tunnels, accept })
    }

    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Where files are read over HTTP.
    pub fn files_addr(&self) -> Option<SocketAddr> {
        self.files.as_ref().map(http::Server::addr)
    }

    /// Where files are read over XRootD.
    pub fn root_addr(&self) -> Option<SocketAddr> {
        self.root.as_ref().map(Root::addr)
    }

    /// Where `/metrics` is.
    pub fn metrics_addr(&self) -> Option<SocketAddr> {
        self.metrics.as_ref().map(http::Server::addr)
    }

    /// Connections that go through it.
    pub fn connection_count(&self) -> usize {
        self.limit.count()
    }

    /// Ends all connections.
    pub async fn stop(self) {
        self.files.iter().chain(&self.metrics).for_each(http::Server::shutdown);
        drop((self.accept, self.root));
        self.tunnels.close().await;
        self.store.close().await;
    }
}

async fn accept(
    listener: TcpListener,
    servers: Arc<Servers>,
    counts: Counts,
    limit: Arc<ConnectionLimit>,
    tunnels: TaskGroup,
) {
    loop {
        let (socket, peer) = io::accepted(|| listener.accept()).await;
        // All wait for their peers, so there is always one that may go.
        let Some(permit) = limit.admit() else { continue };
        counts.accepted.inc();
        tunnels.spawn_detached("tunnel", tunnel::run(socket, peer, permit, Arc::clone(&servers), counts.clone()));
    }
}
