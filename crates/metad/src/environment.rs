//! The environment of a metadata server: its clock, its disks, its network. A simulation supplies its own.

use crate::config::{Config, MemberAddr};
use crate::kerberos;
use crate::node_calls::{NodeCalls, Proofs};
use crate::peers::Peers;
use crate::refusal;
use crate::route::Route;
use crate::start_error::StartError;
use gss::Negotiator;
use io::{Clock, SystemClock};
use raft::{Disk, Transport};
use security::node_name::NodeName;
use security::sasl::rpc::Acceptor;
use std::fmt;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::Arc;
use tls::{Authority, Credentials};

/// Part of the memory that changes may fill until they are synced; the rest is for calls.
const OVERLAY_SHARE: u64 = 4;
/// Nobody else reads what is in a directory. HDFS: `dfs.namenode.name.dir.perm`.
const OWNER_ALONE: u32 = 0o700;
/// An overlay longer than this only makes flushes longer.
const OVERLAY_LEN_MAX: u64 = 64 << 20;

/// Looks up the groups of a user. A user whom the database does not know is in none.
pub type GroupLookUp = dyn Fn(&str) -> std::io::Result<Vec<String>> + Send + Sync;

/// See the module. [`Environment::of_machine`] is the one that ships.
pub struct Environment {
    pub clock: Arc<dyn Clock>,
    pub store: kv::Store,
    /// Where the rows of another member are kept until all are there.
    pub incoming: PathBuf,
    pub log: Arc<dyn Disk>,
    /// `None`: over the connections of this process, if it has a group.
    pub transport: Option<Arc<dyn Transport>>,
    /// To datanodes, and to members for what is none of Raft's. `None`: over the connections of this process.
    pub route: Option<Arc<dyn Route>>,
    /// The user who runs this server, and may do everything.
    pub owner: String,
    pub groups: Box<GroupLookUp>,
    /// This machine's name, for `_HOST` in Kerberos names.
    pub host: String,
    /// Kerberos' library for callers of this server, and what this server proves to other members. Both are needed
    /// where the configuration says `kerberos`.
    pub acceptor: Option<Arc<dyn Acceptor>>,
    pub login: Option<Arc<rpc::Login>>,
    /// This server's key for tickets that come over HTTP. `None`: what is not for everybody is refused there, where
    /// callers prove who they are.
    pub negotiator: Option<Negotiator>,
    /// This server's certificate, where the store's servers have some.
    pub credentials: Option<Arc<Credentials>>,
}

impl fmt::Debug for Environment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Environment").field("owner", &self.owner).finish_non_exhaustive()
    }
}

impl Environment {
    /// This machine, but for the clock. Opens the store.
    pub async fn of_machine(config: &Config, clock: Arc<dyn Clock>) -> Result<Self, StartError> {
        config.check().map_err(StartError::Config)?;
        let owner = io::task::blocking(host::user::of_process).await.map_err(StartError::Owner)?;
        let dir = config.dir.clone();
        let not_made = |source| StartError::Dir { path: dir.clone(), source };
        std::fs::create_dir_all(&dir).map_err(not_made)?;
        // All names lie in the log and in the store, and the keys of tokens with them.
        std::fs::set_permissions(&dir, Permissions::from_mode(OWNER_ALONE)).map_err(not_made)?;
        let overlay_len_max = (config.memory / OVERLAY_SHARE).clamp(1 << 20, OVERLAY_LEN_MAX) as usize;
        let options = kv::Options { overlay_len_max, ..kv::Options::default() };
        let store_dir = dir.join("store");
        let store = io::task::blocking(move || kv::Store::open(&store_dir, options)).await?;
        let kerberos::Ends { acceptor, login, negotiator } = kerberos::of(config)?;
        let certificates = config.security.node_certificates.clone();
        let credentials = io::task::blocking(move || certificates.map(|dir| Credentials::open(&dir)).transpose()).await;
        let credentials =
            credentials.map_err(|error| StartError::Config(format!("security.node_certificates: {error}")))?;
        let own = NodeName::Member(config.id);
        if let Some(other) = credentials.as_ref().map(Credentials::name).filter(|name| *name != own) {
            let message =
                format!("security.node_certificates: the certificate is of {other}, and this server is {own}");
            return Err(StartError::Config(message));
        }
        // It would serve names and no bytes: no datanode takes it for what it is, and no member.
        if let Some(ended) = credentials.as_ref().and_then(|own| own.ended(SystemClock::new().now())) {
            return Err(StartError::Config(format!("security.node_certificates: {ended}")));
        }
        if let (Some(dir), Some(credentials)) = (config.security.authority.clone(), &credentials) {
            let authority = io::task::blocking(move || Authority::open(&dir)).await;
            let authority = authority.map_err(|error| StartError::Config(format!("security.authority: {error}")))?;
            if !credentials.believes(&authority) {
                let message = "security.authority: ca.crt in security.node_certificates does not name this authority: \
                               nobody would believe what it signs";
                return Err(StartError::Config(message.into()));
            }
        }
        Ok(Self {
            clock,
            store,
            incoming: dir.join("incoming"),
            log: Arc::new(raft::Directory::new(&dir.join("log"))),
            transport: None,
            route: None,
            owner,
            groups: Box::new(host::user::groups_of),
            host: refusal::host().to_owned(),
            acceptor,
            login,
            negotiator,
            credentials: credentials.map(Arc::new),
        })
    }

    /// The ways to datanodes and members, and to the other members for Raft if there can be any.
    pub(crate) fn ways(&self, config: &Config) -> (NodeCalls, Option<Arc<Peers>>) {
        let nodes = match &self.route {
            Some(route) => NodeCalls::Route { user: self.owner.clone(), route: Arc::clone(route) },
            None => NodeCalls::over_tcp(self.proofs()),
        };
        let known = config.members.iter().map(|MemberAddr { id, addr }| (*id, addr.clone()));
        let peers = config.is_group().then(|| Arc::new(Peers::new(self.proofs(), known.collect())));
        (nodes, peers)
    }

    fn proofs(&self) -> Proofs {
        let Self { owner, login, credentials, .. } = self;
        Proofs { user: owner.clone(), login: login.clone(), credentials: credentials.clone() }
    }
}
