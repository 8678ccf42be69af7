//! The metadata server: the namespace and the block side behind Hadoop RPC, as one state machine on a Raft log.
//!
//! ```text
//!   HDFS's clients ─ ClientProtocol ────┐              ┌▶ client ──────────┐──reads──▶ kv's view ◀── rows
//!   our clients ──── levada's protocol ─┤              ├▶ levada_protocol ─┤                          ▲
//!   administrators ─ AdminProtocol ─────┼─▶ service ─▶ door                │                          │
//!   datanodes ────── NodeProtocol ──────┘              ├▶ admin ───────────┤─changes─▶ Raft log ─▶ machine
//!                                                      └▶ nodes ───────────┘                          │ effects
//!                                                           └──reports, orders──▶ lead::Leader ◀──────┘
//!
//!   background tasks while this server leads (`tasks`):
//!     reception       confirms that this server leads; only then does a node's silence count (heartbeat_reception)
//!     prepare         pipelines, containers and block ids ahead of new blocks                (core)
//!     leases          writers' leases that timed out, recovery of their files                (recovery)
//!     block_deletion  frees deleted trees, has replicas deleted                              (block_deletion)
//!     containers      container_sizes, container_sealing, container_removal
//!     trash           checkpoints of what users removed, and their end               (trash)
//!     level           allows newer forms of entries once all members know them               (tasks)
//!     membership      members of pipelines                                                   (repair::membership)
//!     repair          comparison, resizing, surplus replicas, jobs                           (repair)
//!     complaints      verification of reported replicas                                      (repair::complaints)
//!     census          blocks with too few copies                                             (repair::census)
//!     hash_trees      hash trees of sealed containers                                        (repair::hash_trees)
//! ```
//!
//! Promise: nothing is answered before its entry is synced in the log. A call sees the state after everything that was
//! answered before it. Time, chance and placement are decided on the leader and are part of the command; applying it is
//! the same everywhere. A command's effects on the leader are handed over where the command is applied (`effects`), so
//! no call has to follow up its change. Soft state (renewals, heartbeats, deletions owed) may be lost at any moment.

mod admin;
mod admission;
mod answer;
mod audit;
mod backup;
mod backup_session;
mod balancer;
mod block_deletion;
mod block_tokens;
mod call_record;
mod change_error;
mod client;
mod command;
mod config;
mod connections;
mod container_removal;
mod container_sealing;
mod container_sizes;
mod core;
mod date;
mod delegation_tokens;
mod door;
mod effects;
mod environment;
mod faults;
mod filling;
mod free_space;
mod fsck;
#[cfg(test)]
mod golden_tests;
mod groups;
mod ha;
mod heartbeat_reception;
#[cfg(test)]
mod histories;
mod host_lists;
mod http_query;
#[cfg(test)]
mod identity_tests;
mod inside;
mod inspect;
mod joining;
mod kerberos;
mod key_rolls;
mod leader_lock;
mod leadership;
mod leaves;
mod levada_protocol;
mod listed_nodes;
mod live;
mod machine;
mod mappings;
mod member_messages;
mod method;
mod named_datanode;
mod named_paths;
mod node_calls;
mod node_questions;
mod node_registry;
mod nodes;
mod pages;
mod peers;
mod principal;
mod profile_attribute;
mod rack_lookup;
mod readings;
mod recoveries;
mod recovery;
mod refusal;
mod repair;
mod report;
mod residency;
mod revocation;
mod rights;
mod route;
mod security_config;
mod server;
mod service;
mod session;
mod settings;
mod start_error;
mod status;
mod task_fault;
mod tasks;
mod telemetry;
mod to_hdfs;
mod to_wire;
mod token_claims;
mod topology_script;
mod trash;
mod users;
mod visit;

pub use backup::{
    BackupError, Header as BackupHeader, Restored as RestoredBackup, Verified as VerifiedBackup, Writer as BackupWriter,
};
pub use backup::{restore as restore_backup, take_stopped as back_up_stopped, verify as verify_backup};
pub use config::{Config, MemberAddr};
pub use environment::{Environment, GroupLookUp};
pub use filling::{FillError, fill, path as filled_path};
pub use gss::Negotiated;
pub use inspect::{Inspection, RowsNow};
pub use kerberos::check_keytab;
pub use raft::Fault;
pub use route::{Route, RouteAnswer, RouteCall};
pub use security_config::{AuthenticationSetting, MechanismSetting, ProxyUser, SecurityConfig};
pub use server::Server;
pub use start_error::StartError;

use gss::Negotiator;
use io::task::Owned;
use io::{Clock, SystemClock};
use metrics::Format;
use security::sasl::rpc::KerberosOffer;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::mpsc;

/// A running metadata server with its port. To end it cleanly, see [`Metad::shutdown`]; dropped, it is as if it was
/// killed.
#[derive(Debug)]
pub struct Metad {
    rpc_addr: SocketAddr,
    negotiator: Option<Negotiator>,
    /// `None` after the shutdown.
    running: Mutex<Option<Running>>,
}

#[derive(Debug)]
struct Running {
    port: rpc::Server,
    server: Server,
    /// Looks at the files of this server's certificate.
    _follower: Option<Owned<()>>,
}

/// Starts a metadata server on the machine's clock. Returns when it serves.
pub async fn start(config: Config) -> Result<Metad, StartError> {
    start_with_clock(config, Arc::new(SystemClock::new())).await
}

/// As [`start`], on a clock of the caller's.
pub async fn start_with_clock(config: Config, clock: Arc<dyn Clock>) -> Result<Metad, StartError> {
    let environment = Environment::of_machine(&config, clock).await?;
    start_in(config, environment).await
}

/// As [`start`], in an environment of the caller's.
pub async fn start_in(config: Config, environment: Environment) -> Result<Metad, StartError> {
    let authentication = authentication(&config, &environment)?;
    let credentials = environment.credentials.clone();
    let negotiator = environment.negotiator.clone();
    let (memory, rpc_addr) = (config.memory, config.rpc_addr);
    let introduction_protocol = config.security.authority.is_some().then_some(wire::joining::JOIN_PROTOCOL);
    let server = Server::start(config, environment).await?;
    let options = rpc::ServerOptions {
        held_len_max: (memory / 2) as usize,
        urgent_protocol: Some(wire::raft::RAFT_PROTOCOL),
        authentication,
        credentials: credentials.clone(),
        introduction_protocol,
        ..rpc::ServerOptions::default()
    };
    let port = match rpc::Server::bind(rpc_addr, options, Arc::new(server.service())).await {
        Ok(port) => port,
        Err(source) => {
            server.leadership.leave();
            return Err(StartError::Listen { addr: rpc_addr, source });
        }
    };
    let rpc_addr = port.local_addr();
    let follower = credentials.map(|credentials| io::task::spawn_owned("certificates", credentials.follow()));
    let _set_once = server.leadership.rpc_addr.set(rpc_addr);
    let _set_once = server.leadership.rpc_usage.set(port.usage());
    tracing::info!(%rpc_addr, "the metadata server is ready");
    Ok(Metad { rpc_addr, negotiator, running: Mutex::new(Some(Running { port, server, _follower: follower })) })
}

/// What callers have to prove. Where that is nothing, the log says so.
fn authentication(config: &Config, environment: &Environment) -> Result<rpc::Authentication, StartError> {
    let offers = config.security.offers(&environment.host).map_err(StartError::Config)?;
    assert!(offers.simple != offers.kerberos.is_some(), "who may say who he is need not prove it");
    let acceptor = environment.acceptor.clone();
    match &offers.kerberos {
        Some(KerberosOffer { service, host, .. }) if acceptor.is_none() && config.security.keytab.is_none() => {
            let message = format!("security.keytab is missing: name the file with the keys of {service}/{host}");
            return Err(StartError::Config(message));
        }
        Some(_) if acceptor.is_none() => {
            let message = "security.authentication is kerberos, and this program has no library for it";
            return Err(StartError::Config(message.into()));
        }
        Some(kerberos) => {
            let (service, host) = (&kerberos.service, &kerberos.host);
            let protection = config.security.rpc_protection.join(",");
            tracing::info!(service, host, protection, "authentication is KERBEROS, and TOKEN for delegation tokens");
        }
        None => tracing::info!("authentication is SIMPLE: callers are who they say they are"),
    }
    Ok(rpc::Authentication { offers, acceptor })
}

impl Metad {
    /// Where it listens; the port it took if the configuration said 0.
    pub fn rpc_addr(&self) -> SocketAddr {
        self.rpc_addr
    }

    /// See [`Server::status`].
    pub fn status(&self) -> serde_json::Value {
        match &*self.running() {
            Some(running) => running.server.status(),
            None => serde_json::json!({ "stopped": true }),
        }
    }

    /// Takes over what can change while it runs, and answers with the keys of all such settings. An error says what is
    /// wrong; nothing was taken over then.
    pub fn reload(&self, config: &Config) -> Result<&'static [&'static str], String> {
        config.check()?;
        if let Some(Running { server, .. }) = &*self.running() {
            server.leadership.live.set(config);
        }
        Ok(live::KEYS)
    }

    /// What it has counted by now, as a scraper takes it.
    pub fn metrics(&self, format: Format) -> String {
        let metrics = self.running().as_ref().map(|running| running.server.metrics());
        metrics.map_or_else(String::new, |metrics| metrics.render(format))
    }

    /// See [`Server::fsck`].
    pub fn fsck(
        &self,
        pairs: Vec<(String, String)>,
        peer: IpAddr,
        proven: Option<String>,
    ) -> Option<mpsc::Receiver<String>> {
        self.running().as_ref()?.server.fsck(pairs, peer, proven)
    }

    /// Whether who asks over HTTP for what is not for everybody has to send a ticket ([`Self::web_proof`]).
    pub fn asks_for_web_proofs(&self) -> bool {
        self.negotiator.is_some()
    }

    /// Whose ticket a request over HTTP has, or what is wrong with it, in words for whoever sent it. It may wait for a
    /// disk.
    pub fn web_proof(&self, token: &[u8]) -> Result<Negotiated, String> {
        let negotiator = self.negotiator.as_ref().ok_or("no tickets are taken here")?;
        let accepted = negotiator.accept_stranger(token);
        if let Some(Running { server, .. }) = &*self.running() {
            server.leadership.telemetry.authentications.over_http(accepted.is_ok());
        }
        accepted
    }

    /// See [`Server::failed`].
    pub async fn failed(&self) -> Fault {
        let failed = self.running().as_ref().map(|running| running.server.failed());
        match failed {
            Some(failed) => failed.await,
            None => std::future::pending().await,
        }
    }

    /// Answers what is under way, makes everything durable and lets go of the directory. A second call does nothing.
    pub async fn shutdown(&self) {
        let running = self.running().take();
        let Some(Running { port, server, .. }) = running else { return };
        port.shutdown().await;
        server.shutdown().await;
    }

    fn running(&self) -> MutexGuard<'_, Option<Running>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
