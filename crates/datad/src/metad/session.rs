//! The session with a metadata server: register, tell what is here, then a heartbeat about each second. What comes next
//! is decided by [`datanode::Session`].
//!
//! The node serves reads and writes all the while, whether the metadata server is there or not, once one that leads has
//! said whether tokens are asked for: before, nobody has been sent here either.

use super::asker::Asker;
use super::broken::Broken;
use super::leader::Leader;
use super::registration::Registration;
use super::unproven::{SAID_EACH, is_certificate_wanted, is_unbelieved, log_revoked, log_unbelieved, log_unequipped};
use super::unreachable::Unreachable;
use crate::admission::Admission;
use crate::maintenance::Maintenance;
use crate::replicas::Replicas;
use datanode::session::{BATCH_WAIT, CALL_WAIT_OF_SEVERAL, CATALOGUE_EACH, HEARTBEAT_EACH};
use datanode::{Attempts, Standing, Step};
use io::LogLimit;
use rpc::CallError;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use types::BlockId;
use wire::node::{Deletion, Orders, REGISTER, RegisterResponse, Sender, Usage};

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

impl Session {
    fn in_use_wait(&self) -> Duration {
        Duration::from_millis(self.registration.config.limits.in_use_ms)
    }

    fn note_asker(&self) {
        let (number, metad, sender) = (self.number, self.metad.clone(), self.sender());
        let node = self.replicas.disks.node_id().to_string();
        self.leader.note_asker(Asker { number, metad, node, sender });
    }

    pub(super) fn sender(&self) -> Option<Sender> {
        let addr = self.registered_addr.lock().unwrap_or_else(PoisonError::into_inner).clone();
        Some(Sender { incarnation: Some(self.registration.incarnation), addr })
    }

    /// Runs until the task is dropped.
    pub(crate) async fn run(self) {
        let mut attempts = Attempts::default();
        let mut complained = Duration::ZERO;
        let (unbelieved, unreachable) = (LogLimit::new(SAID_EACH), Unreachable::default());
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
                Broken::Call(CallError::Connect(error)) if is_unbelieved(&error) => {
                    let certificates = self.registration.config.node_certificates.as_deref();
                    if let (Some(dir), Some(passed_over)) = (certificates, unbelieved.due()) {
                        log_unbelieved(self.replicas.disks.node_id(), dir, self.metad.addr(), &error, passed_over);
                    }
                }
                Broken::Revoked(reason) => {
                    // Only who showed one is told so.
                    let dir = self.registration.config.node_certificates.as_deref().unwrap_or(Path::new(""));
                    log_revoked(self.replicas.disks.node_id(), dir, self.metad.addr(), &reason);
                    tokio::time::sleep(attempts.revoked_wait()).await;
                    continue;
                }
                Broken::Call(error)
                    if self.registration.config.node_certificates.is_none() && is_certificate_wanted(&error) =>
                {
                    log_unequipped(self.replicas.disks.node_id(), self.metad.addr(), &error);
                }
                Broken::Call(CallError::Connect(error)) if !known => {
                    let has_leader = self.replicas.node.with(|node| node.servers.has_leader());
                    if let Some(passed_over) = unreachable.due(has_leader) {
                        let (metad, reason) = (self.metad.addr(), rpc::log_text(&error));
                        tracing::warn!(metad, reason, passed_over, "the metadata server cannot be reached");
                    }
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
                                "a metadata server has another store than this datanode: if it should be in the group \
                                 of the others, its data was lost. Stop it, and see its log. This node goes on with \
                                 the others"
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
                Step::Greet { .. } => {
                    self.note_asker();
                    self.leader.note_registered();
                }
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
        // Only a new disk is asked: nobody waits for one that has joined.
        if self.replicas.disks.pool().as_ref() != Some(&response.block_pool) {
            let (disks, block_pool) = (self.replicas.disks.clone(), response.block_pool.clone());
            io::task::blocking(move || disks.join_pool(&block_pool)).await?;
        }
        // Of another block pool neither term nor keys count: this node's own leader would not be believed any more.
        if let Err(why) = self.replicas.node.with(|node| node.registered(&response)) {
            log_keys_refused(&why);
        }
        let RegisterResponse { standby, term, new, .. } = response;
        self.replicas.node.with(|node| node.servers.note_foreign(self.number, false));
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
        // Replicas are deleted beside the heartbeats, from each disk that may have them.
        let places = |delete: &Deletion| {
            let disks = self.replicas.disks.to_delete_from(BlockId(delete.block));
            let delete = *delete;
            disks.into_iter().map(move |disk| (disk, delete))
        };
        let places: Vec<(usize, Deletion)> = orders.delete.iter().flat_map(places).collect();
        let rest = self.replicas.node.with(|node| node.obey(self.replicas.now(), orders, places));
        if let Some(why) = &rest.keys_refused {
            log_keys_refused(why);
        }
        self.maintenance.order(rest);
    }

    pub(super) fn usage(&self) -> Usage {
        self.replicas.disks.usage().into()
    }
}

fn log_keys_refused(why: &str) {
    tracing::error!(why = rpc::log_text(why), "keys of block tokens not taken");
}
