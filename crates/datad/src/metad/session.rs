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

use super::broken::Broken;
use super::leader::Leader;
use super::registration::Registration;
use super::standing::Standing;
use crate::admission::Admission;
use crate::maintenance::Maintenance;
use crate::replicas::Replicas;
use rpc::CallError;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use types::{BlockId, Generation};
use wire::node::{Deletion, Orders, REGISTER, RegisterResponse, Sender, Usage};

/// Between heartbeats when nothing happens.
pub(super) const HEARTBEAT_EACH: Duration = Duration::from_secs(1);
/// What was put is told after so long, together with what is put meanwhile.
const BATCH_WAIT: Duration = Duration::from_millis(50);
const CATALOGUE_EACH: Duration = Duration::from_secs(600);
/// After a failure: doubling from the first to the second.
const RETRY_FIRST: Duration = Duration::from_millis(100);
const RETRY_LAST: Duration = Duration::from_secs(5);
/// One that comes back may lead within two seconds, and should know by then who lives.
const RETRY_LAST_OF_SEVERAL: Duration = Duration::from_millis(800);

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

/// Between two errors about a server of another block pool.
const COMPLAIN_EACH: Duration = Duration::from_secs(60);

/// Where another server may lead, one that does not answer is not waited for as long.
const CALL_WAIT_OF_SEVERAL: Duration = Duration::from_secs(15);

/// `answers`: of all servers.
pub(crate) fn call_options(server_count: usize, answers: rpc::AnswerRoom) -> rpc::ClientOptions {
    let options = rpc::ClientOptions::of_nodes(answers);
    if server_count > 1 { rpc::ClientOptions { call_time_max: CALL_WAIT_OF_SEVERAL, ..options } } else { options }
}

impl Session {
    fn in_use_wait(&self) -> Duration {
        Duration::from_millis(self.registration.config.limits.in_use_ms)
    }

    pub(super) fn sender(&self) -> Option<Sender> {
        let addr = self.registered_addr.lock().unwrap_or_else(PoisonError::into_inner).clone();
        Some(Sender { incarnation: Some(self.registration.incarnation), addr })
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
                Broken::InUse(_) => *refused_since.get_or_insert(self.replicas.now()),
                _ => {
                    refused_since = None;
                    self.replicas.now()
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
                        tokio::time::sleep(RETRY_LAST).await;
                        continue;
                    }
                    tracing::error!(%foreign, metad = self.metad.addr(), "this datanode is another cluster's");
                    self.leader.fail(foreign.to_string());
                }
                Broken::InUse(reason) if self.replicas.now() < since + self.in_use_wait() => {
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
            tokio::time::sleep(retry).await;
            retry = (retry * 2).min(if self.leader.server_count() > 1 { RETRY_LAST_OF_SEVERAL } else { RETRY_LAST });
        }
    }

    /// From registration to the first failure.
    async fn serve(&self, retry: &mut Duration) -> Result<(), Broken> {
        let failed_disks = self.replicas.disks.failed_disks();
        let mut standing = self.register().await?;
        let mut catalogue_sent_at = self.greet(&mut standing).await?;
        *retry = RETRY_FIRST;
        loop {
            let now = self.heartbeat(standing, true).await?;
            if self.replicas.disks.failed_disks() != failed_disks {
                // Whoever leads compares what a node that registers has with what it should have.
                return Err(Broken::DiskFailed);
            }
            if now != standing {
                standing = now;
                catalogue_sent_at = self.greet(&mut standing).await?;
            }
            let leads = standing != Standing::Standby;
            if leads
                && (self.replicas.changes.overflowed() || self.replicas.now() >= catalogue_sent_at + CATALOGUE_EACH)
            {
                let now = self.catalogue(standing).await?;
                catalogue_sent_at = self.replicas.now();
                if now != standing {
                    standing = now;
                    catalogue_sent_at = self.greet(&mut standing).await?;
                }
            }
            tokio::select! {
                () = tokio::time::sleep(HEARTBEAT_EACH) => {}
                () = self.replicas.changes.came(), if leads => tokio::time::sleep(BATCH_WAIT).await,
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
                self.replicas.damage.report_again(self.replicas.now());
            }
            let now = if leads { self.catalogue(*standing).await? } else { *standing };
            if now == std::mem::replace(standing, now) {
                return Ok(self.replicas.now());
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
        self.leader.note_foreign(self.number, false);
        tracing::info!(%node, metad = self.metad.addr(), standby, "registered with the metadata server");
        let standing = Standing::of(standby, term);
        // Whoever waits for this node may use it from then on.
        if new { self.heartbeat(standing, false).await } else { Ok(standing) }
    }

    pub(super) async fn orders(&self, method: &str, request: &impl prost::Message) -> Result<Orders, Broken> {
        let orders: Orders = self.metad.call(method, request).await?;
        if !orders.known {
            // It may be of another store: whom it names counts once the node has registered there.
            return Err(Broken::Unknown);
        }
        self.leader.note_servers(self.number, &orders);
        Ok(orders)
    }

    pub(super) fn obey(&self, orders: Orders) {
        if orders.standby || !self.leader.is_believed(orders.term) {
            return;
        }
        for Deletion { block, generation_at_most } in orders.delete {
            self.replicas.order_away(BlockId(block), Generation(generation_at_most));
        }
        if orders.tell_all {
            self.replicas.changes.overflow();
            self.replicas.damage.report_again(self.replicas.now());
        }
        let Orders { copy, scrub, disk_balance, owners, .. } = orders;
        self.maintenance.order(copy, scrub, disk_balance, owners);
    }

    pub(super) fn usage(&self) -> Usage {
        self.replicas.disks.usage().into()
    }
}
