//! A metadata server without its port: its owner passes calls in.

use crate::config::Config;
use crate::environment::Environment;
use crate::free_space::Room;
use crate::leadership::{Leadership, Ways};
use crate::machine::Machine;
use crate::service::Service;
use crate::start_error::StartError;
use crate::telemetry::Telemetry;
use crate::users::Users;
use crate::{audit, door, http_query, readings, status};
use bytes::Bytes;
use hdfs::Exception;
use io::task::Owned;
use metrics::Registry;
use raft::{Fault, GroupOptions, Peer, Raft, Standing, Timing, Transport};
use rpc::Call;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;

/// Until the last task that works on the store has let go of it; they do when they are next looked at.
const RELEASE_WAIT: Duration = Duration::from_secs(2);
const RELEASE_POLL: Duration = Duration::from_millis(5);
/// An address that a name lost may be somebody else's for so long. A guess.
const RESOLVE_EACH: Duration = Duration::from_secs(600);

/// A running metadata server. To end it cleanly, see [`Server::shutdown`]; dropped, it is as if it was killed.
pub struct Server {
    pub(crate) leadership: Arc<Leadership>,
    /// They follow the elections, the free space, and the addresses of hosts in the settings.
    tasks: [Owned<()>; 3],
    metrics: Arc<Registry>,
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server").field("leadership", &self.leadership).finish_non_exhaustive()
    }
}

impl Server {
    /// Returns when it serves: one that is alone when it leads, one of a group at once. The configuration is used
    /// unchanged, so a simulation can have containers of a few blocks.
    pub async fn start(config: Config, environment: Environment) -> Result<Self, StartError> {
        let (calls, peers) = environment.ways(&config);
        let Environment { clock, store, incoming, log, transport, owner, groups, host, credentials, .. } = environment;
        let users = Users::new(owner, config.supergroup.clone(), groups, &config.security, &host);
        let users = users.map_err(StartError::Config)?;
        let machine = Arc::new(io::task::blocking(move || Machine::open(store, incoming)).await?);
        let over_tcp = || peers.clone().map(|peers| -> Arc<dyn Transport> { peers });
        let group = peers.is_some().then(|| transport.or_else(over_tcp)).flatten();
        let group = group.map(|transport| options(&config, transport));
        let mut metrics = Registry::default();
        let meters = raft::Meters::new(&mut metrics);
        let raft = Raft::start_counting(log, config.id, group, Arc::clone(&machine), meters).await?;
        let room = Arc::new(Room::new(&config, &machine));
        let ways = Ways { calls: Arc::new(calls), peers };
        let (its_config, its_clock) = (config.clone(), Arc::clone(&clock));
        let audit = io::task::blocking(move || audit::Log::open(&its_config, &its_clock)).await;
        let audit = audit.map_err(|source| StartError::Dir { path: config.dir.join("audit"), source })?;
        let leadership = Leadership::new(config, machine, raft, clock, ways, users, Arc::clone(&room)).audited(audit);
        let leadership = Arc::new(leadership.counting(Telemetry::new(&mut metrics, door::table::names())));
        readings::register(&mut metrics, &leadership, credentials);
        let standing = *leadership.raft.standing().borrow();
        if let Standing::Leading { term } = standing {
            // Alone. Errors are returned to the caller that starts the server.
            leadership.take(term).await?;
        }
        let keeper = io::task::spawn_owned("leadership", Arc::clone(&leadership).keep());
        let watcher = io::task::spawn_owned("free space", room.watch());
        let resolver = io::task::spawn_owned("proxy hosts", resolve_hosts(Arc::clone(&leadership.users)));
        Ok(Self { leadership, tasks: [keeper, watcher, resolver], metrics: Arc::new(metrics) })
    }

    /// What answers calls; it may be shared by many ports.
    pub(crate) fn service(&self) -> Service {
        Service { leadership: Arc::clone(&self.leadership) }
    }

    /// Answers a call, as if it came over a connection.
    pub fn call(&self, call: Call) -> Pin<Box<dyn Future<Output = Result<Bytes, Exception>> + Send>> {
        let service = self.service();
        Box::pin(async move { rpc::Service::call(&service, call).await })
    }

    /// A connection of this peer has begun.
    pub fn opened(&self, peer: SocketAddr) {
        rpc::Service::opened(&self.service(), peer);
    }

    /// It has ended.
    pub fn hung_up(&self, peer: SocketAddr) {
        rpc::Service::hung_up(&self.service(), peer);
    }

    /// A message of another member of the group, and what it is answered.
    pub async fn on_member_message(&self, message: &[u8]) -> Vec<u8> {
        self.leadership.raft.handle(message, None).await
    }

    /// All that this server counts.
    pub fn metrics(&self) -> Arc<Registry> {
        Arc::clone(&self.metrics)
    }

    /// Numbers and names of the moment, for `/status`.
    pub fn status(&self) -> serde_json::Value {
        status::status(&self.leadership)
    }

    /// Begins what `hdfs fsck` asks for; the report comes in pieces, and ends when the channel does. `None`: too many
    /// run already. `pairs`: of the query. `proven`: the name in the ticket of who asks.
    pub fn fsck(
        &self,
        pairs: Vec<(String, String)>,
        peer: IpAddr,
        proven: Option<String>,
    ) -> Option<mpsc::Receiver<String>> {
        http_query::fsck(&self.leadership, pairs, peer, proven)
    }

    /// Answers, with the reason, when the server cannot go on: the log or the store failed. Then the process should
    /// end, as it would refuse everything that changes something.
    pub fn failed(&self) -> impl Future<Output = Fault> + Send + use<> {
        let raft = self.leadership.raft.clone();
        async move { raft.failed().await }
    }

    /// Makes everything durable and lets go of the directory.
    pub async fn shutdown(self) {
        let Self { leadership, tasks, metrics: _ } = self;
        drop(tasks);
        leadership.leave();
        if let Err(error) = leadership.raft.shutdown().await {
            tracing::error!(%error, "the log was not closed cleanly; the next start replays it");
        }
        let machine = Arc::downgrade(&leadership.machine);
        // Behind the last call. It waits for a disk.
        io::task::blocking(move || leadership.audit.as_ref().inspect(|log| log.close()).map(drop)).await;
        let released = async {
            while machine.strong_count() > 0 {
                io::time::sleep(RELEASE_POLL).await;
            }
        };
        if io::time::timeout(RELEASE_WAIT, released).await.is_err() {
            tracing::warn!("a task still uses the store; its directory is free when this process ends");
        }
    }
}

/// Follows the addresses of hosts from which somebody may act for others.
async fn resolve_hosts(users: Arc<Users>) {
    while users.has_host_names() {
        users.resolve_hosts().await;
        io::time::sleep(RESOLVE_EACH).await;
    }
}

fn options(config: &Config, transport: Arc<dyn Transport>) -> GroupOptions {
    let founders = config.members.iter().map(|member| Peer { id: member.id, addr: member.addr.clone() });
    // A joining server founds nothing, whatever members are listed.
    let founders = if config.join { Vec::new() } else { founders.collect() };
    let retain_len = config.log_kept_len as usize;
    GroupOptions { transport, founders, timing: Timing::default(), retain_len }
}
