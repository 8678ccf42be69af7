//! What all users of a store in one process share: connections, and what was learned of its servers.

use crate::choice::SlowNodes;
use crate::datanode::Connection;
use crate::hedge::Hedging;
use crate::layout_memory::{LayoutMemory, LayoutRoom};
use crate::local_nodes::LocalNodes;
use crate::located::Node;
use crate::locations::{FileBlocks, LocationCache};
use crate::login;
use crate::options::Options;
use crate::profiles::Profiles;
use crate::protection::DataProtection;
use crate::scope::Scope;
use crate::socket::Socket;
use crate::sockets::Sockets;
use crate::status::Heard;
use crate::url::Url;
use crate::warm::{self, Reached, Warm};
use io::dial::Dialer;
use io::request_connections::{ConnectOptions, RequestConnections, Waiter};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;
use tokio::sync::RwLock;
use wire::small::SmallAnswer;
use xfer::small::{Caller, CallerLimits};

/// One store, as one process uses it: make one, and a [`Client`](crate::Client) of it for each user. Clones are the
/// same.
///
/// A process that was forked may not use it: every call fails with [`ErrorKind::Forked`](crate::ErrorKind::Forked), and
/// what the parent has is left alone.
#[derive(Clone, Debug)]
pub struct Store {
    shared: Arc<Shared>,
}

struct Shared {
    url: Url,
    options: Options,
    /// How its servers are reached.
    dialer: Dialer,
    scope: Scope,
    sockets: Sockets,
    warm: Warm,
    /// The node that brought most from far away, and by how many connections.
    reached: Mutex<Option<Reached>>,
    small_connections: SmallConnections,
    protection: DataProtection,
    local_nodes: LocalNodes,
    hedging: Mutex<Hedging>,
    slow: Mutex<SlowNodes>,
    locations: Mutex<LocationCache<SharedBlocks>>,
    defaults: Defaults,
    /// What was learned of the files that were read.
    profiles: Arc<Profiles>,
    layout_memory: LayoutMemory,
    /// RPC of those who use the store.
    servers: Mutex<Vec<Weak<rpc::Servers>>>,
    /// What is proven to metadata servers.
    login: Option<Arc<rpc::Login>>,
}

/// What servers said, by their addresses: after a failover it may be one of another version.
pub(crate) type Defaults = tokio::sync::Mutex<BTreeMap<String, Heard>>;
/// Connections for small writes: one to a datanode, shared by all who write small blocks there, and kept.
pub(crate) type SmallConnections = RequestConnections<Caller<Waiter<SmallAnswer>>>;
/// The blocks of a file, for all who read it.
pub(crate) type SharedBlocks = RwLock<FileBlocks>;

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Store").field("url", &self.url).finish_non_exhaustive()
    }
}

impl Store {
    /// Takes the address of a store. Connections are made by the first calls.
    pub fn new(url: &Url, options: Options) -> Self {
        let scope = Scope::new(options.runtime.clone());
        Self::in_scope(url, options, scope)
    }

    fn in_scope(url: &Url, options: Options, scope: Scope) -> Self {
        let (connect_time_max, tasks) = (options.connect_timeout, Some(scope.tasks().clone()));
        let dialer = Dialer::new(options.gateway.as_deref()).as_far_as(options.round_trip);
        let connecting =
            ConnectOptions { connect_time_max, tasks, dialer: dialer.clone(), ..ConnectOptions::default() };
        let login = options.login.clone().or_else(login::of_environment);
        let protection = DataProtection::new(scope.tasks().clone());
        let small_connections = SmallConnections::new(connecting, CallerLimits::default());
        let profiles = Profiles::new(options.profile_dir.clone());
        let layout_memory = LayoutMemory::new(options.layout_memory);
        let shared = Shared {
            url: url.with_path(""),
            options,
            dialer,
            scope,
            sockets: Sockets::default(),
            warm: Warm::default(),
            reached: Mutex::default(),
            small_connections: small_connections.prepared_by(Arc::new(protection.clone())),
            protection,
            local_nodes: LocalNodes::default(),
            hedging: Mutex::default(),
            slow: Mutex::default(),
            locations: Mutex::default(),
            defaults: Defaults::default(),
            profiles: Arc::new(profiles),
            layout_memory,
            servers: Mutex::default(),
            login,
        };
        Self { shared: Arc::new(shared) }
    }

    /// Its address, without a path.
    pub fn url(&self) -> &Url {
        &self.shared.url
    }

    pub fn options(&self) -> &Options {
        &self.shared.options
    }

    /// Ends everything: renewal of leases, tasks, connections, and the futures that others wait for. When this returns,
    /// no task of the store runs. Whatever is called afterwards, and whatever was going on, fails with
    /// [`ErrorKind::Closed`](crate::ErrorKind::Closed). A file that is open for writing stays open at the server until
    /// its lease runs out: close writers first. A task on a runtime that nobody runs is waited for until that runs
    /// again, or is gone.
    pub async fn close(&self) {
        if self.shared.scope.is_forked() {
            return;
        }
        self.shared.scope.close().await;
        self.shared.sockets.clear();
        self.shared.warm.clear();
        self.shared.local_nodes.clear();
        self.shared.small_connections.disconnect();
        lock(&self.shared.locations).clear();
        let servers = std::mem::take(&mut *lock(&self.shared.servers));
        servers.iter().filter_map(Weak::upgrade).for_each(|servers| servers.disconnect());
    }

    pub(crate) fn scope(&self) -> &Scope {
        &self.shared.scope
    }

    pub(crate) fn now(&self) -> Duration {
        self.shared.options.clock.monotonic()
    }

    pub(crate) fn defaults(&self) -> &Defaults {
        &self.shared.defaults
    }

    pub(crate) fn small_connections(&self) -> &SmallConnections {
        &self.shared.small_connections
    }

    /// Calls of this user to the metadata servers, until the store is closed.
    pub(crate) fn servers(&self, user: &str, protocol: &'static str) -> Arc<rpc::Servers> {
        self.servers_with(user, protocol, self.metad_options(user))
    }

    /// As [`Store::servers`], without a proof of who calls.
    pub(crate) fn servers_without_proof(&self, user: &str, protocol: &'static str) -> Arc<rpc::Servers> {
        self.servers_with(user, protocol, self.metad_options(user).with_login(None))
    }

    fn servers_with(&self, user: &str, protocol: &'static str, options: rpc::ClientOptions) -> Arc<rpc::Servers> {
        let authority = &self.shared.url.authority;
        let servers = Arc::new(rpc::Servers::with_options(authority, user, protocol, options));
        let mut known = lock(&self.shared.servers);
        known.retain(|servers| servers.strong_count() > 0);
        known.push(Arc::downgrade(&servers));
        servers
    }

    /// As [`Store::rpc_options`], for calls to a metadata server.
    pub(crate) fn metad_options(&self, user: &str) -> rpc::ClientOptions {
        let real_user = self.shared.options.real_user.clone();
        let patience = self.shared.options.patience;
        let options = rpc::ClientOptions { real_user, patience, ..self.rpc_options() };
        options.with_login(login::as_user(&self.shared.login, user))
    }

    /// For calls to one server, until the store is closed.
    pub(crate) fn rpc_options(&self) -> rpc::ClientOptions {
        let (tasks, dialer) = (Some(self.scope().tasks().clone()), self.shared.dialer.clone());
        rpc::ClientOptions { tasks, dialer, ..rpc::ClientOptions::default() }
    }

    // ── datanodes ──

    /// An idle connection to this node.
    pub(crate) fn take_idle(&self, node: &Node) -> Option<Connection> {
        self.shared.sockets.take(self.now(), &node.addr)
    }

    /// Bytes that were read, so far, from files that datanodes on this machine have passed, and not over a connection.
    pub fn local_read_len(&self) -> u64 {
        self.shared.local_nodes.read_len()
    }

    pub(crate) fn local_nodes(&self) -> &LocalNodes {
        &self.shared.local_nodes
    }

    pub(crate) fn dialer(&self) -> &Dialer {
        &self.shared.dialer
    }

    /// Connections to this node that wait for something to do, or will in a moment.
    pub(crate) fn idle_count(&self, addr: &str) -> usize {
        let now = self.now();
        self.shared.sockets.count(now, addr) + self.shared.warm.count(now, addr)
    }

    /// Opens connections to a node that will be asked, so that `count` of them are there. Nobody waits for them.
    pub(crate) fn warm(&self, addr: &Arc<str>, count: usize) {
        if self.scope().check().is_err() || !self.scope().has_runtime() {
            return;
        }
        let (now, count) = (self.now(), count.min(warm::COUNT_MAX));
        let begun = self.shared.warm.begin(now, addr, count.saturating_sub(self.shared.sockets.count(now, addr)));
        if begun.is_empty() {
            return;
        }
        for sender in begun {
            let (node, dialer) = (Node { addr: Arc::clone(addr), ..Node::default() }, self.dialer().clone());
            let limit = self.options().connect_timeout;
            self.scope().spawn_detached("connection", async move {
                if let Ok(connected) = tokio::time::timeout(limit, Socket::connect(&node, &dialer)).await {
                    // Nobody may want it any more.
                    let _ = sender.send(connected);
                }
            });
        }
        let shared = Arc::downgrade(&self.shared);
        self.scope().spawn_detached("connections", async move {
            tokio::time::sleep(warm::KEPT_MAX).await;
            if let Some(shared) = shared.upgrade() {
                shared.warm.trim(shared.options.clock.monotonic());
            }
        });
    }

    /// A new socket to a node: one that is there already, if there is.
    pub(crate) async fn socket(&self, node: &Node) -> std::io::Result<Socket> {
        while let Some(arrival) = self.shared.warm.take(self.now(), &node.addr) {
            if let Ok(Ok(socket)) = arrival.await
                && socket.is_quiet()
            {
                return Ok(socket);
            }
        }
        Socket::connect(node, self.dialer()).await
    }

    /// So many connections brought something of one file from this node.
    pub(crate) fn note_reached(&self, addr: &str, count: usize) {
        let count = u32::try_from(count).unwrap_or(u32::MAX);
        let mut reached = lock(&self.shared.reached);
        if reached.as_ref().is_none_or(|most| most.addr == addr || most.count < count) {
            let before = reached.take().filter(|most| most.addr == addr).map_or(0, |most| most.count);
            *reached = Some(Reached { addr: addr.to_owned(), count: count.max(before) });
        }
    }

    pub(crate) fn reached(&self) -> Option<Reached> {
        lock(&self.shared.reached).clone()
    }

    /// To the nearest server of the store; zero before any was reached.
    pub fn round_trip(&self) -> Duration {
        self.shared.dialer.round_trip()
    }

    pub(crate) fn protection(&self) -> &DataProtection {
        &self.shared.protection
    }

    /// Nothing is under way on it.
    pub(crate) fn put_idle(&self, connection: Connection) {
        self.shared.sockets.put(self.now(), connection);
    }

    // ── what was learned ──

    pub(crate) fn hedging(&self) -> MutexGuard<'_, Hedging> {
        lock(&self.shared.hedging)
    }

    /// This node was slower than another one, or than is usual.
    pub(crate) fn note_slow(&self, addr: &Arc<str>) {
        lock(&self.shared.slow).note(self.now(), addr);
    }

    /// What is known of the nodes, for a choice between them.
    pub(crate) fn with_slow<T>(&self, choose: impl FnOnce(&SlowNodes, Duration) -> T) -> T {
        choose(&lock(&self.shared.slow), self.now())
    }

    pub(crate) fn profiles(&self) -> Arc<Profiles> {
        Arc::clone(&self.shared.profiles)
    }

    /// For the layout of one file.
    pub(crate) fn layout_room(&self) -> LayoutRoom {
        self.shared.layout_memory.room()
    }

    pub(crate) fn locations(&self) -> MutexGuard<'_, LocationCache<SharedBlocks>> {
        lock(&self.shared.locations)
    }
}

/// Nothing is left half done while one of these is held.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;

    /// As in a worker of a data loader that was forked: nothing is sent on what belongs to the parent.
    #[tokio::test]
    async fn a_forked_process_is_told_so() {
        let url = Url::parse("hdfs://127.0.0.1:1/").unwrap();
        let store = Store::in_scope(&url, Options::default(), Scope::of_process(std::process::id() + 1, None));
        let client = store.client("me");
        let forked = Some(ErrorKind::Forked);
        assert_eq!(client.status("/f").await.err().map(|error| error.kind()), forked);
        assert_eq!(client.open("/f").await.err().map(|error| error.kind()), forked);
        assert_eq!(client.admin().members().await.err().map(|error| error.kind()), forked);
        store.close().await;
        assert_eq!(client.status("/f").await.err().map(|error| error.kind()), forked);
    }
}
