//! One address for a whole store, near it, for clients that reach no other: from behind a firewall, or from far away.
//!
//! ```text
//! client ── preface: which server ──▶ Gateway ── is it the store's? [`servers`] ──▶ that server
//!        ◀─────────────────────── bytes, by the kernel [`tunnel`] ────────────▶
//! any program ── GET /files/PATH ──▶ [`files`] ── as a client of the store ──▶ its servers
//! ROOT, xrdcp, uproot ── root:// ──▶ [`root`] ─── as a client of the store ──▶ its servers
//! the same, at an edge: near its readers ──▶ [`edge`] ─── what is not kept ──────▶ its servers, far away
//! ```
//!
//! Promise: nobody gets through to anything but the store's own metadata servers, and what they name as datanodes: that
//! is as true as it is hard to register as one. The tunnel looks into nothing and proves nothing for anybody: who
//! calls, and what protects the connection, is between client and server, as if they were one cable apart. A connection
//! takes no memory here but pipes of the kernel's.

mod counts;
mod edge;
mod files;
#[doc(hidden)]
pub mod fuzz;
mod hdfs;
mod opened;
mod reading;
mod root;
mod servers;
mod try_again;
mod tunnel;
mod users;

use client::{Options, Store, Url};
use counts::Counts;
use edge::Edge;
pub use edge::EdgeConfig;
use hdfs::Hdfs;
pub use hdfs::HdfsConfig;
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
use users::Users;

#[derive(Clone, Debug)]
pub struct Config {
    pub place: Place,
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
}

/// Where a gateway stands, and what it does there beside serving files.
#[derive(Clone, Debug)]
pub enum Place {
    /// Near the store: clients of the store come through.
    NearStore(TunnelConfig),
    /// Near its readers and far from the store: what they read is kept.
    NearReaders {
        edge: EdgeConfig,
        /// HDFS's own clients; `None`: not here.
        hdfs: Option<HdfsConfig>,
    },
}

/// The way through a gateway to the servers of the store.
#[derive(Clone, Copy, Debug)]
pub struct TunnelConfig {
    /// Where clients come to.
    pub addr: SocketAddr,
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
    files: Option<http::Server>,
    root: Option<Root>,
    hdfs: Option<Hdfs>,
    metrics: Option<http::Server>,
    limit: Arc<ConnectionLimit>,
    store: Store,
    edge: Option<Arc<Edge>>,
    tunnels: TaskGroup,
    /// `None`: an edge is no tunnel. Who needs one from there needs one all the way: the gateway near the store is
    /// that.
    tunnel: Option<Tunnel>,
}

#[derive(Debug)]
struct Tunnel {
    addr: SocketAddr,
    _accept: Owned<()>,
}

impl Gateway {
    /// Begins to listen. The store need not be up yet.
    pub async fn start(config: Config) -> Result<Self, Error> {
        Self::start_with(config, Options::default()).await
    }

    /// As [`Self::start`], with these options of its client.
    pub async fn start_with(config: Config, options: Options) -> Result<Self, Error> {
        let Config { place, url, user, files, root, root_limits, metrics_addr } = config;
        let (tunnel, edge, hdfs) = match place {
            Place::NearStore(tunnel) => (Some((tunnel, TcpListener::bind(tunnel.addr).await?)), None, None),
            Place::NearReaders { edge, hdfs } => (None, Some(edge), hdfs),
        };
        let options = match &edge {
            Some(edge) => edge.options(options),
            None => options,
        };
        let store = Store::new(&url, options);
        let tunnels = TaskGroup::default();
        let edge = match &edge {
            Some(edge) => Some(Edge::start(edge, &store, &user, tunnels.clone()).await?),
            None => None,
        };
        let servers = |may_be_here| Arc::new(Servers::new(store.client(&user), may_be_here));
        let tunnel = tunnel.map(|(tunnel, listener)| (tunnel, listener, servers(tunnel.beside_servers)));
        if let Some((tunnel, _, servers)) = &tunnel
            && !tunnel.beside_servers
            && let Some(addr) = servers.beside().await
        {
            return Err(Error::other(format!(
                "metadata server {addr} is on this machine, and would take all who come through for callers on it: run \
                 the gateway elsewhere, or say that it may be here (--beside-servers)"
            )));
        }
        // Of none, where nobody comes through.
        let limit = ConnectionLimit::new(tunnel.as_ref().map_or(0, |(tunnel, ..)| tunnel.connection_count_max));
        let root_limit = ConnectionLimit::new(ROOT_CONNECTION_COUNT_MAX);
        let (counts, registry) = Counts::new(&limit, &root_limit, edge.as_ref());
        let metrics = match metrics_addr {
            Some(addr) => Some(counts::serve(addr, registry, Arc::clone(&limit)).await?),
            None => None,
        };
        let files = match &files {
            Some(FilesConfig { addr, user }) => {
                let limits = Limits { head_len_max: HEAD_LEN_MAX, ..Limits::default() };
                let routes = files::routes(Users::new(store.clone(), user, edge.clone()), counts.clone());
                Some(http::Server::serve(*addr, limits, routes, None).await?)
            }
            None => None,
        };
        let root = match &root {
            Some(FilesConfig { addr, user }) => {
                let (counts, tasks) = (counts.root.clone(), tunnels.clone());
                let users = Users::new(store.clone(), user, edge.clone());
                Some(Root::serve(*addr, users, root_limit, root_limits, counts, tasks).await?)
            }
            None => None,
        };
        let hdfs = match hdfs {
            Some(hdfs) => {
                let (users, tasks) = (Users::new(store.clone(), &user, edge.clone()), tunnels.clone());
                Some(Hdfs::serve(hdfs, users, url.to_string(), tasks).await?)
            }
            None => None,
        };
        let tunnel = match tunnel {
            Some((_, listener, servers)) => {
                let addr = listener.local_addr()?;
                let accept = accept(listener, servers, counts, Arc::clone(&limit), tunnels.clone());
                Some(Tunnel { addr, _accept: io::task::spawn_owned("gateway", accept) })
            }
            None => None,
        };
        Ok(Self { files, root, hdfs, metrics, limit, store, edge, tunnels, tunnel })
    }

    /// Where clients come through to the store. `None`: it is an edge.
    pub fn tunnel_addr(&self) -> Option<SocketAddr> {
        self.tunnel.as_ref().map(|tunnel| tunnel.addr)
    }

    /// Where files are read over HTTP.
    pub fn files_addr(&self) -> Option<SocketAddr> {
        self.files.as_ref().map(http::Server::addr)
    }

    /// Where files are read over XRootD.
    pub fn root_addr(&self) -> Option<SocketAddr> {
        self.root.as_ref().map(Root::addr)
    }

    /// Where HDFS's clients ask for names, and read blocks.
    pub fn hdfs_addrs(&self) -> Option<(SocketAddr, SocketAddr)> {
        self.hdfs.as_ref().map(|hdfs| (hdfs.addr(), hdfs.data_addr()))
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
        drop((self.tunnel, self.root));
        if let Some(hdfs) = self.hdfs {
            hdfs.stop().await;
        }
        self.tunnels.close().await;
        if let Some(edge) = self.edge {
            edge.stop().await;
        }
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
