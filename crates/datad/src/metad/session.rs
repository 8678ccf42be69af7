//! The session with a metadata server: register, tell what is here, then a heartbeat about each second. What comes next
//! is decided by [`datanode::Session`].
//!
//! The node serves reads and writes all the while, whether the metadata server is there or not.

use super::leader::Leader;
use super::registration::Registration;
use crate::admission::Admission;
use crate::maintenance::Maintenance;
use crate::replicas::{Replicas, held};
use container::ReplicaInfo;
use datanode::catalogue::{self, HELD_BACK_MAX, PAGE_COUNT};
use datanode::session::{BATCH_WAIT, CALL_WAIT_OF_SEVERAL, CATALOGUE_EACH, HEARTBEAT_EACH};
use datanode::{Attempts, Held, Standing, Step, Told};
use rpc::CallError;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use types::{BlockId, DiskReport};
use wire::node::{
    CATALOGUE, CatalogueRequest, DISK_COUNT_MAX, Deletion, Disk, HEARTBEAT, HeartbeatRequest, NODE_IN_USE,
    NODE_SUPERSEDED, Orders, REGISTER, RegisterResponse, Sender, Usage,
};

const _: () = assert!(disks::DISK_COUNT_MAX <= DISK_COUNT_MAX);

pub(crate) struct Session {
    pub(crate) registration: Arc<Registration>,
    pub(crate) replicas: Arc<Replicas>,
    pub(crate) maintenance: Arc<Maintenance>,
    /// For the number of operations under way.
    pub(crate) admission: Arc<Admission>,
    pub(crate) metad: rpc::Client,
    /// Shared by the sessions with all servers.
    pub(crate) leader: Arc<Leader>,
    /// Which of them this is.
    pub(crate) number: usize,
    /// For data transfer, as it was registered with this server.
    pub(crate) registered_addr: Mutex<String>,
}

/// Until a server of another block pool is tried again: its data may be put back.
const FOREIGN_RETRY: Duration = Duration::from_secs(5);
/// Between two errors about a server of another block pool.
const COMPLAIN_EACH: Duration = Duration::from_secs(60);

/// `answers`: of all servers.
pub(crate) fn call_options(server_count: usize, answers: rpc::AnswerRoom) -> rpc::ClientOptions {
    let options = rpc::ClientOptions::of_nodes(answers);
    if server_count > 1 { rpc::ClientOptions { call_time_max: CALL_WAIT_OF_SEVERAL, ..options } } else { options }
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
        Duration::from_millis(self.registration.config.limits.in_use_ms)
    }

    fn sender(&self) -> Option<Sender> {
        let addr = self.registered_addr.lock().unwrap_or_else(PoisonError::into_inner).clone();
        Some(Sender { incarnation: Some(self.registration.incarnation), addr })
    }

    /// Runs until the task is dropped.
    pub(crate) async fn run(self) {
        let mut attempts = Attempts::default();
        let mut complained = Duration::ZERO;
        loop {
            let Err(broken) = self.serve(&mut attempts).await else { continue };
            let known = self.leader.lost(self.number);
            if !matches!(broken, Broken::InUse(_)) {
                attempts.failed();
            }
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
                    let (was_foreign, is_all_foreign) = self
                        .replicas
                        .node
                        .with(|node| (node.servers.note_foreign(self.number, true), node.servers.is_all_foreign()));
                    if !is_all_foreign {
                        let now = self.replicas.now();
                        if !was_foreign || now >= complained + COMPLAIN_EACH {
                            complained = now;
                            tracing::error!(
                                %foreign,
                                metad = self.metad.addr(),
                                "a metadata server has another store than this datanode: if it should be in the group of the \
                                 others, its data was lost. Stop it, and see its log. This node goes on with the others"
                            );
                        }
                        tokio::time::sleep(FOREIGN_RETRY).await;
                        continue;
                    }
                    tracing::error!(%foreign, metad = self.metad.addr(), "this datanode is another cluster's");
                    self.leader.fail(foreign.to_string());
                }
                Broken::InUse(reason) if attempts.may_try_again(self.replicas.now(), self.in_use_wait()) => {
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
                    self.leader.fail(reason);
                }
                broken => tracing::warn!(reason = rpc::log_text(&broken), "the session with the metadata server broke"),
            }
            tokio::time::sleep(attempts.wait(self.leader.server_count())).await;
        }
    }

    /// From registration to the first failure.
    async fn serve(&self, attempts: &mut Attempts) -> Result<(), Broken> {
        let failed_disks = self.replicas.disks.failed_disks();
        let mut session = datanode::Session::new(self.number, self.register().await?, CATALOGUE_EACH);
        self.tell_all_due(&mut session).await?;
        attempts.succeeded();
        loop {
            let now = self.heartbeat(session.standing(), true).await?;
            if self.replicas.disks.failed_disks() != failed_disks {
                // Whoever leads compares what a node that registers has with what it should have.
                return Err(Broken::DiskFailed);
            }
            session.is_still(now);
            let leads = self.tell_all_due(&mut session).await?;
            tokio::select! {
                () = tokio::time::sleep(HEARTBEAT_EACH) => {}
                () = self.replicas.node.report_due(), if leads => tokio::time::sleep(BATCH_WAIT).await,
            }
        }
    }

    /// Tells all that is here, if that is due. Answers whether the server leads.
    async fn tell_all_due(&self, session: &mut datanode::Session) -> Result<bool, Broken> {
        loop {
            match self.replicas.node.with(|node| node.next(session, self.replicas.now())) {
                Step::Greet { .. } => self.leader.note_registered(),
                Step::Catalogue => {
                    if self.catalogue(session).await? {
                        session.told_all(self.replicas.now());
                    }
                }
                Step::Rest { leads } => return Ok(leads),
            }
        }
    }

    async fn register(&self) -> Result<Standing, Broken> {
        let node = self.replicas.disks.node_id();
        let ip = self.registration.ip(self.metad.addr()).await;
        let request = self.registration.request(ip, &self.replicas.disks, self.usage());
        let addr = SocketAddr::new(ip.to_canonical(), self.registration.xfer_addr.port()).to_string();
        *self.registered_addr.lock().unwrap_or_else(PoisonError::into_inner) = addr;
        let response: RegisterResponse = self.metad.call(REGISTER, &request).await?;
        let RegisterResponse { block_pool, standby, term, new } = response;
        // Only a new disk is asked: nobody waits for one that has joined.
        if self.replicas.disks.pool().as_ref() != Some(&block_pool) {
            let disks = self.replicas.disks.clone();
            io::task::blocking(move || disks.join_pool(&block_pool)).await?;
        }
        self.replicas.node.with(|node| node.servers.note_foreign(self.number, false));
        tracing::info!(%node, metad = self.metad.addr(), standby, "registered with the metadata server");
        let standing = Standing::of(standby, term);
        // Whoever waits for this node may use it from then on.
        if new { self.heartbeat(standing, false).await } else { Ok(standing) }
    }

    /// Tells that the node lives, and to who leads what changed, if that is to be told now; answers what the server is
    /// now.
    async fn heartbeat(&self, standing: Standing, sends_changes: bool) -> Result<Standing, Broken> {
        let (replicas, node) = (&self.replicas, &self.replicas.node);
        let beat = node.heartbeats().begin();
        let usage = Some(self.usage());
        if !standing.leads() {
            let node = self.replicas.disks.node_id().to_string();
            let transfer_count = self.admission.transfer_count() as u32;
            let sender = self.sender();
            let request = HeartbeatRequest { node, usage, transfer_count, sender, ..HeartbeatRequest::default() };
            let orders = self.orders(HEARTBEAT, &request).await?;
            let standing = Standing::of_answer(&orders);
            self.obey(orders);
            return Ok(standing);
        }
        self.maintenance.copier.tend();
        let left_for = Duration::from_millis(self.registration.config.limits.left_open_ms);
        let mut told = node.with(|node| node.begin_heartbeat(replicas.now(), sends_changes, left_for));
        let left_open = self.left_open(&mut told).await;
        let (changes, copy_count) =
            node.with(|node| (node.heartbeat(replicas.now(), &mut told, &left_open), node.copies.running_count()));
        let request = HeartbeatRequest {
            node: replicas.disks.node_id().to_string(),
            usage,
            transfer_count: (self.admission.transfer_count() + copy_count) as u32,
            scrub: self.maintenance.scrubber.report(),
            disks: replicas.disks.reports().into_iter().map(disk_message).collect(),
            disk_balance: self.maintenance.disk_balance.report(),
            sender: self.sender(),
            ..changes
        };
        match self.orders(HEARTBEAT, &request).await {
            Ok(orders) => {
                let standing = Standing::of_answer(&orders);
                let leads = standing.leads();
                node.with(|node| node.answered(told, leads));
                if leads {
                    node.heartbeats().answered(beat);
                }
                self.obey(orders);
                Ok(standing)
            }
            Err(broken) => {
                node.with(|node| node.unanswered(told));
                Err(broken)
            }
        }
    }

    /// Those that were left open and are so still. If a disk does not say so at once, that is told later.
    async fn left_open(&self, told: &mut Told) -> Vec<Held> {
        if told.left().is_empty() {
            return Vec::new();
        }
        let (at, left) = (Arc::clone(&self.replicas), told.left().to_vec());
        let look =
            self.replicas.disks.for_all(move |_| left.into_iter().filter_map(|block| at.left_open(block)).collect());
        match tokio::time::timeout(HEARTBEAT_EACH, look).await {
            Ok(Ok(left_open)) => left_open,
            Ok(Err(_)) | Err(_) => {
                self.replicas.node.with(|node| node.did_not_look(told));
                Vec::new()
            }
        }
    }

    /// A page of what is here, from this block on. Heartbeats go on while a disk does not answer: what changed is told
    /// behind a page that was looked up before it changed, or else the page is looked up again. `None`: the server is
    /// something else now.
    async fn page(&self, from: BlockId, session: &mut datanode::Session) -> Result<Option<Vec<ReplicaInfo>>, Broken> {
        let failed_disks = self.replicas.disks.failed_disks();
        loop {
            let lookup = self.replicas.disks.for_all(move |disks| disks.replicas(from, PAGE_COUNT));
            let mut lookup = std::pin::pin!(lookup);
            let (began, mut sent_changes) = (self.replicas.now(), false);
            let found = loop {
                if let Ok(found) = tokio::time::timeout(HEARTBEAT_EACH, &mut lookup).await {
                    break found;
                }
                let sends_changes = self.replicas.now() >= began + HELD_BACK_MAX;
                sent_changes |= sends_changes;
                let now = self.heartbeat(session.standing(), sends_changes).await?;
                if self.replicas.disks.failed_disks() != failed_disks {
                    return Err(Broken::DiskFailed);
                }
                if !session.is_still(now) {
                    return Ok(None);
                }
            };
            match found {
                Ok(infos) if !sent_changes => return Ok(Some(infos?)),
                Ok(_outdated) => {}
                Err(_hangs) => tokio::time::sleep(HEARTBEAT_EACH).await,
            }
        }
    }

    /// Reports all replicas, in pages. False: the server is something else than it was, and not all has been reported.
    async fn catalogue(&self, session: &mut datanode::Session) -> Result<bool, Broken> {
        let mut from = BlockId(0);
        loop {
            let Some(infos) = self.page(from, session).await? else { return Ok(false) };
            let held: Vec<Held> = infos.iter().map(held).collect();
            let page = catalogue::page(from, &held, PAGE_COUNT, |block| self.replicas.is_writing(block));
            let node = self.replicas.disks.node_id().to_string();
            let request = CatalogueRequest { node, sender: self.sender(), ..page };
            let orders = self.orders(CATALOGUE, &request).await?;
            self.obey(orders);
            match request.through.checked_add(1) {
                Some(next) => from = BlockId(next),
                None => return Ok(true),
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
        // Replicas are deleted beside the heartbeats, from each disk that may have them.
        let places = |delete: &Deletion| {
            let disks = self.replicas.disks.to_delete_from(BlockId(delete.block));
            let delete = *delete;
            disks.into_iter().map(move |disk| (disk, delete))
        };
        let places: Vec<(usize, Deletion)> = orders.delete.iter().flat_map(places).collect();
        let rest = self.replicas.node.with(|node| node.obey(self.replicas.now(), orders, places));
        self.maintenance.order(rest);
    }

    fn usage(&self) -> Usage {
        self.replicas.disks.usage().into()
    }
}

/// A disk as it is reported to the metadata server.
fn disk_message(disk: DiskReport) -> Disk {
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
