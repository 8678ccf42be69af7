//! The session with a metadata server: register, tell what is here, then a heartbeat about each second.
//!
//! ```text
//!        ┌────────────── unknown, or no answer ──────────────┐
//!        ▼                                                   │
//!   register ──▶ catalogue, page by page ──▶ heartbeats ─────┘     a catalogue again every ten minutes
//! ```
//!
//! Where there are several servers the node has a session with each, so that all know that it lives. What is here is
//! told to the one that leads, all of it to one that leads anew; orders count from the leader alone, and from none that
//! another one has followed.
//!
//! The node serves reads and writes all the while, whether the metadata server is there or not.

use crate::changes::Batch;
use crate::copier::Report;
use crate::node::{Node, report};
use crate::servers::Known;
use container::ReplicaInfo;
use disks::DiskReport;
use rpc::CallError;
use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::watch;
use types::{BlockId, Generation, ReplicaState};
use wire::node::{
    CATALOGUE, CatalogueRequest, DISK_COUNT_MAX, Deletion, Disk, HEARTBEAT, HeartbeatRequest, NODE_IN_USE,
    NODE_SUPERSEDED, Orders, PAGE_COUNT_MAX, REGISTER, RegisterRequest, RegisterResponse, Replica, Sender, Usage,
};

/// Between heartbeats when nothing happens.
const HEARTBEAT_EACH: Duration = Duration::from_secs(1);
/// What was put is told after so long, together with what is put meanwhile.
const BATCH_WAIT: Duration = Duration::from_millis(50);
const CATALOGUE_EACH: Duration = Duration::from_secs(600);
/// What changed is not told for so long while a disk does not say what it has.
const HELD_BACK_MAX: Duration = Duration::from_secs(20);
/// Replicas in a page: small enough that a page is looked up and sent in a blink.
const PAGE_COUNT: usize = 2000;
/// After a failure: doubling from the first to the second.
const RETRY_FIRST: Duration = Duration::from_millis(100);
const RETRY_LAST: Duration = Duration::from_secs(5);
/// One that comes back may lead within two seconds, and should know by then who lives.
const RETRY_LAST_OF_SEVERAL: Duration = Duration::from_millis(800);

const _: () = assert!(PAGE_COUNT <= PAGE_COUNT_MAX);
const _: () = assert!(disks::DISK_COUNT_MAX <= DISK_COUNT_MAX);

pub(crate) struct Session {
    pub(crate) node: Arc<Node>,
    pub(crate) metad: rpc::Client,
    pub(crate) xfer_addr: SocketAddr,
    pub(crate) ipc_addr: SocketAddr,
    /// Shared by the sessions with all servers.
    pub(crate) leader: Arc<Leader>,
    /// Which of them this is.
    pub(crate) number: usize,
    /// For data transfer, as it was registered with this server.
    pub(crate) registered_addr: Mutex<String>,
}

/// Which of the servers leads, as far as the sessions with them know.
pub(crate) struct Leader {
    /// Sessions with numbers below are those with servers that the configuration names.
    configured_count: usize,
    /// How many servers there are, as far as is known.
    server_count: AtomicUsize,
    /// The session with the one that leads and knows this node.
    number: Mutex<Option<usize>>,
    /// The highest that any server named.
    term: AtomicU64,
    /// True while there is such a session.
    registered: watch::Sender<bool>,
    /// What they said of each other.
    known: watch::Sender<Known>,
    /// Sessions with servers of another block pool, until they are of this node's.
    foreign: Mutex<BTreeSet<usize>>,
    /// Why this node can belong to no server it knows.
    failed: watch::Sender<Option<String>>,
}

/// Between two errors about a server of another block pool.
const COMPLAIN_EACH: Duration = Duration::from_secs(60);

/// Where another server may lead, one that does not answer is not waited for as long.
const CALL_WAIT_OF_SEVERAL: Duration = Duration::from_secs(15);

/// `answers`: of all servers.
pub(crate) fn call_options(server_count: usize, answers: rpc::AnswerRoom) -> rpc::ClientOptions {
    let options = rpc::ClientOptions::of_nodes(answers);
    if server_count > 1 { rpc::ClientOptions { call_time_max: CALL_WAIT_OF_SEVERAL, ..options } } else { options }
}

impl Leader {
    pub(crate) fn new(configured_count: usize, registered: watch::Sender<bool>) -> Self {
        let (server_count, term) = (AtomicUsize::new(configured_count), AtomicU64::new(0));
        let (known, failed) = (watch::Sender::default(), watch::Sender::default());
        let (number, foreign) = (Mutex::default(), Mutex::default());
        Self { configured_count, server_count, number, term, registered, known, foreign, failed }
    }

    pub(crate) fn server_count(&self) -> usize {
        self.server_count.load(Ordering::Relaxed)
    }

    /// Becomes the reason when this node turns out to be another cluster's.
    pub(crate) fn failed(&self) -> watch::Receiver<Option<String>> {
        self.failed.subscribe()
    }

    /// What the servers said of themselves and each other, as it changes.
    pub(crate) fn known(&self) -> watch::Receiver<Known> {
        self.known.subscribe()
    }

    fn note_servers(&self, number: usize, orders: &Orders) {
        let is_news = self.known.send_if_modified(|known| known.take(number, orders));
        if is_news {
            let count = self.known.borrow().member_count();
            self.server_count.fetch_max(count, Ordering::Relaxed);
        }
    }

    /// Notes whether the server of session `number` is of another block pool. True if it was so before.
    fn note_foreign(&self, number: usize, is_foreign: bool) -> bool {
        let mut foreign = self.foreign.lock().unwrap_or_else(PoisonError::into_inner);
        if is_foreign { !foreign.insert(number) } else { foreign.remove(&number) }
    }

    /// True if no server is left that may be of this node's block pool: all that the configuration names are of
    /// another, and there is no session with one that joined them. A server among several may have lost its data and
    /// begun a store anew.
    fn is_all_foreign(&self) -> bool {
        let foreign = self.foreign.lock().unwrap_or_else(PoisonError::into_inner);
        (0..self.configured_count).all(|number| foreign.contains(&number))
            && self.known.borrow().sessions().all(|number| foreign.contains(&number))
    }

    /// A session ended for good.
    pub(crate) fn ended(&self, number: usize, forget: impl FnOnce(&mut Known)) {
        self.note(number, false);
        self.note_foreign(number, false);
        self.known.send_if_modified(|known| {
            forget(known);
            false
        });
    }

    /// Notes whether the server of session `number` leads. True if it was so before.
    fn note(&self, number: usize, leads: bool) -> bool {
        let mut known = self.number.lock().unwrap_or_else(PoisonError::into_inner);
        let before = *known == Some(number);
        if leads {
            *known = Some(number);
        } else if before {
            *known = None;
        }
        self.registered.send_replace(known.is_some());
        before
    }

    /// False for a server that does not know that another one was elected after it. One that is alone is always
    /// believed: its log may have been put back from a copy.
    fn is_believed(&self, term: u64) -> bool {
        self.server_count() == 1 || self.term.fetch_max(term, Ordering::Relaxed) <= term
    }
}

/// What the server of a session is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    Leads { term: u64 },
    Standby,
}

impl Standing {
    fn of(standby: bool, term: u64) -> Self {
        if standby { Self::Standby } else { Self::Leads { term } }
    }
}

#[derive(Debug, thiserror::Error)]
enum Broken {
    #[error(transparent)]
    Call(CallError),
    #[error("the metadata server does not know this node")]
    Unknown,
    #[error("a disk of this node has failed")]
    DiskFailed,
    /// Another process with this node's id is alive.
    #[error("{0}")]
    InUse(String),
    /// Another process has taken this one's place.
    #[error("{0}")]
    Superseded(String),
    #[error(transparent)]
    Volume(#[from] container::VolumeError),
    #[error(transparent)]
    Replica(#[from] container::ReplicaError),
}

impl From<CallError> for Broken {
    fn from(error: CallError) -> Self {
        match error {
            CallError::Remote { class, message, .. } if class == NODE_IN_USE => Self::InUse(message),
            CallError::Remote { class, message, .. } if class == NODE_SUPERSEDED => Self::Superseded(message),
            error => Self::Call(error),
        }
    }
}

impl Session {
    fn in_use_wait(&self) -> Duration {
        Duration::from_millis(self.node.config.limits.in_use_ms)
    }

    fn sender(&self) -> Option<Sender> {
        let addr = self.registered_addr.lock().unwrap_or_else(PoisonError::into_inner).clone();
        Some(Sender { incarnation: Some(self.node.incarnation), addr })
    }

    /// Runs until the task is dropped.
    pub(crate) async fn run(self) {
        let mut retry = RETRY_FIRST;
        let mut refused_since = None;
        let mut complained = Duration::ZERO;
        loop {
            let Err(broken) = self.serve(&mut retry).await else { continue };
            let known = self.leader.note(self.number, false);
            let since = match &broken {
                Broken::InUse(_) => *refused_since.get_or_insert(self.node.now()),
                _ => {
                    refused_since = None;
                    self.node.now()
                }
            };
            match broken {
                Broken::DiskFailed => {
                    tracing::info!("registering again, so that the replicas of a failed disk are replaced")
                }
                Broken::Unknown => tracing::info!("the metadata server does not know this node; registering again"),
                Broken::Call(CallError::Connect(error)) if !known => {
                    tracing::debug!(%error, "the metadata server cannot be reached");
                }
                // Before the first election there is nothing to register with.
                Broken::Call(CallError::Remote { class, .. }) if class == hdfs::exception::STANDBY => {}
                Broken::Volume(foreign @ container::VolumeError::ForeignPool { .. }) => {
                    let was_foreign = self.leader.note_foreign(self.number, true);
                    if !self.leader.is_all_foreign() {
                        let now = self.node.now();
                        if !was_foreign || now >= complained + COMPLAIN_EACH {
                            complained = now;
                            tracing::error!(
                                %foreign,
                                metad = self.metad.addr(),
                                "a metadata server has another store than this datanode: if it should be in the group of the \
                                 others, its data was lost. Stop it, and see its log. This node goes on with the others"
                            );
                        }
                        tokio::time::sleep(RETRY_LAST).await;
                        continue;
                    }
                    tracing::error!(%foreign, metad = self.metad.addr(), "this datanode is another cluster's");
                    self.leader.failed.send_replace(Some(foreign.to_string()));
                }
                Broken::InUse(reason) if self.node.now() < since + self.in_use_wait() => {
                    tracing::warn!(
                        reason = rpc::log_text(&reason),
                        metad = self.metad.addr(),
                        "registration refused; retrying"
                    );
                }
                Broken::InUse(reason) | Broken::Superseded(reason) => {
                    tracing::error!(
                        reason = rpc::log_text(&reason),
                        metad = self.metad.addr(),
                        "this process cannot be the datanode"
                    );
                    self.leader.failed.send_replace(Some(reason));
                }
                broken => tracing::warn!(reason = rpc::log_text(&broken), "the session with the metadata server broke"),
            }
            tokio::time::sleep(retry).await;
            retry = (retry * 2).min(if self.leader.server_count() > 1 { RETRY_LAST_OF_SEVERAL } else { RETRY_LAST });
        }
    }

    /// From registration to the first failure.
    async fn serve(&self, retry: &mut Duration) -> Result<(), Broken> {
        let out = self.node.disks.out();
        let mut standing = self.register().await?;
        let mut told = self.greet(&mut standing).await?;
        *retry = RETRY_FIRST;
        loop {
            let now = self.heartbeat(standing, true).await?;
            if self.node.disks.out() != out {
                // Whoever leads compares what a node that registers has with what it should have.
                return Err(Broken::DiskFailed);
            }
            if now != standing {
                standing = now;
                told = self.greet(&mut standing).await?;
            }
            let leads = standing != Standing::Standby;
            if leads && (self.node.changes.overflowed() || self.node.now() >= told + CATALOGUE_EACH) {
                let now = self.catalogue(standing).await?;
                told = self.node.now();
                if now != standing {
                    standing = now;
                    told = self.greet(&mut standing).await?;
                }
            }
            tokio::select! {
                () = tokio::time::sleep(HEARTBEAT_EACH) => {}
                () = self.node.changes.came.notified(), if leads => tokio::time::sleep(BATCH_WAIT).await,
            }
        }
    }

    /// The server knows the node. One that leads anew hears all that is here; tells when it did.
    async fn greet(&self, standing: &mut Standing) -> Result<Duration, Broken> {
        loop {
            let leads = *standing != Standing::Standby;
            // Before the catalogue: a large node must not wait minutes until it may be used.
            self.leader.note(self.number, leads);
            if leads {
                self.node.copier.report_bad_again(self.node.now());
            }
            let now = if leads { self.catalogue(*standing).await? } else { *standing };
            if now == std::mem::replace(standing, now) {
                return Ok(self.node.now());
            }
        }
    }

    async fn register(&self) -> Result<Standing, Broken> {
        let node = self.node.disks.node_id();
        let config = &self.node.config;
        let ip = match config.ip {
            Some(ip) => ip,
            None => own_ip(self.xfer_addr.ip(), self.metad.addr().to_owned()).await,
        };
        let request = RegisterRequest {
            node: node.to_string(),
            ip: ip.to_string(),
            host: config.host.clone().unwrap_or_else(|| own_host(ip)),
            xfer_port: self.xfer_addr.port().into(),
            ipc_port: self.ipc_addr.port().into(),
            info_port: config.info_port.into(),
            storage: self.node.disks.storage_id().to_string(),
            rack: config.rack.clone(),
            usage: Some(self.usage()),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            pool: self.node.pool().unwrap_or_default(),
            incarnation: Some(self.node.incarnation),
            // The address that was found out is the one that the request comes from, or the way back is another.
            advertised: config.ip.is_some() || !self.xfer_addr.ip().is_unspecified(),
        };
        let addr = SocketAddr::new(ip.to_canonical(), self.xfer_addr.port()).to_string();
        *self.registered_addr.lock().unwrap_or_else(PoisonError::into_inner) = addr;
        let response: RegisterResponse = self.metad.call(REGISTER, &request).await?;
        let RegisterResponse { block_pool, standby, term, new } = response;
        // Only a new disk is asked: nobody waits for one that has joined.
        if self.node.pool().as_ref() != Some(&block_pool) {
            let disks = self.node.disks.clone();
            io::task::blocking(move || disks.join_pool(&block_pool)).await?;
        }
        self.leader.note_foreign(self.number, false);
        tracing::info!(%node, metad = self.metad.addr(), standby, "registered with the metadata server");
        let standing = Standing::of(standby, term);
        // Whoever waits for this node may use it from then on.
        if new { self.heartbeat(standing, false).await } else { Ok(standing) }
    }

    /// Tells that the node lives, and to who leads what changed, if that is to be told now; answers what the server is
    /// now.
    async fn heartbeat(&self, standing: Standing, tells_changes: bool) -> Result<Standing, Broken> {
        let beat = self.node.heartbeat_progress.begin();
        let usage = Some(self.usage());
        if standing == Standing::Standby {
            let node = self.node.disks.node_id().to_string();
            let transfer_count = self.node.transfer_count() as u32;
            let sender = self.sender();
            let request = HeartbeatRequest { node, usage, transfer_count, sender, ..HeartbeatRequest::default() };
            let orders = self.orders(HEARTBEAT, &request).await?;
            let standing = Standing::of(orders.standby, orders.term);
            self.obey(orders);
            return Ok(standing);
        }
        self.node.copier.tend(&self.node);
        let left_for = Duration::from_millis(self.node.config.limits.left_open_ms);
        let mut batch = if tells_changes {
            self.node.changes.take(self.node.now().checked_sub(left_for))
        } else {
            Batch::default()
        };
        let stale = self.left_open(&mut batch).await;
        let Batch { put, deleted, left: _ } = batch.clone();
        let node = self.node.disks.node_id().to_string();
        let transfer_count = (self.node.transfer_count() + self.node.copier.running_count()) as u32;
        let Report { copying, failures: copy_failures, bad } = self.node.copier.report(self.node.now());
        let deletions_waiting = u32::try_from(self.node.deleter.len()).unwrap_or(u32::MAX);
        let request = HeartbeatRequest {
            node,
            usage,
            transfer_count,
            put,
            deleted,
            stale,
            copying,
            copy_failures,
            bad,
            deletions_waiting,
            scrub: self.node.scrubber.report(),
            disks: self.node.disks.reports().into_iter().map(told).collect(),
            disk_balance: self.node.disk_balance.report(),
            sender: self.sender(),
        };
        let told_bad = request.bad.clone();
        match self.orders(HEARTBEAT, &request).await {
            Ok(orders) => {
                let standing = Standing::of(orders.standby, orders.term);
                if standing == Standing::Standby {
                    self.node.changes.give_back(batch);
                } else {
                    self.node.heartbeat_progress.answered(beat);
                    self.node.copier.acknowledge(&told_bad);
                }
                self.obey(orders);
                Ok(standing)
            }
            Err(broken) => {
                self.node.changes.give_back(batch);
                Err(broken)
            }
        }
    }

    /// Those of the batch that were left open and are so still. If a disk does not say so at once, that is told later.
    async fn left_open(&self, batch: &mut Batch) -> Vec<Replica> {
        if batch.left.is_empty() {
            return Vec::new();
        }
        let (at, left) = (Arc::clone(&self.node), batch.left.clone());
        let look = self.node.disks.for_all(move |_| left.into_iter().filter_map(|block| at.left_open(block)).collect());
        match tokio::time::timeout(HEARTBEAT_EACH, look).await {
            Ok(Ok(stale)) => stale,
            Ok(Err(_)) | Err(_) => {
                let left = std::mem::take(&mut batch.left);
                self.node.changes.give_back(Batch { left, ..Batch::default() });
                Vec::new()
            }
        }
    }

    /// A page of what is here, from this block on. Heartbeats go on while a disk does not answer: what changed is told
    /// behind a page that was looked up before it changed, or else the page is looked up again. `Err` inside: the
    /// server is something else now.
    async fn page(&self, from: BlockId, standing: Standing) -> Result<Result<Vec<ReplicaInfo>, Standing>, Broken> {
        let out = self.node.disks.out();
        loop {
            let lookup = self.node.disks.for_all(move |disks| disks.replicas(from, PAGE_COUNT));
            let mut lookup = std::pin::pin!(lookup);
            let (began, mut told) = (self.node.now(), false);
            let found = loop {
                if let Ok(found) = tokio::time::timeout(HEARTBEAT_EACH, &mut lookup).await {
                    break found;
                }
                let tells = self.node.now() >= began + HELD_BACK_MAX;
                told |= tells;
                let now = self.heartbeat(standing, tells).await?;
                if self.node.disks.out() != out {
                    return Err(Broken::DiskFailed);
                }
                if now != standing {
                    return Ok(Err(now));
                }
            };
            match found {
                Ok(infos) if !told => return Ok(Ok(infos?)),
                Ok(_outdated) => {}
                Err(_hangs) => tokio::time::sleep(HEARTBEAT_EACH).await,
            }
        }
    }

    /// Tells all that is here, in pages that together cover all block ids.
    /// Answers what the server is then: if it is something else than it was, not all has been told.
    async fn catalogue(&self, standing: Standing) -> Result<Standing, Broken> {
        let mut from = 0;
        loop {
            let infos = match self.page(BlockId(from), standing).await? {
                Ok(infos) => infos,
                Err(now) => return Ok(now),
            };
            let through = match infos.last() {
                Some(last) if infos.len() == PAGE_COUNT => last.identity.block.0,
                _ => u64::MAX,
            };
            let busy = |block| self.node.is_writing(block);
            let (writing, told): (Vec<_>, Vec<_>) = infos.iter().partition(|info| {
                info.state != ReplicaState::Finalized && (info.has_writer || busy(info.identity.block))
            });
            let request = CatalogueRequest {
                node: self.node.disks.node_id().to_string(),
                from,
                through,
                replicas: told.into_iter().map(report).collect(),
                writing: writing.into_iter().map(|info| info.identity.block.0).collect(),
                sender: self.sender(),
            };
            let orders = self.orders(CATALOGUE, &request).await?;
            self.obey(orders);
            match through.checked_add(1) {
                Some(next) => from = next,
                None => return Ok(standing),
            }
        }
    }

    async fn orders(&self, method: &str, request: &impl prost::Message) -> Result<Orders, Broken> {
        let orders: Orders = self.metad.call(method, request).await?;
        if !orders.known {
            // It may be of another store: whom it names counts once the node has registered there.
            return Err(Broken::Unknown);
        }
        self.leader.note_servers(self.number, &orders);
        Ok(orders)
    }

    fn obey(&self, orders: Orders) {
        if orders.standby || !self.leader.is_believed(orders.term) {
            return;
        }
        for Deletion { block, generation_at_most } in orders.delete {
            self.node.deleter.order(&self.node.disks, BlockId(block), Generation(generation_at_most));
        }
        if !orders.copy.is_empty() {
            self.node.copier.order(&self.node, orders.copy);
        }
        if orders.tell_all {
            self.node.changes.overflow();
            self.node.copier.report_bad_again(self.node.now());
        }
        if let Some(scrub) = orders.scrub {
            self.node.scrubber.order(&self.node, scrub);
        }
        if let Some(balance) = orders.disk_balance {
            self.node.disk_balance.order(&self.node, balance);
        }
        self.node.owners.order(orders.owners);
    }

    fn usage(&self) -> Usage {
        let disks::Usage { capacity_len, used_len, free_len } = self.node.disks.usage();
        Usage { capacity_len, used_len, free_len }
    }
}

/// A disk as the metadata server is told of it.
fn told(disk: DiskReport) -> Disk {
    Disk {
        volume: disk.volume,
        dir: disk.dir,
        failure: disk.failure,
        capacity_len: disk.capacity_len,
        used_len: disk.used_len,
        free_len: disk.free_len,
        replica_count: disk.replica_count,
        stream_count: disk.stream_count,
        unread_ms: disk.unread_ms,
    }
}

/// The address under which this machine is seen by the metadata server, if the transfer port is open on all.
async fn own_ip(bound: IpAddr, metad: String) -> IpAddr {
    if !bound.is_unspecified() {
        return bound;
    }
    // Connecting a datagram socket sends nothing; it only picks the way. Finding the name's address may take a while.
    let any: SocketAddr = if bound.is_ipv4() { ([0, 0, 0, 0], 0).into() } else { ([0u16; 8], 0).into() };
    let seen = io::task::blocking(move || {
        let socket = std::net::UdpSocket::bind(any)?;
        socket.connect(metad)?;
        socket.local_addr()
    });
    seen.await.map_or(bound, |addr| addr.ip())
}

/// The machine's name; a node on the loopback alone is called what everybody can resolve.
fn own_host(ip: IpAddr) -> String {
    if ip.is_loopback() {
        return "localhost".to_owned();
    }
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    if name.trim().is_empty() { ip.to_string() } else { name.trim().to_owned() }
}
